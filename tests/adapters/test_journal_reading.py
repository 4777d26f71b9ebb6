"""Blocks that cannot be read, and bodies that are checked before they are handed out."""

import os
import shutil
from contextlib import closing
from itertools import permutations
from pathlib import Path

import pytest

from adapters.arrow_journal import ArrowJournal
from adapters.arrow_journal.archive import ArrowArchive
from adapters.arrow_journal.arrow_ipc import BLOCK
from adapters.arrow_journal.body_pieces import RUN
from adapters.arrow_journal.segment_files import segment_path
from app.model.errors import DamagedError
from app.model.message import UNREADABLE, Position
from app.model.records import Damage, Extent
from tests.adapters.damaged_journal import BATCHES, SEALED, WANTED, check, flipped
from tests.contracts.journal import everything, messages_of
from tests.support.disk import bad_blocks


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

    def test_bodies_come_from_disk_in_any_order_with_empty_ones_between(self, tmp_path: Path) -> None:
        messages = messages_of([5, 0, 10, 0, 3])
        with closing(ArrowJournal(tmp_path)) as journal:
            positions = journal.append(messages)
        with closing(ArrowJournal(tmp_path)) as journal:
            for order in permutations(range(len(messages))):
                found = journal.bodies([positions[number] for number in order])
                assert [*map(bytes, found)] == [messages[number].body for number in order]

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
