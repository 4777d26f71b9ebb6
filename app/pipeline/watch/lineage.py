"""OpenLineage events of a run, sent by the driver.

The input is the journal, the outputs are the tables that the run has added rows to, with their columns. Events are sent
by another thread. A receiver that does not answer delays the end of a run by some seconds and changes nothing else.

Source: OpenLineage specification 2-0-2, "Run State Update" and "Naming".
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote, urlsplit

import structlog

from app.model.errors import GatewayError
from app.pipeline.commit.tables import CommittedTable
from app.pipeline.job.job import Job
from app.plugins import how_to_install
from app.ports import TableStore
from app.settings import PipelineSettings

if TYPE_CHECKING:
    from openlineage.client.client import OpenLineageClient

PRODUCER = "pkg:pypi/attachment-gateway"
"""The program that sends the events, as a package URL (purl)."""
SEND_SECONDS = 5.0
"""Time limit of one request."""
RETRIES = 1
CLOSE_SECONDS = 10.0
"""How long the end of a run waits for events that are not sent yet."""

log = structlog.stdlib.get_logger(__name__)


class Lineage(Protocol):
    """A receiver of what a run has done."""

    def wrote(self, tables: Sequence[CommittedTable], store: TableStore | None) -> None:
        """Take the tables that a batch has added rows to."""


class _Nobody:
    def wrote(self, tables: Sequence[CommittedTable], store: TableStore | None) -> None:
        """Do nothing."""


@contextmanager
def lineage(job: Job, name: str, settings: PipelineSettings) -> Iterator[Lineage]:
    """Provide the lineage of a run for the block: START before it, and COMPLETE or FAIL after it.

    `name` is the job's: "batch", or "stream", which also has an event RUNNING for each batch. Raises GatewayError
    if the library is missing.
    """
    if settings.lineage_url is None:
        yield _Nobody()
        return
    run = _Run(_client(settings), job, name, settings.lineage_namespace)
    run.emit("START")
    try:
        yield run
    except BaseException as error:
        run.emit("FAIL", str(error) or type(error).__name__)
        raise
    else:
        run.emit("COMPLETE")
    finally:
        run.close()


def dataset_name(place: str) -> tuple[str, str]:
    """Return OpenLineage's namespace and name of a folder or URL: `file` and a path, or `s3://bucket` and a key."""
    parts = urlsplit(place)
    if "://" not in place:
        return "file", str(Path(place).absolute())
    if parts.scheme == "file":
        return "file", unquote(parts.path)
    return f"{parts.scheme.replace('s3a', 's3')}://{parts.netloc}", unquote(parts.path).strip("/") or "/"


