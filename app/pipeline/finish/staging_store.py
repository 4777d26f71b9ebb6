"""A content store that writes beside the objects that exist, so that a reader never sees content change."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress

from app.ports import ContentStore
from app.ports.content_store import ObjectWriter

PREFIX = "pipeline/again/"
"""The beginning of the names of objects that were written beside others."""


class BesideStore:
    """A `ContentStore` that gives an object another name if its name is taken. It finds it again by either name."""

    def __init__(self, store: ContentStore) -> None:
        self._store = store
        self._beside: dict[str, str] = {}

    def beside(self, name: str) -> str | None:
        """Return the name that an object got here instead; None if it has its own."""
        return self._beside.get(name)

    def create(self, name: str) -> AbstractContextManager[ObjectWriter]:
        with suppress(KeyError):
            self._store.size(name)
            self._beside[name] = PREFIX + name
        return self._store.create(self._beside.get(name, name))

    @contextmanager
    def batch(self) -> Iterator["BesideStore"]:
        with self._store.batch() as store:
            inside = BesideStore(store)
            inside._beside = self._beside
            yield inside

    def size(self, name: str) -> int:
        return self._store.size(self._beside.get(name, name))

    def read(self, name: str, offset: int = 0, length: int | None = None) -> Iterator[memoryview]:
        return self._store.read(self._beside.get(name, name), offset, length)

    def local_path(self, name: str) -> str | None:
        return self._store.local_path(self._beside.get(name, name))

    def delete(self, name: str) -> None:
        self._store.delete(self._beside.get(name, name))

    def delete_all(self, names: Sequence[str]) -> None:
        self._store.delete_all([self._beside.get(name, name) for name in names])

    def names(self, prefix: str = "") -> Iterator[str]:
        return self._store.names(prefix)
