"""Findings -> what is done about them, in an order in which one repair does not undo another."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from app.model.attachment import AttachmentState, DeliveryState
from app.model.message import MAX_BATCHES_A_SEGMENT, MAX_ROWS_A_BATCH, Position
from app.model.records import PARTS_GONE, AttachmentRecord
from app.service.events import delivery_event, lost_parts_event
from app.service.repair import records
from app.service.repair.checking import last_segment
from app.service.repair.estate import Estate, Progress
from app.service.repair.findings import Action, Finding
from app.service.repair.rebuilding import rebuild
from app.service.repair.recording import Recorder
from app.service.repair.restoring import (
    Restored,
    restore_content,
    restore_rows,
    restore_rows_from_journal,
    set_aside,
)
from app.service.repair.walking import OPEN
from app.service.surroundings import Surroundings


class Outcome(NamedTuple):
    """What a repair has come to: the difference is gone, or why it is not."""

    finding: Finding
    done: bool
    note: str = ""


Plan = Mapping[Action, Sequence[Finding]]


def plan(findings: Iterable[Finding]) -> Plan:
    """Return what is to be done, in the order of doing. A catalog is rebuilt by itself: all else is looked at anew with
    the new one."""
    by_action: dict[Action, list[Finding]] = {action: [] for action in Action}
    for finding in findings:
        by_action[finding.known.action].append(finding)
    if rebuilds := by_action[Action.REBUILD_CATALOG]:
        return {Action.REBUILD_CATALOG: rebuilds}
    return {action: found for action, found in by_action.items() if found and action is not Action.NONE}


def repair(estate: Estate, planned: Plan, progress: Progress) -> list[Outcome]:
    """Carry out a plan on a stopped gateway's stores."""
    if rebuilds := planned.get(Action.REBUILD_CATALOG):
        rebuilt = rebuild(estate, progress)
        note = f"rebuilt; the old one is {rebuilt.aside}" if rebuilt.aside else "rebuilt"
        return [Outcome(finding, done=True, note=note) for finding in rebuilds]
    assert estate.catalog is not None
    assert estate.writer is not None
    around = estate.surroundings(estate.catalog, estate.writer)
    outcomes: list[Outcome] = []
    for action, findings in planned.items():
        progress.begin(action.value.replace("-", " "), len(findings))
        outcomes += _DOES[action](findings, around, progress.advance)
    Recorder(estate.catalog, estate.store).record()
    return outcomes


Does = Callable[[Sequence[Finding], Surroundings, Callable[[int], None]], list[Outcome]]


def _reserve(findings: Sequence[Finding], around: Surroundings, advance: Callable[[int], None]) -> list[Outcome]:
    for finding in findings:
        around.journal.reserve(int(finding.subject))
        advance(1)
    fit_progress(around)
    return _all_done(findings)


def _rebind(findings: Sequence[Finding], around: Surroundings, advance: Callable[[int], None]) -> list[Outcome]:
    """What the catalog says of places in the lost journal must never mean a message of the new one."""
    around.journal.reserve(last_segment(around.catalog))
    around.catalog.bind(around.journal.identity())
    around.catalog.set_progress(None)
    advance(len(findings))
    return _all_done(findings)


def fit_progress(around: Surroundings) -> None:
    """Have the catalog go on where the journal now ends, when what it had reached is gone: the segment, or the end of
    it. What is behind that place has other numbers, and is assembled."""
    packed, end = around.catalog.progress(), around.journal.end()
    if packed is None:
        return
    reached = Position.unpack(packed)
    held = [segment.number for segment in around.journal.segments()]
    if reached.segment in held and end is not None and end >= reached:
        return
    before = [number for number in held if number <= reached.segment]
    if not before or end is None:
        around.catalog.set_progress(None)
        return
    last = Position(before[-1], MAX_BATCHES_A_SEGMENT - 1, MAX_ROWS_A_BATCH - 1)
    around.catalog.set_progress(min(reached, last, end).pack())


