"""The properties of a publish, against paho-mqtt's reading and writing of them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt import properties as paho
from paho.mqtt.packettypes import PacketTypes

from app.codecs.mqtt.properties import PublishProperties, decode, encode
from app.wire import WireError
from tests.support.refusals import wire_error

Properties: Any = paho.Properties
VariableByteIntegers: Any = paho.VariableByteIntegers

TEXT = st.text(st.characters(exclude_characters="\0\ufeff", exclude_categories=["Cs"]), max_size=40)
PROPERTIES = st.builds(
    PublishProperties,
    st.none() | st.binary(max_size=40),
    st.none() | TEXT,
    st.lists(st.tuples(TEXT, TEXT), max_size=6).map(tuple),
    st.none() | TEXT,
)


def packed_by_paho(given_: PublishProperties) -> Any:
    properties = Properties(PacketTypes.PUBLISH)
    if given_.correlation_data is not None:
        properties.CorrelationData = given_.correlation_data
    if given_.content_type is not None:
        properties.ContentType = given_.content_type
    if given_.response_topic is not None:
        properties.ResponseTopic = given_.response_topic
    if given_.user:
        properties.UserProperty = list(given_.user)
    return properties


def without_length(packed: bytes) -> bytes:
    size = VariableByteIntegers.decode(packed)[1]
    return packed[size:]


@given(PROPERTIES)
def test_properties_are_written_as_paho_reads_them(given_: PublishProperties) -> None:
    section = encode(given_)
    read, _ = Properties(PacketTypes.PUBLISH).unpack(VariableByteIntegers.encode(len(section)) + section)
    assert read.json() == packed_by_paho(given_).json()
    assert decode(section) == given_


@given(PROPERTIES, st.integers(0, 2**32 - 1), st.integers(1, 268_435_455), st.integers(1, 65535))
def test_properties_that_are_not_used_are_passed_over(
    given_: PublishProperties, expiry: int, subscription: int, alias: int
) -> None:
    properties = packed_by_paho(given_)
    properties.MessageExpiryInterval = expiry
    properties.SubscriptionIdentifier = subscription
    properties.TopicAlias = alias
    properties.PayloadFormatIndicator = 1
    section = without_length(properties.pack())
    assert decode(section) == given_
    errors = [wire_error(lambda cut=cut: decode(section[:cut])) for cut in range(len(section))]  # type: ignore[misc]
    assert all(error is None or error.at <= cut for cut, error in enumerate(errors))


@given(st.binary(max_size=60))
def test_any_bytes_are_properties_or_a_wire_error(section: bytes) -> None:
    error = wire_error(lambda: decode(section))
    assert error is None or error.row.startswith("properties")


@pytest.mark.parametrize(
    ("section", "row"),
    [
        ("26000161", "properties.user_property"),
        ("2600016100026262ff", "properties"),
        ("090005616263", "properties.correlation_data"),
        ("030001ff", "properties.content_type"),
        ("0bffff", "properties.subscription_identifier"),
        ("0200", "properties.message_expiry_interval"),
        ("00", "properties"),
        ("09000161090001610900016209", "properties.correlation_data"),
        ("030001610300016103", "properties.content_type"),
        ("080001610800016108", "properties.response_topic"),
        ("01010101", "properties.payload_format_indicator"),
    ],
)
def test_what_is_wrong_is_named(section: str, row: str) -> None:
    with pytest.raises(WireError) as refusal:
        decode(bytes.fromhex(section))
    assert refusal.value.row == row


@pytest.mark.parametrize("text", ["x" * 65536, "a\0b", "\ud800"])
def test_a_text_that_cannot_be_written_is_refused(text: str) -> None:
    for given_ in (PublishProperties(user=(("name", text),)), PublishProperties(content_type=text)):
        with pytest.raises(WireError):
            encode(given_)
