"""Parts that rot in the journal: their attachments are quarantined, never finished with wrong bytes, and heal when the
damaged parts are sent again."""

from hashlib import sha256
from pathlib import Path
from random import Random

import pytest
from structlog.testing import capture_logs

from app.model.attachment import AttachmentState
from app.model.identity import attachment_id
from app.model.message import PhysicalMessage
from app.model.records import AttachmentRecord
from app.service.assembling.assembler import Assembler
from app.service.content.stored_content import open_content
from app.service.context import ReceiverContext
from app.service.finishing.finisher import Finisher
from app.service.finishing.stored_parts import CompleteAttachment
from app.service.gateway import Gateway
from app.service.quarantine.replays import ReplayOutcome
from app.testing.gateway_stages import service_context
from tests.support.disk import BLOCK, bad_blocks
from tests.support.mq_client import any_bodies, group
from tests.support.sas_client import Program, binary_file, message, text_file

SOURCE = "orders"


def made(kind: str) -> tuple[bytes, bytes, list[PhysicalMessage]]:
    """The key of an attachment, its content, and its messages; the last one completes it."""
    random = Random(3)
    program = Program(random, body_limit=2000)
    if kind == "group":
        sent = group(random, any_bodies(random, random.randbytes(20_000), 20))
        return sent.identifier, sent.content, [each._replace(source=SOURCE) for each in sent.messages]
    content = random.randbytes(20_000)
    attached = binary_file(program, "a", content)
    if kind == "text":
        content = b"\n".join(random.randbytes(50).hex().encode() for _ in range(200)) + b"\n"
        attached = text_file(program, "a", content)
    return (
        attached.definition.correl_id,
        content,
        [each._replace(source=SOURCE) for each in message(program, [attached])],
    )


def assemble(context: ReceiverContext, messages: list[PhysicalMessage]) -> None:
    """As the gateway does it, one stage after the other."""
    context.journal.append(messages)
    complete: dict[str, CompleteAttachment | None] = {}
    Assembler(context, complete.update).recover()
    Finisher(context).finish(complete)


