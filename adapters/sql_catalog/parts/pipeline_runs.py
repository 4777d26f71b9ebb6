"""The runs of the pipeline: one row a run, and few rows."""

from dataclasses import asdict
from typing import Any

from sqlalchemy import Row, delete, insert, select, update

from adapters.sql_catalog.listing_pages import Listing, fetch_page
from adapters.sql_catalog.parts.part import CatalogPart
from adapters.sql_catalog.schema.catalog_tables import pipeline_runs
from app.model.pipeline_run import PipelineRun, RunState
from app.ports import Page

_RUNNING, _INTERRUPTED = RunState.RUNNING.value, RunState.INTERRUPTED.value
_NEWEST = (pipeline_runs.c.began_at.desc(), pipeline_runs.c.id.desc())


class PipelineRuns(CatalogPart):
    """`app.ports.PipelineCatalog` over SQL."""

    def begin_run(self, run: PipelineRun, keep: int) -> None:
        open_ones = update(pipeline_runs).where(
            pipeline_runs.c.kind == run.kind, pipeline_runs.c.state == _RUNNING, pipeline_runs.c.id != run.id
        )
        newest = select(pipeline_runs.c.id).order_by(*_NEWEST).limit(keep)
        with self._database.write() as connection:
            connection.execute(open_ones.values(state=_INTERRUPTED))
            connection.execute(insert(pipeline_runs).values(_values(run)))
            kept = list(connection.scalars(newest))
            connection.execute(delete(pipeline_runs).where(pipeline_runs.c.id.not_in(kept)))

    def end_run(self, run: PipelineRun) -> None:
        with self._database.write() as connection:
            connection.execute(update(pipeline_runs).where(pipeline_runs.c.id == run.id).values(_values(run)))

    def pipeline_runs(self, cursor: str | None, limit: int) -> Page[PipelineRun]:
        with self._database.read() as connection:
            return fetch_page(connection, _LISTING, select(pipeline_runs), cursor, limit)


def _values(run: PipelineRun) -> dict[str, Any]:
    return asdict(run) | {"state": run.state.value}


def _run(row: Row[Any]) -> PipelineRun:
    return PipelineRun(**dict(row._mapping) | {"state": RunState(row.state)})


_LISTING = Listing(pipeline_runs.c.began_at, pipeline_runs.c.id, _run)
