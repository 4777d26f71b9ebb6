"""Commit of messages that were processed before: what differs from the catalog and the tables is replaced.

A batch adds to tables, and recognizes its own additions by their number. Reprocessing replaces: rows of an attachment
by the rows that it has now, and the quality of an hour by what it is now. So a repetition after a kill at any moment
comes to the same, and nothing is there twice.

An attachment is only changed for the better. One that is finished stays so, unless it is finished again with other
content. One that lacks parts takes more parts, but never fewer. A deleted one stays deleted.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from app.assembly.states import CLOSED
from app.model.attachment import AttachmentKind, AttachmentState
from app.model.errors import GatewayError
from app.model.message import Position
from app.model.records import (
    CONTENT_LOST,
    DAMAGED_PART,
    PARTS_GONE,
    AttachmentRecord,
    Checkpoint,
    Finished,
    QuarantineRecord,
)
from app.pipeline.commit import tables
from app.pipeline.commit.commit import AT_ONCE, CommittedBatch, WriteTables, summary
from app.pipeline.commit.commit_intent import ReprocessingWindow
from app.pipeline.commit.result_changes import (
    checkpoint_of,
    damaged_segments,
    data_sets,
    dated,
    files,
    ids_of,
    qualities,
)
from app.pipeline.commit.tables import FILES, QUALITY, CommittedTable, DataSet, TablePlan, table_name
from app.pipeline.finish.finish_outcomes import Result
from app.pipeline.job.job import Opened
from app.pipeline.read.segment_gaps import missing_segments
from app.ports import AttachmentFilter, Catalog, Clock, TableFile, TableStore
from app.service.events.event_entries import complete_messages
from app.tables.quality import HOUR, SCHEMA, Increment, hour_of, increments, quality_rows, summed

_LOST_PARTS = frozenset((DAMAGED_PART, PARTS_GONE, CONTENT_LOST))
_CONTENT = (
    "size",
    "sha256",
    "content_type",
    "observations",
    "variables",
    "record_length",
    "announced_size",
    "warnings",
    "evidence",
)
_DEFINITION = ("kind", "qualifier_1", "qualifier_2", "description", "message_id", "parts_expected")
_COUNTS = ("parts_received", "duplicates", "last_position")
_PAGE = 500

Records = Mapping[str, AttachmentRecord]


class Reprocessor:
    """Commits the results of a window of messages, in the driver's process. Only one process may commit."""

    def __init__(self, opened: Opened, catalog: Catalog, clock: Clock, write_tables: WriteTables) -> None:
        self._opened, self._catalog, self._clock, self._write_tables = opened, catalog, clock, write_tables
        self._progress = catalog.progress()

    def commit(self, results: Sequence[Result], window: ReprocessingWindow) -> CommittedBatch:
        """Commit what differs. Raises GatewayError when another process has committed since this object was made."""
        asked = [dated(result, self._clock.now()) for result in results if result.reached >= 0]
        known = self._known(asked)
        changed = [result for result in asked if differs(result, known)]
        replaced, received = self._replace_tables(asked, changed, known, results)
        if self._catalog.progress() != self._progress:
            raise GatewayError("another process commits to this catalog: stop the stream before reprocessing")
        entries = self._entries(window)
        self._place(changed)
        news = [_without_known(result, entries) for result in asked]
        self._save(news, changed, known)
        removed = self._remove(asked, window)
        healed = self._heal(asked, entries)
        self._complete(news, changed)
        self._opened.stores.store.delete_all(
            [result.staged_object for result in asked if result.staged_object is not None]
        )
        reached = self._progress or 0
        ids = ids_of(changed)
        counted = [_counted(result, ids) for result in news]
        found = summary(counted, quality_rows(qualities(counted)), reached, tuple(replaced))
        is_same = not (changed or removed or replaced or healed or found.quarantined)
        return found._replace(was_known=is_same, damaged=damaged_segments(asked), received=received)

    # --- the catalog --------------------------------------------------------------------------------------------------

    def _known(self, results: Iterable[Result]) -> Records:
        """Return the catalog's records of the attachments of results."""
        by_source: dict[str, list[bytes]] = {}
        for result in results:
            if result.record is not None:
                by_source.setdefault(result.record.source, []).append(result.record.correl_id)
        found = (self._catalog.attachments_by_key(source, keys).values() for source, keys in by_source.items())
        return {record.id: record for some in found for record in some}

    def _place(self, changed: Iterable[Result]) -> None:
        """Give staged content the name of its attachment's object."""
        store = self._opened.stores.store
        for result in changed:
            if (
                result.staged_object is not None
                and result.finished is not None
                and result.finished.object_name is not None
            ):
                with store.create(result.finished.object_name) as target:
                    for piece in store.read(result.staged_object):
                        target.write(piece)

    def _save(self, news: Sequence[Result], changed: Sequence[Result], known: Records) -> None:
        ids = ids_of(changed)
        now = self._clock.now()
        for start in range(0, len(news), AT_ONCE):
            some = [self._for_catalog(result, ids, known) for result in news[start : start + AT_ONCE]]
            checkpoint = checkpoint_of(some, now)
            checkpoint.reprocessed = [each.id for each in checkpoint.attachments if each.id in ids and each.id in known]
            self._catalog.checkpoint(checkpoint)

    def _remove(self, asked: Iterable[Result], window: ReprocessingWindow) -> list[str]:
        """Remove open attachments that are none, now that the archive has a header or a message that it lacked.

        All of their messages must be in the window's archive, so that they would have been assembled again.
        """
        present = {segment.number for segment in self._opened.archive.segments()}
        found = {result.record.id for result in asked if result.record is not None}
        gone = [
            record.id
            for state in (AttachmentState.RECEIVING, AttachmentState.EXPIRED)
            for record in self._attachments_in(state)
            if record.id not in found and _is_within(record, window, present)
        ]
        if gone:
            self._catalog.checkpoint(Checkpoint(removed_attachments=gone))
        return gone

    def _attachments_in(self, state: AttachmentState) -> Iterator[AttachmentRecord]:
        cursor: str | None = None
        while True:
            page = self._catalog.attachments(AttachmentFilter(state=state), cursor, _PAGE)
            yield from page.items
            cursor = page.next
            if cursor is None:
                return

    def _for_catalog(self, result: Result, changed: set[str], known: Records) -> Result:
        """Return what the catalog is to take of a result. All part runs of an attachment are replaced."""
        removed = result.removed
        if removed is not None:
            record = self._catalog.attachment(removed)
            is_open = record is not None and record.state is AttachmentState.RECEIVING
            result = result._replace(removed=removed if is_open else None)
        if result.record is None or result.record.id in changed:
            return result._replace(has_less=result.record is not None)
        counted = result.record if _has_counted(result.record, known.get(result.record.id)) else None
        return result._replace(record=counted, finished=None, refused=None, fresh=())

    def _complete(self, news: Sequence[Result], changed: Sequence[Result]) -> None:
        finished = [result.finished.id for result in changed if result.finished is not None]
        answered = [message for result in news for message in result.messages if message.application_body is not None]
        listed = [attachment for message in answered for attachment in message.attachments]
        complete_messages(self._catalog, [*finished, *listed], self._clock.now())

    # --- quarantine ---------------------------------------------------------------------------------------------------

    def _entries(self, window: ReprocessingWindow) -> Mapping[str, QuarantineRecord]:
        """Return the entries for messages of the window whose segments the archive has."""
        present = {segment.number for segment in self._opened.archive.segments()}
        found: dict[str, QuarantineRecord] = {}
        cursor: str | None = None
        while True:
            page = self._catalog.quarantined(None, None, cursor, _PAGE)
            for entry in page.items:
                segment = Position.unpack(entry.position).segment
                is_of_source = window.source is None or entry.source in (window.source, "")
                if segment in present and segment >= window.first_segment and is_of_source:
                    found[entry.id] = entry
            cursor = page.next
            if cursor is None:
                return found

    def _heal(self, asked: Iterable[Result], entries: Mapping[str, QuarantineRecord]) -> list[str]:
        """Mark entries as processed again whose messages are not rejected any more."""
        rejected = {entry.id for result in asked for entry in result.quarantine}
        healed = [entry.id for entry in entries.values() if entry.state == "kept" and entry.id not in rejected]
        for each in healed:
            self._catalog.set_quarantine_state(each, "replayed")
        return healed

    # --- tables -------------------------------------------------------------------------------------------------------

    def _replace_tables(
        self, asked: Sequence[Result], changed: Sequence[Result], known: Records, results: Iterable[Result]
    ) -> tuple[list[CommittedTable], tuple[Increment, ...]]:
        """Replace what differs in the tables. Return them, and what was received besides what `quality` had."""
        store = self._opened.tables
        if store is None:
            return [], ()
        ids = ids_of(changed)
        finished = [result for result in asked if _is_finished(result, ids, known)]
        gone = _tables_before(changed, known)
        done = self._replace_data_sets(store, list(data_sets(finished)), ids, gone)
        done += _replace_files(store, finished, ids, known)
        elsewhere = self._quarantined_elsewhere({record.id for result in asked if (record := result.record)})
        changed_quality, received = _replace_quality(store, [*qualities(results), *elsewhere], self._opened)
        return done + changed_quality, received

    def _quarantined_elsewhere(self, asked: set[str]) -> Iterator[Increment]:
        """Yield the quality of quarantined attachments outside of the window: their content is not read again."""
        for record in self._attachments_in(AttachmentState.QUARANTINED):
            if record.id not in asked and record.completed_at is not None:
                yield Increment(record.source, hour_of(record.first_received_at), attachments_quarantined=1)

    def _replace_data_sets(
        self, store: TableStore, finished: Sequence[DataSet], changed: set[str], before: Mapping[str, set[str]]
    ) -> list[CommittedTable]:
        """Replace the rows of changed data sets, and add those of data sets that a table lacks and has not removed."""
        names = {each.attachment: table_name(each.library, each.member) for each in finished}
        bounds = {name: _retained_from(store, name) for name in {*names.values()}}
        finished = [each for each in finished if each.received_at >= bounds[names[each.attachment]]]
        present = {name: _attachments(store, name) for name in {*names.values(), *before}}
        added = [
            each
            for each in finished
            if each.attachment in changed or each.attachment not in present[names[each.attachment]]
        ]
        removed = {name: {each for each in before.get(name, ()) if each in present[name]} for name in present}
        for each in added:
            removed[names[each.attachment]].add(each.attachment)
        plans = {plan.table: plan for plan in tables.plan_again(store, added)}
        written: dict[str, list[TableFile]] = {}
        for file in self._write_tables([task for plan in plans.values() for task in plan.tasks]):
            written.setdefault(file.table, []).append(file.file)
        return [
            _replaced(store, name, plans.get(name), written.get(name, []), removed[name])
            for name in sorted(present)
            if name in plans or removed[name]
        ]


