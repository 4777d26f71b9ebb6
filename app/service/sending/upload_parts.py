"""The parts of an upload, as objects of the content store."""

import re
from contextlib import AbstractContextManager, suppress
from typing import NamedTuple

from app.ports import ContentStore, ObjectWriter
from app.service.content.hashing_writer import Measured

_FOLDERS = re.compile(r"[/\\]")


class StoredPart(NamedTuple):
    """A part that is stored as an object. `file_name` is the client's name for it, if there is one."""

    name: str
    file_name: str | None
    content_type: str
    object_name: str
    size: int
    sha256: str

    @property
    def base_name(self) -> str:
        """Return the file's name without folders, or else the part's name."""
        return _FOLDERS.split(self.file_name or "")[-1] or self.name


class Companions(NamedTuple):
    """The files given beside the file of a data set: a catalog of value labels, and a define.xml."""

    catalog: StoredPart | None = None
    define: StoredPart | None = None


class PartWriter:
    """A writer of a part to the store. Call `finish` or `abandon` at the end."""

    def __init__(self, store: ContentStore, object_name: str) -> None:
        self._object_name = object_name
        self._object: AbstractContextManager[ObjectWriter] = store.create(object_name)
        self._measured = Measured(self._object.__enter__())

    def write(self, piece: memoryview) -> None:
        """Write the next bytes."""
        self._measured.write(piece)

    def finish(self, name: str, file_name: str | None, content_type: str) -> StoredPart:
        """Keep the object and return the part."""
        self._object.__exit__(None, None, None)
        measured = self._measured
        return StoredPart(name, file_name, content_type, self._object_name, measured.size, measured.sha256)

    def abandon(self) -> None:
        """Remove the written bytes."""
        error = _Abandoned()
        with suppress(_Abandoned):
            self._object.__exit__(_Abandoned, error, None)


class _Abandoned(Exception):
    """An error that makes the store remove an object; `abandon` catches it."""
