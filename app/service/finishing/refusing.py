"""The end of attachments whose content cannot be read: they are quarantined, or begin anew when they are sent again."""

from app.assembly.collecting import Key
from app.assembly.states import Input, follow
from app.model.attachment import AttachmentState
from app.model.records import DAMAGED_PART, AttachmentRecord, Checkpoint
from app.model.trace_context import trace_fields
from app.observe import logger
from app.service.context import Between, ServiceContext
from app.service.events.event_entries import refusal_event
from app.service.finishing.finished_contents import ContentRejected

log = logger(__name__)


def restart(record: AttachmentRecord, context: ServiceContext, between: Between) -> None:
    """Restart an attachment whose parts are gone, so that it begins anew when they are sent again."""
    why = "its parts are no longer in the journal"
    log.warning("attachment_restarted", attachment=record.id, reason=why, **trace_fields(record.trace_parent))

    def change() -> list[Key]:
        explained = f"{why}; it begins anew when it is sent again"
        begun = context.catalog.restart([record.id], AttachmentState.COMPLETE, explained)
        return [(record.source, record.correl_id)] if begun else []

    between(change)


def refuse(record: AttachmentRecord, rejected: ContentRejected, context: ServiceContext) -> None:
    """Quarantine an attachment, and the part that shows the fault."""
    if (state := follow(record.state, Input.CONTENT_REFUSED)) is None:
        return
    refusal, entries = rejected.of(record, context.journal)
    if refusal.code == DAMAGED_PART:
        context.metrics.damage.labels("finishing").inc()
        log.error(
            "part_damaged",
            attachment=record.id,
            position=rejected.first,
            reason=rejected.error.why,
            **trace_fields(record.trace_parent),
        )
    if entries:
        copies = [copy for _, copy in entries if copy is not None]
        context.catalog.checkpoint(Checkpoint(quarantine=[entry for entry, _ in entries], quarantine_copies=copies))
    events = [refusal_event(record, refusal, context.clock.now())]
    context.catalog.set_state([record.id], state, reason_code=refusal.code, reason=refusal.reason, events=events)
    context.metrics.quarantined.labels(record.source, refusal.code).inc()
    context.metrics.attachments.labels(state, record.kind.word if record.kind else "unknown").inc()
    context.notifier.notify()
