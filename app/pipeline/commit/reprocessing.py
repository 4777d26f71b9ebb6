"""What changes when messages are processed again: what differs from the catalog and the tables is replaced.

A batch adds to tables, and recognizes its own additions by their number. Reprocessing replaces: rows of an attachment
by the rows that it has now, and the quality of an hour by what it is now. So a repetition after a kill at any moment
comes to the same, and nothing is there twice.

An attachment is only changed for the better. One that is finished stays so, unless it is finished again with other
content. One that lacks parts takes more parts, but never fewer. A deleted one stays deleted.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from app.assembly.states import CLOSED
from app.model.attachment import AttachmentKind, AttachmentState
from app.model.message import Position
from app.model.records import CONTENT_LOST, DAMAGED_PART, PARTS_GONE, AttachmentRecord, QuarantineRecord
from app.pipeline.commit import tables
from app.pipeline.commit.changes import Changes, TableChanges
from app.pipeline.commit.commit_intent import IntendedBatch, ReprocessingWindow
from app.pipeline.commit.packages import Summary
from app.pipeline.commit.result_changes import damaged_segments, data_sets, dated, files, ids_of, qualities
from app.pipeline.commit.tables import (
    FILES,
    FILES_SCHEMA,
    QUALITY,
    CommittedTable,
    DataSet,
    TablePlan,
    Written,
    read_schema,
    table_name,
)
from app.pipeline.finish.finish_outcomes import Result
from app.pipeline.job.job import OpenRun
from app.pipeline.read.journal_archives import first_received_at, missing_segments
from app.ports import TableFile, TableStore
from app.service.repair.catalog_pages import AT_ONCE, attachments_in, pages
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
    "files",
    "warnings",
    "evidence",
)
_DEFINITION = ("kind", "qualifier_1", "qualifier_2", "description", "message_id", "parts_expected")
_COUNTS = ("parts_received", "duplicates", "last_position")

Records = Mapping[str, AttachmentRecord]


class Reprocessing:
    """A batch of messages that were processed before: a window of an archive."""

    def __init__(self, run: OpenRun, batch: IntendedBatch, window: ReprocessingWindow) -> None:
        self._run, self._catalog, self._batch, self._window = run, run.catalog, batch, window
        self._present = {segment.number for segment in run.archive.segments()}

    def changes(self, results: Sequence[Result], now: int) -> Changes:
        """Return what differs from the catalog and the tables. `results` are those in the window, and the quality of
        all others."""
        asked = [dated(result, now) for result in results if result.reached >= 0]
        known = self._known(asked)
        changed = [result for result in asked if differs(result, known)]
        ids = ids_of(changed)
        entries = self._entries()
        news = [_without_known(result, entries) for result in asked]
        counted = [
            result
            if result.record is not None and result.record.id in ids
            else result._replace(quality=Increment(result.quality.source, 0), finished=None, refused=None)
            for result in news
        ]
        rejected = {entry.id for result in asked for entry in result.quarantine}
        rows, received = self._tables(asked, changed, known, results)
        for_catalog = [self._for_catalog(result, ids, known) for result in news]
        return Changes(
            self._batch,
            self._catalog.progress() or 0,
            lambda: [for_catalog],
            rows,
            Summary(
                finished=sum(result.finished is not None for result in counted),
                refused=sum(result.refused is not None for result in counted),
                quarantined=sum(len(result.quarantine) for result in counted),
                damaged=damaged_segments(asked),
            ),
            quality_rows(qualities(counted)),
            received,
            changed=frozenset(ids),
            reprocessed=frozenset(ids.intersection(known)),
            removed=self._unfounded(asked),
            healed=[each.id for each in entries.values() if each.state == "kept" and each.id not in rejected],
            staged=[result for result in for_catalog if result.staged_object is not None],
        )

    # --- the catalog --------------------------------------------------------------------------------------------------

    def _known(self, results: Iterable[Result]) -> Records:
        """Return the catalog's records of the attachments of results."""
        by_source: dict[str, list[bytes]] = {}
        for result in results:
            if result.record is not None:
                by_source.setdefault(result.record.source, []).append(result.record.correl_id)
        found = (self._catalog.attachments_by_key(source, keys).values() for source, keys in by_source.items())
        return {record.id: record for some in found for record in some}

    def _unfounded(self, asked: Iterable[Result]) -> list[str]:
        """Return open attachments that are none, now that the archive has a header or a message that it lacked.

        All of their messages must be in the window's archive, so that they would have been assembled again.
        """
        found = {result.record.id for result in asked if result.record is not None}
        first, source = self._window

        def is_within(record: AttachmentRecord) -> bool:
            begin, end = (Position.unpack(at).segment for at in (record.first_position, record.last_position))
            return end >= first and source in (None, record.source) and self._present.issuperset(range(begin, end + 1))

        return [
            record.id
            for state in (AttachmentState.RECEIVING, AttachmentState.EXPIRED)
            for record in attachments_in(self._catalog, state)
            if record.id not in found and is_within(record)
        ]

    def _for_catalog(self, result: Result, changed: set[str], known: Records) -> Result:
        """Return what the catalog is to take of a result. All part runs of an attachment are replaced."""
        removed = result.removed
        if removed is not None:
            record = self._catalog.attachment(removed)
            is_open = record is not None and record.state is AttachmentState.RECEIVING
            result = result._replace(removed=removed if is_open else None)
        if result.record is None or result.record.id in changed:
            return result._replace(has_less=result.record is not None)
        record, old = result.record, known.get(result.record.id)
        has_more = old and old.state in CLOSED and any(getattr(record, each) > getattr(old, each) for each in _COUNTS)
        return result._replace(record=record if has_more else None, finished=None, refused=None, fresh=())

    def _entries(self) -> Mapping[str, QuarantineRecord]:
        """Return the quarantine entries for messages of the window whose segments the archive has."""
        first, source = self._window
        found: dict[str, QuarantineRecord] = {}
        for entry in pages(lambda cursor: self._catalog.quarantined(None, None, cursor, AT_ONCE)):
            segment = Position.unpack(entry.position).segment
            if segment in self._present and segment >= first and (source is None or entry.source in (source, "")):
                found[entry.id] = entry
        return found

    # --- tables -------------------------------------------------------------------------------------------------------

    def _tables(
        self, asked: Sequence[Result], changed: Sequence[Result], known: Records, results: Iterable[Result]
    ) -> tuple[TableChanges, tuple[Increment, ...]]:
        """Return the rows that differ, and what was received besides what the table of quality has."""
        store = self._run.tables
        if store is None:
            return TableChanges(tuple, tuple, SCHEMA.empty_table(), {}), ()
        ids = ids_of(changed)
        finished = [result for result in asked if _is_finished(result, ids, known)]
        added, replaced = _data_sets(store, list(data_sets(finished)), ids, known)
        rows, replaced_files = _files(store, finished, ids, known)
        asked_for = {record.id for result in asked if (record := result.record)}
        elsewhere = (
            Increment(record.source, hour_of(record.first_received_at), attachments_quarantined=1)
            for record in attachments_in(self._catalog, AttachmentState.QUARANTINED)
            if record.id not in asked_for and record.completed_at is not None
        )
        quality, replaced_quality, received = _quality(store, chain(qualities(results), elsewhere), self._run)
        gone = {**replaced, **replaced_files, **replaced_quality}
        return TableChanges(lambda: added, rows.to_batches, quality, gone), received


