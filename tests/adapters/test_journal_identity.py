"""The identity of a journal and the numbers of its segments, also when files are damaged or lost."""

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.arrow_journal import ArrowJournal
from adapters.arrow_journal.archive import ArrowArchive
from adapters.arrow_journal.arrow_ipc import BLOCK
from adapters.arrow_journal.segment_files import segment_path
from app.model.errors import GatewayError
from app.model.message import Position
from tests.adapters.damaged_journal import flip_in
from tests.contracts.journal import everything, messages_of
from tests.support.length import examples


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

    @settings(max_examples=examples(30), deadline=None)
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
    def test_an_open_segment_whose_first_batch_is_gone_keeps_its_number(self, tmp_path: Path, identity: bool) -> None:
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
        assert [each.name for each in tmp_path.glob("*.damaged")] == ["0000000002.4096.damaged"] * identity

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
