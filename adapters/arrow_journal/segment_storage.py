"""The storage of an archive's segments: a local folder, an object store, or several of them in one order."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from time import time
from typing import Protocol

import obstore
import structlog
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import ObjectStore

from adapters.arrow_journal.batch_columns import Bytes
from adapters.arrow_journal.segment_cache import FileCache, own_folder
from adapters.arrow_journal.segment_files import SegmentState, segment_files, segment_path
from adapters.disk import ReadFile, UnreadableError, sync_folder, write_whole
from adapters.storage_places import bucket, delete_objects, local_folder
from app.model.errors import GatewayError
from app.model.message import sealed_number, segment_name
from app.model.records import CombinedSegment, JournalIdentity
from app.ports import Order

CACHE_BYTES = 4 << 30
LEFT_SECONDS = 86_400.0
"""The age from which a file that is not complete was left by a process that ended."""

_log = structlog.get_logger(__name__)


class SegmentStorage(Protocol):
    """Sealed segments by number. A segment's state comes from a listing only: its time of creation is the time it was
    sealed."""

    def listing(self) -> dict[int, SegmentState]: ...

    def find(self, number: int) -> SegmentState:
        """Return the state of a segment. Raises KeyError when it is missing."""

    def open(self, state: SegmentState) -> ReadFile:
        """Open the whole file. Raises KeyError when it is gone."""

    def start(self, state: SegmentState, length: int) -> bytes:
        """Return the first `length` bytes of the file, fewer when it is shorter. Raises KeyError when it is gone."""

    def add(self, number: int, pieces: Iterable[Bytes]) -> bool:
        """Write the file of a segment durably. Return False if there is one, which stays as it is."""

    def keep(self, state: SegmentState, data: memoryview) -> None:
        """Keep what was just added where it can be read without being fetched."""

    def remove(self, *numbers: int) -> None:
        """Delete the files of segments that are there; those of a bucket by few requests."""

    def drop_copy(self, state: SegmentState, file: ReadFile) -> bool:
        """Delete the local copy of a segment, which has damage and is open as `file`.

        Return whether opening the segment again may give other bytes. Only the first call for a segment returns True.
        """

    def path(self, number: int) -> str:
        """Return the path or URL of a segment, for people."""


def segments_at(place: str | Path, cache: Path | None, cache_bytes: int) -> SegmentStorage:
    """Return the segments in a folder, or at the URL of an object store, which are kept in the folder `cache`.

    Raises GatewayError when the folder is missing and ValueError for an unknown URL.
    """
    if (folder := local_folder(place)) is not None:
        return FolderSegments(folder)
    url = str(place)
    files = FileCache(cache or own_folder(sha256(url.encode()).hexdigest()[:32]), cache_bytes)
    return BucketSegments(url, bucket(url), files)


class FolderSegments:
    """Segments of a local folder, read in place."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()
        self._waited_for = 0
        self._is_cleared = False
        if not folder.is_dir():
            raise GatewayError(f"no journal at {folder}: no such folder")

    def listing(self) -> dict[int, SegmentState]:
        """Return the segments before the first unsealed one: a reader that reads in order must not skip that one."""
        states: dict[int, SegmentState] = {}
        before, files = None, list(segment_files(self._folder))
        while files != before:  # one listing may miss a file that is just being renamed
            before, files = files, list(segment_files(self._folder))
        for number, sealed, path in files:
            if not sealed:
                last = files[-1][0]
                if number < last and number != self._waited_for:
                    self._waited_for = number
                    _log.warning(
                        "unsealed_segment_found",
                        segment=number,
                        last=last,
                        folder=str(self._folder),
                        effect="segments after it are not read",
                    )
                break
            with suppress(FileNotFoundError):
                states[number] = _state(number, path)
        return states

    def find(self, number: int) -> SegmentState:
        try:
            return _state(number, self._path(number))
        except FileNotFoundError:
            raise KeyError(number) from None

    def open(self, state: SegmentState) -> ReadFile:
        with self._explained(state.own_number):
            return ReadFile(self._path(state.own_number))

    def start(self, state: SegmentState, length: int) -> bytes:
        with self._explained(state.own_number):
            return ReadFile(self._path(state.own_number)).read(0, min(state.size, length))

    def add(self, number: int, pieces: Iterable[Bytes]) -> bool:
        if not self._is_cleared:
            self._clear()
        path = self._path(number)
        partial = path.with_name(f"{path.name}.{token_hex(8)}.partial")
        try:
            write_whole(partial, pieces)
            try:
                os.link(partial, path)
            except FileExistsError:
                is_added = False
            else:
                is_added = True
            sync_folder(self._folder)  # also if it was there: whoever added it may not have come to this
        except OSError as error:
            raise GatewayError(f"{path} cannot be written: {error}") from error
        finally:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
        return is_added

    def _clear(self) -> None:
        """Remove what killed processes have left. One that is only paused fails when it goes on, and tries again."""
        for left in self._folder.glob("*.arrows.*.partial"):
            with suppress(OSError):
                if left.stat().st_mtime < time() - LEFT_SECONDS:
                    left.unlink()
        self._is_cleared = True

    def keep(self, state: SegmentState, data: memoryview) -> None:
        """Do nothing: segments of a folder are read in place."""

    def remove(self, *numbers: int) -> None:
        for number in numbers:
            try:
                self._path(number).unlink(missing_ok=True)
            except OSError as error:
                raise GatewayError(f"{self.path(number)} cannot be deleted: {error}") from error

    def drop_copy(self, state: SegmentState, file: ReadFile) -> bool:  # noqa: ARG002
        """Return False: segments of a folder are read in place."""
        return False

    @contextmanager
    def _explained(self, number: int) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise KeyError(number) from None
        except (OSError, UnreadableError) as error:
            raise GatewayError(f"{self.path(number)} cannot be read: {error}") from error

    def path(self, number: int) -> str:
        return str(self._path(number))

    def _path(self, number: int) -> Path:
        return segment_path(self._folder, number, sealed=True)


