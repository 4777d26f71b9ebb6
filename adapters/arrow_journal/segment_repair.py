"""Repair of an unsealed segment that a killed process has left."""

import os
from array import array
from pathlib import Path
from struct import Struct
from typing import NamedTuple

import structlog

from adapters.arrow_journal import arrow_ipc
from adapters.arrow_journal.batch_columns import Encoded, Head, encode, encode_lost, unverified_frame
from adapters.arrow_journal.body_pieces import RUN
from adapters.arrow_journal.segment_files import SegmentState, damaged_path, lost
from adapters.arrow_journal.segment_header import header_bytes
from adapters.arrow_journal.segment_reader import SegmentFile
from adapters.arrow_journal.segment_scan import Gap, Scanner, damaged_rows
from adapters.arrow_journal.segment_writer import write_all
from adapters.disk import NO_SPACE, ReadFile, ReadWindow, UnreadableError, sync_folder, write_whole
from app.model.errors import GatewayError
from app.model.message import Position
from app.model.records import JournalIdentity
from app.ports import messages_of

END_BYTES = 64
"""If the last body of a batch ends in this number of zeros, or is missing, the write of the batch was interrupted."""

_OFFSET = Struct("<q")

_log = structlog.get_logger(__name__)


class _Mended(NamedTuple):
    """The part of a segment that is kept: its batches and the gaps between them, up to `end`.

    `last` is the last batch encoded again, if some of its rows are removed.
    """

    found: list[Head | Gap]
    end: int
    last: Encoded | None = None

    @property
    def gaps(self) -> list[Gap]:
        return [each for each in self.found if isinstance(each, Gap)]


def mend(folder: Path, path: Path, state: SegmentState, journal: JournalIdentity | None, durable: int) -> bool:
    """Repair a segment's file and its state so that it can be sealed. Return False when it has no batch to keep.

    The torn tail is removed, and lost batches are replaced by ones without rows. `durable` is the last batch that is
    known to have been durable, or -1: nothing up to it is a torn tail. `journal` is given if the header has to be
    written again. On a full disk the file stays as it is; readers still find its whole batches.

    Raises GatewayError when the file cannot be written.
    """
    file = ReadFile(path)
    segment = SegmentFile(state, lambda _: file)
    mended = _without_torn_tail(segment, list(Scanner(file, state.size, state.number, segment.seed)), durable)
    if not mended.found or mended.end < state.size:
        cut = state.size - mended.end
        _log.warning("torn_tail_removed", segment=state.number, kept_bytes=mended.end, removed_bytes=max(0, cut))
    if not mended.found:
        return False
    try:
        _write(folder, path, segment, mended, journal)
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise GatewayError(f"{path} cannot be written: {error}") from error
        mended = mended._replace(end=mended.found[-1].end)
    places = array("q")
    for each in mended.found:
        if isinstance(each, Head):
            places.append(each.start if each.rows else lost(each.start))
        elif each.following is not None:
            places.extend(lost(each.start) for _ in range(each.first, each.following))
    state.batches, state.open_ended, state.size = places, False, mended.end
    return True


def _without_torn_tail(segment: SegmentFile, found: list[Head | Gap], durable: int) -> _Mended:
    """Return what is kept of the batches and gaps that were found: all that is no torn tail."""
    kept = list(found)
    while kept:
        last = kept[-1]
        if isinstance(last, Gap):
            if (gap := _acknowledged(segment, last, durable)) is not None:
                return _Mended([*kept[:-1], gap], gap.end)
        elif last.number < durable:
            break
        else:
            rows = last.rows if last.number == durable else _rows_to_keep(segment, last)
            if rows == last.rows:
                return _Mended(kept, last.end)
            if rows:
                batch = _first_rows(segment, last, rows)
                return _Mended(kept, last.start + batch.size, batch)
        kept.pop()
    end, first = (kept[-1].end, kept[-1].number + 1) if kept and isinstance(kept[-1], Head) else (arrow_ipc.BLOCK, 0)
    if first > durable:
        return _Mended(kept, end)
    gap = _gap(first, durable, end, end)
    return _Mended([*kept, gap], gap.end)


def _acknowledged(segment: SegmentFile, last: Gap, durable: int) -> Gap | None:
    """Return a gap at the end that may have held acknowledged batches; None for the rest of an interrupted write.

    It held such batches if one of them is known to have been durable, if a later batch was begun behind it, if the disk
    cannot read it, which an interrupted write does not cause, or if its write was completed. Where the number of lost
    batches is unknown, one stands for all.
    """
    if last.following is not None:
        return last
    if last.first > durable and not _is_damage(segment, last):
        return None
    return _gap(last.first, max(last.first, durable), last.start, last.end)


def _gap(first: int, last: int, start: int, end: int) -> Gap:
    """Return a gap of whole blocks, one or more for each of its batches."""
    size = max(end - start, (last + 1 - first) * arrow_ipc.BLOCK)
    return Gap(first, last + 1, start, start + size + arrow_ipc.block_padding(size))


