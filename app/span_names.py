"""The names of all spans and of their attributes.

Where OpenTelemetry's semantic conventions have a name, it is used (messaging, HTTP). The conventions
for messaging are not stable yet: their names are in this module only. All other names begin with `attachment_gateway.`.

Each phase of an attachment, and each delivery, is one span, however many physical messages it has. The identifier of
such a span follows from the subject (`app.model.trace_context.span_id_of`).
"""

from collections.abc import Iterable, Mapping, Sequence
from secrets import token_hex
from typing import Final, NamedTuple

from app.metrics import MESSAGING_SYSTEMS
from app.model.attachment import AttachmentState, DeliveryState
from app.model.records import AttachmentRecord, DeliveryRecord
from app.model.trace_context import TraceContext, span_id_of
from app.ports.span_exporter import Attributes, Span

RECEIVE: Final = "receive"
PROCESS: Final = "process"
SEND: Final = "send"
COMMIT: Final = "commit"
MOST_LINKS: Final = 128
"""The maximum number of spans that one span links to."""

SERVICE: Final = "attachment-gateway"
"""`service.name` of the gateway, unless the environment names it."""
PIPELINE_SERVICE: Final = "attachment-gateway-pipeline"


def process_attributes(instance: str, roles: Iterable[str]) -> dict[str, str]:
    """Return the attributes of the resource that tell one process of the gateway from others."""
    return {"service.instance.id": instance, "attachment_gateway.roles": ",".join(sorted(roles))}


_SYSTEM: Final = "messaging.system"
_DESTINATION: Final = "messaging.destination.name"
_OPERATION_NAME: Final = "messaging.operation.name"
_OPERATION_TYPE: Final = "messaging.operation.type"
_MESSAGE_COUNT: Final = "messaging.batch.message_count"
_BODY_SIZE: Final = "messaging.message.body.size"
_CONVERSATION: Final = "messaging.message.conversation_id"
_ERROR: Final = "error.type"
_METHOD: Final = "http.request.method"
_ROUTE: Final = "http.route"
_STATUS: Final = "http.response.status_code"
_TABLE: Final = "db.collection.name"
_DB_SYSTEM: Final = "db.system.name"
_DB_OPERATION: Final = "db.operation.name"
_OWN: Final = "attachment_gateway"
_ATTACHMENT: Final = f"{_OWN}.attachment.id"
_STATE: Final = f"{_OWN}.attachment.state"
_KIND: Final = f"{_OWN}.attachment.kind"
_SOURCE: Final = f"{_OWN}.source"
_DELIVERY: Final = f"{_OWN}.delivery.id"
_DELIVERY_STATE: Final = f"{_OWN}.delivery.state"
_ATTEMPTS: Final = f"{_OWN}.delivery.attempts"
_TO: Final = f"{_OWN}.destination"
_VERSION: Final = f"{_OWN}.table.version"
_ATTACHMENTS: Final = f"{_OWN}.batch.attachments"
_REACHED: Final = f"{_OWN}.batch.position"


class BrokerPlace(NamedTuple):
    """The broker's kind (`messaging.system`) and the topic, queue or subject of a source or a destination."""

    system: str
    address: str

    @classmethod
    def of(cls, transport: str, address: str) -> "BrokerPlace":
        return cls(MESSAGING_SYSTEMS.get(transport, transport), address)

    def attributes(self, operation: str) -> dict[str, str]:
        named = {_SYSTEM: self.system, _OPERATION_NAME: operation, _OPERATION_TYPE: operation}
        return named | ({_DESTINATION: self.address} if self.address else {})

    def span_name(self, operation: str) -> str:
        return f"{operation} {self.address}".rstrip()


def of_attachment(record: AttachmentRecord, place: BrokerPlace) -> list[Span]:
    """Return the spans of an attachment that has come to an end: its reception, and the reading of its content.

    The second has failed for one that is quarantined or expired. There are none if it has no valid `traceparent`.
    """
    context = TraceContext.of(record.trace_parent)
    if context is None:
        return []
    received_at = record.completed_at or record.last_received_at
    ended_at = max(received_at, record.finished_at or received_at)
    own = {_ATTACHMENT: record.id, _SOURCE: record.source, _STATE: record.state.value}
    if record.kind is not None:
        own[_KIND] = record.kind.word
    receive = _continued(context, record.id, RECEIVE)
    has_failed = record.state in (AttachmentState.QUARANTINED, AttachmentState.EXPIRED)
    failed = {_ERROR: record.reason_code or record.state.value} if has_failed else {_BODY_SIZE: record.size or 0}
    reason = (record.reason or record.state.value) if has_failed else None
    return [
        Span(
            name=place.span_name(RECEIVE),
            kind="consumer",
            context=receive,
            parent=_sender(context, record.id),
            started_at=record.first_received_at,
            ended_at=max(received_at, record.first_received_at),
            attributes={
                **place.attributes(RECEIVE),
                _MESSAGE_COUNT: record.parts_received,
                _CONVERSATION: record.correl_id.hex(),
                **own,
            },
        ),
        Span(
            name=place.span_name(PROCESS),
            kind="consumer",
            # What is quarantined may be finished later, as another span.
            context=_continued(context, record.id, f"{PROCESS} {record.state.value}" if has_failed else PROCESS),
            parent=receive.span_id,
            started_at=received_at,
            ended_at=ended_at,
            attributes={**place.attributes(PROCESS), **own, **failed},
            error=reason,
        ),
    ]


