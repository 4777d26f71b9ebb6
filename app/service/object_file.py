"""Content as seekable files."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from app.ports import ContentStore
from app.service.content.access import Content, StoredContent

READ_BYTES = 1 << 20


@contextmanager
def opened(store: ContentStore, name: str) -> Iterator[BinaryIO]:
    """An object, read from any place. Raises KeyError when there is none."""
    path = store.local_path(name)
    if path is not None:
        with Path(path).open("rb") as file:
            yield file
    else:
        content = StoredContent(store, name, store.size(name))
        with io.BufferedReader(ContentFile(content), READ_BYTES) as buffered:
            yield buffered


class ContentFile(io.RawIOBase):
    """Content as a file that is read from any place."""

    def __init__(self, content: Content) -> None:
        self._content, self._at = content, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        self._at = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._content.size}[whence] + offset
        return self._at

    def readinto(self, buffer: Any, /) -> int:
        taken = min(len(buffer), max(self._content.size - self._at, 0))
        at = 0
        for piece in self._content.read(self._at, taken):
            buffer[at : at + len(piece)] = piece
            at += len(piece)
        self._at += at
        return at
