"""A damaged journal of a receiver that publishes: what is whole comes whole, and what is lost is named."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from adapters.arrow_journal import ArrowJournal
from adapters.arrow_journal.archive import ArrowArchive
from app.model.message import UNREADABLE, PhysicalMessage, Position
from app.model.records import DAMAGED_MESSAGE, JournalIdentity, Publication
from tests.adapters.damaged_journal import BATCHES, OPEN, SEALED, WANTED, Change, flipped, zeroed
from tests.contracts.journal import messages_of

SHARED = JournalIdentity("5" * 32, 7)
NUMBER = 9


class Shared:
    """The archive of a shared journal in a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.archive = ArrowArchive(folder, is_growing=True)

    def publish(self, own: ArrowJournal) -> tuple[Publication, list[tuple[Position, PhysicalMessage]]]:
        """Publish all segments of a journal as one, and return what is read."""
        origin, pieces = own.published([each.number for each in own.segments()], NUMBER, SHARED)
        assert self.archive.add(NUMBER, pieces)
        assert self.archive.origin(NUMBER) == origin
        found = [pair for each in self.archive.replay(None) for pair in zip(*each, strict=True)]
        assert found[-1][0].pack() == origin.end, "assembly reaches what is recorded"
        assert self.archive.verify(NUMBER) == []
        return origin, found


@pytest.fixture
def shared(tmp_path: Path) -> Shared:
    return Shared(tmp_path / "shared")


def is_lost(message: PhysicalMessage) -> bool:
    return (message.framing, bytes(message.body)) == (UNREADABLE, b"") and (
        message.properties["refused-code"] == DAMAGED_MESSAGE
    )


PLACES: dict[str, Callable[[], Change]] = {
    "a body": lambda: flipped(SEALED.bodies[Position(1, 3, 0)].offset),
    "the last body": lambda: flipped(SEALED.bodies[Position(1, 5, 0)].offset),
    "a batch": lambda: flipped(SEALED.starts[2] + 300),
    "the first batch": lambda: flipped(SEALED.starts[0] + 300),
    "the last batch": lambda: flipped(SEALED.starts[5] + 300),
    "the end": lambda: flipped(len(SEALED.data) - 1),
    "the header": lambda: flipped(300),
}


@pytest.mark.parametrize("place", PLACES)
def test_what_is_whole_is_published(shared: Shared, place: str) -> None:
    change = PLACES[place]()
    with SEALED.damaged(change) as folder, closing(ArrowJournal(folder)) as own:
        own.append(messages_of([3]))
        own.seal()
        _, found = shared.publish(own)
    data = bytearray(SEALED.data)
    change(data)
    (at,) = [at for at, (before, after) in enumerate(zip(SEALED.data, data, strict=True)) if before != after]
    lost = SEALED.lost_with(at)
    read = {(position.batch, position.row): message for position, message in found}
    for position, message in WANTED.items():
        if position not in lost:
            assert read[position[1:]] == message
    named = [message for _, message in found if is_lost(message)]
    assert len(named) == len({position[1:] if "body" in place else position.batch for position in lost})
    assert found[-1][0].batch == len(BATCHES)


def test_a_segment_whose_batches_are_all_lost_is_published_as_a_lost_message(shared: Shared) -> None:
    with SEALED.damaged(zeroed(SEALED.starts[0], len(SEALED.data) - 8)) as folder, closing(ArrowJournal(folder)) as own:
        origin, found = shared.publish(own)
    assert [is_lost(message) for _, message in found] == [True]
    assert Position.unpack(origin.end) == (NUMBER, 0, 0)


@pytest.mark.parametrize("batch", [0, 2, 5])
def test_what_was_lost_when_the_journal_was_opened_is_named(shared: Shared, batch: int) -> None:
    """The lost batch keeps its place in the own journal, without any message."""
    with (
        OPEN.damaged(flipped(OPEN.starts[batch] + 300)) as folder,
        closing(ArrowJournal(folder, durable=lambda _: Position(1, 5, 0))) as own,
    ):
        _, found = shared.publish(own)
    expected = [(position[1:], message) for position, message in WANTED.items() if position.batch != batch]
    assert [(position[1:], message) for position, message in found if not is_lost(message)] == expected
    assert [position[1:] for position, message in found if is_lost(message)] == [(batch, 0)]


def test_a_segment_that_is_lost_when_the_journal_is_opened_is_named(shared: Shared, tmp_path: Path) -> None:
    with closing(ArrowJournal(tmp_path / "own")) as own:
        own.append(messages_of([5000]))
        (tmp_path / "copy").mkdir()
        for path in (tmp_path / "own").iterdir():
            (tmp_path / "copy" / path.name).write_bytes(path.read_bytes())
    path = tmp_path / "copy" / "0000000001.open.arrows"
    data = bytearray(path.read_bytes())
    data[4096 + 300] ^= 1
    path.write_bytes(data)
    with closing(ArrowJournal(tmp_path / "copy")) as own:
        origin, found = shared.publish(own)
    assert [is_lost(message) for _, message in found] == [True]
    assert Position.unpack(origin.end).segment == NUMBER
