"""What every archive of a journal's sealed segments promises."""

import itertools
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.model.errors import GatewayError
from app.model.message import PhysicalMessage, Position
from app.model.records import JournalIdentity
from app.ports import JOURNAL_SCHEMA, Journal, JournalArchive
from tests.contracts.journal import MESSAGES, assert_knows_nothing_behind, messages_of
from tests.support.length import examples

SHARED = JournalIdentity("5" * 32, 7)


@dataclass
class Archived:
    """A journal, and where its sealed segments go.

    `publish` brings those that are not there yet, `put` a file of these bytes as the segment of a number, `remove`
    takes a segment away; `open` opens the archive once more. `shared` opens the archive of a journal that receivers
    share, which is empty at first.
    """

    journal: Journal
    open: Callable[[], JournalArchive]
    publish: Callable[[], None]
    put: Callable[[int, bytes], None]
    remove: Callable[[int], None]
    shared: Callable[[], JournalArchive]

    def append(self, messages: list[PhysicalMessage]) -> list[Position]:
        """One sealed segment of these messages."""
        positions = self.journal.append(messages)
        self.journal.seal()
        self.publish()
        return positions


class ArchiveContract:
    """Inherited by an adapter's tests, which give the fixture `archived`."""

    def test_gives_back_what_the_journal_gave(self, archived: Archived) -> None:
        archive = archived.open()

        @settings(max_examples=examples(15), deadline=None)
        @given(st.lists(MESSAGES, min_size=1, max_size=8))
        def check(messages: list[PhysicalMessage]) -> None:
            journal = archived.journal
            positions = archived.append(messages)
            assert [archive.read(position) for position in positions] == messages
            assert list(archive.bodies(positions)) == [message.body for message in messages]
            extents = list(archive.extents(reversed(positions)))
            assert extents == list(journal.extents(reversed(positions)))
            assert list(archive.views(extents)) == list(journal.views(extents))

        check()

    def test_has_the_record_batches_of_a_segment(self, archived: Archived) -> None:
        wanted: list[tuple[Position, PhysicalMessage]] = []
        for sizes in ([5, 0], [1] * 600, [70_000]):
            messages = messages_of(sizes)
            wanted += zip(archived.journal.append(messages), messages, strict=True)
        archived.append(messages_of([3]))
        archive = archived.open()
        number = wanted[0][0].segment
        found = []
        sizes = archive.batch_sizes(number)
        assert len(sizes) == 5
        for batch in range(len(sizes)):
            record_batch = archive.record_batch(number, batch)
            record_batch.validate(full=True)
            assert set(JOURNAL_SCHEMA) <= set(record_batch.schema)
            assert 0 < record_batch.nbytes <= sizes[batch]
            found += [(Position(number, batch, row), body) for row, body in enumerate(record_batch["body"].to_pylist())]
        assert sum(sizes) < archive.segments()[0].size
        assert found[:-1] == [(position, bytes(message.body)) for position, message in wanted]
        for nothing in (lambda: archive.record_batch(number, len(sizes)), lambda: archive.batch_sizes(number + 1)):
            with pytest.raises(KeyError):
                nothing()

    def test_reads_some_messages_of_a_batch(self, archived: Archived) -> None:
        messages = messages_of([5, 0, 70_000, 1, 2])
        number, batch, _ = archived.append(messages)[0]
        archive = archived.open()
        for rows in ([0, 2, 4], [3], [4, 1], []):
            assert archive.messages(number, batch, rows) == [messages[row] for row in rows]
        for at in ((number, batch, [5]), (number, batch, [-1]), (number, batch + 1, [0]), (number + 1, batch, [0])):
            with pytest.raises(KeyError):
                archive.messages(*at)

    def test_gives_bodies_with_their_places(self, archived: Archived) -> None:
        messages = messages_of([5, 0, 70_000, 1, 300_000, 20_000, 2])
        positions = archived.append(messages)
        number, batch, _ = positions[0]
        archive = archived.open()
        extents = list(archive.extents(positions))
        for rows in ([0, 2, 4], [3], [1], [*range(7)], [2, 3, 5, 6]):
            found = archive.placed_bodies(number, batch, rows)
            assert list(found.bodies) == [messages[row].body for row in rows]
            assert list(found.offsets) == [extents[row].offset for row in rows]
            assert [found.framings[row].as_py() for row in rows] == [messages[row].framing for row in rows]
            assert [dict(found.properties[row].as_py()) for row in rows] == [messages[row].properties for row in rows]
        for at in ((number, batch, [5, 7]), (number, batch, [-1, 0]), (number, batch + 1, [0]), (number + 1, 0, [0])):
            with pytest.raises(KeyError):
                archive.placed_bodies(*at)

    def test_lists_what_is_sealed_and_only_that(self, archived: Archived) -> None:
        archive = archived.open()
        assert archive.segments() == []
        for count in range(1, 4):
            archived.append(messages_of([10]))
            archived.journal.append(messages_of([10]))
            listed = archive.segments()
            sealed = [each for each in archived.journal.segments() if each.sealed_at is not None]
            assert [segment[:2] for segment in listed] == [segment[:2] for segment in sealed]
            assert [segment.number for segment in listed] == list(range(1, count + 1))
            assert all(segment.sealed_at for segment in listed)

    def test_finds_what_was_not_there_when_it_was_opened(self, archived: Archived) -> None:
        archive = archived.open()
        for _ in range(2):
            with pytest.raises(KeyError):
                archive.read(Position(1, 0, 0))
        messages = messages_of([10])
        assert archive.read(archived.append(messages)[0]) == messages[0]

    def test_knows_nothing_that_is_not_there(self, archived: Archived) -> None:
        last = archived.append(messages_of([1, 2]))[-1]
        assert_knows_nothing_behind(archived.open(), last)

    def test_a_segment_that_goes_is_gone_and_its_views_are_not(self, archived: Archived) -> None:
        message = messages_of([100_000])[0]
        position = archived.append([message])[0]
        archived.append(messages_of([1]))
        archive = archived.open()
        extent = next(archive.extents([position]))
        view = next(archive.views([extent]))
        batch = archive.record_batch(position.segment, 0)
        archived.remove(position.segment)
        assert [segment.number for segment in archive.segments()] == [position.segment + 1]
        assert view == message.body
        assert batch["body"].to_pylist() == [message.body]
        for gone in (archive, archived.open()):
            with pytest.raises(KeyError):
                gone.read(position)
            with pytest.raises(KeyError):
                gone.batch_sizes(position.segment)

    def test_views_are_read_only(self, archived: Archived) -> None:
        position = archived.append(messages_of([10]))[0]
        archive = archived.open()
        assert next(archive.bodies([position])).readonly
        assert memoryview(archive.read(position).body).readonly

    def test_knows_whose_segments_it_has(self, archived: Archived) -> None:
        assert archived.open().identity() is None
        archived.append(messages_of([1]))
        assert archived.open().identity() == archived.journal.identity()

    def test_gives_the_bytes_of_a_segment_and_finds_no_damage(self, archived: Archived) -> None:
        number = archived.append(messages_of([40_000] * 50))[0].segment
        archive = archived.open()
        assert b"".join(archive.segment_bytes(number)) == b"".join(archived.journal.segment_bytes(number))
        assert archive.verify(number) == []

    def test_is_pickled_by_its_place(self, archived: Archived) -> None:
        messages = messages_of([10, 20])
        positions = archived.append(messages)
        archive = archived.open()
        archive.segments()
        assert [pickle.loads(pickle.dumps(archive)).read(position) for position in positions] == messages

    def test_a_file_that_is_no_whole_segment_is_named(self, archived: Archived) -> None:
        archived.append(messages_of([5000, 10]))
        archived.journal.append(messages_of([1]))
        archive = archived.open()
        whole = archived.journal.segments()[0].size
        for number, data in enumerate((b"", b"PAR1", bytes(8192)), 7):
            archived.put(number, data)
            with pytest.raises(GatewayError, match=rf"000000000{number}\.arrows is not a journal segment: "):
                archive.batch_sizes(number)
        assert archive.segments()[0].size == whole

    # --- a journal that receivers share ---------------------------------------------------------------------------

    def test_what_a_receiver_publishes_is_what_it_has_received(self, archived: Archived) -> None:
        journal, archive = archived.journal, archived.shared()
        numbers = itertools.count(3)

        @settings(max_examples=20, deadline=None)
        @given(st.lists(st.lists(MESSAGES, min_size=1, max_size=6), min_size=1, max_size=3))
        def check(segments: list[list[PhysicalMessage]]) -> None:
            own = [position for messages in segments for position in archived.append(messages)]
            number, messages = next(numbers), [message for each in segments for message in each]
            sources = sorted({position.segment for position in own})
            origin, pieces = journal.published(sources, number, SHARED)
            assert archive.add(number, pieces)
            places, found = _all_of(archive, number)
            assert found == messages
            assert places == sorted(places)
            assert [place.row for place in places] == [position.row for position in own]
            assert origin == archive.origin(number) == (journal.identity().id, sources[-1], places[-1].pack())
            assert [archive.read(place) for place in places] == messages
            assert list(archive.views(archive.extents(places))) == [message.body for message in messages]
            assert archive.verify(number) == []
            batches = sorted({(place.segment, place.batch) for place in places})
            for batch, of_own in zip(batches, sorted({position[:2] for position in own}), strict=True):
                assert archive.descriptors(*batch).equals(journal.descriptors(*of_own))

        check()
        assert archive.identity() == SHARED

    def test_a_published_segment_needs_the_own_ones(self, archived: Archived) -> None:
        (position,) = archived.append(messages_of([1]))
        with pytest.raises(KeyError):
            archived.journal.published([position.segment, position.segment + 1], 1, SHARED)

    def test_a_segment_is_added_once(self, archived: Archived) -> None:
        archive = archived.shared()
        with pytest.raises(KeyError):
            archive.origin(1)
        messages = [messages_of([5]), messages_of([7])]
        own = [archived.append(each)[0].segment for each in messages]
        for segment, is_added in zip(own, (True, False), strict=True):
            assert archive.add(1, archived.journal.published([segment], 1, SHARED)[1]) is is_added
        for each in (archive, archived.shared()):
            assert each.read(Position(1, 0, 0)) == messages[0][0]
            assert [segment.number for segment in each.segments()] == [1]

    def test_of_two_that_add_a_segment_at_the_same_time_one_succeeds(self, archived: Archived) -> None:
        messages = messages_of([40_000, 50_000])
        own = [archived.append([message])[0].segment for message in messages]
        barrier, archives = Barrier(2), [archived.shared(), archived.shared()]

        def add(which: int, number: int) -> bool:
            _, pieces = archived.journal.published([own[which]], number, SHARED)
            barrier.wait(30)
            return archives[which].add(number, pieces)

        with ThreadPoolExecutor(2) as both:
            for number in range(1, 9):
                added = [*both.map(add, (0, 1), (number, number))]
                assert sorted(added) == [False, True]
                assert archives[0].read(Position(number, 0, 0)) == messages[added.index(True)]

    def test_a_published_segment_that_is_missing_is_not_passed_over(self, archived: Archived) -> None:
        own = [archived.append(messages_of([1]))[0].segment for _ in range(5)]
        archive = archived.shared()
        for number, segment in zip((1, 2, 4, 5), own, strict=False):
            assert archive.add(number, archived.journal.published([segment], number, SHARED)[1])
        for after in (None, Position(1, 0, 0), Position(2, 0, 0)):
            for each in (archive, archived.shared()):
                said = r"0000000003\.arrows is missing, and there is .*4\.arrows: put"
                with pytest.raises(GatewayError, match=said):
                    next(each.replay(after))
                with pytest.raises(GatewayError, match=said):
                    each.behind(0 if after is None else after.segment)
        assert [places for places, _ in archive.replay(Position(4, 0, 0))] == [[Position(5, 0, 0)]]
        assert archive.add(3, archived.journal.published([own[4]], 3, SHARED)[1])
        assert [places[0].segment for places, _ in archive.replay(None)] == [1, 2, 3, 4, 5]
        assert [each.number for each in archive.behind(3)] == [4, 5]

        archive.remove(4)  # the end of a segment may not have been read
        assert [each.number for each in archive.behind(4)] == [5]
        with pytest.raises(GatewayError, match=r"0000000004\.arrows is missing"):
            next(archive.replay(Position(4, 0, 0)))

    def test_a_missing_segment_can_be_given_up(self, archived: Archived) -> None:
        own = [archived.append(messages_of([1]))[0].segment for _ in range(3)]
        archive = archived.shared()
        for number, segment in zip((1, 3), own, strict=False):
            assert archive.add(number, archived.journal.published([segment], number, SHARED)[1])
        assert [archive.give_up(number) for number in (1, 2, 2, 3, 4)] == [False, True, False, False, False]
        for each in (archive, archived.shared()):
            assert [places for places, _ in each.replay(None)] == [[Position(1, 0, 0)], [Position(3, 0, 0)]]
            assert (each.batch_sizes(2), each.verify(2)) == ([], [])
            assert [each.has(number) for number in (1, 2, 3, 4)] == [True, True, True, False]
            with pytest.raises(KeyError):
                list(each.extents([Position(2, 0, 0)]))

    def test_what_one_receiver_archived_alone_has_no_origin(self, archived: Archived) -> None:
        number = archived.append(messages_of([1]))[0].segment
        assert archived.open().origin(number) is None
        archived.put(number, bytes(8192))
        with pytest.raises(GatewayError, match=r"0000000001\.arrows has no header that can be read"):
            archived.open().origin(number)


def _all_of(archive: JournalArchive, segment: int) -> tuple[list[Position], list[PhysicalMessage]]:
    """The positions and messages of the newest segment."""
    positions: list[Position] = []
    messages: list[PhysicalMessage] = []
    for places, found in archive.replay(Position.unpack(Position(segment, 0, 0).pack() - 1)):
        positions += places
        messages += found
    return positions, messages
