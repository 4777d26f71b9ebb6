"""The service's workers, run one after the other in this thread, with the test's own clock."""

from collections.abc import Sequence
from contextlib import suppress
from random import Random

from app.model.errors import GatewayError
from app.model.identity import attachment_id
from app.model.message import PhysicalMessage
from app.model.records import AttachmentRecord, QuarantineRecord
from app.service.assembling.assembler import Assembler
from app.service.content.settling import Settler
from app.service.content.stored_content import open_content
from app.service.context import ReceiverContext
from app.service.finishing.finisher import Finisher
from app.service.finishing.stored_parts import CompleteAttachment
from app.service.quarantine.quarantine_records import quarantined_message
from app.service.receiving.journal_upkeep import JournalUpkeep, seal_old_segment
from app.service.retention.receiving_time import ReceivingTime
from app.service.retention.removal import Sweeper
from app.testing.gateway_stages import ManualClock
from tests.support.sas_client import Attached, Program, binary_file, message
from tests.support.service_context import Connected, receive_for

SOURCE = "orders"


class Host:
    """A host that takes messages of some sources, and whose time the test controls."""

    def __init__(self, context: ReceiverContext, clock: ManualClock, sources: Sequence[str] = (SOURCE,)) -> None:
        self.context, self.clock, self.program = context, clock, Program(Random(5))
        self.complete: dict[str, CompleteAttachment | None] = {}
        self.assembler = Assembler(context, self.complete.update)
        self.times = ReceivingTime(context, {source: Connected() for source in sources})
        self.sweeper = Sweeper(context, times=self.times, between=self.assembler.change)
        self.upkeep = JournalUpkeep(context)

    def messages(self, *attached: Attached) -> list[PhysicalMessage]:
        now = self.clock.now()
        return [each._replace(source=SOURCE, received_at=now) for each in message(self.program, attached)]

    def receive(self, messages: Sequence[PhysicalMessage]) -> None:
        self.context.journal.append(messages)
        self.assembler.recover()
        finisher = Finisher(self.context, self.assembler.change)
        finisher.finish(self.complete)
        self.complete.clear()

    def receive_file(self, size: int) -> Attached:
        attached = binary_file(self.program, "a.bin", self.program.random.randbytes(size))
        self.receive(self.messages(attached))
        return attached

    def poison(self, body: bytes, source: str = SOURCE) -> None:
        self.receive([PhysicalMessage(source, "sas_queue", 7, body=body, received_at=self.clock.now())])

    def days(self, days: float) -> None:
        """Let time pass in which sources can receive, then receive a file, then do all work that is due."""
        receive_for(self.times, self.clock, days)
        seal_old_segment(self.context)
        self.receive_file(1)
        self.times.step()
        for _ in range(2):
            Settler(self.context).settle()
            self.sweep()
            self.clock.advance(11)

    def sweep(self) -> None:
        """Do what retention and the journal's upkeep do."""
        self.sweeper.sweep()
        with suppress(GatewayError):
            self.upkeep.retire_segments()

    def record(self, attached: Attached) -> AttachmentRecord:
        record = self.context.catalog.attachment(attachment_id(SOURCE, attached.definition.correl_id))
        assert record is not None
        return record

    def entries(self, source: str = SOURCE) -> list[QuarantineRecord]:
        """Return the entries of quarantine, oldest first."""
        return self.context.catalog.quarantined(source, None, None, 10_000).items[::-1]

    def quarantined(self, entry: QuarantineRecord) -> PhysicalMessage:
        return quarantined_message(entry, self.context)

    def segments(self) -> list[int]:
        return [segment.number for segment in self.context.journal.segments()]

    def assert_whole(self, attached: Attached) -> None:
        record = self.record(attached)
        assert record.state == "finished", record
        content = open_content(record, self.context.catalog, self.context.store, self.context.journal)
        assert b"".join(content.read(0, content.size)) == attached.content
