"""The runs of the pipeline, which tells of itself in the catalog that it shares with the gateway."""

from typing import Protocol

from app.model.pipeline_run import PipelineRun
from app.ports.catalog.listing import Page


class PipelineCatalog(Protocol):
    """The newest runs of the pipeline."""

    def begin_run(self, run: PipelineRun, keep: int) -> None:
        """Add a run. Other runs of its kind that have not ended become `interrupted`; of all runs the newest `keep`
        stay."""

    def end_run(self, run: PipelineRun) -> None:
        """Replace a run, if it is still there."""

    def pipeline_runs(self, cursor: str | None, limit: int) -> Page[PipelineRun]:
        """Return runs, newest first. Raises BadCursor."""
