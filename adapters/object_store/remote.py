"""Objects in a bucket, through obstore."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import obstore
from obstore.exceptions import BaseError
from obstore.store import ObjectStore

from app.model.errors import DamagedError, GatewayError

PIECE = 1 << 20

_PART = 8 << 20
_PARTS_AT_ONCE = 4
DELETED_AT_ONCE = 1000


class RemoteObjects:
    """A `ContentStore` in a bucket, for names that have been checked.

    An object of more than one part is a multipart upload. An abandoned upload is never visible, but its parts stay in
    the bucket until the bucket's rule for incomplete uploads removes them.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    @contextmanager
    def create(self, name: str) -> "Iterator[_Upload]":
        writer = obstore.open_writer(self._store, name, buffer_size=_PART, max_concurrency=_PARTS_AT_ONCE)
        upload = _Upload(name, writer)
        yield upload
        upload.complete()

    def size(self, name: str) -> int:
        with _explained(name):
            return obstore.head(self._store, name)["size"]

    def read(self, name: str, offset: int = 0, length: int | None = None) -> Iterator[memoryview]:
        size = self.size(name)
        end = size if length is None else min(size, offset + length)
        return self._pieces(name, offset, end) if offset < end else iter(())

    def _pieces(self, name: str, offset: int, end: int) -> Iterator[memoryview]:
        with _explained(name):
            for chunk in obstore.get(self._store, name, options={"range": (offset, end)}).stream(min_chunk_size=PIECE):
                view = memoryview(chunk)
                offset += len(view)
                yield from (view[at : at + PIECE] for at in range(0, len(view), PIECE))
        if offset < end:
            raise DamagedError(f"the object {name} ends at byte {offset}, before byte {end}", name=name)

    def local_path(self, name: str) -> str | None:  # noqa: ARG002
        return None

    def delete(self, name: str) -> None:
        with suppress(KeyError), _explained(name):
            obstore.delete(self._store, name)

    def delete_all(self, names: Sequence[str]) -> None:
        for at in range(0, len(names), DELETED_AT_ONCE):
            some = list(names[at : at + DELETED_AT_ONCE])
            try:
                with _explained(some[0]):
                    obstore.delete(self._store, some)
            except KeyError:  # a store that refuses to delete missing objects
                for name in some:
                    self.delete(name)

    def names(self, prefix: str = "") -> Iterator[str]:
        folder = prefix.rpartition("/")[0]
        with _explained(prefix):
            for page in obstore.list(self._store, folder or None):
                yield from (found["path"] for found in page if found["path"].startswith(prefix))


class _Upload:
    """An object being uploaded."""

    def __init__(self, name: str, writer: "obstore.WritableFile") -> None:
        self._name, self._writer = name, writer

    def write(self, data: bytes | bytearray | memoryview) -> None:
        with _explained(self._name):
            self._writer.write(
                bytes(data)
            )  # obstore keeps the bytes that it is given, and the caller may change its buffer

    def complete(self) -> None:
        with _explained(self._name):
            self._writer.close()


@contextmanager
def _explained(name: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise KeyError(name) from None
    except (BaseError, OSError) as error:
        raise GatewayError(f"the content store failed for object {name}: {error}") from error
