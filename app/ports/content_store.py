"""The content store: finished content as named objects."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol


class ObjectWriter(Protocol):
    """An object being written."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append bytes to the object."""


class ObjectFile(Protocol):
    """The open file of an object. It stays readable when the object is replaced or deleted."""

    def fileno(self) -> int:
        """Return the descriptor of the file, which closes it with this object."""

    def version(self) -> tuple[int, ...]:
        """Return numbers of which one differs for each other file, and once the file has been changed.

        There are none while its last change is so recent that the next may get the same time.
        """

    def read(self, start: int, end: int) -> memoryview:
        """Return bytes [start, end). Raises DamagedError if they cannot be read, or if the file has become shorter."""

    def is_cached(self, start: int, end: int) -> bool:
        """Tell whether the system has the first and the last of these bytes in memory. False where it cannot tell."""


class ContentStore(Protocol):
    """Objects by name. Names consist of letters, digits, `-`, `_`, `=`, `.` and `/`; the gateway makes them itself.

    An object is written whole and then named: readers never see an incomplete object, and it is on disk when named.
    """

    def create(self, name: str) -> AbstractContextManager[ObjectWriter]:
        """Write an object: it gets its name if the block ends normally and is discarded if the block raises. An
        existing object of that name is replaced."""

    def batch(self) -> AbstractContextManager["ContentStore"]:
        """Write many objects at once, which costs less than one after the other.

        The block gets a store for one thread, which reads what it has created. All objects that it creates are durable
        and visible when the block ends. They may be visible earlier. If the block raises, some may not exist.
        """

    def size(self, name: str) -> int:
        """Return the size of an object in bytes. Raises KeyError if there is no such object."""

    def read(self, name: str, offset: int = 0, length: int | None = None) -> Iterator[memoryview]:
        """Return the bytes from `offset` on, in pieces of about 1 MiB.

        Raises KeyError if there is no such object. Raises DamagedError if bytes cannot be read, or if the object has
        become shorter since the call.
        """

    def local_path(self, name: str) -> str | None:
        """Return the path of an object's file if the store is a local folder, else None."""

    def open_file(self, name: str) -> ObjectFile | None:
        """Open the file of an object if the store is a local folder, else return None.

        Raises KeyError if there is no such object.
        """

    def delete(self, name: str) -> None:
        """Delete an object, if it exists."""

    def delete_all(self, names: Sequence[str]) -> None:
        """Delete the existing ones of these objects."""

    def names(self, prefix: str = "") -> Iterator[str]:
        """Return the names of all objects whose name begins with `prefix`."""


class ContentStorePlugin(Protocol):
    """The object that an entry point of the group `attachment_gateway.content_stores` refers to."""

    def __call__(self, url: str | Path, /) -> ContentStore:
        """Open the content store in a folder or at a URL."""

    def check_url(self, url: str) -> None:
        """Raise ValueError for a URL at which no content store can be. Nothing is opened."""