def _counted(result: Result, changed: Container[str]) -> Result:
    """Return what a result adds to the summary of a run: nothing but quarantine if its attachment is unchanged."""
    if result.record is not None and result.record.id in changed:
        return result
    return result._replace(quality=Increment(result.quality.source, 0), finished=None, refused=None)


def differs(result: Result, known: Records) -> bool:
    """Tell whether the catalog is to take a result's attachment."""
    if result.record is None:
        return False
    old = known.get(result.record.id)
    return old is None or _DIFFERS.get(old.state, _open_differs)(result, result.record, old)


def _finished_differs(result: Result, record: AttachmentRecord, old: AttachmentRecord) -> bool:
    if result.finished is None:
        return False
    return old.reason_code is not None or _has_changed(result.finished, record, old)


def _quarantined_differs(result: Result, record: AttachmentRecord, old: AttachmentRecord) -> bool:
    if result.refused is not None:
        return (result.refused.code, result.refused.reason) != (old.reason_code, old.reason)
    return result.finished is not None or old.reason_code in _LOST_PARTS or record.parts_received > old.parts_received


def _open_differs(result: Result, record: AttachmentRecord, old: AttachmentRecord) -> bool:
    if result.finished is not None or result.refused is not None or record.parts_received > old.parts_received:
        return True
    is_open = old.state is record.state and record.parts_received == old.parts_received
    return is_open and record != old


