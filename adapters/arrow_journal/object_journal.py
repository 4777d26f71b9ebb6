"""The journal of a receiver without a disk of its own: each append is an object in the place of the archive.

An object is a whole segment. Several are put at once, and one counts when the store has it and all before it. So a
message is acknowledged after one put. The receiver soon publishes several objects as one segment of the shared journal,
and removes them.

The objects of a receiver that was killed are published by another one, as far as none is missing: nothing behind a gap
was acknowledged. Then that one takes the next number itself, with an object that is no segment (`ArrowArchive.fence`).
The store gives each number once. So a receiver that was only paused cannot fill the gap, and nothing that it adds
behind the fence counts. A fence is never removed.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from secrets import token_hex
from threading import Lock

from adapters.arrow_journal.archive import ArrowArchive, is_fence
from adapters.arrow_journal.arrow_ipc import END_OF_STREAM
from adapters.arrow_journal.batch_columns import Encoded, place, positions_of, prepare_all
from adapters.arrow_journal.position_reader import PositionReader
from adapters.arrow_journal.segment_files import SegmentState
from adapters.arrow_journal.segment_header import header_bytes, seed_of
from adapters.arrow_journal.segment_storage import CACHE_BYTES
from adapters.disk import ReadFile, make_folders
from adapters.storage_places import local_folder
from app.model.errors import GatewayError, JournalTaken
from app.model.message import PhysicalMessage, Position
from app.model.records import JournalIdentity
from app.ports import Segment

KEPT_BYTES = 128 << 20
"""The bytes of objects that are kept in memory until they are published. Others are fetched again."""
MOST_APPENDS = 4
"""How many objects are put at once. A store answers after some 10 to 100 ms, which the next ones need not wait for."""
UNLIMITED = 1 << 62
"""In place of the free bytes of a disk: a store says nothing of its own."""


class ObjectJournal(ArrowArchive):
    """A `WritableJournal` of objects in a folder or bucket of its own within `place`; each one is new.

    The lock `_writing` guards `_next`, `_last`, `_ahead` and `_end`, and `_keeping` guards `_kept` and `_kept_bytes`.
    """

    def __init__(self, place: str, cache: Path | None = None, cache_bytes: int = CACHE_BYTES) -> None:
        self._own = JournalIdentity(token_hex(16), 1)
        url = self.place(place, self._own.id)
        if (folder := local_folder(url)) is not None:
            make_folders(folder)
        super().__init__(url, cache, cache_bytes)
        self._writing = Lock()
        self._next = 1
        self._last = 0
        """The last number up to which the store has all objects."""
        self._ahead: dict[int, tuple[SegmentState, Position]] = {}
        """Objects that the store has before an earlier one, each with the position of its last message."""
        self._end: Position | None = None
        self._keeping = Lock()
        self._kept: dict[int, bytes] = {}
        self._kept_bytes = 0

    @property
    def most_appends(self) -> int:
        return MOST_APPENDS

    @staticmethod
    def place(archive: str, journal: str) -> str:
        return f"{archive.rstrip('/')}/receivers/{journal}"

    def identity(self) -> JournalIdentity:
        return self._own

    def segments(self) -> list[Segment]:
        """Return the objects that this process has added: nobody else does."""
        return PositionReader.segments(self)

    def end(self) -> Position | None:
        return self._end

    def prepare(self, messages: Sequence[PhysicalMessage]) -> Sequence[Encoded]:
        return prepare_all(messages)

    def begin_append(
        self, messages: Sequence[PhysicalMessage], prepared: Sequence[Encoded] | None = None
    ) -> Callable[[], list[Position]]:
        batches = self.prepare(messages) if prepared is None else prepared
        with self._writing:
            number, now = self._next, self._now()
            seed = seed_of(self._own.id, number)
            for at, batch in enumerate(batches):
                place(batch, Position(number, at, 0), seed)
            header = header_bytes(now, self._own)
            data = b"".join((header, *chain.from_iterable(batch.buffers() for batch in batches), END_OF_STREAM))
            self._next = number + 1
        return partial(self._put, number, data, now, positions_of(messages, number, 0))

    def reserve(self, segment: int) -> None:
        with self._writing:
            self._next, self._last = max(self._next, segment + 1), max(self._last, segment)

    def seal(self, age: float = 0.0) -> None:
        """Do nothing: every object is sealed."""

    def retire(self, *segments: int) -> None:
        self.remove(*segments)

    def free_bytes(self) -> int:
        return UNLIMITED

    def close(self) -> None:
        """Do nothing: no file is held."""

    def _put(self, number: int, data: bytes, now: int, positions: list[Position]) -> list[Position]:
        """Put an object; the store may have it from an earlier call whose answer was lost. Raises JournalTaken if
        somebody else has taken the number."""
        if self._storage.add(number, [data]):
            state = SegmentState(number, len(data), now, now, version=self._own.id)
            with self._keeping:  # the bytes are read again when the object is published
                self._kept[number] = data
                self._kept_bytes += len(data)
                while self._kept_bytes > KEPT_BYTES:
                    self._kept_bytes -= len(self._kept.pop(next(iter(self._kept))))
        else:
            try:
                state = self._storage.find(number)
            except KeyError:  # another receiver has published it since, and now finds out that this one is at work
                raise GatewayError(f"{self._storage.path(number)} was removed while it was put") from None
            if is_fence(state):
                raise JournalTaken(
                    f"another receiver has taken {self._storage.path(number)}, as this one was away for too long: it "
                    "must be started again, and receives what it has not acknowledged"
                )
        with self._writing:
            self._ahead[number] = state, positions[-1]
            while (following := self._last + 1) in self._ahead:
                self._found[following], self._end = self._ahead.pop(following)
                self._last = following
        return positions

    def _open(self, state: SegmentState) -> ReadFile:
        with self._keeping:
            data = self._kept.pop(state.number, None)
            self._kept_bytes -= len(data or b"")
        if data is not None:
            with suppress(GatewayError):  # a full disk: then it is fetched
                self._storage.keep(state, memoryview(data))
        return super()._open(state)
