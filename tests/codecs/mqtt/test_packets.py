"""Whole packets and publishes, against those that paho-mqtt makes."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.codecs.mqtt import properties
from app.codecs.mqtt.packets import FixedHeader, PacketType, Publish, Version, packets, read_publish
from app.model.message import PhysicalMessage
from tests.support.captures import packet
from tests.support.refusals import wire_error

BARE = PhysicalMessage("", "", body=b"payload")


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_a_publish_is_its_topic_its_properties_and_its_payload(version: Version, qos: int) -> None:
    data = memoryview(packet(BARE, version, qos, "a/b") + packet(BARE, version, qos, "c"))
    first, second = packets(data)
    assert (first.at, first.end, second.at, second.end) == (0, second.at, first.end, len(data))
    assert read_publish(data, first, version) == Publish("a/b", b"", memoryview(b"payload"), min(qos, 1))
    assert read_publish(data, second, version) == Publish("c", b"", memoryview(b"payload"), min(qos, 1))


def test_properties_come_as_they_are() -> None:
    sent = PhysicalMessage("", "", 100001, correl_id=b"C" * 24, body=b"x", properties={"a": "b"})
    data = memoryview(packet(sent, "5"))
    (found,) = packets(data)
    publish = read_publish(data, found, "5")
    given = properties.decode(publish.properties)
    assert (bytes(publish.payload), given.correlation_data) == (b"x", b"C" * 24)
    assert ("a", "b") in given.user


@given(st.binary(max_size=40), st.sampled_from(["5", "3.1.1"]))
def test_any_bytes_are_packets_or_a_wire_error(data: bytes, version: Version) -> None:
    whole = FixedHeader(PacketType.PUBLISH, qos=1, remaining_length=len(data)).encode() + data
    for buffer in (memoryview(data), memoryview(whole)):
        error = wire_error(partial(_read_all, buffer, version))
        assert error is None or 0 <= error.at <= len(buffer)


def _read_all(buffer: memoryview, version: Version) -> None:
    for found in packets(buffer):
        assert 0 <= found.at < found.start <= found.end <= len(buffer)
        if found.type is PacketType.PUBLISH:
            assert len(read_publish(buffer, found, version).payload) <= found.end - found.start
