"""What flipped bits, damaged blocks and cut files cost a journal."""

import os
from contextlib import closing
from errno import EIO
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.arrow_journal import ArrowJournal
from adapters.arrow_journal.arrow_ipc import BLOCK, END_OF_STREAM
from adapters.arrow_journal.segment_files import segment_path
from app.model.message import UNREADABLE, PhysicalMessage, Position
from app.model.records import Damage
from tests.adapters.damaged_journal import BATCHES, OPEN, SEALED, WANTED, Written, check, cut, flipped, stream, zeroed
from tests.contracts.journal import everything, messages_of
from tests.support.length import examples


class TestFlippedBits:
    @settings(max_examples=examples(60), deadline=None)
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

    @settings(max_examples=examples(60), deadline=None)
    @given(st.integers(0, 8 * len(OPEN.data) - 1))
    def test_of_a_segment_that_was_being_written(self, place: int) -> None:
        at, bit = divmod(place, 8)
        with OPEN.damaged(flipped(at, bit)) as folder:
            check(folder, OPEN.lost_with(at))
            with pa.ipc.open_stream(segment_path(folder, 1, sealed=True).read_bytes()) as reader:
                sealed = list(reader)
        assert len(sealed) >= (5 if at >= OPEN.starts[-1] else 6)

    @settings(max_examples=examples(50), deadline=None)
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

    @pytest.mark.parametrize("behind", ["nothing", "a torn batch"])
    def test_a_last_batch_that_cannot_be_read_is_named_as_lost(
        self, monkeypatch: pytest.MonkeyPatch, behind: str
    ) -> None:
        monkeypatch.setattr("adapters.disk._PAUSES", ())
        last = 5 if behind == "nothing" else 4
        start = OPEN.starts[last]
        pread = os.pread

        def failing(file: int, length: int, at: int) -> bytes:
            if at < start + BLOCK and start < at + length:
                raise OSError(EIO, "the disk fails")
            return pread(file, length, at)

        def torn(data: bytearray) -> None:
            if behind == "a torn batch":
                del data[OPEN.bodies[Position(1, 5, 0)].offset :]

        with OPEN.damaged(torn) as folder:
            with monkeypatch.context() as disk:
                disk.setattr(os, "pread", failing)
                with closing(ArrowJournal(folder)) as journal:
                    found = everything(journal)
            assert [each for each, _ in found if each.batch < last] == [each for each in WANTED if each.batch < last]
            assert [(each, lost.framing) for each, lost in found[-1:]] == [(Position(1, last, 0), UNREADABLE)]
            aside = folder / f"0000000001.{start}.damaged"
            assert aside.exists()
            assert [len(each) for each in stream(folder)] == [*map(len, BATCHES[:last]), 0]
            with closing(ArrowJournal(folder)) as journal:
                assert everything(journal)[:-1] == found[:-1]
                assert [(each, lost.framing) for each, lost in everything(journal)[-1:]] == [
                    (Position(1, last, 0), UNREADABLE)
                ]

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
