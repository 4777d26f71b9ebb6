"""A receiver of OpenLineage events, which checks them against OpenLineage's own classes."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    RunFacet,
    error_message_run,
    job_type_job,
    output_statistics_output_dataset,
    schema_dataset,
)

from tests.support.http_server import Handler, serving


class Receiver:
    """What was received: the events, and the header `Authorization` of each."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.authorizations: list[str | None] = []
        self.url = ""


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Run a receiver on this machine for the block."""
    received = Receiver()

    class Collector(Handler):
        def do_POST(self) -> None:
            assert self.path == "/api/v1/lineage"
            received.events.append(json.loads(self.body()))
            received.authorizations.append(self.headers["Authorization"])
            self.answer(201)

    with serving(Collector) as port:
        received.url = f"http://127.0.0.1:{port}"
        yield received


def event_of(said: dict[str, Any]) -> RunEvent:
    """Return an event as OpenLineage's own classes, which check identifiers, times and names of fields."""
    job = dict(said["job"]["facets"]["jobType"])
    job_type = job_type_job.JobTypeJobFacet(**_plain(job))
    run_facets: dict[str, RunFacet] = {
        name: error_message_run.ErrorMessageRunFacet(**_plain(facet))
        for name, facet in said["run"]["facets"].items()
        if name == "errorMessage"
    }
    datetime.fromisoformat(said["eventTime"])
    return RunEvent(
        eventTime=said["eventTime"],
        producer=said["producer"],
        run=Run(said["run"]["runId"], run_facets),
        job=Job(said["job"]["namespace"], said["job"]["name"], {"jobType": job_type}),
        eventType=RunState[said["eventType"]],
        inputs=[InputDataset(each["namespace"], each["name"]) for each in said["inputs"]],
        outputs=[_output(each) for each in said["outputs"]],
    )


def _output(said: dict[str, Any]) -> OutputDataset:
    fields = [schema_dataset.SchemaDatasetFacetFields(**each) for each in said["facets"]["schema"]["fields"]]
    said_rows = _plain(said["outputFacets"]["outputStatistics"])
    statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(**said_rows)
    return OutputDataset(
        said["namespace"],
        said["name"],
        facets={"schema": schema_dataset.SchemaDatasetFacet(fields=fields)},
        outputFacets={"outputStatistics": statistics},
    )


def _plain(facet: dict[str, Any]) -> dict[str, Any]:
    """Return a facet's own fields."""
    return {name: value for name, value in facet.items() if not name.startswith("_")}
