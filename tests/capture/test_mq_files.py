"""Message files: images, bodies with a descriptor beside them, and what is neither."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.capture import mq_files
from app.capture.capture_entries import RefusedEntry
from app.codecs.ibm_mq.headers import MQMD1
from app.codecs.ibm_mq.image import write_image
from app.model.message import PhysicalMessage
from tests.codecs.mqtt.test_envelope import MESSAGES, VALID_EXTENSION
from tests.support.captures import NOW, SOURCE, origin

IDENTIFIERS = ("correl_id", "message_id", "group_id")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5), st.lists, max_leaves=3
)


def read(content: bytes, descriptor: bytes | None = None, framing: str = "sas_queue", **said: Any) -> Any:
    found = mq_files.read(content, descriptor, origin(framing, **said))
    return found._replace(body=bytes(found.body)) if isinstance(found, PhysicalMessage) else found


def beside(message: PhysicalMessage) -> bytes:
    """The descriptor of a message."""
    fields = message._asdict()
    for name in ("source", "framing", "body"):
        del fields[name]
    return json.dumps({**fields, **{name: fields[name].hex() for name in IDENTIFIERS}}).encode()


def expected(message: PhysicalMessage) -> PhysicalMessage:
    return message._replace(source=SOURCE, received_at=NOW)


@given(MESSAGES.map(lambda each: each._replace(**VALID_EXTENSION)), st.sampled_from([1, 2]))
def test_an_image_says_everything(message: PhysicalMessage, version: Any) -> None:
    assert read(write_image(message, version)) == expected(message)


@given(MESSAGES, st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2))
def test_a_descriptor_says_everything(message: PhysicalMessage, own: dict[str, str]) -> None:
    message = message._replace(source=SOURCE, properties=own)
    assert read(bytes(message.body), beside(message)) == message


def test_times_may_be_written_for_people() -> None:
    found = read(b"", b'{"put_time": "2026-11-21T07:30:00Z", "received_at": "2026-11-21T08:30:01+01:00"}')
    assert (found.put_time, found.received_at) == (NOW, NOW + 1_000_000)


def test_a_file_with_a_descriptor_is_a_body_whatever_it_begins_with() -> None:
    image = write_image(PhysicalMessage("", "", 8, body=b"x"))
    assert read(image, b'{"msg_type": 100001}').body == image


def test_the_headers_of_a_body_become_fields() -> None:
    extension = bytes.fromhex(f"4D44452000000002000000480000011100000333{'20' * 8}00000000{'47' * 24}")
    extension += bytes.fromhex("000000020000000000000018FFFFFFFF")
    found = read(extension + b"last", b'{"format": "MQHMDE", "msg_type": 8}')
    assert (found.body, found.group_id, found.msg_seq_number, found.msg_flags) == (b"last", b"G" * 24, 2, 0x18)
    refused = read(extension[:60], b'{"format": "MQHMDE", "msg_type": 8}')
    assert (refused.code, refused.message.body) == ("bad-mq-header", extension[:60])
    assert refused.at >= 0


def test_what_a_body_does_not_say_the_import_says() -> None:
    assert read(b"x", msg_type=100001, ccsid=500, format="MQSTR") == PhysicalMessage(
        SOURCE, "sas_queue", 100001, body=b"x", ccsid=500, format="MQSTR", received_at=NOW
    )
    assert read(b"x", b'{"ccsid": 819}', msg_type=100001, ccsid=500).ccsid == 819
    assert read(b"x", framing="order_packet") == PhysicalMessage(SOURCE, "order_packet", body=b"x", received_at=NOW)


def test_a_body_that_nothing_describes_is_refused() -> None:
    refused = read(b"a body")
    assert (refused.code, refused.message.body) == ("no-descriptor", b"a body")
    assert "not an MQ image; give it a descriptor" in refused.why


def test_an_image_cut_anywhere_is_refused_or_has_less_of_its_body() -> None:
    image = write_image(PhysicalMessage("", "", 8, body=b"four", group_id=b"G" * 24))
    for cut in range(len(image)):
        found = read(image[:cut])
        if cut < MQMD1.SIZE:
            assert found.code == ("bad-mq-image" if cut >= 4 else "no-descriptor")
            assert found.at <= cut
        elif isinstance(found, PhysicalMessage):
            assert image[:cut].endswith(found.body)
        else:
            assert found.code == "bad-mq-header"
            assert MQMD1.SIZE <= found.at <= cut


@pytest.mark.parametrize(
    ("descriptor", "why"),
    [
        (b"", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"\xff", "not JSON"),
        (b"[]", "not a JSON object"),
        (b'{"msgtype": 1}', "an unknown field 'msgtype'; known are: msg_type, correl_id"),
        (b'{"msg_type": "1"}', "the descriptor's msg_type must be a number of 32 bits"),
        (b'{"msg_type": true}', "msg_type must be a number"),
        (b'{"ccsid": 2147483648}', "ccsid must be a number of 32 bits"),
        (b'{"correl_id": "0g"}', "correl_id must be at most 48 hexadecimal digits"),
        (b'{"correl_id": 5}', "correl_id must be at most 48 hexadecimal digits"),
        (b'{"group_id": "' + b"00" * 25 + b'"}', "group_id must be at most 48 hexadecimal digits"),
        (b'{"format": 1}', "format must be a text"),
        (b'{"format": "MQFORMAT9"}', "format must be a text of up to 8 characters"),
        (b'{"put_time": "yesterday"}', "put_time must be an ISO 8601 time"),
        (b'{"put_time": -1}', "put_time must be an ISO 8601 time"),
        (b'{"format": "\\ud800"}', "format must be a text"),
        (b'{"put_time": "1969-12-31T23:59:59Z"}', "put_time must be an ISO 8601 time"),
        (b'{"received_at": 253402300800000000}', "received_at must be an ISO 8601 time"),
        (b'{"properties": {"\\udfff": "a"}}', "properties must be an object of texts"),
        (b'{"properties": {"a": 1}}', "properties must be an object of texts"),
    ],
)
def test_a_bad_descriptor_says_why(descriptor: bytes, why: str) -> None:
    refused = read(b"body", descriptor)
    assert (refused.code, refused.message.body) == ("bad-descriptor", b"body")
    assert why in refused.why


@given(
    st.binary(max_size=50),
    st.none()
    | st.binary(max_size=50)
    | st.dictionaries(
        st.sampled_from(["msg_type", "correl_id", "put_time", "properties", "format", "x"]), JSON, max_size=3
    ).map(lambda each: json.dumps(each).encode()),
)
def test_any_bytes_are_a_message_or_refused(content: bytes, descriptor: bytes | None) -> None:
    for head in (b"", b"MD  \0\0\0\1"):
        assert isinstance(read(head + content, descriptor), PhysicalMessage | RefusedEntry)
