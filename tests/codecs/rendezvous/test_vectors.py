"""tibrvMsg against bytes that another implementation of the C library wrote, and that a daemon exchanged."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.codecs.rendezvous.message import decode_message, encode_message
from app.trace import explain
from app.trace.rendezvous import described

FOLDER = Path("tests/vectors/rendezvous")
VECTORS = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("rv_*.json"))}
FRAMES = [
    frame for frame in json.loads((FOLDER / "rvwire_session.json").read_text())["frames"] if frame.get("kind") == "msg"
]


def _each() -> Iterator[Any]:
    for name, vector in VECTORS.items():
        yield pytest.param(vector["hex"], vector["fields"], id=name)
    for number, frame in enumerate(FRAMES):
        yield pytest.param(frame["hex"], frame["fields"], id=f"frame-{number}")


EACH = [*_each()]


@pytest.mark.parametrize(("hexadecimal", "fields"), EACH)
def test_a_message_decodes_to_its_fields_and_encodes_to_its_bytes(
    hexadecimal: str, fields: list[dict[str, Any]]
) -> None:
    data = bytes.fromhex(hexadecimal)
    message = decode_message(data)
    assert described(message) == fields
    assert encode_message(message) == data


@pytest.mark.parametrize(("hexadecimal", "fields"), EACH)
def test_the_trace_has_every_byte_and_the_same_fields(hexadecimal: str, fields: list[dict[str, Any]]) -> None:
    data = bytes.fromhex(hexadecimal)
    (frame,) = explain(data)
    assert (frame.format, frame.decoded["fields"]) == ("tibrvmsg", fields)
    assert sum(cell.size for cell in frame.cells) == len(data)
