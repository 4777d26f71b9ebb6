"""What an archive refuses: another journal, and a gateway of an earlier epoch."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters.object_store import ObjectStore
from app.model.message import PhysicalMessage
from app.model.records import JournalIdentity
from app.service.context import ReceiverContext
from app.service.receiving.archiver import Archiver
from app.testing.gateway_stages import service_context


@pytest.fixture
def context(tmp_path: Path) -> Iterator[ReceiverContext]:
    with service_context(tmp_path) as made:
        yield made


@pytest.fixture
def archive(tmp_path: Path) -> ObjectStore:
    return ObjectStore(tmp_path / "archive")


def seal(context: ReceiverContext) -> None:
    context.journal.append([PhysicalMessage("here", "sas_queue", body=b"1")])
    context.journal.seal()


def become(context: ReceiverContext, journal: str, epoch: int) -> None:
    context.journal.identity = lambda: JournalIdentity(journal, epoch)  # type: ignore[method-assign]


def archived(archiver: Archiver) -> str | None:
    """Copy what is sealed; return the error."""
    archiver.archive()
    error: str | None = archiver.check()["error"]
    assert (error is None) == (archiver.waiting() == 0)
    return error


def test_a_gateway_that_was_replaced_copies_nothing_more(context: ReceiverContext, archive: ObjectStore) -> None:
    become(context, "a", 5)
    before = Archiver(context, archive)
    seal(context)
    assert archived(before) is None
    become(context, "a", 6)
    after = Archiver(context, archive)
    assert archived(after) is None
    assert b"".join(archive.read("journal-epoch")) == b"6"
    become(context, "a", 5)
    seal(context)
    for older in (before, Archiver(context, archive)):
        assert "written with epoch '6', and this gateway has epoch 5" in (archived(older) or "")
    become(context, "a", 6)
    assert archived(after) is None


def test_another_journal_needs_another_archive(context: ReceiverContext, archive: ObjectStore) -> None:
    become(context, "a", 1)
    seal(context)
    assert archived(Archiver(context, archive)) is None
    become(context, "b", 2)
    assert "belongs to the journal a, but this is the journal b" in (archived(Archiver(context, archive)) or "")
    assert b"".join(archive.read("journal-epoch")) == b"1"
