"""What REST tells of the pipeline: its runs, and how far it is behind."""

from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from app.cli.application import application
from app.model.message import PhysicalMessage
from app.model.pipeline_run import PipelineRun, RunState
from app.model.records import Checkpoint
from tests.web.conftest import connected
from tests.web.stock import Stock


def test_runs_are_listed_page_by_page(stock: Stock, http: httpx.Client) -> None:
    assert http.get("/v1/pipeline/runs").json() == {"items": [], "next": None}
    assert http.get("/v1/pipeline").json() == {"assembler": "embedded", "lag": None}
    first = PipelineRun("a", "stream", RunState.RUNNING, began_at=1_000_000)
    stock.catalog.begin_run(first, 9)
    ended = replace(first, state=RunState.COMMITTED, ended_at=3_500_000, messages=7, attachments=2, rows=5)
    stock.catalog.end_run(ended)
    stock.catalog.begin_run(PipelineRun("b", "batch", RunState.RUNNING, began_at=2_000_000), 9)
    page = http.get("/v1/pipeline/runs?limit=1")
    (newest,) = page.json()["items"]
    assert (newest["id"], newest["state"], newest["ended_at"], newest["seconds"]) == ("b", "running", None, None)
    (oldest,) = http.get(page.links["next"]["url"]).json()["items"]
    assert oldest == {
        "id": "a",
        "kind": "stream",
        "state": "committed",
        "began_at": "1970-01-01T00:00:01Z",
        "ended_at": "1970-01-01T00:00:03.500000Z",
        "seconds": 2.5,
        "messages": 7,
        "attachment_count": 2,
        "refused": 0,
        "quarantined": 0,
        "row_count": 5,
        "error": None,
    }
    assert http.get("/v1/pipeline/runs?cursor=x").status_code == 422
    listed = CliRunner().invoke(application, ["pipeline", "ls", "--url", str(http.base_url)], env={"COLUMNS": "160"})
    assert [line.split()[:3] for line in listed.output.splitlines()[-2:]] == [
        ["b", "running", "batch"],
        ["a", "committed", "stream"],
    ], listed.output


def test_sealed_segments_that_wait_are_the_lag(tmp_path: Path) -> None:
    stock = Stock(tmp_path, assembler="spark")
    with connected(stock) as http:
        (position,) = stock.journal.append([PhysicalMessage("orders", "sas_queue", body=b"x" * 5000)])
        nothing = {"segments": 0, "size": 0, "seconds": 0.0}
        assert http.get("/v1/pipeline").json() == {"assembler": "spark", "lag": nothing}, "it is not sealed"
        stock.journal.seal()
        stock.clock.fixed = stock.clock.now() + 60_000_000
        lag = http.get("/v1/pipeline").json()["lag"]
        (segment,) = stock.journal.segments()
        assert (lag["segments"], lag["size"]) == (1, segment.size)
        assert segment.sealed_at is not None
        assert lag["seconds"] == pytest.approx((stock.clock.fixed - segment.sealed_at) / 1e6, abs=1e-6)
        stock.catalog.checkpoint(Checkpoint(progress=position.pack()))
        assert http.get("/v1/pipeline").json()["lag"] == nothing
    stock.close()
