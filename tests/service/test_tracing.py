"""What the gateway does for traces of attachments and deliveries, without a collector's protocol."""

from collections.abc import Sequence
from dataclasses import replace

from structlog.testing import capture_logs

from app.model.attachment import AttachmentKind, AttachmentState, DeliveryState
from app.model.message import PhysicalMessage
from app.model.records import AttachmentRecord, DeliveryRecord, EventRecord
from app.model.trace_context import TRACE_PARENT, TraceContext, span_id_of
from app.ports import Catalog
from app.ports.span_exporter import Span
from app.service.events.event_spans import Traces
from app.service.sending.framer import traced
from app.settings import Settings, TraceSettings
from app.span_names import MOST_LINKS, PROCESS, RECEIVE, SEND, Added, Batch, of_batch

SENDER = TraceContext("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", is_sampled=True)
RECORD = AttachmentRecord(
    "ab" * 16,
    "orders",
    b"A" * 16,
    AttachmentState.FINISHED,
    kind=AttachmentKind.TEXT_FILE,
    parts_received=100_000,
    first_received_at=1_000,
    last_received_at=5_000,
    completed_at=4_000,
    finished_at=9_000,
    size=7,
    trace_parent=str(SENDER),
)
DELIVERY = DeliveryRecord(
    "cd" * 16, "partner", b"", b"", (), 2_000, 8_000, DeliveryState.SENT, messages_sent=5, trace_parent=str(SENDER)
)


class Kept:
    """An exporter that keeps spans."""

    def __init__(self) -> None:
        self.spans: list[Span] = []

    def export(self, span: Span) -> None:
        self.spans.append(span)

    def close(self) -> None: ...


class Known:
    """A catalog of one attachment and one delivery; it fails without them."""

    def __init__(self, attachment: AttachmentRecord | None, delivery: DeliveryRecord) -> None:
        self._attachment, self._delivery = attachment, delivery

    def attachments_by_id(self, ids: Sequence[str]) -> list[AttachmentRecord]:
        if self._attachment is None:
            raise OSError("the disk is gone")
        return [self._attachment] if self._attachment.id in ids else []

    def delivery(self, delivery_id: str) -> DeliveryRecord | None:
        return self._delivery if delivery_id == self._delivery.id else None


def traces(exporter: Kept | None, ratio: float = 0.0) -> Traces:
    return Traces(Settings(traces=TraceSettings(enabled=exporter is not None, ratio=ratio)), exporter)


def ended(exporter: Kept, *events: tuple[str, str], attachment: AttachmentRecord | None = RECORD) -> list[Span]:
    known: Catalog = Known(attachment, DELIVERY)  # type: ignore[assignment]
    told = [EventRecord(n, kind, subject, 1, {}, str(SENDER)) for n, (kind, subject) in enumerate(events, 1)]
    traces(exporter).take(told, known)
    return exporter.spans


def test_an_attachment_has_a_span_for_each_phase_however_many_parts_it_has() -> None:
    receive, process = ended(Kept(), ("attachment.finished", RECORD.id), ("message.complete", "m"))
    assert (receive.context.span_id, receive.parent) == (span_id_of(RECORD.id, RECEIVE), SENDER.span_id)
    assert (receive.started_at, receive.ended_at) == (1_000, 4_000)
    assert receive.attributes["messaging.batch.message_count"] == 100_000
    assert (process.context.span_id, process.parent) == (span_id_of(RECORD.id, PROCESS), receive.context.span_id)
    assert (process.started_at, process.ended_at, process.error) == (4_000, 9_000, None)


def test_what_is_refused_has_a_failed_span_of_its_own() -> None:
    refused = replace(RECORD, state=AttachmentState.QUARANTINED, reason_code="bad-content", reason="it is torn")
    _, failed = ended(Kept(), ("attachment.quarantined", RECORD.id), attachment=refused)
    assert (failed.error, failed.attributes["error.type"]) == ("it is torn", "bad-content")
    assert failed.context.span_id != span_id_of(RECORD.id, PROCESS), "it may be finished later"


def test_a_delivery_ends_with_the_broker_s_last_acknowledgement() -> None:
    (sent,) = ended(Kept(), ("delivery.sent", DELIVERY.id), ("delivery.sent", "unknown"))
    assert (sent.kind, sent.context.span_id, sent.parent) == ("producer", span_id_of(DELIVERY.id, SEND), SENDER.span_id)
    assert (sent.started_at, sent.ended_at) == (2_000, 8_000)
    assert TraceContext.of(traces(Kept()).onward(DELIVERY)) == sent.context
    assert traces(None).onward(DELIVERY) == str(SENDER), "what is not exported must not be a parent"


def test_a_catalog_that_fails_stops_nothing_and_is_told_once() -> None:
    exporter = Kept()
    failing = traces(exporter)
    known: Catalog = Known(None, DELIVERY)  # type: ignore[assignment]
    event = EventRecord(1, "attachment.finished", RECORD.id, 1, {}, str(SENDER))
    with capture_logs() as logs:
        for _ in range(3):
            failing.take([event], known)
    assert [each["event"] for each in logs] == ["traces_failed"]
    assert not exporter.spans


def test_without_a_traceparent_there_is_a_trace_only_by_the_ratio() -> None:
    bare = replace(RECORD, trace_parent=None)
    unknown = replace(bare, kind=None)
    for exporter, ratio in ((None, 1.0), (Kept(), 0.0)):
        assert traces(exporter, ratio).begun([bare]) == [bare]
        assert traces(exporter, ratio).request(None, 0.5) is None
    own, still_unknown, theirs = traces(Kept(), 1.0).begun([bare, unknown, RECORD])
    assert (still_unknown, theirs) == (unknown, RECORD)
    receive, process = ended(Kept(), ("attachment.finished", own.id), attachment=own)
    assert (receive.parent, str(receive.context)) == (None, own.trace_parent)
    assert process.parent == receive.context.span_id
    request = traces(Kept(), 0.6).request(None, 0.5)
    assert request is not None
    assert request.parent is None
    assert traces(Kept(), 0.6).request(None, 0.7) is None


def test_the_first_message_and_that_of_each_group_carry_the_traceparent() -> None:
    groups = [b"", b"", b"", b"G", b"G", b"H"]
    sent = [PhysicalMessage("s", "f", group_id=group, properties={"k": "v"}) for group in groups]
    carried = [TRACE_PARENT in each.properties for each in traced(iter(sent), str(SENDER))]
    assert carried == [True, False, False, True, False, True]
    assert all(each.properties["k"] == "v" for each in traced(iter(sent), str(SENDER)))
    assert list(traced(iter(sent), None)) == sent


def test_a_batch_links_to_some_of_its_attachments() -> None:
    added = [Added(f"{n:032x}", str(SENDER), "work.sales") for n in range(MOST_LINKS + 5)]
    *spans, batch = of_batch(Batch(7, 1, 2, {"work.sales": 4}), added, PROCESS)
    assert len(spans) == len(added)
    assert {each.attributes["attachment_gateway.table.version"] for each in spans} == {4}
    assert [each.parent for each in spans] == [span_id_of(each.attachment, PROCESS) for each in added]
    assert len(batch.links) == MOST_LINKS
    assert batch.attributes["attachment_gateway.batch.attachments"] == MOST_LINKS + 5
    assert of_batch(Batch(7, 1, 2, {}), [], PROCESS) == []
