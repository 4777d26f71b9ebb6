"""The content store: a local folder, or a bucket that obstore reaches by URL."""

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from pathlib import Path

from adapters.object_store.bucket_objects import BucketObjects
from adapters.object_store.local_objects import LocalObjects
from adapters.storage_places import bucket, check_place, local_folder
from app.ports import ContentStore, ObjectFile, ObjectWriter

__all__ = ["ObjectStore"]

_NAME = re.compile(r"[A-Za-z0-9_=-][A-Za-z0-9._=-]{0,254}(/[A-Za-z0-9_=-][A-Za-z0-9._=-]{0,254})*", re.ASCII)


class ObjectStore:
    """A `ContentStore` by URL.

    A path or `file://` is a local folder, created if it is missing. `s3://`, `gs://` and `az://` are buckets; their
    credentials come from the environment variables of the providers' own tools. `memory://` is for tests.

    No part of an object's name may begin with a dot. Raises ValueError for an unknown URL or an invalid name.
    """

    def __init__(self, url: str | Path) -> None:
        folder = local_folder(url)
        self._objects: ContentStore = BucketObjects(bucket(str(url))) if folder is None else LocalObjects(folder)

    @staticmethod
    def check_url(url: str) -> None:
        check_place(url)

    def create(self, name: str) -> AbstractContextManager[ObjectWriter]:
        return self._objects.create(_checked(name))

    @contextmanager
    def batch(self) -> "Iterator[ObjectStore]":
        with self._objects.batch() as objects:
            store = copy(self)
            store._objects = objects
            yield store

    def size(self, name: str) -> int:
        return self._objects.size(_checked(name))

    def read(self, name: str, offset: int = 0, length: int | None = None) -> Iterator[memoryview]:
        return self._objects.read(_checked(name), offset, length)

    def local_path(self, name: str) -> str | None:
        return self._objects.local_path(_checked(name))

    def open_file(self, name: str) -> ObjectFile | None:
        return self._objects.open_file(_checked(name))

    def delete(self, name: str) -> None:
        self._objects.delete(_checked(name))

    def delete_all(self, names: Sequence[str]) -> None:
        self._objects.delete_all([_checked(name) for name in names])

    def names(self, prefix: str = "") -> Iterator[str]:
        """Return names in no particular order; `prefix` may end within a word."""
        return self._objects.names(prefix)


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"invalid object name: {name!r}")
    return name
