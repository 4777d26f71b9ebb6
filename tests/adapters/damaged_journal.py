"""A journal of one segment, and changes that damage it."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest

from adapters.arrow_journal import ArrowJournal
from adapters.arrow_journal.arrow_ipc import BLOCK, END_OF_STREAM
from adapters.arrow_journal.segment_files import segment_path
from app.model.errors import DamagedError
from app.model.message import UNREADABLE, Position
from app.model.records import Damage
from tests.contracts.journal import everything, messages_of

BATCHES = [messages_of(sizes) for sizes in ([5, 0, 300], [40], [200, 30], [9000], [1, 2, 3], [7])]
WANTED = {
    Position(1, number, row): message for number, batch in enumerate(BATCHES) for row, message in enumerate(batch)
}


Change = Callable[[bytearray], None]


class Written:
    """A journal of one segment of BATCHES, sealed or as a killed process leaves it."""

    def __init__(self, *, sealed: bool) -> None:
        self.sealed = sealed
        with TemporaryDirectory() as folder:
            place = Path(folder)
            journal = ArrowJournal(place)
            for batch in BATCHES:
                journal.append(batch)
            self.data = segment_path(place, 1, sealed=False).read_bytes()
            self.identity = (place / "identity").read_bytes()
            extents = list(journal.extents(WANTED))
            self.bodies = {each: extent for each, extent in zip(WANTED, extents, strict=True) if extent.length}
            journal.close()
            if sealed:
                self.data = segment_path(place, 1, sealed=True).read_bytes()
        starts = [next(iter(self.bodies[each] for each in self.bodies if each.batch == n)).offset for n in range(6)]
        self.starts = [start - start % BLOCK for start in starts]

    def batch_of(self, at: int) -> int | None:
        """The batch that a byte of the file belongs to."""
        return max((number for number, start in enumerate(self.starts) if start <= at), default=None)

    def lost_with(self, at: int) -> set[Position]:
        """What may be lost with a byte of the file: the message whose body it is in, or all of its batch."""
        if self.sealed and at >= len(self.data) - len(END_OF_STREAM):
            return set()
        for position, extent in self.bodies.items():
            if extent.offset <= at < extent.offset + extent.length:
                return {position}
        batch = self.batch_of(at)
        last = (
            max(extent.offset + extent.length for each, extent in self.bodies.items() if each.batch == batch)
            if (batch is not None)
            else 0
        )
        return {each for each in WANTED if each.batch == batch and at < last}

    @contextmanager
    def damaged(self, change: Change) -> Iterator[Path]:
        """A folder with the journal, its segment changed."""
        with TemporaryDirectory() as folder:
            data = bytearray(self.data)
            change(data)
            segment_path(Path(folder), 1, sealed=self.sealed).write_bytes(data)
            (Path(folder) / "identity").write_bytes(self.identity)
            yield Path(folder)


SEALED, OPEN = Written(sealed=True), Written(sealed=False)


def flipped(at: int, bit: int = 0) -> Change:
    def change(data: bytearray) -> None:
        data[at] ^= 1 << bit

    return change


def zeroed(start: int, end: int) -> Change:
    def change(data: bytearray) -> None:
        data[start:end] = bytes(end - start)

    return change


def cut(size: int) -> Change:
    def change(data: bytearray) -> None:
        del data[size:]

    return change


def check(folder: Path, may_be_lost: set[Position]) -> list[Damage]:
    """The journal opens, hands out nothing that was not written, and loses nothing else; returns what `verify` says."""
    with closing(ArrowJournal(folder)) as journal:
        replayed = dict(everything(journal))
        damage = [each for segment in journal.segments() for each in journal.verify(segment.number)]
        for position, message in WANTED.items():
            found = replayed.pop(position, None)
            if found is not None and found.framing == UNREADABLE:
                assert found.properties["refused-code"] == "damaged-message"
                assert not found.body
                found = None
            if found is None:
                assert position in may_be_lost, (position, damage)
                with pytest.raises((DamagedError, KeyError)):
                    journal.read(position)
                with pytest.raises((DamagedError, KeyError)):
                    list(journal.bodies([position]))
            else:
                assert found == message == journal.read(position)
                assert list(journal.bodies([position])) == [message.body]
                assert list(journal.views(journal.extents([position]))) == [message.body]
        assert all(each.framing == UNREADABLE and not each.source for each in replayed.values())
        assert journal.append(BATCHES[0])[0] > max(WANTED)
        return damage


def stream(folder: Path) -> list[pa.RecordBatch]:
    """The batches of the sealed segment 1, as any Arrow reader has them."""
    with pa.ipc.open_stream(segment_path(folder, 1, sealed=True).read_bytes()) as reader:
        return list(reader)


def flip_in(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place // 8] ^= 1 << place % 8
    path.write_bytes(data)