def damage(folder: Path, bodies: list[bytes]) -> None:
    """Flips a bit in each of these bodies, wherever a sealed segment has it."""
    (segment,) = (folder / "journal").glob("*.arrows")
    data = bytearray(segment.read_bytes())
    for body in bodies:
        data[data.index(body) + len(body) // 2] ^= 1
    segment.write_bytes(data)


def record(context: ReceiverContext, key: bytes) -> AttachmentRecord:
    found = context.catalog.attachment(attachment_id(SOURCE, key))
    assert found is not None
    return found


def content(context: ReceiverContext, found: AttachmentRecord) -> bytes:
    opened = open_content(found, context.catalog, context.store, context.journal)
    return b"".join(opened.read(0, opened.size))


def replayed(context: ReceiverContext, entry: str) -> ReplayOutcome:
    """Process a quarantined message again in a running gateway, and return what became of it."""
    gateway = Gateway(context, {}, {})
    gateway.start()
    try:
        wait = gateway.replayer.replay(entry)
        assert wait is not None
        return wait()
    finally:
        gateway.stop()


@pytest.mark.parametrize("kind", ["binary", "text", "group"])
@pytest.mark.parametrize("when", ["complete", "receiving"])
@pytest.mark.parametrize("how_many", [1, 3])
def test_a_damaged_part_that_comes_again_heals(tmp_path: Path, kind: str, when: str, how_many: int) -> None:
    key, sent, messages = made(kind)
    early, last = messages[:-1], messages[-1:]
    hurt = sorted((each for each in early), key=lambda each: len(each.body))[-how_many:]
    with service_context(tmp_path) as context:
        assemble(context, early)
        assert record(context, key).state is AttachmentState.RECEIVING
    damage(tmp_path, [bytes(each.body) for each in hurt])
    with service_context(tmp_path) as context, capture_logs() as logs:
        if when == "complete":
            assemble(context, last)
            found = record(context, key)
            assert (found.state, found.reason_code) == (AttachmentState.QUARANTINED, "damaged-part")
            (entry,) = context.catalog.quarantined(None, None, None, 10).items
            assert (entry.code, entry.correl_id) == ("damaged-part", key)
        assemble(context, messages)  # all is sent again, also what is whole
        found = record(context, key)
        assert found.state is AttachmentState.FINISHED, found.reason
        assert found.sha256 == sha256(sent).hexdigest()
        assert content(context, found) == sent
    with service_context(tmp_path) as context:
        assert content(context, record(context, key)) == sent
    assert [entry["event"] for entry in logs].count("damaged_part_replaced") == how_many


def test_a_damaged_part_is_read_again_when_an_operator_asks(tmp_path: Path) -> None:
    """The disk may answer again, or the segment be repaired."""
    key, sent, messages = made("binary")
    with service_context(tmp_path) as context:
        assemble(context, messages[:-1])
    (segment,) = (tmp_path / "journal").glob("*.arrows")
    whole = segment.read_bytes()
    damage(tmp_path, [bytes(max(messages, key=lambda each: len(each.body)).body)])
    with service_context(tmp_path) as context:
        assemble(context, messages[-1:])
        segment.write_bytes(whole)
        (entry,) = context.catalog.quarantined(None, None, None, 10).items
        gateway = Gateway(context, {}, {})
        assert gateway.replayer.replay(entry.id)
        assert record(context, key).state is AttachmentState.COMPLETE
        Finisher(context).finish({attachment_id(SOURCE, key): None})
        assert content(context, record(context, key)) == sent


def test_a_part_that_can_be_read_again_heals_when_it_is_sent_again(tmp_path: Path) -> None:
    """The copy in the journal is whole again; what comes is a duplicate, and finishing is tried with it."""
    key, sent, messages = made("binary")
    with service_context(tmp_path) as context:
        assemble(context, messages[:-1])
    (segment,) = (tmp_path / "journal").glob("*.arrows")
    whole = segment.read_bytes()
    damage(tmp_path, [bytes(max(messages, key=lambda each: len(each.body)).body)])
    with service_context(tmp_path) as context:
        assemble(context, messages[-1:])
        assert record(context, key).reason_code == "damaged-part"
        segment.write_bytes(whole)
    with service_context(tmp_path) as context:
        assemble(context, messages)
        found = record(context, key)
        assert (found.state, found.reason_code) == (AttachmentState.FINISHED, None)
        assert content(context, found) == sent


def test_a_batch_that_is_lost_before_assembly_is_quarantined_and_read_again_when_an_operator_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, sent, messages = made("binary")
    with service_context(tmp_path) as context:
        context.journal.append(messages)
    with service_context(tmp_path) as context:
        with monkeypatch.context() as bad:
            bad_blocks(bad, BLOCK)
            Assembler(context, lambda _: None).recover()
        assert context.catalog.attachment(attachment_id(SOURCE, key)) is None
        (entry,) = context.catalog.quarantined(None, None, None, 10).items
        assert (entry.code, entry.source, entry.why) == (
            "damaged-message",
            "",
            "journal segment 1, batch 0: the batch is lost",
        )
    with service_context(tmp_path) as context:
        outcome = replayed(context, entry.id)
        assert (outcome.result, [each.state for each in outcome.attachments]) == (
            "processed",
            [AttachmentState.FINISHED],
        )
        assert content(context, record(context, key)) == sent


def test_a_message_that_cannot_be_read_before_assembly_is_read_again_when_an_operator_asks(tmp_path: Path) -> None:
    key, sent, messages = made("binary")
    with service_context(tmp_path) as context:
        context.journal.append(messages)
    (segment,) = (tmp_path / "journal").glob("*.arrows")
    whole = segment.read_bytes()
    damage(tmp_path, [bytes(max(messages, key=lambda each: len(each.body)).body)])
    with service_context(tmp_path) as context:
        Assembler(context, lambda _: None).recover()
        (entry,) = context.catalog.quarantined(None, None, None, 10).items
        assert (entry.code, entry.source) == ("damaged-message", SOURCE)
        segment.write_bytes(whole)
    with service_context(tmp_path) as context:
        assert replayed(context, entry.id).result == "processed"
        assert content(context, record(context, key)) == sent
