"""Finished content that rots, and what comes again of it."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from random import Random
from threading import Event
from typing import NamedTuple

import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from app.model.attachment import AttachmentState
from app.model.errors import DamagedError
from app.model.identity import attachment_id
from app.model.message import PhysicalMessage
from app.model.records import DAMAGED_CONTENT, AttachmentRecord
from app.ports import AttachmentFilter
from app.service.assembling.assembler import Assembler
from app.service.content.content_damage import Damages
from app.service.content.content_service import Contents
from app.service.content.settling import Settler
from app.service.context import ReceiverContext
from app.service.finishing.finisher import Finisher
from app.service.finishing.stored_parts import CompleteAttachment
from app.service.repair.healing import Healer
from app.testing.gateway_stages import service_context
from tests.framing.order_packets import DATA_SET, bare, options, parquet, table, written
from tests.support.mq_client import any_bodies, group
from tests.support.sas_client import Program, binary_file, data_set, message, text_file

SOURCE = "orders"
KINDS = ["binary", "text", "data set", "group"]


class Sent(NamedTuple):
    """An attachment's key and its messages."""

    key: bytes
    messages: list[PhysicalMessage]
    source: str = SOURCE

    @property
    def id(self) -> str:
        return attachment_id(self.source, self.key)


def made(kind: str) -> Sent:
    random = Random(3)
    program = Program(random, body_limit=2000)
    if kind == "group":
        sent = group(random, any_bodies(random, random.randbytes(20_000), 20))
        return Sent(sent.identifier, [each._replace(source=SOURCE) for each in sent.messages])
    if kind == "binary":
        attached = binary_file(program, "a", random.randbytes(20_000))
    elif kind == "text":
        attached = text_file(program, "a", b"\n".join(random.randbytes(50).hex().encode() for _ in range(200)) + b"\n")
    else:
        attached = data_set(program, "WORK", "A", pa.table({"x": [random.random() for _ in range(2000)]}))
    return Sent(attached.definition.correl_id, [each._replace(source=SOURCE) for each in message(program, [attached])])


class Running:
    """The parts of a gateway that assemble, serve and heal, one step after the other."""

    def __init__(self, context: ReceiverContext) -> None:
        self.context, self.stop = context, Event()
        self.damages = Damages(context)
        self.contents = Contents(context, self.damages)
        self.healer = Healer(context, self.damages, self.contents.compared, self.stop)
        self.complete: dict[str, CompleteAttachment | None] = {}
        self.assembler = Assembler(context, self.complete.update, sent_again=self.healer.put)

    def receive(self, messages: list[PhysicalMessage]) -> None:
        self.context.journal.append(messages)
        self.context.journal.seal()
        self.assembler.recover()
        Finisher(self.context).finish(self.complete)
        self.complete.clear()

    def record(self, each: str) -> AttachmentRecord:
        found = self.context.catalog.attachment(each)
        assert found is not None
        return found

    def content(self, each: str) -> bytes:
        return b"".join(self.contents.compared(self.record(each)))


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with service_context(tmp_path, content={"settle_after": "1s"}) as context:
        yield Running(context)


def rot(running: Running, sent: Sent, where: str) -> None:
    """Flip a byte of the content, or delete it, wherever it is stored."""
    record = running.record(sent.id)
    folder = running.context.settings.data
    if record.storage == "store":
        path = folder / "content" / "attachments" / sent.id
        place = path.stat().st_size // 2
    else:
        extent = running.context.catalog.extents(sent.id)[3]
        path, place = folder / "journal" / f"{extent.segment:010}.arrows", extent.offset + extent.length // 2
    if where == "gone" and record.storage == "store":
        path.unlink()
        return
    data = bytearray(path.read_bytes())
    data[place] ^= 0x55
    path.write_bytes(data)


