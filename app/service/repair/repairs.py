"""The repair of findings, in an order in which one repair does not undo another."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from app.model.attachment import AttachmentState, DeliveryState
from app.model.message import Position
from app.model.records import PARTS_GONE, AttachmentRecord
from app.service.content.stored_content import object_name
from app.service.context import ReceiverContext
from app.service.events.event_entries import delivery_event, lost_parts_event
from app.service.repair import record_files
from app.service.repair.archive_check import copying_again
from app.service.repair.catalog_pages import OPEN
from app.service.repair.consistency_check import last_segment
from app.service.repair.content_check import object_size
from app.service.repair.finding_kinds import Action, Finding
from app.service.repair.rebuilding import rebuild
from app.service.repair.recorder import Recorder
from app.service.repair.repair_stores import GatewayStores, ProgressListener
from app.service.repair.restoring import (
    RestoredAttachment,
    restore_content,
    restore_rows,
    restore_rows_from_journal,
    set_aside,
)


class RepairOutcome(NamedTuple):
    """The outcome of a repair: the difference is gone, or why it is not."""

    finding: Finding
    done: bool
    note: str = ""


Plan = Mapping[Action, Sequence[Finding]]


def plan(findings: Iterable[Finding]) -> Plan:
    """Return the actions to do, in their order.

    A catalog is rebuilt alone, and everything else is checked again with the new one.
    """
    by_action: dict[Action, list[Finding]] = {action: [] for action in Action}
    for finding in findings:
        by_action[finding.known.action].append(finding)
    if rebuilds := by_action[Action.REBUILD_CATALOG]:
        return {Action.REBUILD_CATALOG: rebuilds}
    return {action: found for action, found in by_action.items() if found and action is not Action.NONE}


def repair(estate: GatewayStores, planned: Plan, progress: ProgressListener) -> list[RepairOutcome]:
    """Carry out a plan on a stopped gateway's stores."""
    if rebuilds := planned.get(Action.REBUILD_CATALOG):
        rebuilt = rebuild(estate, progress)
        note = f"rebuilt; the old one is {rebuilt.aside}" if rebuilt.aside else "rebuilt"
        return [RepairOutcome(finding, done=True, note=note) for finding in rebuilds]
    assert estate.catalog is not None
    assert estate.writer is not None
    context = estate.service_context(estate.catalog, estate.writer)
    outcomes: list[RepairOutcome] = []
    for action, findings in planned.items():
        progress.begin(action.value.replace("-", " "), len(findings))
        outcomes += _REPAIRS[action](findings, context, progress.advance)
    Recorder(estate.catalog, estate.store).record()
    return outcomes


Repair = Callable[[Sequence[Finding], ReceiverContext, Callable[[int], None]], list[RepairOutcome]]


def _reserve(
    findings: Sequence[Finding], context: ReceiverContext, advance: Callable[[int], None]
) -> list[RepairOutcome]:
    for finding in findings:
        context.journal.reserve(int(finding.subject))
        advance(1)
    fit_progress(context)
    return _all_done(findings)


def _rebind(
    findings: Sequence[Finding], context: ReceiverContext, advance: Callable[[int], None]
) -> list[RepairOutcome]:
    """Bind the catalog to the new journal, so that no position in the lost journal can mean a message of the
    new one."""
    context.journal.reserve(last_segment(context.catalog))
    context.catalog.bind(context.journal.identity())
    context.catalog.set_progress(None)
    advance(len(findings))
    return _all_done(findings)


def fit_progress(context: ReceiverContext) -> None:
    """Set the catalog's progress back to the journal's end when the segment that it had reached, or the end of that
    segment, is gone.

    Messages after that place have new numbers, and are assembled.
    """
    packed, end = context.catalog.progress(), context.journal.end()
    if packed is None:
        return
    reached = Position.unpack(packed)
    held = [segment.number for segment in context.journal.segments()]
    if reached.segment in held and end is not None and end >= reached:
        return
    before = [number for number in held if number <= reached.segment]
    if not before or end is None:
        context.catalog.set_progress(None)
        return
    context.catalog.set_progress(min(reached, Position.end_of(before[-1]), end).pack())


