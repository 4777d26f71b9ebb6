"""Messages of TIB/Rendezvous in lines of hexadecimal: one tibrvMsg on each line, unchanged."""

import struct
from collections.abc import Iterable, Iterator
from typing import Final

from app.capture.entries import Entry, Origin, Refused
from app.capture.hexadecimal import captures
from app.capture.lines import Line
from app.model.message import PhysicalMessage

MAGIC: Final = bytes.fromhex("9955EEAA")
_HEAD = struct.Struct(">I4s")


def read(lines: Iterable[Line], origin: Origin) -> Iterator[Entry]:
    """Yield the messages of a capture in their order.

    A bad line is refused as `bad-capture`, and bytes that are not one whole message as `bad-rendezvous-message`.
    """
    initial = origin.initial
    for found in captures(lines, origin):
        if isinstance(found, Refused):
            yield found
        elif why := _wrong(found.data):
            yield origin.refused(found.data, "bad-rendezvous-message", why, found.line)
        else:
            received_at = found.time or origin.now()
            yield PhysicalMessage(initial.source, initial.framing, body=found.data, received_at=received_at)


def is_message(data: bytes) -> bool:
    """Tell whether these bytes begin like a tibrvMsg."""
    return data[4:8] == MAGIC


def _wrong(data: bytes) -> str:
    """Return why this is not one whole message, or an empty text if it is."""
    if len(data) < _HEAD.size:
        return f"{len(data)} bytes; a message has at least {_HEAD.size}"
    size, magic = _HEAD.unpack_from(data)
    if magic != MAGIC:
        return f"expected {MAGIC.hex().upper()} at byte 4, found {magic.hex().upper()}"
    return "" if size == len(data) else f"the message's length is {size:,} bytes, but there are {len(data):,}"
