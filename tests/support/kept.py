"""All stores of a gateway in a folder, written by the service's own functions without its threads."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq

from app.model.identity import attachment_id
from app.model.message import PhysicalMessage
from app.model.records import AttachmentRecord
from app.service.assembling.assembler import Assembler
from app.service.content.settling import Settler
from app.service.content.stored_content import open_content
from app.service.context import ReceiverContext
from app.service.finishing.finisher import Finisher
from app.service.receiving.journal_upkeep import JournalUpkeep
from app.service.repair.recorder import Recorder
from app.settings import Settings
from app.testing.gateway_stages import ManualClock, service_context
from tests.support.loads import messages, mixed
from tests.support.sas_client import Attached, Program

SOURCE = "orders"
AT_ONCE: dict[str, Any] = {
    "content": {"settle_after": "0s"},
    "retention": {"journal": "0s"},
    "limits": {"free_bytes": 0},
}


class Kept:
    """A stopped gateway's stores in a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.program = Program(Random(11))
        self.clock = ManualClock()
        self.sent: dict[str, Attached] = {}
        self.messages: dict[str, list[PhysicalMessage]] = {}
        self.settings = Settings(data=folder, **AT_ONCE)
        self.configuration = folder.parent / f"{folder.name}.toml"
        self.configuration.write_text(f'data = "{folder}"\n')

    @contextmanager
    def context(self, **settings: Any) -> Iterator[ReceiverContext]:
        """Return the service's context, opened as a gateway opens it."""
        with service_context(self.folder, self.clock, **(AT_ONCE | settings)) as context:
            context.catalog.bind(context.journal.identity())
            yield context

    def receive(self, count: int = 9, *, settled: bool = False, retired: bool = False) -> list[str]:
        """Receive attachments of every kind, with each message's physical messages in a separate segment."""
        attachments = mixed(self.program, count)
        with self.context() as context:
            self.journal(context, attachments)
            assemble(context)
            self.clock.advance(60)
            if settled:
                Settler(context).settle()
            recorder = Recorder(context.catalog, context.store)
            recorder.record()
            if retired:
                JournalUpkeep(context, before_retiring=recorder.record_before_retiring).retire_segments()
        return [self.remember(each) for each in attachments]

    def remember(self, attached: Attached) -> str:
        found = attachment_id(SOURCE, attached.definition.correl_id)
        self.sent[found] = attached
        return found

    def journal(self, context: ReceiverContext, attachments: Sequence[Attached]) -> None:
        at = 0
        while at < len(attachments):
            some = attachments[at : at + 3]
            now = self.clock.now()
            context.journal.append([m._replace(source=SOURCE, received_at=now) for m in messages(self.program, some)])
            context.journal.seal()
            self.clock.advance(1)
            at += 3

    def assert_served(self, *, but: Sequence[str] = ()) -> None:
        """Assert that each attachment is finished and served as sent, except for those named, which are not served."""
        with self.context() as context:
            found = {each: context.catalog.attachment(each) for each in self.sent}
            for each, record in found.items():
                assert record is not None, each
                if each in but:
                    assert record.state != "finished", record
                    continue
                assert record.state == "finished", record
                content = open_content(record, context.catalog, context.store, context.journal)
                data = b"".join(content.read(0, content.size))
                attached = self.sent[each]
                if isinstance(attached.content, bytes):
                    assert data == attached.content
                else:
                    assert pq.read_table(BytesIO(data)).to_pydict() == attached.content.to_pydict()

    def record(self, attachment: str) -> AttachmentRecord:
        with self.context() as context:
            record = context.catalog.attachment(attachment)
            assert record is not None
            return record

    def object(self, attachment: str) -> Path:
        return self.folder / "content" / "attachments" / attachment

    def segments(self) -> list[Path]:
        return sorted((self.folder / "journal").glob("*.arrows"))


def assemble(context: ReceiverContext) -> None:
    """Assemble the messages in the journal, and finish complete attachments."""
    complete: list[str] = []
    Assembler(context, complete.extend).recover()
    Finisher(context).finish(dict.fromkeys(complete))


def flip(path: Path, at: int | None = None, bit: int = 0x08) -> None:
    """Invert one bit of a file, in the middle or at a given byte."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2 if at is None else at] ^= bit
    path.write_bytes(data)
