"""What one process deletes while another one, which receives, holds it in memory: it does not come back."""

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from adapters.sql_catalog import SqlCatalog
from app.model.attachment import AttachmentState
from app.model.errors import CatalogChanged
from app.model.identity import attachment_id
from app.model.message import PhysicalMessage
from app.service.context import at_once
from app.service.retention.deletion import Deletion, NotEnded
from app.testing.gateway_stages import ManualClock, migrated, service_context
from tests.contracts.catalog.records import deleted
from tests.support.host import SOURCE, Host
from tests.support.postgresql import new_database
from tests.support.sas_client import Attached, binary_file


class Deleting:
    """Inheritors give the fixture `url`: an empty catalog, which two processes open."""

    @pytest.fixture
    def host(self, tmp_path: Path, url: str) -> Iterator[Host]:
        clock = ManualClock()
        with service_context(tmp_path, clock) as context, closing(SqlCatalog(url)) as catalog:
            yield Host(replace(context, catalog=catalog), clock)

    @pytest.fixture
    def elsewhere(self, url: str) -> Iterator[SqlCatalog]:
        with closing(SqlCatalog(url)) as catalog:
            yield catalog

    def test_a_message_whose_last_part_comes_after_its_deletion(self, host: Host, elsewhere: SqlCatalog) -> None:
        deletion = Deletion(replace(host.context, catalog=elsewhere), at_once)
        attached = binary_file(host.program, "a.bin", bytes(50_000))
        header, application, *parts = host.messages(attached)
        host.receive([header, *parts])
        record = host.record(attached)
        assert record.message_id is not None
        assert deletion.attachment(record.id)
        assert deletion.message(record.message_id)
        with pytest.raises(CatalogChanged, match="1 messages were deleted meanwhile"):
            host.receive([application])
        assert elsewhere.message(record.message_id) is None
        host.assembler.forget()
        host.receive([])
        assert elsewhere.message(record.message_id) is None
        assert host.record(attached).state is AttachmentState.DELETED

    def test_deletions_between_checkpoints(self, host: Host, elsewhere: SqlCatalog) -> None:
        """Messages come in pieces, and are assembled and saved at any time; between two steps something is deleted."""
        random = Random(33)
        steps = Steps(host, elsewhere, random)
        host.assembler.recover()
        while steps.waiting:
            random.choice([*[steps.receive] * 3, steps.delete, steps.delete, steps.save])()
            host.clock.advance(0.001)
            steps.check()
        steps.save()
        assert steps.restarts == {"attachments", "messages"}
        host.receive([])
        left = [attached for each, attached in steps.sent.items() if each not in steps.gone]
        assert left
        for each in left:
            assert host.record(each).parts_received == len(each.bodies)


class Steps:
    """What the process that receives does, and what another one deletes."""

    def __init__(self, host: Host, elsewhere: SqlCatalog, random: Random) -> None:
        self._host, self._elsewhere, self._random = host, elsewhere, random
        self._deletion = Deletion(replace(host.context, catalog=elsewhere), at_once)
        self.waiting = [[PhysicalMessage(SOURCE, "sas_queue", 7, body=bytes([n])) for n in range(12)]]
        self.sent: dict[str, Attached] = {}
        for n in range(20):
            some = [binary_file(host.program, f"{n}-{m}.bin", random.randbytes(70_000)) for m in range(n % 3 + 1)]
            self.sent.update((attachment_id(SOURCE, each.definition.correl_id), each) for each in some)
            header, *others = host.messages(*some)
            random.shuffle(others)
            self.waiting.append([header, *others])
        self.gone: set[str] = set()
        self._removed: set[str] = set()
        self.restarts: set[str] = set()

    def _attempt(self, step: Callable[[], object]) -> None:
        """Assemble or save, as the thread of assembly does: it begins again when the catalog has changed."""
        try:
            step()
        except CatalogChanged as error:
            self.restarts.update(each for each in ("attachments", "messages") if each in str(error))
            self._host.assembler.forget()
            self._attempt(self._host.assembler.recover)

    def receive(self) -> None:
        queue = self._random.choice(self.waiting)
        some = [queue.pop(0) for _ in range(min(len(queue), self._random.randrange(1, 4)))]
        self.waiting = [each for each in self.waiting if each]
        positions = self._host.context.journal.append(some)
        self._attempt(lambda: self._host.assembler.assemble(positions, some))

    def save(self) -> None:
        self._attempt(self._host.assembler.save)

    def delete(self) -> None:
        """Delete an attachment, a message with its attachments, an entry of quarantine, or what is left of the oldest
        deleted attachment."""
        messages = self._elsewhere.messages(SOURCE, None, 500).items
        entries = self._elsewhere.quarantined(SOURCE, None, None, 500).items
        what = self._random.randrange(4)
        if what < 2 and messages:
            message = self._random.choice([each for each in messages if each.application_body is None] or messages)
            chosen = message.attachments[: 1 if what else None]
            self.gone.update(each for each in chosen if self._deletion.attachment(each))
            with suppress(NotEnded):
                self.gone.update([message.id] if not what and self._deletion.message(message.id) else [])
        elif what == 2 and entries:
            entry = self._random.choice(entries).id
            self._elsewhere.drop_quarantine([entry])
            self.gone.add(entry)
        elif what == 3:
            self._elsewhere.drop_attachments([AttachmentState.DELETED], self._host.clock.now() + 1, 1, deleted)
            self._removed.update(self.gone - {each.id for each in self._elsewhere.attachments_by_id([*self.gone])})

    def check(self) -> None:
        """Assert that nothing deleted is there."""
        present = {each.id for each in self._elsewhere.messages(SOURCE, None, 500).items}
        present.update(each.id for each in self._elsewhere.quarantined(SOURCE, None, None, 500).items)
        assert sorted(present & self.gone) == []
        for each in self._elsewhere.attachments_by_id([*self.gone]):
            # Of one whose row was removed, a later part is all that is known: its header came before.
            assert each.kind is None if each.id in self._removed else each.state is AttachmentState.DELETED


class TestSqlite(Deleting):
    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return migrated(tmp_path / "shared.sqlite")


class TestPostgresql(Deleting):
    @pytest.fixture
    def url(self, postgresql: Path) -> str:
        return new_database(postgresql)
