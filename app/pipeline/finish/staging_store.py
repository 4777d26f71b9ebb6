"""A content store that never overwrites an object, so that a reader never sees content change."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress

from app.ports import ContentStore
from app.ports.content_store import ObjectWriter

PREFIX = "pipeline/again/"
"""The beginning of the names of staged objects."""


class StagingStore:
    """A `ContentStore` that stages an object under another name if its name is taken, and finds it by either name."""

    def __init__(self, store: ContentStore) -> None:
        self._store = store
        self._staged: dict[str, str] = {}

    def staged_name(self, name: str) -> str | None:
        """Return the other name under which an object was staged; None if it has its own."""
        return self._staged.get(name)

    def create(self, name: str) -> AbstractContextManager[ObjectWriter]:
        with suppress(KeyError):
            self._store.size(name)
            self._staged[name] = PREFIX + name
        return self._store.create(self._staged.get(name, name))

    @contextmanager
    def batch(self) -> Iterator["StagingStore"]:
        with self._store.batch() as store:
            inside = StagingStore(store)
            inside._staged = self._staged
            yield inside

    def size(self, name: str) -> int:
        return self._store.size(self._staged.get(name, name))

    def read(self, name: str, offset: int = 0, length: int | None = None) -> Iterator[memoryview]:
        return self._store.read(self._staged.get(name, name), offset, length)

    def local_path(self, name: str) -> str | None:
        return self._store.local_path(self._staged.get(name, name))

    def delete(self, name: str) -> None:
        self._store.delete(self._staged.get(name, name))

    def delete_all(self, names: Sequence[str]) -> None:
        self._store.delete_all([self._staged.get(name, name) for name in names])

    def names(self, prefix: str = "") -> Iterator[str]:
        return self._store.names(prefix)
