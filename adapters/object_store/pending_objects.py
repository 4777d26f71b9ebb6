"""Objects that are written as a batch: they become durable and get their names at the end, all at once.

Each object by itself costs two flushes of a disk, or a request that takes some tens of milliseconds. Many small ones
share the flushes, and their requests are made at the same time.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Protocol

from app.ports import ContentStore, ObjectFile, ObjectWriter

SMALL = 1 << 20
"""The size in bytes up to which an object is written in a batch. A larger one is written by itself."""

PIECE = 1 << 20


class PendingTarget(Protocol):
    """The place where small objects wait for the end."""

    def put(self, name: str, data: bytes) -> None:
        """Add a whole object; replace one of the same name."""

    def drop(self, name: str) -> None:
        """Forget the object of this name that waits, if there is one."""

    def get(self, name: str) -> bytes | None:
        """Return the object of this name that waits; None if there is none."""


class PendingObjects:
    """A `ContentStore` whose new small objects wait in a target. All others are in `store`."""

    def __init__(self, store: ContentStore, target: PendingTarget) -> None:
        self._store, self._target = store, target
        self._latest = "", b""

    def _get(self, name: str) -> bytes | None:
        """Return a small object that waits: the last one is often read at once."""
        latest, data = self._latest
        return data if latest == name else self._target.get(name)

    def _forget(self, name: str) -> None:
        if self._latest[0] == name:
            self._latest = "", b""
        self._target.drop(name)

    def create(self, name: str) -> "_Creation":
        return _Creation(self, name)

    def create_large(self, name: str) -> AbstractContextManager[ObjectWriter]:
        """Create an object by itself."""
        self._target.get(name)  # a smaller one that is still being written must not come after this one
        return self._store.create(name)

    def created(self, name: str, data: bytes | None) -> None:
        """Take a small object, or note that a large one has been written."""
        if data is not None:
            self._latest = name, data
            self._target.put(name, data)
        else:
            self._forget(name)

    def batch(self) -> AbstractContextManager[ContentStore]:
        return self._store.batch()

    def size(self, name: str) -> int:
        data = self._get(name)
        return self._store.size(name) if data is None else len(data)

    def read(self, name: str, offset: int = 0, length: int | None = None) -> Iterator[memoryview]:
        data = self._get(name)
        if data is None:
            return self._store.read(name, offset, length)
        view = memoryview(data)[offset : None if length is None else offset + length]
        return (view[at : at + PIECE] for at in range(0, len(view), PIECE))

    def local_path(self, name: str) -> str | None:
        return None if self._get(name) is not None else self._store.local_path(name)

    def open_file(self, name: str) -> ObjectFile | None:
        return None if self._get(name) is not None else self._store.open_file(name)

    def delete(self, name: str) -> None:
        self._forget(name)
        self._store.delete(name)

    def delete_all(self, names: Sequence[str]) -> None:
        for name in names:
            self._forget(name)
        self._store.delete_all(names)

    def names(self, prefix: str = "") -> Iterator[str]:
        return self._store.names(prefix)


class _Creation:
    """An object that is held while it is small, and goes to a writer of its own once it is not.

    It is its own writer and context: there is one for each small object, and a generator for each takes longer.
    """

    __slots__ = ("_held", "_large", "_name", "_objects", "_size", "_writer")

    def __init__(self, objects: PendingObjects, name: str) -> None:
        self._objects, self._name = objects, name
        self._large: AbstractContextManager[ObjectWriter] | None = None
        self._writer: ObjectWriter | None = None
        self._held: list[bytes] = []
        self._size = 0

    def __enter__(self) -> "_Creation":
        return self

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._writer is not None:
            self._writer.write(data)
            return
        self._held.append(bytes(data))
        self._size += len(data)
        if self._size > SMALL:
            large = self._objects.create_large(self._name)
            self._writer = large.__enter__()
            self._large = large
            for each in self._held:
                self._writer.write(each)
            self._held = []

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._large is not None:
            self._large.__exit__(kind, error, trace)
        if error is None:
            self._objects.created(self._name, b"".join(self._held) if self._large is None else None)