def _state(number: int, path: Path) -> SegmentState:
    status = path.stat()
    modified = status.st_mtime_ns // 1000
    return SegmentState(number, status.st_size, modified, modified)


class BucketSegments:
    """Segments of an object store, fetched whole, once for each machine.

    A copy is named by the segment's number and its object's version. So a cache folder never returns the segment of
    another archive, or an object that was replaced.
    """

    def __init__(self, url: str, store: ObjectStore, cache: FileCache) -> None:
        self._url = url
        self._store = store
        self._cache = cache
        self._dropped: set[str] = set()

    def listing(self) -> dict[int, SegmentState]:
        with self._explained(self._url):
            found = obstore.list_with_delimiter(self._store)["objects"]
        numbers = {sealed_number(each["path"].rpartition("/")[2]): each for each in found}
        return {number: self._state(number, numbers[number]) for number in sorted(filter(None, numbers))}

    def find(self, number: int) -> SegmentState:
        with self._explained(number):
            return self._state(number, obstore.head(self._store, segment_name(number)))

    def open(self, state: SegmentState) -> ReadFile:
        name = segment_name(state.own_number)

        def fetch(start: int, end: int) -> memoryview:
            with self._explained(state.own_number):
                return memoryview(obstore.get_range(self._store, name, start=start, end=end))

        return self._cache.open(_copy_name(state), state.size, fetch)

    def add(self, number: int, pieces: Iterable[Bytes]) -> bool:
        try:
            obstore.put(self._store, segment_name(number), b"".join(pieces), mode="create", use_multipart=False)
        except AlreadyExistsError:
            return False
        except (BaseError, OSError) as error:
            raise GatewayError(f"{self.path(number)} cannot be written: {error}") from error
        return True

    def keep(self, state: SegmentState, data: memoryview) -> None:
        self._cache.open(_copy_name(state), state.size, lambda start, end: data[start:end])

    def remove(self, *numbers: int) -> None:
        try:
            delete_objects(self._store, list(map(segment_name, numbers)))
        except (BaseError, OSError) as error:
            raise GatewayError(f"segments of {self._url} cannot be deleted: {error}") from error

    def drop_copy(self, state: SegmentState, file: ReadFile) -> bool:
        name = _copy_name(state)
        if name in self._dropped:
            return False
        self._dropped.add(name)
        self._cache.drop(name, file)
        return True

    def start(self, state: SegmentState, length: int) -> bytes:
        with self._explained(state.own_number):
            end, name = min(state.size, length), segment_name(state.own_number)
            return bytes(obstore.get_range(self._store, name, start=0, end=end)) if end else b""

    def path(self, number: int) -> str:
        return f"{self._url.rstrip('/')}/{segment_name(number)}"

    def _state(self, number: int, found: "obstore.ObjectMeta") -> SegmentState:
        modified = int(found["last_modified"].timestamp() * 1_000_000)
        identifying = (self._url, found["e_tag"], found["version"], modified, found["size"])
        version = sha256(repr(identifying).encode()).hexdigest()[:32]
        return SegmentState(number, found["size"], modified, modified, version=version)

    @contextmanager
    def _explained(self, what: int | str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise KeyError(what) from None
        except (BaseError, OSError) as error:
            path = self.path(what) if isinstance(what, int) else what
            raise GatewayError(f"{path} cannot be read: {error}") from error


class CombinedSegments:
    """A `SegmentStorage` that reads each segment from the archive that it is in.

    It asks for the `order` behind the last number that it knows, whenever it lists segments or is asked for another
    one. An archive is opened when one of its segments is asked for.
    """

    def __init__(self, order: Order, cache: Path | None, cache_bytes: int) -> None:
        self._order, self._cache, self._cache_bytes = order, cache, cache_bytes
        self.journal: JournalIdentity | None = None
        self._places: dict[str, str] = {}
        self._opened: dict[str, SegmentStorage] = {}
        self._origins: dict[int, CombinedSegment] = {}
        self._numbers: dict[tuple[str, int], int] = {}
        self._ask()

    def origin(self, number: int) -> CombinedSegment:
        """Return where a segment comes from. Raises KeyError if its number is not recorded."""
        if number not in self._origins:
            self._ask()
        return self._origins[number]

    def listing(self) -> dict[int, SegmentState]:
        self._ask()
        found: dict[int, SegmentState] = {}
        for journal in self._places:
            for own, state in self._archive(journal).listing().items():
                if (number := self._numbers.get((journal, own))) is not None:
                    found[number] = replace(state, number=number)
        return dict(sorted(found.items()))

    def find(self, number: int) -> SegmentState:
        _, journal, own = self.origin(number)
        return replace(self._archive(journal).find(own), number=number)

    def open(self, state: SegmentState) -> ReadFile:
        return self._archive_of(state.number).open(state)

    def start(self, state: SegmentState, length: int) -> bytes:
        return self._archive_of(state.number).start(state, length)

    def drop_copy(self, state: SegmentState, file: ReadFile) -> bool:
        return self._archive_of(state.number).drop_copy(state, file)

    def path(self, number: int) -> str:
        _, journal, own = self.origin(number)
        return self._archive(journal).path(own)

    def add(self, number: int, pieces: Iterable[Bytes]) -> bool:  # noqa: ARG002
        raise self._only_read()

    def keep(self, state: SegmentState, data: memoryview) -> None:  # noqa: ARG002
        raise self._only_read()

    def remove(self, *numbers: int) -> None:  # noqa: ARG002
        raise self._only_read()

    def _only_read(self) -> GatewayError:
        return GatewayError(
            f"the archives {', '.join(self._places.values())} have one order, in which they are only read: add "
            "segments to one of them, or remove them there"
        )

    def _ask(self) -> None:
        found = self._order(max(self._origins, default=0))
        if found is None:
            return
        self.journal = found.journal
        self._places = dict(found.places)
        for each in found.segments:
            self._numbers[each.journal, each.segment] = each.number
            self._origins[each.number] = each

    def _archive_of(self, number: int) -> SegmentStorage:
        return self._archive(self.origin(number).journal)

    def _archive(self, journal: str) -> SegmentStorage:
        if journal not in self._opened:
            cache = self._cache
            if cache is None and self.journal is not None:
                cache = own_folder(self.journal.id)
            self._opened[journal] = segments_at(self._places[journal], cache, self._cache_bytes)
        return self._opened[journal]


def _copy_name(state: SegmentState) -> str:
    return f"{state.own_number:010}-{state.version}.arrows"