def replace_rows(
    store: TableStore, rows: TableChanges, plans: Iterable[TablePlan], written: Iterable[Written]
) -> Iterator[CommittedTable]:
    """Replace the rows of tables by those that they have instead. Yield the tables."""
    own = {FILES: (FILES_SCHEMA, rows.files()), QUALITY: (SCHEMA, rows.quality.to_batches())}
    planned = {plan.table: plan for plan in plans}
    files: dict[str, list[TableFile]] = {}
    for each in written:
        files.setdefault(each.table, []).append(each.file)
    for name, replaced in (rows.replaced or {}).items():
        if name in own:
            schema, batches = own[name]
            files[name] = [store.write(name, schema, batches)]
        else:
            schema = read_schema(planned[name].schema) if name in planned else store.schema(name)
        added = files.get(name, [])
        version = store.replace(name, schema, added, replaced)
        warnings = planned[name].warnings if name in planned else []
        yield CommittedTable(name, sum(file.rows for file in added), warnings, version)


def differs(result: Result, known: Records) -> bool:
    """Tell whether the catalog is to take a result's attachment."""
    record, finished, refused = result.record, result.finished, result.refused
    old = None if record is None else known.get(record.id)
    if record is None or old is None:
        return record is not None
    if old.state is AttachmentState.DELETED:
        return False
    if old.state is AttachmentState.FINISHED:
        content = finished is not None and any(getattr(finished, name) != getattr(old, name) for name in _CONTENT)
        definition = any(getattr(record, name) != getattr(old, name) for name in _DEFINITION)
        return finished is not None and (old.reason_code is not None or content or definition)
    has_more = record.parts_received > old.parts_received
    if old.state is AttachmentState.QUARANTINED:
        has_reason = refused is not None and (refused.code, refused.reason) != (old.reason_code, old.reason)
        is_new = finished is not None or old.reason_code in _LOST_PARTS or has_more
        return is_new if refused is None else has_reason
    is_open = old.state is record.state and record.parts_received == old.parts_received
    return finished is not None or refused is not None or has_more or (is_open and record != old)


