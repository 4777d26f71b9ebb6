"""The identity of the journal in a folder, and the lowest number that its next segment may have.

The file `identity` has two blocks that are written alternately and in place. So writing needs no free space, and an
interrupted write leaves the other block unchanged. Each block holds a line of JSON and its CRC-32C. The line has the
journal's `format`.

A journal that several processes open one after the other has one file for each opening: `replace_file` gives the name
`identity` to a new file. The process before keeps its own file open and writes to that. So it never changes what the
next process has written, however late it continues.
"""

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from secrets import token_hex
from typing import Any

import structlog
from crc32c import crc32c

from adapters.arrow_journal.arrow_ipc import BLOCK
from adapters.disk import ReadFile, UnreadableError, sync_folder, write_whole
from app.model.data_formats import JOURNAL
from app.model.errors import JournalTaken
from app.model.records import JournalIdentity

NAME = "identity"
COPY = ".copy"
"""The end of the name of a file that is written while other processes may have the folder open. One that a killed
process has left is deleted at the next opening."""
SLOTS = 2
_FORMAT = "format"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Known:
    """The content of the file.

    The next segment has at least the number `following`: lower ones may have held acknowledged messages. `end` is the
    packed position of the last message in retired segments. `saved` counts how often the file was written.
    """

    id: str
    epoch: int
    following: int
    end: int | None = None
    saved: int = 0

    @property
    def identity(self) -> JournalIdentity:
        return JournalIdentity(self.id, self.epoch)


class IdentityFile:
    """The file `identity` of a journal that this process has opened.

    `own` is the descriptor of the file that this process has made by `replace_file`, in a folder that is shared with
    other processes.
    """

    def __init__(self, folder: Path, known: Known, own: int | None) -> None:
        self._folder, self._own = folder, own
        self.known = save(folder, known, own)

    @property
    def is_shared(self) -> bool:
        return self._own is not None

    def save(self, *, following: int | None = None, end: int | None = None) -> None:
        """Make durable the lowest number of the next segment, or the end of the retired segments. Raises OSError."""
        known = self.known
        known = replace(
            known,
            following=known.following if following is None else following,
            end=known.end if end is None else end,
        )
        self.known = save(self._folder, known, self._own)

    def taken(self) -> JournalTaken | None:
        """Return the error of a process after which another one has opened the folder, or which cannot know it; None if
        none has."""
        if self._own is None or (last := epoch_in(self._folder)) == self.known.epoch:
            return None
        if last is None:
            return JournalTaken(
                f"{self._folder / NAME} is missing or cannot be read, so this process cannot tell whether another "
                "gateway has opened the journal, and stops writing: the next one to open it writes the file again"
            )
        return JournalTaken(
            f"another gateway has opened the journal in {self._folder} with epoch {last}, and this process has "
            f"epoch {self.known.epoch}, so it stops writing"
        )

    def require_last(self) -> None:
        """Raise JournalTaken if another process has opened the folder since this one did."""
        if (taken := self.taken()) is not None:
            raise taken

    def close(self) -> None:
        if self._own is not None:
            os.close(self._own)


def new_id() -> str:
    return token_hex(16)


def load(folder: Path) -> Known | None:
    """Return the content of the file in a journal's folder; None if it is missing or cannot be read. Raises
    NewerFormat."""
    path = folder / NAME
    try:
        file = ReadFile(path)
    except FileNotFoundError:
        return None
    blocks = [_block(file, slot) for slot in range(SLOTS)]
    written = [values for values in map(_parsed, blocks) if values is not None]
    for values in written:
        JOURNAL.require_known(values.pop(_FORMAT, None), str(path))
    known = sorted((Known(**values) for values in written), key=lambda each: each.saved)
    if not known:
        _log.error("identity_damaged", file=str(path), action="recovered from the segments")
        return None
    if all(any(block) for block in blocks) and len(known) < SLOTS:
        _log.error("identity_damaged", file=str(path), action="older block used")
        last = known[-1]
        return replace(last, epoch=last.epoch + 1, following=last.following + 1)
    return known[-1]


def save(folder: Path, known: Known, own: int | None = None) -> Known:
    """Write the file durably and return its new content. Raises OSError.

    `own` is the descriptor of the file that this process has made by `replace_file`.
    """
    known = replace(known, saved=known.saved + 1)
    block = _written(known)
    path = folder / NAME
    if own is not None:
        os.pwrite(own, block, BLOCK * (known.saved % SLOTS))
        os.fdatasync(own)
        return known
    if not path.exists():
        partial = path.with_name(f"{NAME}.partial")
        write_whole(partial, [_both(known)], replaces=True)
        partial.rename(path)
        sync_folder(path.parent)
        return known
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(descriptor, block, BLOCK * (known.saved % SLOTS))
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)
    return known


def replace_file(folder: Path, known: Known) -> tuple[Known, int]:
    """Give the name `identity` to a new file. Return its content, and its descriptor for writing. Raises OSError."""
    known = replace(known, saved=known.saved + 1)
    path = folder / NAME
    copy = folder / f"{NAME}.{token_hex(8)}{COPY}"
    descriptor = os.open(copy, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
    try:
        os.pwrite(descriptor, _both(known), 0)
        os.fsync(descriptor)
        copy.rename(path)
        sync_folder(folder)
    except OSError:
        os.close(descriptor)
        copy.unlink(missing_ok=True)
        raise
    return known, descriptor


def epoch_in(folder: Path) -> int | None:
    """Return the epoch of the process that opened the journal last; None if the file is missing or cannot be read.

    The file is opened by its name each time, so that a network file system asks its server. Reads both blocks.
    """
    try:
        descriptor = os.open(folder / NAME, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        data = os.pread(descriptor, SLOTS * BLOCK, 0)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    known = filter(None, (_parsed(data[at : at + BLOCK]) for at in range(0, len(data), BLOCK)))
    return max((values["epoch"] for values in known), default=None)  # also of a newer version that has taken over


def _both(known: Known) -> bytes:
    """Return both blocks, of which one holds the content."""
    blocks = [bytes(BLOCK)] * SLOTS
    blocks[known.saved % SLOTS] = _written(known)
    return b"".join(blocks)


def _block(file: ReadFile, slot: int) -> bytes:
    try:
        return file.read(slot * BLOCK, (slot + 1) * BLOCK)
    except UnreadableError:
        return b"unreadable"


def _written(known: Known) -> bytes:
    line = json.dumps({_FORMAT: JOURNAL.number, **asdict(known)}).encode() + b"\n"
    return (line + b"%08x\n" % crc32c(line)).ljust(BLOCK, b"\0")


def _parsed(block: bytes) -> dict[str, Any] | None:
    line, _, checksum = block.rstrip(b"\0").rstrip(b"\n").rpartition(b"\n")
    line += b"\n"
    values: dict[str, Any] | None = json.loads(line) if checksum == b"%08x" % crc32c(line) else None
    return values
