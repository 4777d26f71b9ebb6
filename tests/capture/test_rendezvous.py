"""Rendezvous captures: a tibrvMsg a line, as it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.capture import hexadecimal
from app.capture.capture_entries import RefusedEntry, SkippedEntry
from app.codecs.rendezvous import daemon
from app.model.message import PhysicalMessage
from tests.support.captures import NOW, SOURCE, entries, in_hexadecimal

MESSAGE = bytes.fromhex("0000000E9955EEAA024C0003010A"[:28])
FRAMING = "sas_rendezvous"


def test_a_message_is_taken_as_it_is() -> None:
    text = b"# a message\n" + in_hexadecimal([MESSAGE]) + b"2026-11-21T07:30:01Z " + in_hexadecimal([MESSAGE])
    assert entries(hexadecimal.read_rendezvous, text, FRAMING) == [
        PhysicalMessage(SOURCE, FRAMING, body=MESSAGE, received_at=NOW),
        PhysicalMessage(SOURCE, FRAMING, body=MESSAGE, received_at=NOW + 1_000_000),
    ]


@pytest.mark.parametrize("framing", ["sas_rendezvous", "order_packet"])
def test_a_message_cut_anywhere_is_refused(framing: str) -> None:
    for cut in range(1, len(MESSAGE)):
        (found,) = entries(hexadecimal.read_rendezvous, in_hexadecimal([MESSAGE[:cut]]), framing)
        assert isinstance(found, RefusedEntry)
        assert (found.code, found.line, found.message.body) == ("bad-rendezvous-message", 1, MESSAGE[:cut])
        assert found.why


@given(st.binary(min_size=1, max_size=40))
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
    for head in (b"", MESSAGE[:8]):
        (found,) = entries(hexadecimal.read_rendezvous, in_hexadecimal([head + data]), FRAMING)
        is_whole = (head + data)[4:8] == MESSAGE[4:8] and int.from_bytes((head + data)[:4]) == len(head + data)
        assert isinstance(found, PhysicalMessage if is_whole else RefusedEntry)


def test_of_frames_the_publications_are_taken_with_their_subjects() -> None:
    frames = [
        daemon.listen("SAS.>"),
        b"".join(map(bytes, daemon.publish(daemon.publish_head("SAS.A", "_INBOX.1.2.3"), MESSAGE, is_message=True))),
        b"".join(map(bytes, daemon.publish(daemon.publish_head("SAS.B"), b"text", is_message=False))),
    ]
    listening, first, second = entries(hexadecimal.read_rendezvous, in_hexadecimal(frames), FRAMING)
    assert listening == SkippedEntry("frames of kind L")
    assert isinstance(first, PhysicalMessage)
    assert isinstance(second, PhysicalMessage)
    assert (first.body, second.body) == (MESSAGE, b"text")
    assert first.properties == {"rendezvous.subject": "SAS.A", "rendezvous.reply": "_INBOX.1.2.3"}
    assert second.properties == {"rendezvous.subject": "SAS.B"}
