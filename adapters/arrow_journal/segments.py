"""The journal's folder: one file a segment, named by its number and by whether it is sealed."""

import fcntl
import mmap
import os
from array import array
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from app.model.errors import OurError

SEALED, OPEN = ".arrows", ".open.arrows"
_DIGITS = 10


def segment_path(folder: Path, number: int, *, sealed: bool) -> Path:
    return folder / f"{number:0{_DIGITS}}{SEALED if sealed else OPEN}"


def segment_files(folder: Path) -> Iterator[tuple[int, bool, Path]]:
    """Number, sealed or not, and path of every segment in the folder, by number."""
    for path in sorted(folder.glob(f"{'[0-9]' * _DIGITS}*{SEALED}")):
        number, rest = path.name[:_DIGITS], path.name[_DIGITS:]
        if rest in (SEALED, OPEN):
            yield int(number), rest == SEALED, path


def sealed_number(name: str) -> int | None:
    """The number of the sealed segment whose file has this name; None where it is another file's."""
    number, rest = name[:_DIGITS], name[_DIGITS:]
    return int(number) if rest == SEALED and number.isascii() and number.isdigit() else None


class FolderLock:
    """Says that this process writes in a folder; the system takes it back when the process ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        self._descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise OurError(f"{folder} is in use: another process writes this journal") from None
        self.held = True

    def release(self) -> None:
        os.close(self._descriptor)
        self.held = False


def map_file(path: Path, size: int) -> memoryview:
    """The first `size` bytes of a file, mapped read-only. The mapping lives as long as the view or a slice of it."""
    with path.open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ))


@dataclass(slots=True)
class SegmentState:
    """What is known of a segment whose first `size` bytes are durable.

    `batches` holds where each batch begins in the file; it is None until somebody has walked an older segment.
    """

    number: int
    size: int
    created_at: int
    sealed_at: int | None = None
    batches: "array[int] | None" = None


def map_segment(folder: Path, state: SegmentState) -> memoryview:
    """The durable bytes of a segment that may be sealed meanwhile, as `map_file`. Raises KeyError when it is gone."""
    for sealed in (False, True):
        with suppress(FileNotFoundError):
            return map_file(segment_path(folder, state.number, sealed=sealed), state.size)
    raise KeyError(state.number)
