"""Spans of attachments and deliveries, made from the event log when they have ended.

So tracing takes no part in receiving, assembling or sending, and an attachment that Spark assembles has the same spans.
Failures are logged here, and do not stop anything else.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from app import span_names
from app.model.records import AttachmentRecord, DeliveryRecord, EventRecord, changed
from app.model.trace_context import TraceContext, own_trace_parent
from app.observe import Recurring, logger
from app.ports import Catalog
from app.ports.span_exporter import Span, SpanExporter
from app.settings import Endpoint, Settings, TraceSettings
from app.span_names import BrokerPlace, Request

_ENDS_OF_ATTACHMENTS: Final = frozenset({"attachment.finished", "attachment.quarantined", "attachment.expired"})
_ENDS_OF_DELIVERIES: Final = frozenset({"delivery.sent", "delivery.failed", "delivery.cancelled"})
_NOWHERE = BrokerPlace("", "")

log = logger(__name__)


class Traces:
    """The traces of a gateway. Without an exporter, it only passes on the contexts that it received."""

    def __init__(self, settings: Settings, exporter: SpanExporter | None = None) -> None:
        self._settings, self._exporter = settings, exporter
        self._ratio = 0.0 if exporter is None else ratio_of(settings.traces)
        self._fault = Recurring(log, "traces")

    @property
    def is_enabled(self) -> bool:
        """Whether spans are exported."""
        return self._exporter is not None

    def export(self, made: Iterable[Span]) -> None:
        """Export spans, if that is enabled."""
        if self._exporter is not None:
            for span in made:
                self._exporter.export(span)

    def close(self) -> None:
        """Send what is queued. It takes some seconds at most."""
        if self._exporter is not None:
            self._exporter.close()

    # --- contexts -------------------------------------------------------------------------------------------------

    def begun(self, records: list[AttachmentRecord]) -> list[AttachmentRecord]:
        """Return announced attachments with a trace of their own, as far as they have none and are chosen for it."""
        return [begun(record, self._ratio) for record in records] if self._ratio else records

    def request(self, given: TraceContext | None, chance: float) -> Request | None:
        """Return the span of a request that sends, which came with this context.

        Without a context, a trace begins if `chance`, a random number from 0 to 1, is below the ratio. None if there is
        no trace, or none that the gateway adds to.
        """
        if self._exporter is None:
            return None
        if given is not None:
            return Request.continuing(given)
        return Request.beginning() if chance < self._ratio else None

    def onward(self, delivery: DeliveryRecord) -> str | None:
        """Return the `traceparent` that a delivery's messages carry."""
        return span_names.onward(delivery) if self.is_enabled else delivery.trace_parent

    # --- spans ----------------------------------------------------------------------------------------------------

    def take(self, events: Sequence[EventRecord], catalog: Catalog) -> None:
        """Export the spans of attachments and deliveries that have ended by these events."""
        if self._exporter is None:
            return
        ended = [event for event in events if event.trace_parent is not None]
        attachments = dict.fromkeys(each.subject for each in ended if each.type in _ENDS_OF_ATTACHMENTS)
        deliveries = dict.fromkeys(each.subject for each in ended if each.type in _ENDS_OF_DELIVERIES)
        if not attachments and not deliveries:
            return
        try:
            for record in catalog.attachments_by_id(list(attachments)):
                self.export(span_names.of_attachment(record, _place(self._settings.sources.get(record.source))))
            for each in deliveries:
                if (delivery := catalog.delivery(each)) is not None:
                    to = self._settings.destinations.get(delivery.destination)
                    self.export(span_names.of_delivery(delivery, _place(to)))
        except Exception as error:  # noqa: BLE001 - `Recurring` logs it
            self._fault.failed(error)
        else:
            self._fault.worked()


def ratio_of(settings: TraceSettings) -> float:
    """Return the share of attachments and requests without a `traceparent` that get a trace of their own."""
    return settings.ratio if settings.enabled else 0.0


def begun(record: AttachmentRecord, ratio: float) -> AttachmentRecord:
    """Return an announced attachment with a trace of its own, if it has none and is among the share `ratio`."""
    if record.trace_parent is not None or record.kind is None:
        return record
    return changed(record, trace_parent=own_trace_parent(record.id, span_names.RECEIVE, ratio))


def _place(endpoint: Endpoint | None) -> BrokerPlace:
    return _NOWHERE if endpoint is None else BrokerPlace.of(endpoint.transport, endpoint.address)
