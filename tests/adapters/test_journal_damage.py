"""What becomes of a journal whose files are damaged, cut, lost or another journal's."""

import gzip
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.arrow_journal import ArrowJournal
from adapters.arrow_journal.archive import ArrowArchive
from adapters.arrow_journal.ipc import BLOCK, END_OF_STREAM
from adapters.arrow_journal.pieces import RUN
from adapters.arrow_journal.segments import segment_path
from app.model.errors import DamagedError, GatewayError
from app.model.message import UNREADABLE, PhysicalMessage, Position
from app.model.records import Damage, Extent
from tests.contracts.journal import everything, messages_of
from tests.support.disk import bad_blocks

BATCHES = [messages_of(sizes) for sizes in ([5, 0, 300], [40], [200, 30], [9000], [1, 2, 3], [7])]
WANTED = {
    Position(1, number, row): message for number, batch in enumerate(BATCHES) for row, message in enumerate(batch)
}
VECTOR = Path(__file__).parent.parent / "vectors" / "journal" / "format-1.arrows.gz"

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


class TestFlippedBits:
    @settings(max_examples=150, deadline=None)
    @given(st.integers(0, 8 * len(SEALED.data) - 1))
    def test_of_a_sealed_segment(self, place: int) -> None:
        at, bit = divmod(place, 8)
        may_be_lost = SEALED.lost_with(at)
        with SEALED.damaged(flipped(at, bit)) as folder:
            damage = check(folder, may_be_lost)
            assert segment_path(folder, 1, sealed=True).read_bytes()[at] != SEALED.data[at]
        batches = {each.batch for each in may_be_lost} | {None}
        assert all(each.batch in batches for each in damage)
        assert damage or not (may_be_lost or at < BLOCK or at >= len(SEALED.data) - len(END_OF_STREAM))

    @settings(max_examples=150, deadline=None)
    @given(st.integers(0, 8 * len(OPEN.data) - 1))
    def test_of_a_segment_that_was_being_written(self, place: int) -> None:
        at, bit = divmod(place, 8)
        with OPEN.damaged(flipped(at, bit)) as folder:
            check(folder, OPEN.lost_with(at))
            with pa.ipc.open_stream(segment_path(folder, 1, sealed=True).read_bytes()) as reader:
                sealed = list(reader)
        assert len(sealed) >= (5 if at >= OPEN.starts[-1] else 6)

    @settings(max_examples=100, deadline=None)
    @given(st.sets(st.integers(0, 8 * len(SEALED.data) - 1), min_size=2, max_size=6), st.booleans())
    def test_several_cost_no_more_than_each(self, places: set[int], is_sealed: bool) -> None:
        written = SEALED if is_sealed else OPEN
        found = [divmod(place, 8) for place in places if place < 8 * len(written.data)]

        def change(data: bytearray) -> None:
            for at, bit in found:
                data[at] ^= 1 << bit

        with written.damaged(change) as folder:
            check(folder, set().union(*(written.lost_with(at) for at, _ in found)))