def _rows(findings: Sequence[Finding], context: ReceiverContext, advance: Callable[[int], None]) -> list[RepairOutcome]:
    wanted = {finding.subject: finding for finding in findings}
    recorded = [
        row
        for row in record_files.rows(context.store, lambda _damage: None)
        if isinstance(row, AttachmentRecord) and row.id in wanted and row.state is AttachmentState.FINISHED
    ]
    stored = [row for row in recorded if object_size(context.store, object_name(row.id)) == row.size]
    restore_rows(stored, context)
    restored = {row.id for row in stored}
    others = restore_rows_from_journal([each for each in wanted if each not in restored], context)
    advance(len(findings))
    return [RepairOutcome(wanted[each], done=True) for each in restored] + _outcomes(wanted, others)


def _content(
    findings: Sequence[Finding], context: ReceiverContext, advance: Callable[[int], None]
) -> list[RepairOutcome]:
    wanted = {finding.subject: finding for finding in findings}
    return _outcomes(wanted, restore_content(wanted, context, advance))


def _outcomes(wanted: Mapping[str, Finding], restored: Iterable[RestoredAttachment]) -> list[RepairOutcome]:
    return [RepairOutcome(wanted[each.id], each.done, each.why) for each in restored]


def _each(repair_one: Callable[[Finding, ReceiverContext], object]) -> Repair:
    """Return the repair that calls `repair_one` for each finding."""

    def repair_all(
        findings: Sequence[Finding], context: ReceiverContext, advance: Callable[[int], None]
    ) -> list[RepairOutcome]:
        for finding in findings:
            repair_one(finding, context)
            advance(1)
        return _all_done(findings)

    return repair_all


def _expire(finding: Finding, context: ReceiverContext) -> None:
    for state in OPEN:
        context.catalog.restart([finding.subject], state, finding.detail)
    record = context.catalog.attachment(finding.subject)
    source = None if record is None else record.source
    event = lost_parts_event(finding.subject, source, PARTS_GONE, finding.detail, context.clock.now())
    context.catalog.set_state(
        [finding.subject], AttachmentState.EXPIRED, reason_code=PARTS_GONE, reason=finding.detail, events=[event]
    )


def _fail(finding: Finding, context: ReceiverContext) -> None:
    delivery = context.catalog.delivery(finding.subject)
    if delivery is not None:
        now = context.clock.now()
        failed = replace(delivery, state=DeliveryState.FAILED, reason=finding.detail, updated_at=now)
        context.catalog.update_delivery(failed, [delivery_event(failed, reason=finding.detail)])


def _record(
    findings: Sequence[Finding], context: ReceiverContext, advance: Callable[[int], None]
) -> list[RepairOutcome]:
    Recorder(context.catalog, context.store).record_all()
    for finding in findings:
        if finding.kind == "records-damaged":
            set_aside(finding.subject, context.store)
    advance(len(findings))
    return _all_done(findings)


def _segments(
    findings: Sequence[Finding], context: ReceiverContext, advance: Callable[[int], None]
) -> list[RepairOutcome]:
    needed = context.catalog.needed_segments()
    outcomes = []
    for finding in findings:
        number = int(finding.subject)
        if number in needed:
            note = "unfinished attachments, or messages in quarantine, still need it"
            outcomes.append(RepairOutcome(finding, done=False, note=note))
        else:
            context.journal.set_aside(number)
            outcomes.append(RepairOutcome(finding, done=True))
        advance(1)
    fit_progress(context)
    return outcomes


def _copies(
    findings: Sequence[Finding], context: ReceiverContext, advance: Callable[[int], None]
) -> list[RepairOutcome]:
    copy_again = copying_again(context)
    outcomes = []
    for finding in findings:
        why_not = copy_again(int(finding.subject))
        outcomes.append(RepairOutcome(finding, done=not why_not, note=why_not))
        advance(1)
    return outcomes


def _all_done(findings: Sequence[Finding]) -> list[RepairOutcome]:
    return [RepairOutcome(finding, done=True) for finding in findings]


_REPAIRS: Mapping[Action, Repair] = {
    Action.REBIND: _rebind,
    Action.RESERVE: _reserve,
    Action.RESTORE_ROW: _rows,
    Action.RESTORE_CONTENT: _content,
    Action.EXPIRE: _each(_expire),
    Action.FAIL_DELIVERY: _each(_fail),
    Action.SET_OBJECT_ASIDE: _each(lambda finding, context: set_aside(finding.subject, context.store)),
    Action.REMOVE_UPLOAD: _each(lambda finding, context: context.store.delete(finding.subject)),
    Action.RECORD: _record,
    Action.COPY_SEGMENT: _copies,
    Action.SET_SEGMENT_ASIDE: _segments,
}
