"""What is cut is put together again: deliveries -> messages -> journal -> assembly -> content, byte for byte."""

from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.codecs.sas.dialect import DIALECTS
from app.framing.protocol import fixed_records
from app.framing.sas_bodies import lines
from app.model.attachment import AttachmentKind, AttachmentState
from app.model.identity import attachment_id, message_id
from app.model.message import PhysicalMessage
from app.model.records import AttachmentRecord
from app.service.assembling.assembler import Assembler
from app.service.content.stored_content import open_content
from app.service.context import ReceiverContext
from app.service.finishing.finisher import Finisher
from app.service.finishing.stored_parts import CompleteAttachment
from app.service.sending.framer import Framer
from app.testing.gateway_stages import service_context
from app.testing.outgoing_files import FILES, SOURCE, delivery, framing_options


def receive(context: ReceiverContext, messages: list[PhysicalMessage]) -> None:
    """The service's stages, one after the other in this thread."""
    complete: dict[str, CompleteAttachment | None] = {}
    assembler = Assembler(context, complete.update)
    for start in range(0, len(messages), 50):
        context.journal.append(messages[start : start + 50])
    assert assembler.recover() == len(messages)
    Finisher(context).finish(complete)


def received(context: ReceiverContext, number: int) -> AttachmentRecord:
    record = context.catalog.attachment(attachment_id(SOURCE, bytes([number]) * 16))
    assert record is not None
    return record


def content(context: ReceiverContext, record: AttachmentRecord) -> bytes:
    found = open_content(record, context.catalog, context.store, context.journal)
    assert found.size == record.size
    whole = b"".join(found.read(0, found.size))
    assert record.sha256 == sha256(whole).hexdigest()
    return whole


@pytest.mark.parametrize("dialect", [dialect.name for dialect in DIALECTS])
def test_every_dialect_brings_the_same_bytes(tmp_path: Path, dialect: str) -> None:
    with service_context(tmp_path) as context:
        sent = delivery(context, FILES)
        messages = list(Framer(framing_options(dialect), context.store).frame(sent))
        assert max(len(message.body) for message in messages) <= 32_000
        Random(3).shuffle(messages)
        receive(context, messages + messages[::7])
        for number, (kind, name, expected) in enumerate(FILES, 1):
            record = received(context, number)
            assert (record.state, record.reason) == (AttachmentState.FINISHED, None), name
            assert (record.kind, record.qualifier_2, record.minor_version) == (kind, name, number)
            assert content(context, record) == expected, name
        message = context.catalog.message(message_id(SOURCE, b"H" * 24))
        assert message is not None
        assert message.application_body == b"what it is about"
        assert message.complete_at is not None
        assert not context.catalog.quarantined(None, None, None, 10).items


@pytest.mark.parametrize("dialect", ["big-4-excluded-packed", "little-8-absent-aligned"])
def test_a_data_set_keeps_its_table(tmp_path: Path, dialect: str) -> None:
    table = pa.table(
        {
            "amount": pa.array([1.5, None, -2e300] * 3000, pa.float64()),
            "customer": pa.array(["Ångström", "", "a longer name"] * 3000),
        }
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    with service_context(tmp_path) as context:
        sent = delivery(context, [(AttachmentKind.DATA_SET, "WORK.SALES", sink.getvalue().to_pybytes())])
        receive(context, list(Framer(framing_options(dialect), context.store).frame(sent)))
        record = received(context, 1)
        assert (record.state, record.reason) == (AttachmentState.FINISHED, None)
        assert (record.qualifier_1, record.qualifier_2) == ("WORK", "SALES")
        assert (record.observations, record.variables) == (9000, 2)
        back = pq.read_table(pa.BufferReader(content(context, record)))
    assert back.to_pydict() == table.to_pydict()


@pytest.mark.parametrize(
    ("ccsid", "content_type"),
    [
        (1208, "text/plain; charset=utf-8"),
        (819, "text/plain; charset=iso-8859-1"),
        (37, "text/plain; charset=ibm037"),
        (1141, "text/plain; charset=ibm01141"),
        (1252, "text/plain; charset=windows-1252"),
        (1047, "text/plain; charset=ibm1047"),
        (1025, "text/plain"),
        (0, "text/plain"),
    ],
)
def test_a_text_file_has_the_character_set_that_its_sender_declares(
    tmp_path: Path, ccsid: int, content_type: str
) -> None:
    with service_context(tmp_path) as context:
        messages = Framer(framing_options(), context.store).frame(delivery(context, FILES[:1]))
        receive(context, [message._replace(ccsid=ccsid) for message in messages])
        assert received(context, 1).content_type == content_type


def test_the_same_delivery_is_cut_the_same_way(tmp_path: Path) -> None:
    with service_context(tmp_path) as context:
        sent = delivery(context, FILES)
        framer = Framer(framing_options(body_limit=5000, record_length=500), context.store)
        assert list(framer.frame(sent)) == list(framer.frame(replace(sent, messages_sent=9)))


def test_content_can_be_read_from_any_place(tmp_path: Path) -> None:
    with service_context(tmp_path) as context:
        sent = delivery(context, FILES)
        receive(context, list(Framer(framing_options(), context.store).frame(sent)))
        record, expected = received(context, 11), FILES[10][2]
        assert record.storage == "journal"
        found = open_content(record, context.catalog, context.store, context.journal)
        for offset, length in [(0, 0), (0, 1), (31_995, 2), (63_000, 200_000), (300_000, 1), (300_001, 0)]:
            assert b"".join(found.read(offset, length)) == expected[offset : offset + length]


@pytest.mark.parametrize("dialect", ["big-4-excluded-packed", "little-8-included-aligned"])
def test_read_as_parts_come_or_afterwards_the_same_is_found(tmp_path: Path, dialect: str) -> None:
    found = []
    for order in (1, -1):
        with service_context(tmp_path / str(order)) as context:
            messages = list(Framer(framing_options(dialect), context.store).frame(delivery(context, FILES)))
            receive(context, messages[::order])
            records = [received(context, number) for number in range(1, len(FILES) + 1)]
            assert [content(context, record) for record in records] == [file for _, _, file in FILES]
            found.append([(each.storage, each.sha256, each.content_type, each.dialects) for each in records])
    assert found[0] == found[1]


@given(st.binary(max_size=200), st.integers(1, 20), st.integers(1, 50))
def test_records_hold_what_the_pieces_held(content: bytes, length: int, piece: int) -> None:
    pieces = [memoryview(content[at : at + piece]) for at in range(0, len(content), piece)]
    records = [bytes(record) for record in fixed_records(iter(pieces), length)]
    assert b"".join(records) == content
    assert all(len(record) == length for record in records[:-1])


@given(st.lists(st.sampled_from([b"a", b"\n", b"\r\n", b"long line"])), st.integers(1, 9))
def test_lines_are_what_line_feeds_end(words: list[bytes], piece: int) -> None:
    content = b"".join(words)
    pieces = [memoryview(content[at : at + piece]) for at in range(0, len(content), piece)]
    expected = content.split(b"\n")
    assert list(lines(iter(pieces))) == (expected[:-1] if not expected[-1] else expected)