def _rows(findings: Sequence[Finding], around: Surroundings, advance: Callable[[int], None]) -> list[Outcome]:
    wanted = {finding.subject: finding for finding in findings}
    recorded = [
        row
        for row in records.rows(around.store, lambda _damage: None)
        if isinstance(row, AttachmentRecord) and row.id in wanted and row.state is AttachmentState.FINISHED
    ]
    stored = [row for row in recorded if _is_stored(row, around)]
    restore_rows(stored, around)
    there = {row.id for row in stored}
    others = restore_rows_from_journal([each for each in wanted if each not in there], around)
    advance(len(findings))
    return [Outcome(wanted[each], done=True) for each in there] + _told(wanted, others)


def _is_stored(row: AttachmentRecord, around: Surroundings) -> bool:
    try:
        return around.store.size(f"attachments/{row.id}") == row.size
    except KeyError:
        return False


def _content(findings: Sequence[Finding], around: Surroundings, advance: Callable[[int], None]) -> list[Outcome]:
    wanted = {finding.subject: finding for finding in findings}
    return _told(wanted, restore_content(wanted, around, advance))


def _told(wanted: Mapping[str, Finding], restored: Iterable[Restored]) -> list[Outcome]:
    return [Outcome(wanted[each.id], each.done, each.why) for each in restored]


def _expire(findings: Sequence[Finding], around: Surroundings, advance: Callable[[int], None]) -> list[Outcome]:
    for finding in findings:
        for state in OPEN:
            around.catalog.restart([finding.subject], state, finding.detail)
        expired = AttachmentState.EXPIRED
        event = lost_parts_event(finding.subject, PARTS_GONE, finding.detail, around.clock.now())
        around.catalog.set_state(
            [finding.subject], expired, reason_code=PARTS_GONE, reason=finding.detail, events=[event]
        )
        advance(1)
    return _all_done(findings)


def _fail(findings: Sequence[Finding], around: Surroundings, advance: Callable[[int], None]) -> list[Outcome]:
    now = around.clock.now()
    for finding in findings:
        delivery = around.catalog.delivery(finding.subject)
        if delivery is not None:
            failed = replace(delivery, state=DeliveryState.FAILED, reason=finding.detail, updated_at=now)
            around.catalog.update_delivery(failed, [delivery_event(failed, reason=finding.detail)])
        advance(1)
    return _all_done(findings)


def _aside(findings: Sequence[Finding], around: Surroundings, advance: Callable[[int], None]) -> list[Outcome]:
    for finding in findings:
        set_aside(finding.subject, around.store)
        advance(1)
    return _all_done(findings)


def _remove(findings: Sequence[Finding], around: Surroundings, advance: Callable[[int], None]) -> list[Outcome]:
    for finding in findings:
        around.store.delete(finding.subject)
        advance(1)
    return _all_done(findings)


def _record(findings: Sequence[Finding], around: Surroundings, advance: Callable[[int], None]) -> list[Outcome]:
    Recorder(around.catalog, around.store).record_all()
    for finding in findings:
        if finding.kind == "records-damaged":
            set_aside(finding.subject, around.store)
    advance(len(findings))
    return _all_done(findings)


def _segments(findings: Sequence[Finding], around: Surroundings, advance: Callable[[int], None]) -> list[Outcome]:
    needed = around.catalog.needed_segments()
    outcomes = []
    for finding in findings:
        number = int(finding.subject)
        if number in needed:
            note = "unfinished attachments, or messages in quarantine, still need it"
            outcomes.append(Outcome(finding, done=False, note=note))
        else:
            around.journal.set_aside(number)
            outcomes.append(Outcome(finding, done=True))
        advance(1)
    fit_progress(around)
    return outcomes


def _all_done(findings: Sequence[Finding]) -> list[Outcome]:
    return [Outcome(finding, done=True) for finding in findings]


_DOES: Mapping[Action, Does] = {
    Action.REBIND: _rebind,
    Action.RESERVE: _reserve,
    Action.RESTORE_ROW: _rows,
    Action.RESTORE_CONTENT: _content,
    Action.EXPIRE: _expire,
    Action.FAIL_DELIVERY: _fail,
    Action.SET_OBJECT_ASIDE: _aside,
    Action.REMOVE_UPLOAD: _remove,
    Action.RECORD: _record,
    Action.SET_SEGMENT_ASIDE: _segments,
}