class _Run:
    """One run. Its errors are logged and never raised."""

    def __init__(self, client: "OpenLineageClient", job: Job, name: str, namespace: str) -> None:
        from openlineage.client.event_v2 import InputDataset, Run  # noqa: PLC0415 - an extra
        from openlineage.client.event_v2 import Job as OpenLineageJob  # noqa: PLC0415
        from openlineage.client.facet_v2 import JobFacet, job_type_job, processing_engine_run  # noqa: PLC0415
        from openlineage.client.uuid import generate_new_uuid  # noqa: PLC0415
        from pyspark import __version__ as spark  # noqa: PLC0415

        self._client, self._is_stream = client, name == "stream"
        processing, kind = ("STREAMING", "SERVICE") if self._is_stream else ("BATCH", "JOB")
        facets: dict[str, JobFacet] = {
            "jobType": job_type_job.JobTypeJobFacet(
                processingType=processing, integration="ATTACHMENT_GATEWAY", jobType=kind
            )
        }
        engine = processing_engine_run.ProcessingEngineRunFacet(
            version=spark, name="spark", openlineageAdapterVersion=version("attachment-gateway")
        )
        self._run = Run(str(generate_new_uuid()), {"processing_engine": engine})
        self._job = OpenLineageJob(namespace, f"pipeline.{name}", facets)
        self._inputs = [InputDataset(*dataset_name(place)) for place in job.journals]
        self._outputs: dict[str, Any] = {}

    def wrote(self, tables: Sequence[CommittedTable], store: TableStore | None) -> None:
        if store is None or not tables:
            return
        try:
            for each in tables:
                before = self._outputs.get(each.table)
                rows = 0 if before is None else before.outputFacets["outputStatistics"].rowCount
                self._outputs[each.table] = _output(each, store, rows)
        except Exception as error:  # noqa: BLE001 - lineage never stops a run
            log.warning("lineage_failed", reason=str(error))
        if self._is_stream:
            self.emit("RUNNING")
            self._outputs.clear()

    def emit(self, state: str, error: str | None = None) -> None:
        from openlineage.client.event_v2 import RunEvent, RunState  # noqa: PLC0415
        from openlineage.client.facet_v2 import error_message_run  # noqa: PLC0415

        try:
            run = self._run
            if error is not None:
                facet = error_message_run.ErrorMessageRunFacet(error, "python")
                run = type(run)(run.runId, {**(run.facets or {}), "errorMessage": facet})
            now = datetime.now(UTC).isoformat()
            outputs = list(self._outputs.values())
            event = RunEvent(
                eventTime=now,
                producer=PRODUCER,
                run=run,
                job=self._job,
                eventType=RunState[state],
                inputs=self._inputs,
                outputs=outputs,
            )
            self._client.emit(event)
        except Exception as failure:  # noqa: BLE001 - lineage never stops a run
            log.warning("lineage_failed", reason=str(failure))

    def close(self) -> None:
        try:
            if not self._client.close(CLOSE_SECONDS):
                log.warning("lineage_failed", reason="some events were not sent")
        except Exception as failure:  # noqa: BLE001 - lineage never stops a run
            log.warning("lineage_failed", reason=str(failure))


def _output(table: CommittedTable, store: TableStore, rows_before: int) -> Any:
    from openlineage.client.event_v2 import OutputDataset  # noqa: PLC0415
    from openlineage.client.facet_v2 import (  # noqa: PLC0415
        DatasetFacet,
        dataset_version_dataset,
        output_statistics_output_dataset,
        schema_dataset,
        storage_dataset,
    )

    fields = [
        schema_dataset.SchemaDatasetFacetFields(
            name=field.name,
            type=str(field.type),
            description=(field.metadata or {}).get(b"sas.label", b"").decode() or None,
            ordinal_position=place,
        )
        for place, field in enumerate(store.schema(table.table), 1)
    ]
    facets: dict[str, DatasetFacet] = {
        "schema": schema_dataset.SchemaDatasetFacet(fields=fields),
        "storage": storage_dataset.StorageDatasetFacet(storageLayer="delta", fileFormat="parquet"),
        "version": dataset_version_dataset.DatasetVersionDatasetFacet(str(store.describe(table.table).version)),
    }
    statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(rowCount=rows_before + table.rows)
    namespace, name = dataset_name(store.location(table.table))
    return OutputDataset(namespace, name, facets=facets, outputFacets={"outputStatistics": statistics})


def _client(settings: PipelineSettings) -> "OpenLineageClient":
    try:
        from openlineage.client.client import OpenLineageClient  # noqa: PLC0415 - an extra
        from openlineage.client.transport.async_http import AsyncHttpConfig, AsyncHttpTransport  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        how = how_to_install("openlineage")
        raise GatewayError(f"pipeline.lineage_url needs the library {missing.name!r}: {how}") from missing
    config: dict[str, Any] = {"url": settings.lineage_url, "timeout": SEND_SECONDS, "retry": {"total": RETRIES}}
    if settings.lineage_token is not None:
        config["auth"] = {"type": "api_key", "apiKey": settings.lineage_token.get_secret_value()}
    return OpenLineageClient(transport=AsyncHttpTransport(AsyncHttpConfig.from_dict(config)))
