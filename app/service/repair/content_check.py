"""Finished content, read to its end and compared with the catalog."""

from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import NamedTuple

from app.model.errors import GatewayError
from app.model.records import AttachmentRecord
from app.ports import ContentStore, JournalReader, JournalReferences
from app.service.content.stored_content import Content, JournalContent, StoredContent

Advance = Callable[[int], None]


class Measure(NamedTuple):
    """The size of some bytes, and their digest."""

    size: int
    sha256: str


def measure(pieces: Iterable[bytes | memoryview], advance: Advance = lambda _amount: None) -> Measure:
    """Return the size and the SHA-256 of these bytes. `advance` is called with the size of each piece."""
    digest, size = sha256(), 0
    for piece in pieces:
        digest.update(piece)
        size += len(piece)
        advance(len(piece))
    return Measure(size, digest.hexdigest())


class Unsound(NamedTuple):
    """The reason why content is not as it was: the kind of the finding, and a sentence."""

    kind: str
    why: str


def unsound(
    record: AttachmentRecord, catalog: JournalReferences, store: ContentStore, journal: JournalReader, advance: Advance
) -> Unsound | None:
    """Return the damage of a finished attachment's content; None when it is as it was received."""
    what, name = ("object", record.object_name) if record.storage == "store" else ("content", None)
    if what == "object" and name is None:
        return Unsound("object-missing", "the name of its object is gone")
    try:
        content: Content = (
            JournalContent(journal, catalog.extents(record.id))
            if name is None
            else StoredContent(store, name, store.size(name))
        )
        if content.size != record.size:
            return Unsound(f"{what}-damaged", f"{content.size:,} bytes are there, {record.size or 0:,} were written")
        found = measure(content.read(0, content.size), advance)
    except KeyError as gone:
        lost = gone.args[0] if gone.args else ""
        return Unsound(
            f"{what}-missing", f"journal segment {lost} is gone" if isinstance(lost, int) else f"{lost} is gone"
        )
    except GatewayError as error:
        return Unsound(f"{what}-damaged", str(error))
    if found.sha256 != record.sha256:
        return Unsound(f"{what}-damaged", f"SHA-256 is {found.sha256}, was {record.sha256}")
    return None


def object_size(store: ContentStore, name: str) -> int | None:
    """Return the size of an object; None when there is none."""
    try:
        return store.size(name)
    except KeyError:
        return None
