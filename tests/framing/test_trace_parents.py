"""The `traceparent` of a message counts where the message begins an attachment, and is not looked at elsewhere."""

from collections.abc import Mapping
from random import Random

import pytest

from app.codecs.ibm_mq.constants import MQMF_LAST_MSG_IN_GROUP, MQMF_MSG_IN_GROUP
from app.codecs.sas import dialect
from app.framing import message_events
from app.framing.message_events import read_event
from app.model.event import Announced, GroupPart
from app.model.message import PhysicalMessage
from app.model.trace_context import TRACE_PARENT
from tests.support.sas_client import Program, binary_file, message

VALID = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def sas_messages() -> list[PhysicalMessage]:
    program = Program(Random(1))
    return message(program, [binary_file(program, "a.bin", b"x" * 10)])


def test_a_header_gives_its_traceparent_to_its_attachments() -> None:
    header = next(each for each in sas_messages() if each.msg_type == 100000)
    assert read_event(header, dialect.ALL).trace_parent is None  # type: ignore[union-attr]
    for told, kept in ((VALID, VALID), (f"{VALID}-more", None), ("", None)):
        event = read_event(header._replace(properties={"k": "v", TRACE_PARENT: told}), dialect.ALL)
        assert isinstance(event, Announced)
        assert event.trace_parent == kept


def test_the_traceparent_of_a_part_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(properties: Mapping[str, str]) -> str | None:
        raise AssertionError(properties)

    monkeypatch.setattr(message_events, "trace_parent_in", refuse)
    parts = [each for each in sas_messages() if each.msg_type == 100001]
    assert len(parts) > 2
    for each in parts:
        read_event(each._replace(properties={TRACE_PARENT: VALID}), dialect.ALL)


def test_of_a_group_only_the_first_part_has_it() -> None:
    flags = {1: MQMF_MSG_IN_GROUP, 2: MQMF_MSG_IN_GROUP | MQMF_LAST_MSG_IN_GROUP}
    found = []
    for number in (1, 2):
        sent = PhysicalMessage(
            "orders",
            "mq_group",
            8,
            group_id=b"G" * 24,
            msg_seq_number=number,
            msg_flags=flags[number],
            body=b"x",
            properties={TRACE_PARENT: VALID},
        )
        event = read_event(sent, dialect.ALL)
        assert isinstance(event, GroupPart)
        found.append(event.trace_parent)
    assert found == [VALID, None]
