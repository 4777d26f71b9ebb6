"""The segment that is being written, read by another process; and a journal that begins with what was copied."""

import os
from pathlib import Path

import pyarrow as pa
import pytest

from adapters.arrow_journal import ArrowJournal
from adapters.arrow_journal.archive import ArrowArchive
from adapters.arrow_journal.segment_copies import durable_part
from app.model.errors import GatewayError
from app.model.message import PhysicalMessage
from app.model.records import JournalIdentity
from tests.contracts.journal import everything, messages_of


def whole(folder: Path) -> tuple[int, bytes] | None:
    found = durable_part(folder)
    return None if found is None else (found.number, b"".join(found.pieces))


def bodies(data: bytes) -> list[bytes]:
    table = pa.ipc.open_stream(data).read_all()
    found: list[bytes] = table.column("body").to_pylist()
    return found


def test_the_segment_being_written_is_copied_as_if_it_were_sealed(tmp_path: Path) -> None:
    journal = ArrowJournal(tmp_path)
    found = whole(tmp_path)
    assert found is None
    sent: list[PhysicalMessage] = []
    for sizes in ([100, 0], [70_000] * 3, [0]):
        sent += messages_of(sizes)
        journal.append(sent[-len(sizes) :])
        found = whole(tmp_path)
        assert found is not None
        assert bodies(found[1]) == [bytes(each.body) for each in sent]
    journal.seal()
    assert whole(tmp_path) is None
    journal.close()
    assert found is not None
    assert (tmp_path / "0000000001.arrows").read_bytes() == found[1]


def test_what_is_not_durable_yet_is_left_out(tmp_path: Path) -> None:
    """Cut at every block, and with blocks of zeros at the end, as an append leaves it that is under way."""
    journal = ArrowJournal(tmp_path / "journal")
    first, second = messages_of([5000, 5000]), messages_of([9000] * 3)
    journal.append(first)
    (path,) = (tmp_path / "journal").glob("*.open.arrows")
    durable = path.stat().st_size
    journal.append(second)
    data = path.read_bytes()
    copy = tmp_path / "copy"
    copy.mkdir()
    for end in range(durable, len(data), 4096):
        for rest in (b"", bytes(len(data) - end)):
            (copy / path.name).write_bytes(data[:end] + rest)
            found = whole(copy)
            assert found is not None
            got = bodies(found[1])
            assert got[:2] == [bytes(each.body) for each in first]
    journal.close()


def test_a_copied_journal_goes_on_with_another_epoch_and_higher_numbers(tmp_path: Path) -> None:
    journal = ArrowJournal(tmp_path / "one")
    sent = messages_of([10, 20])
    journal.append(sent)
    identity = journal.identity()
    copied = ArrowArchive(tmp_path / "one").open_segment()
    assert copied is not None
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / f"{copied.number:010}.arrows").write_bytes(b"".join(copied.pieces))
    journal.close()
    ArrowJournal.begin(tmp_path / "two", JournalIdentity(identity.id, identity.epoch + 1000), 50)
    again = ArrowJournal(tmp_path / "two")
    assert again.identity() == JournalIdentity(identity.id, identity.epoch + 1001)
    assert [message.body for _, message in everything(again)] == [each.body for each in sent]
    (position,) = again.append(messages_of([1]))
    assert position.segment == 50
    again.close()
    with pytest.raises(GatewayError, match="belongs to the journal"):
        ArrowJournal.begin(tmp_path / "two", JournalIdentity("f" * 32, 1), 1)


def test_a_file_that_is_no_segment_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "0000000001.open.arrows").write_bytes(os.urandom(9000))
    assert whole(tmp_path) is None
