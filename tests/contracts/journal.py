"""What every journal promises."""

import os
from collections.abc import Callable, Sequence
from threading import Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.model.message import PhysicalMessage, Position
from app.model.records import Extent
from app.ports import JOURNAL_SCHEMA, Journal, JournalReader
from tests.support.length import examples

Opener = Callable[[], Journal]

LONG = st.integers(-(2**31), 2**31 - 1)
TIME = st.integers(0, 2**52)
BODY = st.binary(max_size=100)
VIEW: st.SearchStrategy[memoryview] = st.builds(memoryview, BODY)
BINARY = st.binary(max_size=30)
MESSAGES = st.builds(
    PhysicalMessage,
    source=st.text(max_size=20),
    framing=st.sampled_from(["sas_queue", "mq_group", ""]),
    msg_type=LONG,
    correl_id=BINARY,
    body=BODY | VIEW,
    message_id=BINARY,
    group_id=BINARY,
    msg_seq_number=LONG,
    offset=LONG,
    msg_flags=st.integers(0, 2**32 - 1),
    original_length=LONG,
    encoding=LONG,
    ccsid=LONG,
    format=st.text(max_size=8),
    put_time=TIME,
    received_at=TIME,
    properties=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
)


def messages_of(sizes: Sequence[int], source: str = "queue") -> list[PhysicalMessage]:
    """Messages with random bodies of these sizes."""
    return [
        PhysicalMessage(source, "sas_queue", 8, os.urandom(24), os.urandom(size), msg_seq_number=number)
        for number, size in enumerate(sizes, 1)
    ]


def everything(journal: Journal, after: Position | None = None) -> list[tuple[Position, PhysicalMessage]]:
    return [pair for positions, messages in journal.replay(after) for pair in zip(positions, messages, strict=True)]


def assert_knows_nothing_behind(journal: JournalReader, last: Position) -> None:
    """Check that what is behind the last message, in any of its ways, is refused with KeyError."""
    segment, batch, row = last
    for position in (Position(segment + 1, 0, 0), Position(segment, batch + 1, 0), Position(segment, batch, row + 1)):
        for ask in (
            journal.read,
            lambda which: list(journal.extents([which])),
            lambda which: list(journal.bodies([which])),
        ):
            with pytest.raises(KeyError):
                ask(position)
    with pytest.raises(KeyError):
        next(journal.views([Extent(segment, 0, 1 << 40)]))


