"""Objects that are written together: they become durable and get their names at the end, all at once.

Each object by itself costs two flushes of a disk, or a request that takes some tens of milliseconds. Many small ones
share the flushes, and their requests are made at the same time.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Protocol

from app.ports import ContentStore, ObjectWriter

SMALL = 1 << 20
"""The size in bytes up to which an object is written together with others. A larger one is written by itself."""

PIECE = 1 << 20


class Target(Protocol):
    """The place where small objects wait for the end."""

    def put(self, name: str, data: bytes) -> None:
        """Take a whole object; replace one of the same name."""

    def drop(self, name: str) -> None:
        """Forget the object of this name that waits, if there is one."""

    def get(self, name: str) -> bytes | None:
        """Return the object of this name that waits; None if there is none."""


class PendingObjects:
    """A `ContentStore` whose new small objects wait in a target. All others are in `store`."""

    def __init__(self, store: ContentStore, target: Target) -> None:
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

    @contextmanager
    def create(self, name: str) -> "Iterator[_Writer]":
        with ExitStack() as stack:

            def create_large() -> ObjectWriter:
                self._target.get(name)  # a smaller one that is still being written must not come after this one
                return stack.enter_context(self._store.create(name))

            writer = _Writer(create_large)
            yield writer
        if (data := writer.held()) is not None:
            self._latest = name, data
            self._target.put(name, data)
        else:
            self._forget(name)

    def together(self) -> AbstractContextManager[ContentStore]:
        return self._store.together()

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

    def delete(self, name: str) -> None:
        self._forget(name)
        self._store.delete(name)

    def delete_all(self, names: Sequence[str]) -> None:
        for name in names:
            self._forget(name)
        self._store.delete_all(names)

    def names(self, prefix: str = "") -> Iterator[str]:
        return self._store.names(prefix)


class _Writer:
    """An object that is held while it is small, and goes to a writer of its own once it is not."""

    def __init__(self, open_large: Callable[[], ObjectWriter]) -> None:
        self._open_large = open_large
        self._large: ObjectWriter | None = None
        self._held: list[bytes] = []
        self._size = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._large is not None:
            self._large.write(data)
            return
        self._held.append(bytes(data))
        self._size += len(data)
        if self._size > SMALL:
            self._large = self._open_large()
            for each in self._held:
                self._large.write(each)
            self._held = []

    def held(self) -> bytes | None:
        """Return all bytes of a small object; None for a large one."""
        return b"".join(self._held) if self._large is None else None
