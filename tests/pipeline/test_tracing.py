"""A trace ends at the version of the table to which the pipeline has added an attachment's rows."""

from pathlib import Path
from random import Random

import pytest

from adapters.delta_tables import DeltaTables
from app.model.trace_context import TRACE_PARENT, TraceContext, span_id_of
from app.pipeline.commit import packages
from app.pipeline.watch.run_monitor import batch_spans
from app.settings import TraceSettings
from app.span_names import PROCESS
from tests.support import mixed_journal
from tests.support.local_steps import run_batch
from tests.support.otlp_receiver import receiving

SENDER = TraceContext("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", is_sampled=True)


@pytest.mark.parametrize("least", [1, packages.LEAST])
def test_each_finished_attachment_has_a_span_with_the_version_of_its_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, least: int
) -> None:
    monkeypatch.setattr(packages, "LEAST", least)
    told = {TRACE_PARENT: str(SENDER)}
    traffic = mixed_journal.traffic(Random(11), 12, 30_000)
    mixed_journal.write(
        tmp_path / "journal", [each._replace(properties={**each.properties, **told}) for each in traffic]
    )
    committed = run_batch(tmp_path / "out", tmp_path / "journal")
    assert committed is not None
    store = DeltaTables(tmp_path / "out" / "tables")
    for name, parent in (("batch", None), ("stream", PROCESS)):
        with receiving() as collector:
            for variable, value in collector.environment.items():
                monkeypatch.setenv(variable, value)
            with batch_spans(TraceSettings(enabled=True), name) as spans:
                spans.committed(committed, store)
        found = [each for each in collector.spans if each.trace_id == SENDER.trace_id]
        assert len(found) == committed.finished > 40
        tables = {each.attributes["db.collection.name"] for each in found}
        assert tables > {"files", "WORK.T2"}
        for each in found:
            table = each.attributes["db.collection.name"]
            assert each.name == f"commit {table}"
            assert each.attributes["attachment_gateway.table.version"] == store.describe(table).version
            attachment = each.attributes["attachment_gateway.attachment.id"]
            assert each.parent == (SENDER.span_id if parent is None else span_id_of(attachment, parent))
        (batch,) = (each for each in collector.spans if each.trace_id != SENDER.trace_id)
        assert sorted(batch.links) == sorted((each.trace_id, each.span_id) for each in found)
        assert {each.service for each in collector.spans} == {"attachment-gateway-pipeline"}
