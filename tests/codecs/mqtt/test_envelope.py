"""Physical messages as MQTT publishes, and back."""

from collections.abc import Callable
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt import properties as paho
from paho.mqtt.packettypes import PacketTypes

from app.codecs.ibm_mq.image import write_image
from app.codecs.mqtt import mqtt_envelope, properties
from app.codecs.mqtt.properties import PublishProperties
from app.framing.registry import traits
from app.model.errors import InvalidInputError
from app.model.message import CORRELATION_DATA, EVIDENCE, TOPIC, TOPIC_PREFIX, PhysicalMessage

LONG = st.integers(-(2**31), 2**31 - 1)
IDENTIFIER = st.just(b"") | st.binary(min_size=24, max_size=24).filter(any)
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
MESSAGES = st.builds(
    PhysicalMessage,
    st.just("source"),
    st.just("sas_queue"),
    msg_type=LONG.filter(bool),
    correl_id=st.binary(min_size=24, max_size=24),
    body=st.binary(max_size=50),
    message_id=IDENTIFIER,
    group_id=IDENTIFIER,
    msg_seq_number=LONG,
    offset=LONG,
    msg_flags=LONG,
    original_length=LONG,
    encoding=LONG,
    ccsid=LONG,
    format=st.sampled_from(["", "MQSTR", "FMT12345"]),
    put_time=st.just(0),
    received_at=st.integers(0, 2**52),
    properties=st.just({}),
)
VALID_EXTENSION: dict[str, Any] = {"msg_seq_number": 2, "offset": 3, "msg_flags": 10, "original_length": 50}
"""Values that an image may have, which travels as a queue manager would take it. A report on a segment has at least as
many bytes as OriginalLength as it brings."""
MQCCSI_INHERIT = -2
"""In an MQMDE it stands for the character set of the MQMDE itself, and is read as that one."""
PahoProperties: Any = paho.Properties
VariableByteIntegers: Any = paho.VariableByteIntegers
SHORT = st.none() | st.binary(max_size=24) | st.just(bytes(24))
ANY_LENGTH = SHORT | st.binary(min_size=25, max_size=80) | st.integers(0, 65_535).map(lambda size: b"\xff" * size)
IMAGE = write_image(PhysicalMessage("", "", 8, b"I" * 24))
CARRIED = st.one_of(
    st.tuples(st.just("sas_queue"), st.just(b""), st.just((("msg-type", "8"),)), SHORT),
    st.tuples(st.just("sas_queue"), st.just(IMAGE), st.just(()), ANY_LENGTH),
    st.tuples(st.just("file_transfer"), st.just(b""), st.just(()), ANY_LENGTH),
    st.tuples(st.just("order_packet"), st.just(b""), st.just(()), SHORT),
    st.tuples(st.just("sas_rendezvous"), st.just(b""), st.just(()), SHORT),
)
"""Framing, payload, user properties and correlation data, for each way in which a message comes."""
NAMES = TEXT.filter(lambda name: name not in mqtt_envelope.FIELD_NAMES)


def read(payload: bytes, packed: bytes, like: PhysicalMessage) -> PhysicalMessage:
    got = mqtt_envelope.read(
        memoryview(payload), packed, like.source, traits(like.framing), like.received_at, lambda: "t"
    )
    return got._replace(body=bytes(got.body), properties=dict(got.properties))


@given(MESSAGES, st.dictionaries(NAMES, TEXT, max_size=3))
def test_properties_carry_every_field(message: PhysicalMessage, own: dict[str, str]) -> None:
    message = message._replace(properties=own)
    payload, packed = mqtt_envelope.write(message, "5")
    assert packed is not None
    assert payload == message.body
    assert read(payload, packed, message) == message


@given(
    MESSAGES.filter(lambda message: message.ccsid != MQCCSI_INHERIT).map(
        lambda message: message._replace(**VALID_EXTENSION)
    )
)
def test_an_image_carries_every_field_but_the_properties(message: PhysicalMessage) -> None:
    payload, packed = mqtt_envelope.write(message._replace(properties={"a": "b"}), "3.1.1")
    assert packed is None
    assert read(payload, b"", message) == message


@given(MESSAGES, st.sampled_from(["5", "3.1.1"]))
def test_no_envelope_is_larger_than_said(message: PhysicalMessage, version: Literal["5", "3.1.1"]) -> None:
    added, most = mqtt_envelope.overhead(version)
    payload, packed = mqtt_envelope.write(message, version)
    assert len(payload) <= len(message.body) + added
    assert (packed is None) if most is None else len(packed or b"") <= most


@pytest.mark.parametrize("payload", [b"MD  \0\0\0\1 a text that only begins like an image", b"plain"])
def test_properties_count_before_the_payload(payload: bytes) -> None:
    packed = properties.encode(PublishProperties(b"C" * 16, user=(("msg-type", "100000"), ("msg-type", "100000"))))
    message = read(payload, packed, PhysicalMessage("", "sas_queue"))
    assert (message.msg_type, message.correl_id, message.body) == (100000, b"C" * 16 + bytes(8), payload)


