"""The parts of an upload, as objects of the content store, and the recognition of their kind."""

import re
from collections.abc import Collection
from contextlib import AbstractContextManager, suppress
from typing import NamedTuple

from app.model.attachment import AttachmentKind
from app.ports import ContentStore, ObjectWriter
from app.service.content.stored_content import Measured, opened
from app.tables.read.file_formats import table_format

_FOLDERS = re.compile(r"[/\\]")


_HEAD_BYTES = 1 << 20
_LONGEST_CHARACTER = 4
_TEXT_TYPES = re.compile(r"text/|application/(json|xml|javascript|yaml)\b")


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
    """Files that describe the file of a data set: a catalog of value labels, and a define.xml."""

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


def kind_of_part(store: ContentStore, part: StoredPart, kinds: Collection[AttachmentKind]) -> AttachmentKind:
    """Return the kind of a stored file, for a destination that takes these kinds.

    A table in a format that can be recognised is a data set. UTF-8 without NUL, and everything that its media type
    calls text, is a text file; all else is a binary file. A table is sent as a file where a destination takes no data
    sets. If the destination takes none of this, the result is what the content is.
    """
    with opened(store, part.object_name) as file:
        head = file.read(_HEAD_BYTES)
    is_text = bool(_TEXT_TYPES.match(part.content_type)) or _is_text(head)
    found = [AttachmentKind.DATA_SET] if table_format(head) else []
    found += [AttachmentKind.TEXT_FILE] if is_text else []
    found += [AttachmentKind.BINARY_FILE]
    return next((kind for kind in found if kind in kinds), found[0])


def _is_text(head: bytes) -> bool:
    """Tell whether there are bytes, in UTF-8 without NUL. A character that is cut off at the end is ignored."""
    if not head:
        return False
    try:
        head.decode()
    except UnicodeDecodeError as error:
        is_cut = len(head) == _HEAD_BYTES and error.start > len(head) - _LONGEST_CHARACTER
        return is_cut and b"\0" not in head
    return b"\0" not in head
