"""The bytes of a small journal, each damaged alone: what that costs, and that it is said.

The long form (`--long`) damages every byte. As it is, all bytes of a field are damaged in one batch or another.
"""

import json
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from structlog.testing import capture_logs

from adapters.arrow_journal import ArrowJournal
from adapters.arrow_journal.archive import ArrowArchive
from adapters.arrow_journal.segment_files import segment_path
from app.model.errors import DamagedError, GatewayError
from app.model.message import UNREADABLE, PhysicalMessage, Position
from app.model.records import Extent
from tests.contracts.journal import everything, messages_of
from tests.support.length import IS_LONG

BATCHES = [messages_of(sizes) for sizes in ([5, 0, 300], [40], [7, 30])]
SENT = {Position(1, at, row): message for at, batch in enumerate(BATCHES) for row, message in enumerate(batch)}
LAST = max(SENT)
BLOCK = 4096
STRIDE = 1 if IS_LONG else 7
PADDING = 97
"""Of the bytes within zeros, one in so many times STRIDE is damaged."""
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
SAID = {"segment_damaged", "identity_damaged"}


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written need not outlive the machine here."""
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, lambda _: None)


def places(data: bytes) -> list[int]:
    """Return the bytes to damage: all that are no zeros among zeros, and some of those."""
    near = [any(data[max(0, at - 8) : at + 8]) for at in range(len(data))]
    return [at for at, is_near in enumerate(near) if at % (STRIDE if is_near else STRIDE * PADDING) == 0]


class Copy:
    """The files of a journal of one segment, sealed or as a killed process leaves it."""

    def __init__(self, *, sealed: bool) -> None:
        self.sealed = sealed
        with TemporaryDirectory() as place:
            journal = ArrowJournal(Path(place))
            for batch in BATCHES:
                journal.append(batch)
            self.extents: dict[Position, Extent] = dict(zip(SENT, journal.extents(SENT), strict=True))
            self.identity = (Path(place) / "identity").read_bytes()
            self.data = segment_path(Path(place), 1, sealed=False).read_bytes()
            journal.close()
            if sealed:
                self.data = segment_path(Path(place), 1, sealed=True).read_bytes()

    @property
    def places(self) -> list[int]:
        """The bytes of the segment to damage."""
        return places(self.data)

    def cost(self, at: int) -> set[Position]:
        """The messages that a byte of the file costs: the one whose body it is in, or all of the batch behind it."""
        hit = {each for each, (_, start, size) in self.extents.items() if start <= at < start + size}
        batch = at // BLOCK - 1  # each is one block
        of_batch = {each for each in SENT if each.batch == batch}
        first = min((self.extents[each].offset for each in of_batch), default=0)
        return hit or (of_batch if at < first else set())

    def cut_off(self, size: int) -> set[Position]:
        """The messages of which a file of this size lacks the head of their batch, or a byte of their body."""
        first = {each.batch: self.extents[each].offset for each in SENT if not each.row}
        return {
            each
            for each, (_, start, length) in self.extents.items()
            if first[each.batch] > size or (length and start + length > size)
        }

    @contextmanager
    def with_files(self, data: bytes | bytearray, identity: bytes | bytearray | None = None) -> Iterator[Path]:
        with TemporaryDirectory(dir=MEMORY) as place:
            segment_path(Path(place), 1, sealed=self.sealed).write_bytes(data)
            (Path(place) / "identity").write_bytes(self.identity if identity is None else identity)
            yield Path(place)


COPIES = {"sealed": Copy(sealed=True), "open": Copy(sealed=False)}


def opened(folder: Path, **given: Any) -> tuple[dict[Position, PhysicalMessage], bool]:
    """What a gateway reads that has assembled all of it before, and whether damage was said."""
    with capture_logs() as logs, closing(ArrowJournal(folder, durable=lambda _: LAST, **given)) as journal:
        found = everything(journal)
        said = any(each["event"] in SAID for each in logs) or any(map(journal.verify, segments(journal)))
        end = journal.end()
        assert end is not None
        assert end >= LAST
        assert journal.append(BATCHES[0])[0].segment > 1
    assert len({each for each, _ in found}) == len(found), "a message came twice"
    return dict(found), said


def segments(journal: ArrowJournal) -> list[int]:
    return [segment.number for segment in journal.segments()]


def require(found: dict[Position, PhysicalMessage], lost: set[Position]) -> None:
    """Exactly these messages are lost. A lost batch comes as one message, whose source nobody knows."""
    whole = {each: message for each, message in found.items() if message.framing != UNREADABLE}
    assert whole == {each: message for each, message in SENT.items() if each not in lost}
    assert {each[:2] for each in found.keys() - whole.keys()} == {each[:2] for each in lost}


@pytest.mark.parametrize("epoch", [None, 9])
@pytest.mark.parametrize("which", COPIES)
def test_a_flipped_byte_costs_its_message_or_its_batch(which: str, epoch: int | None) -> None:
    copy = COPIES[which]
    for at in copy.places[:: 1 if epoch is None else 3]:
        data = bytearray(copy.data)
        data[at] ^= 0x55
        with copy.with_files(data) as folder:
            found, said = opened(folder, epoch=epoch)
        require(found, copy.cost(at))
        assert said or at >= BLOCK, at
        assert said or not copy.cost(at), at


@pytest.mark.parametrize("which", COPIES)
def test_a_cut_file_costs_the_messages_behind_the_cut(which: str) -> None:
    copy = COPIES[which]
    for size in copy.places[::3]:
        lost = copy.cut_off(size)
        with copy.with_files(copy.data[:size]) as folder:
            found, said = opened(folder)
        whole = {each: message for each, message in found.items() if message.framing != UNREADABLE}
        assert whole == {each: message for each, message in SENT.items() if each not in lost}, size
        assert said or not lost, size


def test_an_open_segment_that_the_catalog_does_not_know_loses_no_other_batch() -> None:
    """Only the length that the last batch gives itself makes damage look like a torn write."""
    copy = COPIES["open"]
    length = range(3 * BLOCK + 4, 3 * BLOCK + 8)
    for at in copy.places:
        data = bytearray(copy.data)
        data[at] ^= 0x55
        with copy.with_files(data) as folder, capture_logs() as logs, closing(ArrowJournal(folder)) as journal:
            found = dict(everything(journal))
            said = any(each["event"] == "segment_damaged" for each in logs) or any(journal.verify(1))
        if at in length and not said:
            assert {each for each in SENT if each not in found} == copy.cost(at)
            continue
        require(found, copy.cost(at))
        assert said or not copy.cost(at), at


@pytest.mark.parametrize("which", COPIES)
def test_a_damaged_identity_costs_nothing(which: str) -> None:
    copy = COPIES[which]
    for at in places(copy.identity):
        identity = bytearray(copy.identity)
        identity[at] ^= 0x55
        with copy.with_files(copy.data, identity) as folder:
            found, _ = opened(folder)
        require(found, set())
    for size in (0, 1, BLOCK - 1, BLOCK, BLOCK + 1):
        with copy.with_files(copy.data, copy.identity[:size]) as folder:
            found, _ = opened(folder)
        require(found, set())


def test_a_flipped_byte_of_an_archive_costs_its_message_or_its_batch() -> None:
    copy = COPIES["sealed"]
    said = next(line for line in copy.identity.replace(b"\0", b"\n").splitlines() if line.startswith(b"{"))
    own_id = copy.data.index(json.loads(said)["id"].encode())
    for at in copy.places:
        data = bytearray(copy.data)
        data[at] ^= 0x55
        with copy.with_files(data) as folder:
            archive = ArrowArchive(folder)
            if at in range(own_id, own_id + 32):  # nothing else in the archive has it
                with pytest.raises(GatewayError, match="it is damaged: replace it by a whole copy"):
                    archive.verify(1)
                continue
            found: dict[Position, PhysicalMessage] = {}
            for batch, messages in enumerate(BATCHES):
                rows = range(len(messages))
                try:
                    read = archive.messages(1, batch, rows)
                except DamagedError:
                    assert {Position(1, batch, row) for row in rows} == copy.cost(at), at
                    continue
                found.update(zip([Position(1, batch, row) for row in rows], read, strict=True))
            assert archive.verify(1) or not copy.cost(at), at
        whole = {each: message for each, message in found.items() if message.framing != UNREADABLE}
        assert whole == {each: message for each, message in SENT.items() if each not in copy.cost(at)}, at