def is_damaged(running: Running, sent: Sent) -> bool:
    try:
        running.content(sent.id)
    except DamagedError:
        return True
    return False


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize("noticed", [True, False])
@pytest.mark.parametrize("where", ["flipped", "gone"])
def test_content_that_is_sent_again_heals(
    running: Running, kind: str, *, settled: bool, noticed: bool, where: str
) -> None:
    sent = made(kind)
    running.receive(sent.messages)
    if settled:
        running.context.clock.advance(60)  # type: ignore[attr-defined]
        Settler(running.context).settle()
    whole, before = running.content(sent.id), running.record(sent.id)
    assert before.state is AttachmentState.FINISHED
    rot(running, sent, where)
    if noticed:
        assert is_damaged(running, sent)
        assert running.record(sent.id).reason_code == DAMAGED_CONTENT
    running.receive(sent.messages[: len(sent.messages) // 2])
    running.receive(sent.messages[len(sent.messages) // 2 :])
    with capture_logs() as logs:
        running.healer.step()
    assert [each["how"] for each in logs if each["event"] == "content_restored"] == ["sent again"]
    after = running.record(sent.id)
    assert running.content(sent.id) == whole
    assert (after.state, after.reason_code, after.sha256) == (AttachmentState.FINISHED, None, before.sha256)
    events = [each.type for each in running.context.catalog.events_after(0, 100) if each.subject == sent.id]
    assert events.count("attachment.finished") == 1
    assert events.count("attachment.damaged") == 1


@pytest.mark.parametrize("kind", ["binary", "text", "group"])
@pytest.mark.parametrize("is_damaged_before", [True, False])
def test_another_content_never_takes_its_place(running: Running, kind: str, *, is_damaged_before: bool) -> None:
    sent = made(kind)
    running.receive(sent.messages)
    whole = running.content(sent.id)
    at, longest = max(enumerate(sent.messages), key=lambda each: len(each[1].body))
    other = bytearray(longest.body)
    other[-20] ^= 1
    if is_damaged_before:
        rot(running, sent, "flipped")
    running.receive([*sent.messages[:at], longest._replace(body=bytes(other)), *sent.messages[at + 1 :]])
    with capture_logs() as logs:
        running.healer.step()
    said = [each for each in logs if each["event"] == "content_not_restored"]
    assert len(said) == is_damaged_before
    assert all("SHA-256" in each["reason"] for each in said)
    if is_damaged_before:
        assert is_damaged(running, sent)
        running.receive(sent.messages)
        running.healer.step()
    assert running.content(sent.id) == whole


@pytest.mark.parametrize("kind", KINDS)
def test_a_repetition_heals_only_when_all_of_it_has_come(running: Running, kind: str) -> None:
    sent = made(kind)
    running.receive(sent.messages)
    whole = running.content(sent.id)
    running.context.clock.advance(60)  # type: ignore[attr-defined]
    Settler(running.context).settle()
    rot(running, sent, "flipped")
    order = Random(5).sample(sent.messages, len(sent.messages))
    for number, each in enumerate(order):
        running.receive([each])
        running.healer.step()
        if not is_unneeded(each) and any(not is_unneeded(rest) for rest in order[number + 1 :]):
            assert running.context.store.size(f"attachments/{sent.id}")
            assert is_rotten(running, sent, whole)
    assert running.content(sent.id) == whole


def is_unneeded(message: PhysicalMessage) -> bool:
    """Whether a message is no part: the header, the count, or the application message."""
    return message.framing == "sas_queue" and not int.from_bytes(message.correl_id[20:24], "big")


def is_rotten(running: Running, sent: Sent, whole: bytes) -> bool:
    return b"".join(running.context.store.read(f"attachments/{sent.id}")) != whole


@pytest.mark.parametrize("kind", KINDS)
def test_known_damage_heals_by_a_repetition_that_a_restart_interrupts(tmp_path: Path, kind: str) -> None:
    sent = made(kind)
    half = len(sent.messages) // 2
    with service_context(tmp_path, content={"settle_after": "1s"}) as context:
        running = Running(context)
        running.receive(sent.messages)
        digest = sha256(running.content(sent.id)).hexdigest()
        rot(running, sent, "flipped")
        running.receive(sent.messages[:half])
    with service_context(tmp_path, content={"settle_after": "1s"}) as context:
        running = Running(context)
        running.receive(sent.messages[half:])
        running.healer.step()
        assert is_damaged(running, sent)
        for _ in range(2):
            running.healer.step()
        assert sha256(running.content(sent.id)).hexdigest() == digest
        assert running.record(sent.id).reason_code is None


@pytest.mark.parametrize("settled", [True, False])
def test_tables_that_came_as_order_packets_heal(tmp_path: Path, *, settled: bool) -> None:
    with service_context(tmp_path / "sender") as sender:
        packets = bare(written(sender, [(DATA_SET, "WORK.T", parquet(table(700)))], options(2000)))
    with service_context(tmp_path / "receiver", content={"settle_after": "1s"}) as context:
        running = Running(context)
        running.receive(packets)
        (record,) = context.catalog.attachments(AttachmentFilter(AttachmentState.FINISHED), None, 2).items
        sent = Sent(record.correl_id, packets, record.source)
        if settled:
            context.clock.advance(60)  # type: ignore[attr-defined]
            Settler(context).settle()
        whole = running.content(sent.id)
        rot(running, sent, "flipped")
        running.receive(Random(4).sample(packets, len(packets)))
        assert is_damaged(running, sent)
        running.healer.step()
        assert running.content(sent.id) == whole
