"""The intent of a commit: an object of the content store that describes a batch until all of it is committed.

Tables are committed before the catalog. A process that is killed in between leaves tables that are ahead of the
catalog. Whatever runs next, a batch or a stream, reads the intent and ends this commit first, with the same messages
and the same number.
"""

from typing import Any, NamedTuple

import orjson

from app.ports import ContentStore, JournalArchive

NAME = "pipeline/batch"
"""The name of the object."""


class ReprocessingWindow(NamedTuple):
    """The messages to process again: those in segments from `first_segment` on, of one source or of all."""

    first_segment: int
    source: str | None = None


class IntendedBatch(NamedTuple):
    """The messages after the packed position `known` up to and including a segment, which are committed together.

    `journal` is the journal's id, or its place if it has no id. `left_behind` are the complete attachments that are
    finished with them although none of their messages is new; None for all that the catalog has. With `again`, messages
    that were committed before are processed once more.
    """

    journal: str
    last_segment: int
    known: int | None = None
    left_behind: tuple[str, ...] | None = None
    again: ReprocessingWindow | None = None


def journal_name(archive: JournalArchive, place: str) -> str:
    """Return the name of a journal in intents: a copy of its archive in another place has the same one."""
    identity = archive.identity()
    return place if identity is None else identity.id


def begin(store: ContentStore, batch: IntendedBatch) -> None:
    with store.create(NAME) as target:
        target.write(orjson.dumps(batch._asdict() | {"again": batch.again and batch.again._asdict()}))


def end(store: ContentStore) -> None:
    store.delete(NAME)


def begun(store: ContentStore) -> "IntendedBatch | None":
    """Return the batch whose commit was begun and has not ended."""
    try:
        found: dict[str, Any] = orjson.loads(b"".join(store.read(NAME)))
    except KeyError:
        return None
    again = found.get("again")
    return IntendedBatch(
        found["journal"],
        found["last_segment"],
        found.get("known"),
        tuple(found.get("left_behind") or ()),
        None if again is None else ReprocessingWindow(**again),
    )