class TestDamage:
    @pytest.mark.parametrize("written", [SEALED, OPEN], ids=["sealed", "open"])
    @pytest.mark.parametrize("batch", range(5))
    def test_a_damaged_head_costs_its_batch_and_what_lies_behind_keeps_its_place(
        self, written: Written, batch: int
    ) -> None:
        start = written.starts[batch]
        with written.damaged(zeroed(start, start + BLOCK)) as folder:
            damage = check(folder, {each for each in WANTED if each.batch == batch})
            assert [(each.batch, each.row) for each in damage] == [(batch, None)]
            kept = sorted(folder.glob("*.damaged"))
            if written.sealed:
                assert kept == []
            else:
                (aside,) = kept
                assert aside.name == f"0000000001.{start}.damaged"
                assert aside.read_bytes() == bytes(BLOCK) + written.data[start + BLOCK : written.starts[batch + 1]]
                assert [len(each) for each in stream(folder)] == [
                    0 if number == batch else len(messages) for number, messages in enumerate(BATCHES)
                ]

    def test_several_lost_batches_leave_as_many_without_rows(self) -> None:
        first, following = OPEN.starts[1], OPEN.starts[4]
        with OPEN.damaged(zeroed(first, following)) as folder:
            damage = check(folder, {each for each in WANTED if each.batch in (1, 2, 3)})
            assert [(each.batch, each.row) for each in damage] == [(1, None), (2, None), (3, None)]
            assert [len(each) for each in stream(folder)] == [3, 0, 0, 0, 3, 1]

    @pytest.mark.parametrize("written", [SEALED, OPEN], ids=["sealed", "open"])
    def test_a_damaged_body_costs_its_row(self, written: Written) -> None:
        position = Position(1, 2, 0)
        with written.damaged(flipped(written.bodies[position].offset)) as folder:
            damage = check(folder, {position})
            assert damage == [Damage(*position, "the body fails its checksum")]

    def test_a_sealed_segment_with_a_damaged_header_is_read(self) -> None:
        with SEALED.damaged(zeroed(0, BLOCK)) as folder:
            (damage,) = check(folder, set())
            assert (damage.batch, damage.row) == (None, None)
            assert "header" in damage.why

    def test_an_open_segment_with_a_damaged_header_gets_another(self) -> None:
        with OPEN.damaged(zeroed(0, BLOCK)) as folder:
            assert check(folder, set()) == []
            assert sum(map(len, stream(folder))) == len(WANTED)
            assert (folder / "0000000001.0.damaged").read_bytes() == bytes(BLOCK)

    @pytest.mark.parametrize("size", [0, 1, 100, BLOCK, BLOCK + 1, *SEALED.starts[1:], len(SEALED.data) - 1])
    def test_of_a_cut_segment_what_is_there_is_read(self, size: int) -> None:
        lost = {
            each
            for each in WANTED
            if (extent := SEALED.bodies.get(each)) is None or extent.offset + extent.length > size
        }
        with SEALED.damaged(cut(size)) as folder:
            damage = check(folder, lost)
            assert damage
            with closing(ArrowJournal(folder)) as journal:
                assert journal.end() is not None

    def test_a_damaged_batch_that_looks_like_another_in_a_body_is_not_taken_for_it(self, tmp_path: Path) -> None:
        with closing(ArrowJournal(tmp_path / "other")) as other:
            for batch in BATCHES:
                other.append(batch)
            forged = segment_path(tmp_path / "other", 1, sealed=False).read_bytes()
        folder = tmp_path / "journal"
        with closing(ArrowJournal(folder)) as journal:
            journal.append(messages_of([1]))
            position = journal.append([PhysicalMessage("queue", "sas_queue", body=forged * 3)])[0]
            after = journal.append(messages_of([2]))[0]
            place = next(journal.extents([position])).offset
            unsealed = bytearray(segment_path(folder, 1, sealed=False).read_bytes())
        start = place - place % BLOCK
        moved = unsealed[:start] + bytes(BLOCK) + forged + unsealed[start + BLOCK + len(forged) :]
        segment_path(folder, 1, sealed=True).unlink()
        segment_path(folder, 1, sealed=False).write_bytes(moved)
        with closing(ArrowJournal(folder)) as journal:
            found = everything(journal)
            assert [each for each, _ in found] == [Position(1, 0, 0), position, after]
            assert [each.framing == UNREADABLE for _, each in found] == [False, True, False]

    def test_a_segment_of_format_1_is_read(self, tmp_path: Path) -> None:
        segment_path(tmp_path, 1, sealed=True).write_bytes(gzip.decompress(VECTOR.read_bytes()))
        with closing(ArrowJournal(tmp_path)) as journal:
            assert [len(message.body) for _, message in everything(journal)] == [5, 0, 300, 40, 200, 30]
            assert [message.msg_seq_number for _, message in everything(journal)] == [1, 2, 3, 4, 5, 6]
            assert journal.verify(1) == []
            assert journal.end() == Position(1, 2, 1)
            assert journal.append(BATCHES[0])[0] == Position(2, 0, 0)
            journal.seal()
            archive = ArrowArchive(tmp_path)
            assert archive.identity() == journal.identity()
            assert [len(archive.record_batch(number, 0)) for number in (1, 2)] == [3, 3]

    @settings(max_examples=100, deadline=None)
    @given(st.integers(BLOCK * 8, 8 * 16384 - 1), st.booleans())
    def test_damage_of_format_1_costs_its_batch(self, place: int, is_sealed: bool) -> None:
        at, bit = divmod(place, 8)
        data = bytearray(gzip.decompress(VECTOR.read_bytes()))
        data[at] ^= 1 << bit
        with TemporaryDirectory() as folder:
            segment_path(Path(folder), 1, sealed=is_sealed).write_bytes(data if is_sealed else data[:-8])
            with closing(ArrowJournal(Path(folder))) as journal:
                found = [(each.batch, len(message.body)) for each, message in everything(journal)]
        whole = [(0, 5), (0, 0), (0, 300), (1, 40), (2, 200), (2, 30)]
        assert all(each in whole or each[1] == 0 for each in found)
        damaged = at // BLOCK - 1
        assert [each for each in whole if each[0] < damaged] == [each for each in found if each[0] < damaged]


