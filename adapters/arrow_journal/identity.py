"""The identity of the journal in a folder, and the lowest number that its next segment may have.

The file `identity` has two blocks that are written alternately and in place. So writing needs no free space, and an
interrupted write leaves the other block unchanged. Each block holds a line of JSON and its CRC-32C.
"""

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex

import structlog
from crc32c import crc32c

from adapters.arrow_journal.ipc import BLOCK
from adapters.disk import ReadFile, UnreadableError, sync_folder
from app.model.records import JournalIdentity

NAME = "identity"
SLOTS = 2

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


def new_id() -> str:
    return token_hex(16)


def load(folder: Path) -> Known | None:
    """Return the content of the file in a journal's folder; None if it is missing or cannot be read."""
    path = folder / NAME
    try:
        file = ReadFile(path)
    except FileNotFoundError:
        return None
    blocks = [_block(file, slot) for slot in range(SLOTS)]
    known = sorted(filter(None, map(_parsed, blocks)), key=lambda each: each.saved)
    if not known:
        _log.error("identity_damaged", file=str(path), action="recovered from the segments")
        return None
    if all(any(block) for block in blocks) and len(known) < SLOTS:
        _log.error("identity_damaged", file=str(path), action="older block used")
        last = known[-1]
        return replace(last, epoch=last.epoch + 1, following=last.following + 1)
    return known[-1]


def save(folder: Path, known: Known) -> Known:
    """Write the file durably and return its new content. Raises OSError."""
    known = replace(known, saved=known.saved + 1)
    block = _written(known)
    path = folder / NAME
    if not path.exists():
        _make(path, known, block)
        return known
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(descriptor, block, BLOCK * (known.saved % SLOTS))
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)
    return known


def _make(path: Path, known: Known, block: bytes) -> None:
    blocks = [bytes(BLOCK)] * SLOTS
    blocks[known.saved % SLOTS] = block
    partial = path.with_name(f"{NAME}.partial")
    with partial.open("wb") as file:
        file.write(b"".join(blocks))
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)
    sync_folder(path.parent)


def _block(file: ReadFile, slot: int) -> bytes:
    try:
        return file.read(slot * BLOCK, (slot + 1) * BLOCK)
    except UnreadableError:
        return b"unreadable"


def _written(known: Known) -> bytes:
    said = json.dumps({name: getattr(known, name) for name in Known.__slots__}).encode() + b"\n"
    return (said + b"%08x\n" % crc32c(said)).ljust(BLOCK, b"\0")


def _parsed(block: bytes) -> Known | None:
    said, _, checksum = block.rstrip(b"\0").rstrip(b"\n").rpartition(b"\n")
    said += b"\n"
    return Known(**json.loads(said)) if checksum == b"%08x" % crc32c(said) else None