class JournalContract:
    """Inherited by an adapter's tests, which give the fixture `open_journal`: the same journal, opened again."""

    @pytest.fixture
    def journal(self, open_journal: Opener) -> Journal:
        return open_journal()

    def test_gives_back_every_field_of_every_message(self, journal: Journal) -> None:
        wanted: list[tuple[Position, PhysicalMessage]] = []

        @settings(max_examples=examples(25), deadline=None)
        @given(st.lists(MESSAGES, min_size=1, max_size=8))
        def check(messages: list[PhysicalMessage]) -> None:
            after = wanted[-1][0] if wanted else None
            taken = list(zip(journal.append(messages), messages, strict=True))
            wanted.extend(taken)
            assert everything(journal, after) == taken
            assert [journal.read(position) for position, _ in taken] == messages

        check()
        assert everything(journal) == wanted

    def test_keeps_everything_over_a_restart(self, open_journal: Opener) -> None:
        journal = open_journal()
        first = messages_of([0, 1, 40_000])
        positions = journal.append(first)
        journal.close()
        journal = open_journal()
        second = messages_of([7])
        positions += journal.append(second)
        assert everything(journal) == list(zip(positions, first + second, strict=True))

    def test_positions_grow_as_messages_are_written(self, journal: Journal) -> None:
        positions: list[Position] = []
        for rows in (1, 600, 2, 1025):
            positions += journal.append(messages_of([1] * rows))
            if rows == 600:
                journal.seal()
        assert positions == sorted(set(positions))
        assert [Position.unpack(position.pack()) for position in positions] == positions
        assert [position for position, _ in everything(journal)] == positions

    def test_messages_may_be_prepared_before_others_are_written(self, journal: Journal) -> None:
        several = [messages_of(sizes) for sizes in ([5, 40_000], [30_000] * 128, [1] * 1030, [200_000] * 40, [7])]
        prepared = [journal.prepare(each) for each in several]
        wanted: list[tuple[Position, PhysicalMessage]] = []
        for messages, each in zip(several, prepared, strict=True):
            wanted += zip(journal.append(messages, each), messages, strict=True)
            more = messages_of([3])
            wanted += zip(journal.append(more), more, strict=True)
        assert everything(journal) == wanted

    def test_replays_what_lies_behind_any_position(self, journal: Journal) -> None:
        for rows in (3, 1, 4):
            journal.append(messages_of(range(rows)))
            journal.append(messages_of(range(rows)))
            journal.seal()
        every = everything(journal)
        for index, (position, _) in enumerate(every):
            assert everything(journal, position) == every[index + 1 :]

    def test_a_replay_ends_with_what_was_durable_when_it_began(self, journal: Journal) -> None:
        positions = journal.append(messages_of([1, 2]))
        replay = journal.replay(None)
        journal.append(messages_of([3]))
        assert [position for each, _ in replay for position in each] == positions

    def test_bodies_come_in_the_order_asked_for(self, journal: Journal) -> None:
        messages = messages_of([0, 10, 40_000, 3] * 200)
        positions = journal.append(messages[:500]) + journal.append(messages[500:])
        order = [(index * 7919) % len(messages) for index in range(2 * len(messages))]
        bodies = journal.bodies(positions[index] for index in order)
        assert list(bodies) == [messages[index].body for index in order]

    def test_extents_are_where_the_bodies_are(self, journal: Journal) -> None:
        messages = messages_of([0, 10, 40_000, 0])
        for position, message in zip(journal.append(messages), messages, strict=True):
            extent = next(journal.extents([position]))
            assert (extent.segment, extent.length) == (position.segment, len(message.body))
            assert next(journal.views([extent])) == message.body
        only_empty = journal.append(messages_of([0, 0]))
        assert list(journal.views(journal.extents(only_empty))) == [b"", b""]

    def test_an_extent_outlives_a_restart(self, open_journal: Opener) -> None:
        journal = open_journal()
        message = messages_of([5000])[0]
        extent = next(journal.extents(journal.append([message])))
        journal.close()
        assert next(open_journal().views([extent])) == message.body

    def test_batches_are_counted(self, journal: Journal) -> None:
        positions = [journal.append(messages_of([1] * size))[-1] for size in (3, 513)]
        (segment,) = {position.segment for position in positions}
        assert journal.batch_count(segment) == positions[-1].batch + 1 == 3
        journal.seal()
        assert journal.batch_count(segment) == 3
        with pytest.raises(KeyError):
            journal.batch_count(segment + 1)

    def test_descriptors_come_without_bodies(self, journal: Journal) -> None:
        messages = messages_of([3, 0, 70_000])
        (first, *_) = journal.append(messages)
        found = journal.descriptors(first.segment, first.batch)
        assert found.column("size").to_pylist() == [3, 0, 70_000]
        assert set(JOURNAL_SCHEMA.names) - {"body"} <= set(found.schema.names)
        assert "body" not in found.schema.names
        assert found.column("source").to_pylist() == [message.source for message in messages]
        for segment, batch in ((first.segment, first.batch + 1), (first.segment + 1, 0)):
            with pytest.raises(KeyError):
                journal.descriptors(segment, batch)

    def test_views_are_read_only(self, journal: Journal) -> None:
        position = journal.append(messages_of([10]))[0]
        assert next(journal.bodies([position])).readonly
        assert memoryview(journal.read(position).body).readonly

    def test_no_messages_are_no_batch(self, journal: Journal) -> None:
        assert journal.append([]) == []
        assert everything(journal) == []
        assert journal.segments() == []

    def test_knows_nothing_that_was_not_written(self, journal: Journal) -> None:
        last = journal.append(messages_of([1, 2]))[-1]
        assert_knows_nothing_behind(journal, last)
        assert everything(journal, Position(last.segment + 1, 0, 0)) == []

    def test_seals_what_there_is_and_begins_anew(self, journal: Journal) -> None:
        journal.seal()
        first = journal.append(messages_of([1]))[0]
        assert [(each.number, each.sealed_at) for each in journal.segments()] == [(first.segment, None)]
        journal.seal()
        journal.seal()
        second = journal.append(messages_of([1]))[0]
        assert second.segment > first.segment
        sealed, active = journal.segments()
        assert (sealed.number, active.number, active.sealed_at) == (first.segment, second.segment, None)
        assert sealed.sealed_at is not None
        assert sealed.created_at <= sealed.sealed_at

    def test_a_retired_segment_is_gone_and_its_views_are_not(self, journal: Journal) -> None:
        message = messages_of([100_000])[0]
        position = journal.append([message])[0]
        extent = next(journal.extents([position]))
        view = next(journal.views([extent]))
        journal.seal()
        kept = journal.append(messages_of([1]))
        replay = journal.replay(None)
        journal.retire(position.segment)
        assert view == message.body
        assert [each for positions, _ in replay for each in positions] == kept
        for gone in (
            lambda: journal.read(position),
            lambda: next(journal.extents([position])),
            lambda: next(journal.views([extent])),
        ):
            with pytest.raises(KeyError):
                gone()
        journal.retire(position.segment)  # again, which changes nothing
        with pytest.raises(ValueError, match="being written"):
            journal.retire(kept[0].segment)

    def test_a_segment_set_aside_is_gone_and_its_number_is_not_used_again(self, open_journal: Opener) -> None:
        journal = open_journal()
        (position,) = journal.append(messages_of([10]))
        journal.seal()
        journal.set_aside(position.segment)
        with pytest.raises(KeyError):
            journal.read(position)
        assert journal.segments() == []
        journal.close()
        again = open_journal()
        assert everything(again) == []
        (later,) = again.append(messages_of([10]))
        assert later.segment > position.segment

    def test_positions_grow_even_when_everything_was_retired_and_restarted(self, open_journal: Opener) -> None:
        last = Position(0, 0, 0)
        for _ in range(3):
            journal = open_journal()
            position = journal.append(messages_of([1]))[0]
            assert position > last
            last = position
            journal.seal()
            journal.retire(position.segment)
            assert journal.segments() == []
            journal.close()
        assert everything(open_journal(), last) == []

    def test_readers_beside_the_writer_see_only_whole_batches(self, journal: Journal) -> None:
        batches = [messages_of([index * 50] * (index % 5 + 1)) for index in range(120)]
        wanted = [message for batch in batches for message in batch]
        seen: list[list[PhysicalMessage]] = [[], []]

        def read(into: list[PhysicalMessage]) -> None:
            after = None
            while len(into) < len(wanted):
                for positions, messages in journal.replay(after):
                    after = positions[-1]
                    into += messages
                    assert list(journal.bodies(positions)) == [message.body for message in messages]

        readers = [Thread(target=read, args=(into,), daemon=True) for into in seen]
        for reader in readers:
            reader.start()
        for number, batch in enumerate(batches):
            journal.append(batch)
            if number % 30 == 29:
                journal.seal()
        for reader in readers:
            reader.join(60)
        assert seen == [wanted, wanted]

    def test_has_an_identity_whose_epoch_grows_when_it_is_opened(self, open_journal: Opener) -> None:
        journal = open_journal()
        first = journal.identity()
        assert len(first.id) == 32
        assert int(first.id, 16) >= 0
        journal.close()
        assert open_journal().identity() == first._replace(epoch=first.epoch + 1)

    def test_knows_its_end(self, open_journal: Opener) -> None:
        journal = open_journal()
        assert journal.end() is None
        for sizes in ([1, 2], [0], [1] * 600):
            last = journal.append(messages_of(sizes))[-1]
            assert journal.end() == last
        journal.close()
        journal = open_journal()
        assert journal.end() == last
        for segment in journal.segments():
            journal.retire(segment.number)
        assert journal.end() == last
        journal.close()
        assert open_journal().end() == last

    def test_numbers_that_are_reserved_are_not_used(self, open_journal: Opener) -> None:
        journal = open_journal()
        first = journal.append(messages_of([1]))[0]
        journal.reserve(first.segment + 5)
        assert journal.append(messages_of([1]))[0].segment == first.segment + 6
        journal.reserve(first.segment)
        journal.reserve(first.segment + 9)
        journal.close()
        journal = open_journal()
        assert journal.append(messages_of([1]))[0].segment == first.segment + 10
        assert len(everything(journal)) == 3

    def test_finds_no_damage_where_there_is_none(self, journal: Journal) -> None:
        journal.append(messages_of([0, 10, 40_000]))
        first = journal.append(messages_of([1] * 600))[0]
        assert journal.verify(first.segment) == []
        journal.seal()
        assert journal.verify(first.segment) == []
        with pytest.raises(KeyError):
            journal.verify(first.segment + 1)

    def test_gives_the_bytes_of_a_sealed_segment(self, journal: Journal) -> None:
        number = journal.append(messages_of([40_000] * 50))[0].segment
        journal.seal()
        (segment,) = journal.segments()
        pieces = list(journal.segment_bytes(number))
        assert sum(map(len, pieces)) == segment.size
        assert max(map(len, pieces)) <= 1 << 20
        with pytest.raises(KeyError):
            journal.segment_bytes(number + 1)

    def test_says_how_much_room_there_is(self, journal: Journal) -> None:
        assert journal.free_bytes() > 0
