"""What a capture is, by how it begins."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.capture.recognising import FORMATS, LOOKED_AT, recognise
from app.codecs.ibm_mq.image import write_image
from app.model.message import PhysicalMessage
from tests.capture.test_qload import SAMPLE
from tests.support.captures import packet

IMAGE = write_image(PhysicalMessage("", "", 100001, body=b"x"))
RENDEZVOUS = b"# one\n\n2026-11-21T07:30:00Z 00000008 9955EEAA\n"


@pytest.mark.parametrize(
    ("head", "format_"),
    [
        (SAMPLE, "qload"),
        (b"* DMPMQMSG Version:9.3.0.0\n", "qload"),
        (b"* edited by hand\nA VER 2\n", "qload"),
        (b"\n\nN\nT text\n", "qload"),
        (IMAGE, "raw"),
        (b"\xd4\xc4\x40\x40\0\0\0\1", "raw"),
        (b"# a comment\n" + packet(PhysicalMessage("", "", 1, body=b"x"), "5").hex(" ").encode(), "mqtt"),
        (packet(PhysicalMessage("", "", 1, body=bytes(LOOKED_AT)), "5").hex().encode()[:LOOKED_AT], "mqtt"),
        (packet(PhysicalMessage("", "", 1, body=bytes(LOOKED_AT)), "5").hex(":").encode()[:LOOKED_AT], "mqtt"),
        (b"20020000\n", "mqtt"),
        (RENDEZVOUS, "rendezvous"),
    ],
)
def test_a_capture_is_recognised(head: bytes, format_: str) -> None:
    assert recognise(head) == format_


@pytest.mark.parametrize(
    ("head", "why"),
    [
        (b"", "the file has no capture in it"),
        (b"# nothing\n\n", "the file has no capture in it"),
        (b"AMQSBCG0 - starts here\n", "the output of amqsbcg, which is not read: unload the queue with dmpmqmsg"),
        (b"some text", "unknown format; known are: qload, raw, mqtt, rendezvous"),
        (b"0102030405060708", "neither: MQTT packets, and a tibrvMsg"),
        (b"30ffff7f9955eeaa00", "may be both: MQTT packets, and a tibrvMsg"),
        (b"2026-11-21T07:30:00Z", "unknown format"),
    ],
)
def test_what_is_not_recognised_says_so(head: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        recognise(head)


@given(st.binary(max_size=100))
def test_any_bytes_are_recognised_or_not(head: bytes) -> None:
    with suppress(ValueError):
        assert recognise(head) in FORMATS
