"""The parts of an attachment, to find gaps: runs of sequence numbers, with when they were received."""

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from app.assembly import ranges
from app.assembly.coverage import MOST_NUMBERS, Covered, Runs, State, covered
from app.assembly.part_places import Parts, little_endian
from app.codecs.sas import correlid
from app.model.attachment import AttachmentState
from app.model.errors import DamagedError, NotArchived
from app.model.message import Position
from app.model.records import AttachmentRecord, PartRun, QuarantineRecord
from app.ports import JournalReader
from app.service.context import ServiceContext
from app.service.finishing.stored_parts import missing_ranges

MOST_RUNS: Final = 10_000
DATED_BATCHES: Final = 500
"""The most batches of the journal that are read for the times of runs. Beyond that, no run has its times."""
CONFLICT: Final = "conflicting-part"
MOST_ENTRIES: Final = 10_000
"""The most quarantine entries that are searched for an attachment's own."""


class DatedRun(NamedTuple):
    """A run, and when the first and the last part in it were received (µs); None if that is not known."""

    run: Covered
    first_received_at: int | None
    last_received_at: int | None


class PartsReport(NamedTuple):
    """The parts with the sequence numbers `first` to `last`. `truncated` says that there are more behind."""

    expected: int | None
    received: int
    first: int
    last: int
    runs: list[DatedRun]
    truncated: bool


def parts_of(record: AttachmentRecord, context: ServiceContext, first: int = 1, last: int | None = None) -> PartsReport:
    """Return the parts of an attachment in a closed interval of sequence numbers; without `last`, all behind `first`.

    Of an IBM MQ group they are the logical messages by MsgSeqNumber, and of a file in byte ranges its bytes, from 1.
    """
    expected = record.parts_expected if record.group is None else record.group.last
    packed = context.catalog.packed_part_runs(record.id)
    is_forgotten = not packed and record.state in (AttachmentState.FINISHED, AttachmentState.COMPLETE)
    if is_forgotten:
        # The content is in the store, so all parts were here; where they lie in the journal is forgotten.
        length = expected or record.parts_received
        ones = np.ones(min(length, 1), np.int64)
        runs = Runs(ones, ones * length, ones * 0)
    elif record.group is None:
        runs = Runs.unpack(packed).in_order()
    else:
        runs = _whole_messages(record, context)
    highest = max(expected or 0, runs.highest)
    marks = {} if record.group is not None else _marks(record, context, highest)
    end = highest if last is None else min(last, highest)
    shown = min(end, first + MOST_NUMBERS - 1)
    found = covered(runs, first, shown, marks, MOST_RUNS)
    if is_forgotten or record.group is not None:
        is_whole = is_forgotten and len(found) == 1 and found[0].length == highest
        times = (record.first_received_at, record.last_received_at) if is_whole else (None, None)
        dated = [DatedRun(run._replace(begin=None, end=None), *times) for run in found]
    else:
        places = {place for run in found for place in (run.begin, run.end) if place is not None}
        times_at = received_at(places, context.journal) if len({at >> 12 for at in places}) <= DATED_BATCHES else {}
        dated = [
            DatedRun(run, *(None if at is None else times_at.get(at) for at in (run.begin, run.end))) for run in found
        ]
    return PartsReport(expected, sum(run.received for run in found), first, max(shown, first - 1), dated, shown < end)


def _marks(record: AttachmentRecord, context: ServiceContext, highest: int) -> dict[int, State]:
    """Return the parts that came again with other bytes, or with the same. A number beyond the `highest` is one of a
    sender that writes it little-endian."""
    refused = [entry for entry in refused_messages(record, context) if entry.code == CONFLICT]
    marks: dict[int, State] = dict.fromkeys(context.repeated.of(record.id), "duplicate")
    marks.update(dict.fromkeys((correlid.split(entry.correl_id)[1] for entry in refused), "conflict"))
    return {number if number <= highest else little_endian(number): state for number, state in marks.items()}


def _whole_messages(record: AttachmentRecord, context: ServiceContext) -> Runs:
    assert record.group is not None
    missing = missing_ranges(record, context.catalog, context.journal, MOST_RUNS)
    if record.group.is_of_ranges:
        last = record.group.last or ranges.furthest(Parts(context.catalog.part_runs(record.id)))
    else:
        last = record.group.last or max((end for _, end in missing), default=0) or record.parts_received
    whole: list[PartRun] = []
    following = 1
    for begin, end in [*missing, (last + 1, last + 1)]:
        if begin > following:
            whole.append(PartRun(following, begin - following, 0))
        following = end + 1
    columns = zip(*whole, strict=True) if whole else ((), (), ())
    return Runs(*(np.array(column, np.int64) for column in columns))


def received_at(places: Iterable[int], journal: JournalReader) -> dict[int, int]:
    """Return when the messages at these packed positions were received (µs), as far as this process can read them."""
    times: dict[int, int] = {}
    batch: tuple[int, int] | None = None
    column: list[int] = []
    for place in sorted(places):
        position = Position.unpack(place)
        if batch != position[:2]:
            batch, column = position[:2], []
            try:
                descriptors = journal.descriptors(position.segment, position.batch)
            except (KeyError, DamagedError, NotArchived):
                continue
            column = descriptors.column("received_at").view(pa.int64()).to_pylist()
        if position.row < len(column):
            times[place] = column[position.row]
    return times


def refused_messages(record: AttachmentRecord, context: ServiceContext) -> list[QuarantineRecord]:
    """Return the quarantine entries of an attachment's own messages, oldest first."""
    entries = context.catalog.quarantine_between(
        record.source, record.first_received_at, record.last_received_at, MOST_ENTRIES
    )
    return [entry for entry in entries if correlid.split(entry.correl_id)[0] == record.correl_id]