def stream(folder: Path) -> list[pa.RecordBatch]:
    """The batches of the sealed segment 1, as any Arrow reader has them."""
    with pa.ipc.open_stream(segment_path(folder, 1, sealed=True).read_bytes()) as reader:
        return list(reader)


class TestReading:
    def test_a_block_that_cannot_be_read_costs_what_lies_in_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        messages = messages_of([3000] * 40)
        with closing(ArrowJournal(tmp_path)) as journal:
            positions = journal.append(messages)
        with closing(ArrowJournal(tmp_path)) as journal:
            extents = list(journal.extents(positions))
            bad = extents[20].offset - extents[20].offset % BLOCK
            bad_blocks(monkeypatch, bad)
            lost = {
                row for row, each in enumerate(extents) if each.offset < bad + BLOCK and bad < each.offset + each.length
            }
            for row, (position, message) in enumerate(zip(positions, messages, strict=True)):
                if row in lost:
                    for ask in (journal.read, lambda p: list(journal.bodies([p]))):
                        with pytest.raises(DamagedError, match="cannot be read: Input/output error"):
                            ask(position)
                else:
                    assert journal.read(position) == message
            assert {each.row for each in journal.verify(1)} == lost
            replayed = [message for _, message in everything(journal)]
            assert {row for row, each in enumerate(replayed) if each.framing == UNREADABLE} == lost
            whole = b"".join(journal.segment_bytes(1))
            assert whole[:bad] + bytes(BLOCK) + whole[bad + BLOCK :] == whole

    def test_a_head_that_cannot_be_read_costs_its_batch(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with SEALED.damaged(lambda data: None) as folder:
            shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
        bad_blocks(monkeypatch, SEALED.starts[2])
        damage = check(tmp_path, {each for each in WANTED if each.batch == 2})
        assert [(each.batch, each.row) for each in damage] == [(2, None)]
        with closing(ArrowJournal(tmp_path)) as journal:
            unreadable = [at for at, each in everything(journal) if each.framing == UNREADABLE]
            assert unreadable == [Position(1, 2, 0)]
            assert not any(each.framing == UNREADABLE for _, each in everything(journal, Position(1, 2, 0)))

    def test_a_segment_that_cannot_be_read_is_named(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with SEALED.damaged(lambda data: None) as folder:
            shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
        with closing(ArrowJournal(tmp_path)) as journal:
            bad_blocks(monkeypatch, *range(0, segment_path(tmp_path, 1, sealed=True).stat().st_size, BLOCK))
            assert [(at, each.framing) for at, each in everything(journal)] == [(Position(1, 0, 0), UNREADABLE)]

    def test_a_file_cut_behind_our_back_is_an_error(self, tmp_path: Path) -> None:
        messages = messages_of([3000] * 40)
        with closing(ArrowJournal(tmp_path)) as journal:
            positions = journal.append(messages)
            journal.seal()
            journal.append(messages_of([1]))
        with closing(ArrowJournal(tmp_path)) as journal:
            reading = journal.bodies(positions)
            first = next(reading)
            extent = next(journal.extents([positions[30]]))
            os.truncate(segment_path(tmp_path, 1, sealed=True), extent.offset)
            assert first == messages[0].body
            assert journal.read(positions[29]) == messages[29]
            with pytest.raises(DamagedError, match="the file ends at byte"):
                journal.read(positions[30])
            assert len(everything(journal)) == 41

    def test_a_large_body_is_checked_once_and_whole_before_any_of_it_is_handed_out(self, tmp_path: Path) -> None:
        message = messages_of([3 * RUN])[0]
        with closing(ArrowJournal(tmp_path)) as journal:
            position = journal.append([message])[0]
        path = segment_path(tmp_path, 1, sealed=True)
        with closing(ArrowJournal(tmp_path)) as journal:
            number, offset, length = next(journal.extents([position]))
            pieces = [Extent(number, at, 1000) for at in range(offset, offset + length - 1000, RUN // 2)]
            assert b"".join(journal.views(pieces)) == b"".join(
                message.body[each.offset - offset :][:1000] for each in pieces
            )
        data = bytearray(path.read_bytes())
        data[offset + length - 1] ^= 1
        path.write_bytes(data)
        with closing(ArrowJournal(tmp_path)) as journal:
            for found in (journal.views(pieces[:1]), journal.bodies([position])):
                with pytest.raises(DamagedError, match="fails its checksum"):
                    next(found)

    def test_an_extent_is_checked_with_the_whole_body_around_it(self) -> None:
        position = Position(1, 3, 0)
        number, offset, length = SEALED.bodies[position]
        with SEALED.damaged(flipped(offset + length - 1)) as folder, closing(ArrowJournal(folder)) as journal:
            with pytest.raises(DamagedError) as raised:
                next(journal.views([Extent(number, offset + 10, 5)]))
            assert raised.value.damage == (Damage(*position, "the body fails its checksum"),)

    def test_an_archive_reads_what_is_whole(self) -> None:
        position = Position(1, 2, 0)
        with SEALED.damaged(flipped(SEALED.bodies[position].offset)) as folder:
            archive = ArrowArchive(folder)
            with pytest.raises(DamagedError):
                archive.read(position)
            batch = archive.record_batch(1, 2)
            assert batch["framing"].to_pylist() == [UNREADABLE, "sas_queue"]
            assert batch["body"].to_pylist() == [b"", BATCHES[2][1].body]
            assert archive.record_batch(1, 1)["body"].to_pylist() == [BATCHES[1][0].body]
            assert archive.verify(1) == [Damage(*position, "the body fails its checksum")]


class TestIdentity:
    def test_is_kept_and_its_epoch_grows(self, tmp_path: Path) -> None:
        with closing(ArrowJournal(tmp_path)) as journal:
            first = journal.identity()
        with closing(ArrowJournal(tmp_path)) as journal:
            assert journal.identity() == first._replace(epoch=first.epoch + 1)
        with closing(ArrowJournal(tmp_path / "other")) as other:
            assert other.identity().id != first.id

    @pytest.mark.parametrize(
        "damage", [Path.unlink, lambda path: path.write_bytes(b""), lambda path: path.write_bytes(bytes(8192))]
    )
    def test_is_recovered_from_segments(self, tmp_path: Path, damage: Callable[[Path], None]) -> None:
        with closing(ArrowJournal(tmp_path)) as journal:
            journal.append(messages_of([1]))
            first = journal.identity()
        damage(tmp_path / "identity")
        with closing(ArrowJournal(tmp_path)) as journal:
            assert journal.identity() == first._replace(epoch=first.epoch + 1)
            assert journal.append(messages_of([1]))[0].segment == 2

    @settings(max_examples=60, deadline=None)
    @given(st.integers(0, 8 * 8192 - 1))
    def test_survives_a_flipped_bit(self, place: int) -> None:
        with TemporaryDirectory() as name:
            folder, epochs, numbers = Path(name), [], []
            for turn in range(4):
                with closing(ArrowJournal(folder)) as journal:
                    epochs.append(journal.identity())
                    numbers.append(journal.append(messages_of([1]))[0].segment)
                if turn == 2:
                    flip_in(folder / "identity", place)
        assert len({each.id for each in epochs}) == 1
        assert sorted(set(epochs)) == epochs
        assert sorted(set(numbers)) == numbers

    def test_of_an_old_journal_is_made_once(self, tmp_path: Path) -> None:
        segment_path(tmp_path, 1, sealed=True).write_bytes(gzip.decompress(VECTOR.read_bytes()))
        with closing(ArrowJournal(tmp_path)) as journal:
            first = journal.identity()
        with closing(ArrowJournal(tmp_path)) as journal:
            assert journal.identity().id == first.id

    def test_another_journals_segments_are_refused(self, tmp_path: Path) -> None:
        one, other = tmp_path / "one", tmp_path / "other"
        for folder in (one, other):
            with closing(ArrowJournal(folder)) as journal:
                journal.append(messages_of([1]))
        shutil.copy(segment_path(other, 1, sealed=True), segment_path(one, 2, sealed=True))
        with pytest.raises(
            GatewayError, match=r"0000000002\.arrows belongs to the journal [0-9a-f]{32}, and this folder"
        ):
            ArrowJournal(one)
        archive = ArrowArchive(one)
        with pytest.raises(GatewayError, match=r"belongs to the journal .*: give each journal an archive of its own"):
            archive.identity()

    def test_a_segment_under_another_number_is_no_segment(self, tmp_path: Path) -> None:
        with closing(ArrowJournal(tmp_path)) as journal:
            position = journal.append(messages_of([1]))[0]
        shutil.copy(segment_path(tmp_path, 1, sealed=True), segment_path(tmp_path, 2, sealed=True))
        with closing(ArrowJournal(tmp_path)) as journal:
            assert [each for each, _ in everything(journal)] == [position, Position(2, 0, 0)]
            assert journal.verify(2)


class TestNumbers:
    def test_a_lost_newest_segment_leaves_a_gap(self, tmp_path: Path) -> None:
        with closing(ArrowJournal(tmp_path)) as journal:
            for _ in range(3):
                last = journal.append(messages_of([1]))[0]
                journal.seal()
        segment_path(tmp_path, last.segment, sealed=True).unlink()
        with closing(ArrowJournal(tmp_path)) as journal:
            assert journal.end() == Position(2, 0, 0)
            assert journal.append(messages_of([1]))[0] == Position(4, 0, 0)

    @pytest.mark.parametrize("identity", [True, False])
    def test_an_open_segment_whose_first_batch_is_damaged_is_set_aside(self, tmp_path: Path, identity: bool) -> None:
        with closing(ArrowJournal(tmp_path)) as journal:
            journal.append(messages_of([1]))
            journal.seal()
            journal.append(messages_of([500]))
            unsealed = segment_path(tmp_path, 2, sealed=False).read_bytes()
        segment_path(tmp_path, 2, sealed=True).unlink()
        damaged = unsealed[:BLOCK] + bytes(BLOCK)
        segment_path(tmp_path, 2, sealed=False).write_bytes(damaged)
        if not identity:
            (tmp_path / "identity").unlink()
        for number in (3, 4):
            with closing(ArrowJournal(tmp_path)) as journal:
                assert journal.end() is not None
                assert journal.append(messages_of([1]))[0] == Position(number, 0, 0)
        assert (tmp_path / "0000000002.damaged").read_bytes() == damaged

    def test_a_segment_that_was_only_begun_is_begun_again(self, tmp_path: Path) -> None:
        journal = ArrowJournal(tmp_path)
        journal.append(messages_of([1]))
        journal.seal()
        header = segment_path(tmp_path, 1, sealed=True).read_bytes()[:BLOCK]
        journal.close()
        segment_path(tmp_path, 2, sealed=False).write_bytes(header + bytes(100))
        with closing(ArrowJournal(tmp_path)) as journal:
            assert journal.append(messages_of([1]))[0] == Position(2, 0, 0)

    def test_reserve_keeps_lower_numbers_from_being_used(self, tmp_path: Path) -> None:
        with closing(ArrowJournal(tmp_path)) as journal:
            journal.append(messages_of([1]))
            journal.reserve(9)
            assert journal.append(messages_of([1]))[0] == Position(10, 0, 0)
            journal.reserve(3)
            assert journal.append(messages_of([1]))[0] == Position(11, 0, 0)
            journal.reserve(20)
        with closing(ArrowJournal(tmp_path)) as journal:
            assert journal.append(messages_of([1]))[0] == Position(21, 0, 0)
            with pytest.raises(ValueError, match="not a segment number"):
                journal.reserve(1 << 31)

    def test_the_end_outlives_what_was_retired(self, tmp_path: Path) -> None:
        with closing(ArrowJournal(tmp_path)) as journal:
            assert journal.end() is None
            last = journal.append(messages_of([1] * 600))[-1]
            assert journal.end() == last
            journal.seal()
            journal.retire(last.segment)
            assert journal.end() == last
        with closing(ArrowJournal(tmp_path)) as journal:
            assert journal.end() == last


def flip_in(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place // 8] ^= 1 << place % 8
    path.write_bytes(data)