def _is_damage(segment: SegmentFile, last: Gap) -> bool:
    """Tell whether the last batch was written whole and is damaged now, and was not torn by a crash.

    A torn write lacks its end: the file is too short, or zeros are there. What the damaged batch says of its own
    lengths counts as far as these agree with each other.
    """
    file, (_, _, start, end) = segment.file(), last
    try:
        for at in range(start, end, RUN):
            file.read(at, min(at + RUN, end))
        if end - start < END_BYTES:
            return False
        size = _told_size(file, start, end)
        if size is not None:
            written = start + size
            return written + arrow_ipc.BLOCK <= end or (written <= end and any(file.read(written - END_BYTES, written)))
        metadata = start + max(END_BYTES, arrow_ipc.metadata_end(file.read(start, start + END_BYTES)) or 0)
        is_begun = metadata <= end and any(file.read(metadata - END_BYTES, end))
        return is_begun and end % arrow_ipc.BLOCK == 0 and any(file.read(end - arrow_ipc.BLOCK, end))
    except UnreadableError:
        return True


def _told_size(file: ReadFile, start: int, end: int) -> int | None:
    """Return the size, without its padding, that a damaged batch gives itself; None if it contradicts itself."""
    frame = unverified_frame(ReadWindow(file, end).get, start)
    if frame is None or frame.end != frame.size + arrow_ipc.block_padding(frame.size):
        return None
    behind_offsets = start + frame.head
    bodies = file.read(behind_offsets - _OFFSET.size, behind_offsets) if behind_offsets <= end else bytes(_OFFSET.size)
    # Offsets that are zero may be those of a torn write.
    return frame.size if _OFFSET.unpack(bodies)[0] in {0, frame.bodies} else None


def _rows_to_keep(segment: SegmentFile, head: Head) -> int:
    """Return how many rows of the last batch are kept.

    If its write was completed, a row that fails its checksum is damaged and keeps its place. Otherwise the row was
    never complete: it is removed with the empty rows after it, unless a later row is whole.
    """
    bad = {damage.row for damage in damaged_rows(segment, head)}
    if not bad or not _was_interrupted(segment, head):
        return head.rows
    offsets, first = head.layout.offsets, min(row for row in bad if row is not None)
    whole = (row for row in range(first, head.rows) if row not in bad and offsets[row + 1] > offsets[row])
    return max((row + 1 for row in whole), default=first)


def _was_interrupted(segment: SegmentFile, head: Head) -> bool:
    start, offsets, _ = head.layout
    end = start + offsets[-1]
    if end > segment.state.size:
        return True
    last_body = start + max(offset for offset in offsets if offset < offsets[-1])
    try:
        return not any(segment.file().read(max(last_body, end - END_BYTES), end))
    except UnreadableError:
        return False


def _first_rows(segment: SegmentFile, head: Head, rows: int) -> Encoded:
    """Return a batch of the first rows of another, in their places. Damaged rows stay damaged."""
    start, offsets, crcs = head.layout
    file = segment.file()
    bodies = [memoryview(file.read_as_is(start + offsets[row], start + offsets[row + 1])) for row in range(rows)]
    messages = messages_of(head.record_batch().slice(0, rows), bodies)
    return encode(messages, Position(segment.number, head.number, 0), segment.seed, crcs[:rows])


def _write(folder: Path, path: Path, segment: SegmentFile, mended: _Mended, journal: JournalIdentity | None) -> None:
    state = segment.state
    gaps = [(gap.start, min(gap.end, state.size)) for gap in mended.gaps]
    kept = [_set_aside(folder, segment, start, end) for start, end in gaps if start < end]
    if journal is not None:
        kept.append(_set_aside(folder, segment, 0, arrow_ipc.BLOCK))
    if gaps or kept:
        batches = sum((gap.following or 0) - gap.first for gap in mended.gaps)
        _log.error("segment_damaged", segment=state.number, lost=f"{batches} batches", kept=kept)
    elif mended.last is None and isinstance(torn := mended.found[-1], Head) and torn.end > state.size:
        lost_bytes = torn.end - state.size
        _log.error("segment_damaged", segment=state.number, lost=f"the last {lost_bytes} bytes of batch {torn.number}")
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        if journal is not None:
            write_all(descriptor, memoryview(header_bytes(state.created_at, journal)), 0)
        for gap in mended.gaps:
            _fill(descriptor, gap, segment)
        if mended.last is not None:
            last = mended.last
            data = memoryview(b"".join([last.head, *last.bodies, bytes(last.fill)]))
            write_all(descriptor, data, mended.found[-1].start)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _fill(descriptor: int, gap: Gap, segment: SegmentFile) -> None:
    """Write batches without rows into a gap. The last one extends to the gap's end."""
    numbers = range(gap.first, gap.following or 0)
    for at, number in zip(range(gap.start, gap.end, arrow_ipc.BLOCK), numbers, strict=False):
        size = gap.end - at if number == numbers[-1] else arrow_ipc.BLOCK
        head = encode_lost(number, size, segment.seed)
        write_all(descriptor, memoryview(head), at)


def _set_aside(folder: Path, segment: SegmentFile, start: int, end: int) -> str:
    """Copy bytes of a segment's file to another file, and return that file's name."""
    path = damaged_path(folder, segment.number, start)
    partial = path.with_suffix(".partial")
    write_whole(partial, segment.file().pieces_as_is(start, end), replaces=True)
    partial.rename(path)
    sync_folder(folder)
    return path.name
