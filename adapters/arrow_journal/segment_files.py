"""The files in a journal's folder: one for each segment, named by its number and by whether it is sealed."""

import fcntl
import os
from array import array
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from adapters.disk import ReadFile
from app.model.errors import GatewayError
from app.model.message import DAMAGED_SEGMENT, OPEN_SEGMENT, SEALED_SEGMENT, SEGMENT_DIGITS, segment_name


def segment_path(folder: Path, number: int, *, sealed: bool) -> Path:
    return folder / segment_name(number, SEALED_SEGMENT if sealed else OPEN_SEGMENT)


def damaged_path(folder: Path, number: int, at: int | None = None) -> Path:
    """Return the path of the copy of a damaged segment's bytes: all of it, or from byte `at` on."""
    return folder / segment_name(number, f"{'' if at is None else f'.{at}'}{DAMAGED_SEGMENT}")


def segment_files(folder: Path) -> Iterator[tuple[int, bool, Path]]:
    """Yield the number, whether it is sealed, and the path of every segment in the folder, by number."""
    for path in sorted(folder.glob(f"{'[0-9]' * SEGMENT_DIGITS}*{SEALED_SEGMENT}")):
        number, rest = path.name[:SEGMENT_DIGITS], path.name[SEGMENT_DIGITS:]
        if rest in (SEALED_SEGMENT, OPEN_SEGMENT):
            yield int(number), rest == SEALED_SEGMENT, path


def damaged_numbers(folder: Path) -> Iterator[int]:
    """Yield the numbers of the segments with a copy of damaged bytes."""
    for path in folder.glob(f"{'[0-9]' * SEGMENT_DIGITS}*{DAMAGED_SEGMENT}"):
        yield int(path.name[:SEGMENT_DIGITS])


class FolderLock:
    """A lock of a folder for the process that writes in it. The system releases it when the process ends in any way.

    A `shared` lock only keeps out processes that want the folder for themselves.
    """

    def __init__(self, folder: Path, *, shared: bool = False) -> None:
        self._descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(self._descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise GatewayError(f"{folder} is in use: another process writes this journal") from None
        self.held = True

    def release(self) -> None:
        os.close(self._descriptor)
        self.held = False


@dataclass(slots=True)
class SegmentState:
    """The state of a segment whose first `size` bytes are durable.

    `batches` holds the start of each batch in the file, or `lost` of it; it is None until an older segment has been
    scanned. `open_ended` says that more batches may have been lost after the last one. `seed`, of its batches'
    checksums, is None until the header has been read. `version` tells objects of an object store apart that had this
    number one after the other. `own_number` is the number that its file and its batches have: another one where
    several archives have one order.
    """

    number: int
    size: int
    created_at: int
    sealed_at: int | None = None
    batches: "array[int] | None" = None
    open_ended: bool = False
    seed: int | None = None
    version: str = ""
    own_number: int = 0

    def __post_init__(self) -> None:
        self.own_number = self.own_number or self.number


def lost(start: int) -> int:
    """Return the value in `SegmentState.batches` for a batch that was lost in the bytes from `start` on, and the
    reverse."""
    return ~start


def open_segment(folder: Path, state: SegmentState) -> ReadFile:
    """Open the file of a segment that may be sealed meanwhile. Raises KeyError when it is gone, and OSError."""
    for sealed in (False, True, True) if state.sealed_at is None else (True,):
        with suppress(FileNotFoundError):
            return ReadFile(segment_path(folder, state.number, sealed=sealed))
    raise KeyError(state.number)
