"""Spans as OTLP over HTTP, by OpenTelemetry's SDK."""

import socket
from contextlib import closing
from functools import partial

import pytest
from structlog.testing import capture_logs

from adapters.opentelemetry import OpenTelemetryExporter
from app.model.errors import GatewayError
from app.model.trace_context import TraceContext
from app.ports import Span
from app.span_names import process_attributes
from app.testing.waiting import until
from tests.support.otlp_receiver import Receiver, receiving

SENDER = TraceContext("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", is_sampled=True)


def span(number: int, *, parent: str | None = SENDER.span_id, is_sampled: bool = True) -> Span:
    return Span(
        name=f"receive {number}",
        kind="consumer",
        context=SENDER._replace(span_id=f"{number:016x}", is_sampled=is_sampled),
        parent=parent,
        started_at=1_790_000_000_000_000,
        ended_at=1_790_000_000_500_000,
        attributes={"messaging.system": "mqtt", "messaging.batch.message_count": 3},
        links=[SENDER],
        error="it is torn" if number == 2 else None,
    )


def has_asked(collector: Receiver, least: int) -> bool:
    return collector.requests >= least


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def test_spans_arrive_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        process = process_attributes("one", ["keep", "serve"])
        assert process["attachment_gateway.roles"] == "keep,serve"
        with closing(OpenTelemetryExporter("attachment-gateway", "1.2", process)) as exporter:
            exporter.export(span(1))
            exporter.export(span(2, parent=None))
            exporter.export(span(3, is_sampled=False))
        child, root = sorted(collector.spans, key=lambda each: each.name)
    assert (child.service, child.kind, child.trace_id) == ("attachment-gateway", "consumer", SENDER.trace_id)
    assert child.instance == root.instance == "one"
    assert (child.span_id, child.parent) == (f"{1:016x}", SENDER.span_id)
    assert (root.span_id, root.parent, root.trace_id) == (f"{2:016x}", "", SENDER.trace_id)
    assert (child.start, child.end) == (1_790_000_000_000_000_000, 1_790_000_000_500_000_000)
    assert child.attributes == {"messaging.system": "mqtt", "messaging.batch.message_count": 3}
    assert child.links == [(SENDER.trace_id, SENDER.span_id)]
    assert (child.error, root.error) == ("", "it is torn")


def test_a_collector_that_refuses_or_is_away_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving() as collector, capture_logs() as logs:
        collector.status = 400
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_SERVICE_NAME", "ours")
        with closing(OpenTelemetryExporter("attachment-gateway", "1.2")) as exporter:
            for number in (1, 2):
                exporter.export(span(number))
                until(partial(has_asked, collector, number))
            collector.status = 200
            exporter.export(span(4))
            until(lambda: collector.spans)
        assert [each.service for each in collector.spans] == ["ours"]
    assert [each["event"] for each in logs] == ["traces_failed", "traces_recovered"]


def test_settings_that_mean_nothing_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    with pytest.raises(GatewayError, match="'grpc'"):
        OpenTelemetryExporter("attachment-gateway", "1.2")


def test_a_disabled_sdk_sends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")
        with closing(OpenTelemetryExporter("attachment-gateway", "1.2")) as exporter:
            exporter.export(span(1))
        with pytest.raises(BlockingIOError):
            server.accept()
