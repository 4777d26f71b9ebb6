"""The journal of a receiver without a disk of its own: each append is an object in the place of the archive.

An object is a whole segment. It counts when the store has it, so a message is acknowledged after one put. The receiver
soon publishes several objects as one segment of the shared journal, and removes them.

The objects of a receiver that was killed are published by another one. Then that one takes the next number itself, with
an object that is no segment (`ArrowArchive.fence`). So a receiver that was only paused cannot add anything behind it:
the store gives each number once. A fence is never removed.
"""

from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from secrets import token_hex
from threading import Lock

from adapters.arrow_journal.archive import ArrowArchive
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
UNLIMITED = 1 << 62
"""In place of the free bytes of a disk: a store says nothing of its own."""


class ObjectJournal(ArrowArchive):
    """A `WritableJournal` of objects in a folder or bucket of its own within `place`; each one is new.

    The lock `_writing` guards `_next`, `_end` and `_unsettled`, and `_keeping` guards `_kept` and `_kept_bytes`.
    """

    def __init__(self, place: str, cache: Path | None = None, cache_bytes: int = CACHE_BYTES) -> None:
        self._own = JournalIdentity(token_hex(16), 1)
        url = self.place(place, self._own.id)
        if (folder := local_folder(url)) is not None:
            make_folders(folder)
        super().__init__(url, cache, cache_bytes)
        self._writing = Lock()
        self._next = 1
        self._end: Position | None = None
        self._keeping = Lock()
        self._kept: dict[int, bytes] = {}
        self._kept_bytes = 0
        self._unsettled: Sequence[PhysicalMessage] | None = None
        """The messages of an append whose answer was lost: the store may have them under the next number."""

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

    def append(self, messages: Sequence[PhysicalMessage], prepared: Sequence[Encoded] | None = None) -> list[Position]:
        if not messages:
            return []
        batches = self.prepare(messages) if prepared is None else prepared
        with self._writing:
            while not self._add(messages, batches):
                pass
            positions = positions_of(messages, self._next - 1, 0)
            self._end = positions[-1]
        return positions

    def reserve(self, segment: int) -> None:
        with self._writing:
            self._next = max(self._next, segment + 1)

    def seal(self, before: int | None = None) -> None:
        """Do nothing: every object is sealed."""

    def retire(self, segment: int) -> None:
        self.remove(segment)

    def free_bytes(self) -> int:
        return UNLIMITED

    def close(self) -> None:
        """Do nothing: no file is held."""

    def _add(self, messages: Sequence[PhysicalMessage], batches: Sequence[Encoded]) -> bool:
        """Add an object with the next number, and tell whether it has these messages.

        If the store has one of an earlier append whose answer was lost, that one counts. Raises JournalTaken if
        somebody else has taken the number.
        """
        number, now = self._next, self._now()
        seed = seed_of(self._own.id, number)
        for at, batch in enumerate(batches):
            place(batch, Position(number, at, 0), seed)
        header = header_bytes(now, self._own)
        data = b"".join((header, *chain.from_iterable(batch.buffers() for batch in batches), END_OF_STREAM))
        before, self._unsettled = self._unsettled, self._unsettled or messages
        is_added = self._storage.add(number, [data])
        if not is_added and (before is None or not self._is_own(number)):
            raise JournalTaken(
                f"another receiver has taken {self._storage.path(number)}, as this one was away for too long: it must "
                "be started again, and receives what it has not acknowledged"
            )
        self._unsettled, self._next = None, number + 1
        if is_added:
            state = SegmentState(number, len(data), now, now, version=self._own.id)
            self._keep(number, data)
        else:
            state = self._storage.find(number)
        self._found[number] = state
        return is_added or before is messages

    def _keep(self, number: int, data: bytes) -> None:
        """Keep the bytes of an object, which are read again when it is published, and drop the oldest ones."""
        with self._keeping:
            self._kept[number] = data
            self._kept_bytes += len(data)
            while self._kept_bytes > KEPT_BYTES:
                self._kept_bytes -= len(self._kept.pop(next(iter(self._kept))))

    def _open(self, state: SegmentState) -> ReadFile:
        with self._keeping:
            data = self._kept.pop(state.number, None)
            self._kept_bytes -= len(data or b"")
        if data is not None:
            with suppress(GatewayError):  # a full disk: then it is fetched
                self._storage.keep(state, memoryview(data))
        return super()._open(state)

    def _is_own(self, number: int) -> bool:
        try:
            self.origin(number)
        except GatewayError:
            return False
        return True