def _is_finished(result: Result, changed: set[str], known: Records) -> bool:
    """Tell whether the catalog has an attachment as finished after this commit, with the content of the result.

    Tables do not show whether they have a data set without rows, so this is left out unless it has changed.
    """
    if result.record is None or result.finished is None:
        return False
    old = known.get(result.record.id)
    was_finished = old is not None and old.state is AttachmentState.FINISHED
    return result.record.id in changed or (was_finished and result.finished.observations != 0)


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


def _of(attachments: Iterable[str]) -> pc.Expression:
    return pc.field("attachment").isin(pa.array(sorted(attachments), pa.string()))


def _data_sets(
    store: TableStore, finished: Sequence[DataSet], changed: set[str], known: Records
) -> tuple[list[DataSet], dict[str, pc.Expression]]:
    """Return the changed data sets, and those that a table lacks and has not removed, with the rows they replace."""
    names = {each.attachment: table_name(each.library, each.member) for each in finished}
    bounds = {name: _retained_from(store, name) for name in {*names.values()}}
    before: dict[str, set[str]] = {}
    for old in map(known.get, changed):
        if old is not None and old.kind is AttachmentKind.DATA_SET:
            before.setdefault(table_name(old.qualifier_1, old.qualifier_2), set()).add(old.id)
    present = {name: _attachments(store, name) for name in {*names.values(), *before}}
    added = [
        each
        for each in finished
        if each.received_at >= bounds[name := names[each.attachment]]
        and (each.attachment in changed or each.attachment not in present[name])
    ]
    removed = {name: {each for each in before.get(name, ()) if each in present[name]} for name in sorted(present)}
    for each in added:
        removed[names[each.attachment]].add(each.attachment)
    return added, {name: _of(some) for name, some in removed.items() if some}


def _files(
    store: TableStore, finished: Iterable[Result], changed: set[str], known: Records
) -> tuple[pa.Table, dict[str, pc.Expression]]:
    """Return the rows of changed files, and of those that the table lacks and has not removed, with the rows they
    replace."""
    present, bound = _attachments(store, FILES), _retained_from(store, FILES)
    added = []
    for record, content in files(finished):
        if record.first_received_at < bound:
            continue
        if record.id in changed:
            added.append((record, content))
        elif record.id not in present:
            added.append((record, replace(content, finished_at=known[record.id].finished_at or content.finished_at)))
    replaced = {FILES: _of(changed | {record.id for record, _ in added})} if added or present & changed else {}
    return tables.file_rows(added), replaced


def _quality(
    store: TableStore, counted: Iterable[Increment], run: OpenRun
) -> tuple[pa.Table, dict[str, pc.Expression], tuple[Increment, ...]]:
    """Return the quality of all hours of which the archive has every message, with the rows that it replaces, and what
    it has gained."""
    # The first hour (µs) whose attachments have all their messages in the archive: after the first message of each
    # journal behind the last gap in the segments' numbers, 0 without a gap.
    sequences = run.archive.sequences()
    gaps = missing_segments(chain.from_iterable(sequences))
    hour = max(_first_hour_behind(run, numbers, gaps[-1][1]) for numbers in sequences) if gaps else 0
    since = pc.field("hour") >= pa.scalar(hour, SCHEMA.field("hour").type)
    now = quality_rows(counted).filter(since)
    try:
        before = summed(store.rows(QUALITY, SCHEMA.names)).filter(since)
    except KeyError:
        before = SCHEMA.empty_table()
    if now.equals(before.cast(now.schema)):
        return now, {}, ()
    known = {(each.source, each.hour): each for each in increments(before)}
    gained = []
    for each in increments(now):
        old = known.get((each.source, each.hour), Increment(each.source, each.hour))
        grown = {name: max(getattr(each, name) - getattr(old, name), 0) for name in Increment._fields[2:]}
        gained.append(each._replace(**grown))
    return now, {QUALITY: since}, tuple(gained)


def _first_hour_behind(run: OpenRun, numbers: Iterable[int], gap: int) -> int:
    """Return the hour (µs) after the first message in these segments that are behind a gap."""
    begun = (first_received_at(run.archive, number) for number in numbers if number > gap)
    return next((hour_of(at) + HOUR for at in begun if at is not None), 1 << 62)
