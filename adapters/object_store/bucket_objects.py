"""Objects in a bucket, through obstore."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import obstore
from obstore.exceptions import BaseError
from obstore.store import ObjectStore

from adapters.object_store.pending_objects import PendingObjects
from adapters.storage_places import delete_objects
from app.model.errors import DamagedError, GatewayError

PIECE = 1 << 20

_PART = 8 << 20
_PARTS_AT_ONCE = 4
PUT_AT_ONCE = 32
"""The number of small objects that are uploaded at the same time. A request takes some tens of milliseconds, most of
them waiting."""


class BucketObjects:
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

    @contextmanager
    def batch(self) -> Iterator[PendingObjects]:
        with ThreadPoolExecutor(PUT_AT_ONCE, "put") as pool:
            uploads = _Uploads(self._store, pool)
            try:
                yield PendingObjects(self, uploads)
                uploads.complete()
            finally:
                pool.shutdown(cancel_futures=True)

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

    def open_file(self, name: str) -> None:  # noqa: ARG002
        return None

    def delete(self, name: str) -> None:
        self.delete_all([name])

    def delete_all(self, names: Sequence[str]) -> None:
        if names:
            with _explained(names[0]):
                delete_objects(self._store, names)

    def names(self, prefix: str = "") -> Iterator[str]:
        folder = prefix.rpartition("/")[0]
        with _explained(prefix):
            for page in obstore.list(self._store, folder or None):
                yield from (found["path"] for found in page if found["path"].startswith(prefix))


class _Uploads:
    """Small objects that are being uploaded, in the order in which they came."""

    def __init__(self, store: ObjectStore, pool: ThreadPoolExecutor) -> None:
        self._store, self._pool = store, pool
        self._running: OrderedDict[str, Future[None]] = OrderedDict()

    def put(self, name: str, data: bytes) -> None:
        self.drop(name)
        if len(self._running) >= 2 * PUT_AT_ONCE:
            self._running.popitem(last=False)[1].result()
        self._running[name] = self._pool.submit(self._put, name, data)

    def drop(self, name: str) -> None:
        """Wait for the upload of an object that is replaced or deleted next."""
        if (upload := self._running.pop(name, None)) is not None:
            upload.result()

    def get(self, name: str) -> None:
        """Wait until the object can be read from the store."""
        self.drop(name)

    def complete(self) -> None:
        while self._running:
            self._running.popitem(last=False)[1].result()

    def _put(self, name: str, data: bytes) -> None:
        try:
            obstore.put(self._store, name, data, use_multipart=False)
        except (BaseError, OSError) as error:  # a missing bucket is no missing object
            raise _failed(name, error) from error


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
        raise _failed(name, error) from error


def _failed(name: str, error: Exception) -> GatewayError:
    return GatewayError(f"the content store failed for object {name}: {error}")
