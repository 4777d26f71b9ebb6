"""tibrvMsg against bytes that another implementation of the C library wrote, and that a daemon exchanged."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.codecs.ibm_mq.image import write_image
from app.codecs.mqtt.packets import length_bytes
from app.codecs.rendezvous.tibrv_message import decode_message, encode_message
from app.model.message import PhysicalMessage
from app.trace import NotRecognised, explain
from app.trace.rendezvous import described
from tests.support.cases import for_each

FOLDER = Path("tests/vectors/rendezvous")
VECTORS = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("rv_*.json"))}
SESSION = json.loads((FOLDER / "rvwire_session.json").read_text())["frames"]
FRAMES = [frame for frame in SESSION if frame.get("kind") == "msg"]


EACH = [(each["hex"], each["fields"]) for each in (*VECTORS.values(), *FRAMES)]


@for_each("hexadecimal, fields", EACH)
def test_a_message_decodes_to_its_fields_and_encodes_to_its_bytes(
    hexadecimal: str, fields: list[dict[str, Any]]
) -> None:
    data = bytes.fromhex(hexadecimal)
    message = decode_message(data)
    assert described(message) == fields
    assert encode_message(message) == data


@for_each("hexadecimal, fields", EACH)
def test_the_trace_has_every_byte_and_the_same_fields(hexadecimal: str, fields: list[dict[str, Any]]) -> None:
    data = bytes.fromhex(hexadecimal)
    (frame,) = explain(data)
    assert (frame.format, frame.decoded["fields"]) == ("tibrvmsg", fields)
    assert sum(cell.size for cell in frame.cells) == len(data)


def test_a_session_is_explained_from_its_first_byte() -> None:
    said = [bytes.fromhex(frame["hex"]) for frame in SESSION if "hex" in frame]
    notes = [explained.note for each in said for explained in explain(each)]
    assert notes[:5] == [
        "version",
        "version",
        "parameters, requested",
        "parameters, answered",
        "parameters, agreed",
    ]
    assert notes[5:9] == [
        "7 fields: introduction",
        "3 fields: answer RVD.INITRESP",
        "9 fields: introduction",
        "3 fields: publication on _RV.INFO.SYSTEM.RVD.CONNECTED",
    ]
    assert "2 fields: listen to CMI.*.X" in notes
    assert "2 fields: cancel CMI.*.X" in notes
    assert [frame.format for frame in explain(b"".join(said[:5]))] == ["rendezvous-agreement"] * 5


def test_what_begins_as_an_agreement_and_is_none_is_not_explained_as_one() -> None:
    with pytest.raises(NotRecognised):
        explain(bytes(4), "rendezvous-agreement")
    with pytest.raises(NotRecognised):
        explain(b"", "rendezvous-agreement")


@for_each("name", VECTORS)
def test_payloads_of_mqtt_and_bodies_of_mq_are_recognised_by_their_magic(name: str) -> None:
    data = bytes.fromhex(VECTORS[name]["hex"])
    length = length_bytes(len(data) + 3)
    publishes = [b"\x30" + length + b"\0\1t" + data, b"\x30" + length_bytes(len(data) + 4) + b"\0\1t\0" + data]
    image = write_image(PhysicalMessage("", "", msg_type=8, body=data))
    for carrier, whole in zip(("mqtt", "mqtt", "mqmd"), (*publishes, image), strict=True):
        first, last = explain(whole)
        assert (first.format, last.format) == (carrier, "tibrvmsg")
        assert last.decoded["fields"] == VECTORS[name]["fields"]
        assert (last.offset, first.cells[-1].at + first.cells[-1].size) == (len(whole) - len(data),) * 2
