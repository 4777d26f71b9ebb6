"""Explaining captured bytes: every byte has its cell, what the codecs write is recognised, and nothing crashes."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.codecs.ibm_mq.headers import MQDLH, MQH, MQMD1, MQMD2, MQMDE, MQXQH
from app.codecs.ibm_mq.image import write_image
from app.codecs.ibm_mq.rfh import Property, RfhFolder, write_rfh2
from app.codecs.mqtt import mqtt_envelope
from app.codecs.mqtt.packets import length_bytes
from app.codecs.sas import data_set_messages, file_messages
from app.codecs.sas.attachment_messages import write_count, write_header
from app.codecs.sas.correlid import join
from app.codecs.sas.dialect import DIALECTS, Dialect
from app.model.attachment import AttachmentDefinition, AttachmentKind, MessageHeader
from app.model.message import PhysicalMessage
from app.trace import FORMATS, Frame, NotRecognised, explain
from app.wire import Context
from tests.support.cases import for_each

KEY = b"\x33" * 16
HEADER = MessageHeader(
    b"\x11" * 16 + bytes(8),
    1,
    bytes(24),
    b"\x22" * 16 + bytes(8),
    (AttachmentDefinition(AttachmentKind.BINARY_FILE, KEY, "FILENAME", "d:\\mytext.txt", "Text file..."),),
)
DEFINITION = data_set_messages.DataSetDefinition(1, label="Stations", observations=2, variables=2, obs_length=28)
VARIABLES = (
    data_set_messages.Variable("CELSIUS", format="BEST"),
    data_set_messages.Variable("STATION", type=b"\2", length=20),
)
INDEX = data_set_messages.Index(1, "NAME", 0, 2, ["CELSIUS", "STATION"])

WRITTEN: dict[str, Callable[[Dialect], bytes]] = {
    "sas-attachment-header": lambda dialect: write_header(HEADER, dialect),
    "sas-count": lambda dialect: write_count(3, dialect),
    "sas-file-description": lambda dialect: file_messages.write_file_description(
        file_messages.FileDescription(80, 1234), dialect
    ),
    "sas-file-records": lambda dialect: next(file_messages.write_records([b"one", b"", b"three"], dialect, 32000)),
    "sas-data-set-definition": lambda dialect: data_set_messages.write_definition(DEFINITION, dialect),
    "sas-variables": lambda dialect: next(data_set_messages.write_variables(VARIABLES, dialect)),
    "sas-observations": lambda dialect: next(data_set_messages.write_observations([b"\x41" * 56], 28, dialect)),
    "sas-indexes": lambda dialect: next(data_set_messages.write_indexes([INDEX], dialect)),
    "sas-constraints": lambda dialect: next(data_set_messages.write_constraints(b"whatever it is", dialect)),
}
SEQUENCES = {"sas-attachment-header": 0, "sas-count": 0, "sas-file-description": 1, "sas-data-set-definition": 1}


def values(frame: Frame) -> dict[str, object]:
    return {cell.name.partition(".")[2]: cell.value for cell in frame.cells}


def assert_tiled(frames: list[Frame], size: int) -> None:
    """Cells lie one behind the other, from the first byte to the last; only bits share their bytes."""
    cells = [cell for frame in frames for cell in frame.cells]
    assert [frame.offset for frame in frames] == [frame.cells[0].at for frame in frames]
    assert cells[0].at == 0
    assert cells[-1].at + cells[-1].size == size
    for one, other in pairwise(cells):
        assert other.at == one.at + one.size or (other.at, other.size) == (one.at, one.size)


def image(name: str, dialect: Dialect, body: bytes, version: int = 1, **fields: object) -> bytes:
    is_header = name == "sas-attachment-header"
    message = PhysicalMessage(
        "",
        "",
        100000 if is_header else 100001,
        HEADER.header_correl_id if is_header else join(KEY, SEQUENCES.get(name, 2)),
        body,
        encoding=273 if dialect.order == ">" else 546,
        ccsid=1208,
    )
    return write_image(message._replace(**fields), version)  # type: ignore[arg-type]


@for_each("dialect", DIALECTS)
@for_each("name", WRITTEN)
def test_what_is_written_is_explained_when_told_what_it_is(name: str, dialect: Dialect) -> None:
    body = WRITTEN[name](dialect)
    frames = explain(body, name)
    assert [frame.format for frame in frames] == [name]
    assert_tiled(frames, len(body))


@for_each("dialect", DIALECTS)
@for_each("name", WRITTEN)
def test_what_is_written_is_recognised_by_its_content(name: str, dialect: Dialect) -> None:
    body = WRITTEN[name](dialect)
    (frame,) = explain(body)
    assert frame.format == name
    assert_tiled([frame], len(body))


@for_each("dialect", DIALECTS)
@for_each("name", WRITTEN)
def test_a_descriptor_tells_what_its_body_is(name: str, dialect: Dialect) -> None:
    body = WRITTEN[name](dialect)
    captured = image(name, dialect, body)
    descriptor, told = explain(captured)
    assert (descriptor.format, told.format) == ("mqmd", name)
    assert told.offset == len(captured) - len(body)
    assert_tiled([descriptor, told], len(captured))
    assert values(descriptor)["encoding"] == (273 if dialect.order == ">" else 546)


def test_the_documented_example_field_by_field() -> None:
    (frame,) = explain(write_header(HEADER, Dialect()))
    assert {name: value for name, value in values(frame).items() if not isinstance(value, bytes)} == {
        "original_msg_type": 1,
        "attachment_count": 1,
        "attachments[0].type": AttachmentKind.BINARY_FILE,
        "attachments[0].qualifier1.length": 8,
        "attachments[0].qualifier1": "FILENAME",
        "attachments[0].qualifier2.length": 13,
        "attachments[0].qualifier2": "d:\\mytext.txt",
        "attachments[0].description.length": 12,
        "attachments[0].description": "Text file...",
        "attachments[0].minor_version": 0,
        "attachments[0].major_version": 0,
    }
    assert "big-4-excluded-packed" in frame.note


def test_an_extension_stands_between_descriptor_and_body_or_alone() -> None:
    body = WRITTEN["sas-count"](Dialect())
    captured = image("sas-count", Dialect(), body, group_id=b"g" * 24, msg_flags=8)
    frames = explain(captured)
    assert [frame.format for frame in frames] == ["mqmd", "mqmde", "sas-count"]
    assert_tiled(frames, len(captured))
    alone = explain(captured[324:])
    assert [frame.format for frame in alone] == ["mqmde", "sas-count"]
    assert values(alone[0])["group_id"] == b"g" * 24
    assert [frame.format for frame in explain(MQMDE().encode(Context("<", "cp500")))] == ["mqmde"]


def test_every_header_between_descriptor_and_body_has_its_frame() -> None:
    context = Context("<")
    said: dict[str, Any] = {"encoding": 546, "coded_char_set_id": 819}
    folder = RfhFolder("usr", (Property("colour", "blue"),))
    captured = b"".join(
        [
            MQMD2(format="MQXMIT", **said).encode(context),
            MQXQH().encode(context) + MQMD1(format="MQHMDE", msg_type=100001, **said).encode(context),
            MQMDE(format="MQDEAD", **said).encode(context),
            MQDLH(format="MQHWIH", **said).encode(context),
            MQH("WIH", 1, 120, format="MQHRF2", **said).encode(context) + bytes(88),
            write_rfh2([folder], "", 273, 819, context),
            WRITTEN["sas-count"](Dialect()),
        ]
    )
    frames = explain(captured)
    names = [frame.format for frame in frames]
    assert names == ["mqmd", "mqxqh", "mqmd", "mqmde", "mqdlh", "mqwih", "mqrfh2", "sas-count"]
    assert_tiled(frames, len(captured))
    assert values(frames[6])["rest"] == {"colour": "blue"}


def test_a_descriptor_of_version_2_has_the_groups_itself() -> None:
    captured = image("sas-count", Dialect(), WRITTEN["sas-count"](Dialect()), 2, group_id=b"g" * 24)
    frames = explain(captured)
    assert [(frame.format, frame.offset) for frame in frames] == [("mqmd", 0), ("sas-count", MQMD2.SIZE)]


@pytest.mark.parametrize(("ccsid", "text"), [(1208, "Größe"), (37, "Größe"), (1200, "Größe")])
def test_an_application_message_is_text_in_its_character_set(ccsid: int, text: str) -> None:
    codec = {1208: "utf-8", 37: "cp037", 1200: "utf-16-be"}[ccsid]
    captured = write_image(PhysicalMessage("", "", 8, bytes(24), text.encode(codec), encoding=273, ccsid=ccsid))
    frame = explain(captured)[-1]
    assert frame.format == "application-message"
    assert frame.cells[0].value == text


def test_a_body_that_is_not_what_its_descriptor_says_is_kept_as_bytes_with_the_reason() -> None:
    captured = write_image(PhysicalMessage("", "", 100000, bytes(24), b"nonsense", encoding=273, ccsid=1208))
    frame = explain(captured)[-1]
    assert frame.format == "bytes"
    assert frame.cells[0].value == b"nonsense"
    assert "sas-attachment-header" in frame.note


def test_mqtt_packets_one_behind_the_other() -> None:
    captured = bytes.fromhex("40020001 3d8001") + bytes(128) + bytes.fromhex("c000")
    frames = explain(captured)
    assert [(frame.format, frame.note) for frame in frames] == [
        ("mqtt", "PUBACK"),
        ("mqtt", "PUBLISH, read as MQTT 5"),
        ("mqtt", "PINGREQ"),
    ]
    publish = values(frames[1])
    assert (publish["dup"], publish["qos"], publish["retain"], publish["remaining_length"]) == (1, 2, 1, 128)
    assert_tiled(frames, len(captured))


COUNT = PhysicalMessage("", "", 100001, b"C" * 16 + bytes(8), bytes.fromhex("00000003"), encoding=273)


@pytest.mark.parametrize(("version", "formats"), [("5", []), ("3.1.1", ["mqmd"])])
def test_publishes_are_explained_with_what_they_carry(version: Literal["5", "3.1.1"], formats: list[str]) -> None:
    captured = published(COUNT, version) + bytes.fromhex("40020001") + published(COUNT, version, qos=0)
    frames = explain(captured)
    expected = ["mqtt", *formats, "sas-count"]
    assert [frame.format for frame in frames] == [*expected, "mqtt", *expected]
    publish = {cell.name: cell.value for cell in frames[0].cells}
    assert (publish["PUBLISH.topic"], publish["PUBLISH.packet_identifier"]) == ("sas/a", 7)
    if version == "5":
        assert publish["PUBLISH.properties"]["msg-type"] == "100001"
        assert publish["PUBLISH.properties"]["correlation-data"] == COUNT.correl_id.hex()
    assert values(frames[len(expected) - 1]) == {"count": 3}
    assert_tiled(frames, len(captured))


def test_a_payload_that_is_not_recognised_is_shown_as_bytes() -> None:
    captured = bytes.fromhex("300a000174") + b"hello !"
    (frame,) = explain(captured)
    assert frame.note == "PUBLISH, read as MQTT 3.1.1"
    assert (frame.cells[-1].name, frame.cells[-1].value) == ("PUBLISH.payload", b"hello !")
    assert_tiled([frame], len(captured))


def test_a_damaged_publish_is_shown_as_bytes() -> None:
    captured = bytes.fromhex("3003000974")
    (frame,) = explain(captured)
    assert (frame.note, frame.cells[-1].name) == ("PUBLISH", "rest")
    assert_tiled([frame], len(captured))


def published(message: PhysicalMessage, version: Literal["5", "3.1.1"], qos: int = 1) -> bytes:
    """A whole PUBLISH packet, as a sender writes it."""
    payload, section = mqtt_envelope.write(message, version)
    rest = b"\0\5sas/a" + (b"\0\7" if qos else b"")
    rest += b"" if section is None else length_bytes(len(section)) + section
    rest += payload
    return bytes([0x30 | qos << 1]) + length_bytes(len(rest)) + rest


@pytest.mark.parametrize("name", FORMATS)
def test_a_refusal_says_what_was_tried_and_how_far_it_got(name: str) -> None:
    with pytest.raises(NotRecognised) as refused:
        explain(b"\xff" * 7, name)
    (tried,) = refused.value.tried
    assert tried.format == name
    assert 0 <= tried.at <= 8
    assert tried.why
    assert name in str(refused.value)


def test_bytes_that_are_nothing_list_every_format_the_furthest_first() -> None:
    with pytest.raises(NotRecognised) as refused:
        explain(b"\xff" * 33)
    assert {one.format for one in refused.value.tried} == set(FORMATS)
    reach = [one.at for one in refused.value.tried]
    assert reach == sorted(reach, reverse=True)


@pytest.mark.parametrize("name", WRITTEN)
def test_every_prefix_is_explained_whole_or_refused(name: str) -> None:
    body = WRITTEN[name](DIALECTS[0])
    captured = image(name, DIALECTS[0], body)
    end = len(captured) - len(body)
    # The descriptor is cut before one body, each body behind it.
    for as_format, whole, least in ((name, body, 0), ("mqmd", captured, 0 if name == "sas-count" else end)):
        for size in range(least, len(whole)):
            try:
                frames = explain(whole[:size], as_format)
            except NotRecognised:
                continue
            assert_tiled([frame for frame in frames if frame.cells], size)


@settings(deadline=None)
@given(st.binary(max_size=200), st.sampled_from([None, *FORMATS]))
def test_any_bytes_are_explained_whole_or_refused(data: bytes, as_format: str | None) -> None:
    try:
        frames = explain(data, as_format)
    except NotRecognised:
        return
    assert_tiled(frames, len(data))