def of_delivery(record: DeliveryRecord, place: BrokerPlace) -> list[Span]:
    """Return the span of a delivery that has come to an end. It ends when the broker has acknowledged all messages."""
    context = TraceContext.of(record.trace_parent)
    if context is None:
        return []
    has_failed = record.state is not DeliveryState.SENT
    return [
        Span(
            name=place.span_name(SEND),
            kind="producer",
            context=_continued(context, record.id, SEND),
            parent=context.span_id,
            started_at=record.created_at,
            ended_at=max(record.created_at, record.updated_at),
            attributes={
                **place.attributes(SEND),
                _MESSAGE_COUNT: record.messages_sent,
                _TO: record.destination,
                _DELIVERY: record.id,
                _DELIVERY_STATE: record.state.value,
                _ATTEMPTS: record.attempts,
                **({_ERROR: record.state.value} if has_failed else {}),
            },
            error=(record.reason or record.state.value) if has_failed else None,
        )
    ]


def onward(record: DeliveryRecord) -> str | None:
    """Return the `traceparent` that a delivery's messages carry, whose parent is the delivery's own span."""
    context = TraceContext.of(record.trace_parent)
    return None if context is None else str(_continued(context, record.id, SEND))


class Request(NamedTuple):
    """The span of a request that sends: its context, and the span of the client if it sent one."""

    context: TraceContext
    parent: str | None

    @classmethod
    def continuing(cls, given: TraceContext) -> "Request":
        """Return the span of a request with this `traceparent`."""
        return cls(given._replace(span_id=token_hex(8)), given.span_id)

    @classmethod
    def beginning(cls) -> "Request":
        """Return the span of a request with which a trace begins."""
        return cls(TraceContext(token_hex(16), token_hex(8), is_sampled=True), None)

    def span(self, method: str, route: str, status: int, started_at: int, ended_at: int) -> Span:
        """Return the span of the request with its outcome."""
        has_failed = status >= 500
        attributes: Attributes = {_METHOD: method, _ROUTE: route, _STATUS: status}
        return Span(
            name=f"{method} {route}",
            kind="server",
            context=self.context,
            parent=self.parent,
            started_at=started_at,
            ended_at=ended_at,
            attributes={**attributes, _ERROR: str(status)} if has_failed else attributes,
            error=f"status {status}" if has_failed else None,
        )


class Added(NamedTuple):
    """A traced attachment, and the table that has its rows."""

    attachment: str
    trace_parent: str
    table: str


class Batch(NamedTuple):
    """A batch of the pipeline: the packed position that it ended at, its times (µs), and the versions of its tables."""

    reached: int
    started_at: int
    ended_at: int
    versions: Mapping[str, int]


def of_batch(batch: Batch, added: Sequence[Added], after: str | None) -> list[Span]:
    """Return the spans of a batch: one for each traced attachment, with the version of its table.

    One more, in a trace of its own, links to them. The parent is the attachment's phase `after`, or the span of the
    sender for None.
    """
    spans: list[Span] = []
    for each in added:
        context = TraceContext.of(each.trace_parent)
        if context is None:
            continue
        attributes: dict[str, str | int] = {
            _DB_SYSTEM: "deltalake",
            _DB_OPERATION: COMMIT,
            _TABLE: each.table,
            _ATTACHMENT: each.attachment,
            _REACHED: batch.reached,
        }
        if each.table in batch.versions:
            attributes[_VERSION] = batch.versions[each.table]
        spans.append(
            Span(
                name=f"{COMMIT} {each.table}",
                kind="internal",
                context=_continued(context, each.attachment, COMMIT),
                parent=_sender(context, each.attachment) if after is None else span_id_of(each.attachment, after),
                started_at=batch.started_at,
                ended_at=batch.ended_at,
                attributes=attributes,
            )
        )
    if not spans:
        return spans
    whole = Span(
        name=f"{COMMIT} batch",
        kind="internal",
        context=TraceContext(token_hex(16), token_hex(8), is_sampled=any(each.context.is_sampled for each in spans)),
        parent=None,
        started_at=batch.started_at,
        ended_at=batch.ended_at,
        attributes={_REACHED: batch.reached, _ATTACHMENTS: len(spans)},
        links=[each.context for each in spans[:MOST_LINKS]],
    )
    return [*spans, whole]


def _sender(context: TraceContext, attachment: str) -> str | None:
    """Return the span of an attachment's sender; None if its trace is its own, which begins with its reception."""
    return None if context.span_id == span_id_of(attachment, RECEIVE) else context.span_id


def _continued(context: TraceContext, subject: str, phase: str) -> TraceContext:
    return context._replace(span_id=span_id_of(subject, phase))
