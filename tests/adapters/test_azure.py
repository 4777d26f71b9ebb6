"""Content store and archive of the journal on Azure Blob Storage, by Azurite."""

from contextlib import closing
from pathlib import Path

import pytest

from adapters.arrow_journal.archive import ArrowArchive
from adapters.object_store import ObjectStore
from app.model.message import PhysicalMessage
from app.model.records import JournalIdentity
from app.service.receiving.archiver import Archiver
from app.testing.gateway_stages import service_context
from tests.contracts.store import StoreContract, put
from tests.support.azurite import Container


@pytest.fixture
def url(container: Container) -> str:
    return f"{container.url}/content"


class TestContent(StoreContract):
    @pytest.fixture
    def store(self, url: str) -> ObjectStore:
        return ObjectStore(url)

    def test_many_objects_are_deleted_at_once(self, store: ObjectStore) -> None:
        names = [f"a/{number}" for number in range(300)]
        with store.batch() as together:
            for name in names:
                put(together, name, b"x")
        store.delete_all([*names[:299], "missing"])
        assert list(store.names()) == ["a/299"]


def test_the_journal_is_archived_and_read_back(url: str, tmp_path: Path) -> None:
    with service_context(tmp_path) as context:
        message = PhysicalMessage("here", "sas_queue", body=b"archived")
        context.journal.append([message])
        context.journal.seal()
        archiver = Archiver(context, ObjectStore(url))
        archiver.archive()
        assert archiver.check() == {"ok": True, "waiting": 0, "error": None}
        archive = ArrowArchive(url, tmp_path / "cache")
        (segment,) = archive.segments()
        assert archive.verify(segment.number) == []
        assert isinstance(archive.identity(), JournalIdentity)
        with closing(context.journal):
            (position,), _ = next(iter(context.journal.replay(None)))
            assert bytes(archive.read(position).body) == b"archived"
