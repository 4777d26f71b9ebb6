"""The intent of a commit: an object of the content store that says what is being committed until all of it is.

Tables are committed before the catalog. A process that is killed in between leaves tables that are ahead of the
catalog. Whatever runs next, a batch or a stream, reads the intent and ends this commit first, with the same messages
and the same number.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import orjson

from app.ports import ContentStore, JournalArchive

NAME = "pipeline/batch"
"""The name of the object."""


class ReprocessingWindow(NamedTuple):
    """The messages to process again: those in segments from `first_segment` on, of one source or of all."""

    first_segment: int
    source: str | None = None


class Intent(NamedTuple):
    """A commit of the messages after the packed position `known` up to and including a segment.

    `journal` is the journal's id, or its place if it has no id. `left_behind` are the complete attachments that are
    finished with them although none of their messages is new. With `again`, messages that were committed before are
    processed once more.
    """

    journal: str
    last_segment: int
    known: int | None = None
    left_behind: tuple[str, ...] = ()
    again: ReprocessingWindow | None = None


def journal_name(archive: JournalArchive, place: str) -> str:
    """Return the name of a journal in intents: a copy of its archive in another place has the same one."""
    identity = archive.identity()
    return place if identity is None else identity.id


def begin(store: ContentStore, intent: Intent) -> None:
    with store.create(NAME) as target:
        target.write(orjson.dumps(intent._asdict() | {"again": intent.again and intent.again._asdict()}))


def end(store: ContentStore) -> None:
    store.delete(NAME)


def begun(store: ContentStore) -> Intent | None:
    """Return the intent of a commit that was begun and has not ended."""
    with suppress(KeyError):
        said: dict[str, Any] = orjson.loads(b"".join(store.read(NAME)))
        values = {name: _READ.get(name, _as_it_is)(value) for name, value in said.items() if name in Intent._fields}
        return Intent(**values)
    return None


def _as_it_is(value: Any) -> Any:
    return value


_READ: dict[str, Callable[[Any], Any]] = {
    "left_behind": tuple,
    "again": lambda said: None if said is None else ReprocessingWindow(**said),
}
