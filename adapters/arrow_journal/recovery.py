"""Opening a journal's folder: what is sealed is listed, what a killed process left unsealed is verified and sealed."""

from array import array
from pathlib import Path

import pyarrow as pa
import structlog

from adapters.arrow_journal import ipc
from adapters.arrow_journal.columns import SCHEMA, bad_rows, body_layout, created_at
from adapters.arrow_journal.segments import SegmentState, map_file, segment_files
from adapters.arrow_journal.writing import seal_file
from adapters.disk import NO_SPACE, sync_folder
from app.model.errors import OurError

_log = structlog.get_logger(__name__)


def recover(folder: Path, now: int) -> tuple[dict[int, SegmentState], int]:
    """The segments of a folder by number, and the number of the next one. `now` (µs) is when the unsealed are sealed.

    Raises OurError when a file is no segment that can be read here.
    """
    states: dict[int, SegmentState] = {}
    following = 1
    files = list(segment_files(folder))
    for number, sealed, path in files:
        state = _sealed(number, path) if sealed else _unsealed(folder, number, path, now)
        following = number + 1
        if state is not None:
            states[number] = state
        elif number == files[-1][0]:
            following = number
        else:
            path.unlink()
            sync_folder(folder)
    return states, following


def _sealed(number: int, path: Path) -> SegmentState:
    status = path.stat()
    try:
        begun = created_at(ipc.schema_of(pa.py_buffer(map_file(path, status.st_size))))
    except (*ipc.READ_ERRORS, EOFError, ValueError) as error:
        raise OurError(f"{path} cannot be read: {error}") from error
    return SegmentState(number, status.st_size, begun, status.st_mtime_ns // 1000)


def _unsealed(folder: Path, number: int, path: Path, now: int) -> SegmentState | None:
    size = path.stat().st_size
    try:
        state = whole_batches(number, path) if size else None
    except ValueError as error:
        raise OurError(f"{path} cannot be read: {error}") from error
    whole = state.size if state else 0
    if whole < size and state:
        _log.warning("journal.torn_tail_cut_off", segment=number, kept=whole, cut=size - whole)
    if state is None:
        return None
    try:
        seal_file(folder, state, now)
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise OurError(f"{path} cannot be sealed: {error}") from error
    return state


def whole_batches(number: int, path: Path) -> SegmentState | None:
    """An unsealed segment up to its first torn batch: one cut short, no Arrow message, or one that fails its
    checksums. None when there is no whole batch.

    Raises ValueError when the file is a segment of an unknown format.
    """
    view = map_file(path, path.stat().st_size)
    stream = pa.py_buffer(view)
    try:
        schema = ipc.schema_of(stream)
    except (*ipc.READ_ERRORS, EOFError):
        return None
    starts, end = array("Q"), 0
    try:
        for found in ipc.walk(stream):
            batch = pa.ipc.read_record_batch(found.message, SCHEMA)
            if not len(batch) or bad_rows(batch, found.start, body_layout(batch, stream.address), view):
                break
            starts.append(found.start)
            end = found.end
    except ipc.READ_ERRORS:
        pass
    return SegmentState(number, end, created_at(schema), None, starts) if starts else None