_DIFFERS: Mapping[AttachmentState, Callable[[Result, AttachmentRecord, AttachmentRecord], bool]] = {
    AttachmentState.DELETED: lambda _result, _record, _old: False,
    AttachmentState.FINISHED: _finished_differs,
    AttachmentState.QUARANTINED: _quarantined_differs,
}
"""The comparison by the catalog's state; open attachments have `_open_differs`."""


def _has_changed(finished: Finished, record: AttachmentRecord, old: AttachmentRecord) -> bool:
    content = any(getattr(finished, name) != getattr(old, name) for name in _CONTENT)
    return content or any(getattr(record, name) != getattr(old, name) for name in _DEFINITION)


def _has_counted(record: AttachmentRecord, old: AttachmentRecord | None) -> bool:
    """Tell whether more messages of a closed attachment are known than the catalog has counted."""
    return (
        old is not None and old.state in CLOSED and any(getattr(record, each) > getattr(old, each) for each in _COUNTS)
    )


def _is_finished(result: Result, changed: set[str], known: Records) -> bool:
    """Tell whether the catalog has an attachment as finished after this commit, with the content of the result.

    Tables do not show whether they have a data set without rows, so this is left out unless it has changed.
    """
    if result.record is None or result.finished is None:
        return False
    old = known.get(result.record.id)
    was_finished = old is not None and old.state is AttachmentState.FINISHED
    return result.record.id in changed or (was_finished and result.finished.observations != 0)


def _is_within(record: AttachmentRecord, window: ReprocessingWindow, present: Container[int]) -> bool:
    """Tell whether an attachment has messages in a window, and all segments that may have others are present."""
    first, last = (Position.unpack(at).segment for at in (record.first_position, record.last_position))
    is_of_source = window.source is None or record.source == window.source
    return is_of_source and last >= window.first_segment and all(each in present for each in range(first, last + 1))


