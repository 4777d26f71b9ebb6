"""Storage of tables in a local folder. Files are flushed to disk before they count."""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from time import time
from typing import Any

from adapters.delta_tables.table_storage import LOG, explained
from adapters.disk import make_folders, sync_folder

_PARTIAL = ".partial-"
_MISREAD = re.compile(r"[%\\\x00-\x1f\x7f]")


class LocalStorage:
    """A folder, created with the first table.

    Raises ValueError for a path with a percent sign, a backslash or a control character: the library that reads logs
    would read another path.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()
        if _MISREAD.search(str(self._folder)):
            raise ValueError(
                f"no table store at {folder}: its path has a percent sign, a backslash or a control character"
            )

    def folders(self) -> Iterator[str]:
        with explained():
            for log in self._folder.glob(f"*/{LOG}"):
                if any(log.glob("*.json")):
                    yield log.parent.name

    def location(self, folder: str) -> str:
        return str(self._folder / folder)

    @contextmanager
    def create(self, path: str) -> Iterator[Any]:
        target = self._folder / path
        with explained():
            make_folders(target.parent)
            try:
                with target.open("xb") as file:
                    yield file
                    file.flush()
                    os.fsync(file.fileno())
            except BaseException:
                target.unlink(missing_ok=True)
                raise
            sync_folder(target.parent)

    def size(self, path: str) -> int:
        with explained():
            return (self._folder / path).stat().st_size

    def has(self, path: str) -> bool:
        return (self._folder / path).exists()

    def may_have_log(self, folder: str) -> bool:
        with explained():
            return (self._folder / folder / LOG).is_dir()

    def put_new(self, path: str, data: bytes) -> bool:
        target = self._folder / path
        partial = target.with_name(_PARTIAL + token_hex(16))
        with explained():
            make_folders(target.parent)
            try:
                with partial.open("xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                target.hardlink_to(partial)
            except FileExistsError:
                # NFS repeats a request whose answer was lost. What is there may be this very file, linked before.
                if not target.samefile(partial):
                    return False
            finally:
                partial.unlink(missing_ok=True)
            sync_folder(target.parent)
        return True

    def open(self, path: str) -> AbstractContextManager[Any]:
        with explained():
            return (self._folder / path).open("rb")

    def flush(self, paths: Iterable[str]) -> None:
        with explained():
            for path in map(self._folder.joinpath, paths):
                with suppress(FileNotFoundError), path.open("rb") as file:
                    os.fsync(file.fileno())
                sync_folder(path.parent)

    def files(self, folder: str) -> list[str]:
        with explained():
            return [path.name for path in (self._folder / folder).iterdir() if path.is_file()]

    def delete(self, path: str) -> None:
        with explained():
            (self._folder / path).unlink(missing_ok=True)

    def sweep(self, folder: str, older_than: float) -> None:
        with explained():
            for path in (self._folder / folder / LOG).glob(f"{_PARTIAL}*"):
                with suppress(FileNotFoundError):
                    if time() - path.stat().st_mtime >= older_than:
                        path.unlink()