def test_where_the_topic_says_what_a_message_is_its_payload_is_its_body() -> None:
    payload = write_image(PhysicalMessage("", "", msg_type=8, body=b"a body"))
    given = PublishProperties(b"c" * 30, None, (("msg-type", "8"), (TOPIC, "forged"), ("own", "1")), "answers/me")
    topic = "plant/d17/file-async/f/0"
    read = mqtt_envelope.read(
        memoryview(payload), properties.encode(given), "s", traits("file_transfer"), 5, lambda: topic, 3
    )
    assert (bytes(read.body), read.msg_type, read.source, read.received_at) == (payload, 0, "s", 5)
    assert read.properties == {
        TOPIC: "f/0",
        TOPIC_PREFIX: "plant/d17/file-async",
        "msg-type": "8",
        "own": "1",
        "response-topic": "answers/me",
        "correlation-data": (b"c" * 30).hex(),
    }


def test_without_a_message_type_properties_are_the_messages_own() -> None:
    sent = PhysicalMessage("", "sas_queue", 8, encoding=273, body=b"body")
    packed = properties.encode(PublishProperties(b"x", "text", (("offset", "far"),)))
    message = read(write_image(sent), packed, sent)
    assert message._replace(properties={}) == sent
    assert message.properties.pop(EVIDENCE) == (  # type: ignore[attr-defined]
        "the property offset is not a field of the descriptor: 'far' is not a decimal number of 32 bits; "
        "the publish and the MQ image in it do not say the same: correlation-data"
    )
    assert message.properties == {"offset": "far", "content-type": "text", "correlation-data": "78"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("msg-type", ""),
        ("msg-type", "1e5"),
        ("msg-type", "2147483648"),
        ("msg-type", "9" * 10_000),
        ("ccsid", "utf-8"),
        ("msg-flags", "1_0"),
        ("offset", "\u0661"),
        ("group-id", "xyz"),
        ("group-id", "00" * 25),
        ("message-id", "abc"),
        ("format", "MQFORMAT9"),
    ],
)
def test_a_field_that_is_none_is_named(name: str, text: str) -> None:
    packed = properties.encode(PublishProperties(user=(("msg-type", "1"), (name, text))))
    with pytest.raises(InvalidInputError) as refusal:
        read(b"", packed, PhysicalMessage("", "sas_queue"))
    assert (refusal.value.code, refusal.value.row) == ("bad-envelope", name)
    assert len(str(refusal.value)) < 200


@given(st.binary(max_size=80), st.binary(max_size=80), st.sampled_from(["sas_queue", "order_packet"]))
def test_any_publish_is_a_message_or_their_error(payload: bytes, packed: bytes, framing: str) -> None:
    refused = _refusal(lambda: read(payload, packed, PhysicalMessage("", framing)))
    assert refused is None or refused.code in {"bad-envelope", "bad-mq-image", "bad-mq-header", "no-envelope"}


@pytest.mark.parametrize("change", [{"format": "F" * 65536}, {"properties": {"a": "b" * 65536}}])
def test_what_has_no_room_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError):
        mqtt_envelope.write(PhysicalMessage("", "", 8)._replace(**change), "5")  # type: ignore[arg-type]


def _refusal(call: Callable[[], object]) -> InvalidInputError | None:
    try:
        call()
    except InvalidInputError as error:
        return error
    return None


def test_messages_that_differ_in_their_correlid_only_are_read_alike() -> None:
    first = PhysicalMessage("source", "sas_queue", msg_type=7, correl_id=b"A" * 24, encoding=273, format="MQSTR")
    for message in (first, first._replace(correl_id=b"B" * 24), first._replace(correl_id=b"\x26" * 24)):
        payload, packed = mqtt_envelope.write(message, "5")
        assert packed is not None
        assert read(payload, packed, message) == message


def test_correlation_data_must_not_come_twice() -> None:
    fields = properties.encode(PublishProperties(None, None, (("msg-type", "7"),)))
    packed = properties.encode(PublishProperties(b"A" * 24)) + fields + properties.encode(PublishProperties(b"B" * 24))
    with pytest.raises(InvalidInputError, match=r"properties\.correlation_data at byte 41: it comes twice"):
        read(b"", packed, PhysicalMessage("source", "sas_queue"))


@given(CARRIED, st.sampled_from([None, "", "00", "none", "no digits"]))
def test_a_reply_repeats_the_correlation_data_byte_for_byte(
    carried: tuple[str, bytes, tuple[tuple[str, str], ...], bytes | None], forged: str | None
) -> None:
    framing, payload, user, correlation = carried
    given = PahoProperties(PacketTypes.PUBLISH)
    given.ResponseTopic = "replies/me"
    if correlation is not None:
        given.CorrelationData = correlation
    if found := [*user, *([] if forged is None else [(CORRELATION_DATA, forged)])]:
        given.UserProperty = found
    packed = given.pack()
    message = read(payload, packed[VariableByteIntegers.decode(packed)[1] :], PhysicalMessage("", framing))
    if framing in ("sas_queue", "order_packet") and not payload and not forged:
        takes_none = correlation is None or (len(correlation) == 24 and any(correlation))
        assert (message.properties.keys() == {"response-topic"}) == (takes_none and forged is None)
    if framing == "sas_rendezvous":
        message = message._replace(correl_id=b"N" * 24)  # it is numbered
    repeated = mqtt_envelope.correlation_data(message, traits(framing))
    own = {TOPIC: "replies/me"} | ({} if repeated is None else {CORRELATION_DATA: repeated.hex()})
    _, section = mqtt_envelope.write(PhysicalMessage("", framing, properties=own), "5")
    assert section is not None
    reply, _ = PahoProperties(PacketTypes.PUBLISH).unpack(VariableByteIntegers.encode(len(section)) + section)
    assert getattr(reply, "CorrelationData", None) == correlation