def _without_known(result: Result, entries: Mapping[str, QuarantineRecord]) -> Result:
    """Return the result without the quarantine entries that the catalog has: they may have been dismissed."""
    known = {
        entry.id
        for entry in result.quarantine
        if (old := entries.get(entry.id)) is not None and (old.code, old.why) == (entry.code, entry.why)
    }
    return result._replace(
        quarantine=tuple(entry for entry in result.quarantine if entry.id not in known),
        copies=tuple(copy for copy in result.copies if copy.id not in known),
    )


# --- tables -----------------------------------------------------------------------------------------------------------


def _tables_before(changed: Iterable[Result], known: Records) -> dict[str, set[str]]:
    """Return the changed data sets by the table that they were in."""
    found: dict[str, set[str]] = {}
    for result in changed:
        old = known.get(result.record.id) if result.record is not None else None
        if old is not None and old.kind is AttachmentKind.DATA_SET:
            found.setdefault(table_name(old.qualifier_1, old.qualifier_2), set()).add(old.id)
    return found


def _retained_from(store: TableStore, name: str) -> int:
    """Return the time (µs) before which rows of a table were removed, and must not come back."""
    try:
        return store.retained_from(name) or 0
    except KeyError:
        return 0


def _attachments(store: TableStore, name: str) -> set[str]:
    """Return the attachments that have rows in a table."""
    found: set[str] = set()
    try:
        for batch in store.rows(name, ["attachment"]):
            found.update(pc.unique(batch.column(0)).to_pylist())
    except KeyError:
        return set()
    return found


def _replaced(
    store: TableStore, name: str, plan: TablePlan | None, added: Sequence[TableFile], removed: Iterable[str]
) -> CommittedTable:
    schema = store.schema(name) if plan is None else pa.ipc.read_schema(pa.py_buffer(plan.schema))
    store.replace(name, schema, added, _of(removed))
    return CommittedTable(name, sum(file.rows for file in added), [] if plan is None else plan.warnings)


def _of(attachments: Iterable[str]) -> pc.Expression:
    return pc.field("attachment").isin(pa.array(sorted(attachments), pa.string()))


def _replace_files(
    store: TableStore, finished: Iterable[Result], changed: set[str], known: Records
) -> list[CommittedTable]:
    """Replace the rows of changed files, and add those of files that the table lacks and has not removed."""
    present, bound = _attachments(store, FILES), _retained_from(store, FILES)
    added = []
    for record, content in files(finished):
        if record.first_received_at < bound:
            continue
        if record.id in changed:
            added.append((record, content))
        elif record.id not in present:
            added.append((record, replace(content, finished_at=known[record.id].finished_at or content.finished_at)))
    if not added and not present & changed:
        return []
    rows = tables.file_rows(added)
    file = store.write(FILES, rows.schema, rows.to_batches())
    store.replace(FILES, rows.schema, [file], _of(changed | {record.id for record, _ in added}))
    return [CommittedTable(FILES, rows.num_rows, [])]


def _replace_quality(
    store: TableStore, counted: Iterable[Increment], opened: Opened
) -> tuple[list[CommittedTable], tuple[Increment, ...]]:
    """Replace the quality of all hours of which the archive has every message. Return also what it has gained."""
    hour = _first_whole_hour(opened)
    since = pc.field("hour") >= pa.scalar(hour, SCHEMA.field("hour").type)
    now = quality_rows(counted).filter(since)
    try:
        before = summed(store.rows(QUALITY, SCHEMA.names)).filter(since)
    except KeyError:
        before = SCHEMA.empty_table()
    if now.equals(before.cast(now.schema)):
        return [], ()
    file = store.write(QUALITY, now.schema, now.to_batches())
    store.replace(QUALITY, now.schema, [file], since)
    return [CommittedTable(QUALITY, now.num_rows, [])], tuple(_gained(now, before))


def _gained(now: pa.Table, before: pa.Table) -> Iterator[Increment]:
    """Yield by how much the figures of each source and hour have grown."""
    known = {(each.source, each.hour): each for each in increments(before)}
    for each in increments(now):
        old = known.get((each.source, each.hour), Increment(each.source, each.hour))
        gained = {name: max(getattr(each, name) - getattr(old, name), 0) for name in Increment._fields[2:]}
        yield each._replace(**gained)


def _first_whole_hour(opened: Opened) -> int:
    """Return the first hour (µs) whose attachments have all their messages in the archive.

    It is the hour after the first message behind the last gap in the segments' numbers, 0 without a gap.
    """
    numbers = [segment.number for segment in opened.archive.segments()]
    gaps = missing_segments(numbers)
    if not gaps:
        return 0
    for number in numbers:
        if number > gaps[-1][1]:
            try:
                return hour_of(opened.archive.record_batch(number, 0).column("received_at")[0].value) + HOUR
            except (GatewayError, IndexError):
                continue
    return 1 << 62
