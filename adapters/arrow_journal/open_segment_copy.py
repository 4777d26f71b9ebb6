"""The durable part of the segment that another process is writing."""

from collections.abc import Iterator
from pathlib import Path

from adapters.arrow_journal import arrow_ipc
from adapters.arrow_journal.batch_columns import Head
from adapters.arrow_journal.segment_files import SegmentState, segment_files
from adapters.arrow_journal.segment_header import BadHeader, header_of, seed_of
from adapters.arrow_journal.segment_reader import SegmentFile
from adapters.arrow_journal.segment_scan import Scanner
from adapters.arrow_journal.segment_verification import damaged_rows
from adapters.disk import ReadFile
from app.ports import OpenSegment

PIECE = 1 << 20


def open_segment(folder: Path) -> OpenSegment | None:
    """Return the unsealed segment of a journal's folder as if it had been sealed after its last whole batch.

    An append writes from front to back, so everything before a whole batch is durable. Return None if there is no such
    batch, or no unsealed segment any more.
    """
    for number, sealed, path in sorted(segment_files(folder), reverse=True):
        if sealed:
            continue
        try:
            file = ReadFile(path)
            size = file.size()
            header = header_of(file, size, path)
        except (FileNotFoundError, BadHeader):
            continue
        state = SegmentState(number, size, header.created_at, seed=seed_of(header.journal.id, number))
        if end := _end(file, state):
            return OpenSegment(number, _pieces(file, end))
    return None


def _end(file: ReadFile, state: SegmentState) -> int:
    """Return the end of the last batch with undamaged bodies; 0 if there is none."""
    assert state.seed is not None
    heads = [each for each in Scanner(file, state.size, state.number, state.seed) if isinstance(each, Head)]
    segment = SegmentFile(state, lambda _: file)
    for head in reversed(heads):
        if head.rows and head.end <= state.size and len(damaged_rows(segment, head)) < head.rows:
            return head.end
    return 0


def _pieces(file: ReadFile, end: int) -> Iterator[memoryview]:
    for at in range(0, end, PIECE):
        yield memoryview(file.read_as_is(at, min(at + PIECE, end)))
    yield memoryview(arrow_ipc.END_OF_STREAM)
