"""Recognise the format of a capture by its beginning."""

import re
from io import BytesIO
from typing import Final, Literal, get_args

from app.capture import qload
from app.capture.capture_entries import BoundedLine, LineError, lines
from app.capture.hexadecimal import capture
from app.codecs.ibm_mq.image import is_image
from app.codecs.mqtt.packets import FixedHeader, require_flags
from app.codecs.rendezvous.tibrv_message import is_message
from app.wire import WireError

Format = Literal["qload", "raw", "mqtt", "rendezvous"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)

LOOKED_AT: Final = 1 << 16
"""The number of bytes at a file's beginning that recognition reads."""

_AMQSBCG = b"AMQSBCG0"
_DESCRIPTOR = re.compile(rb"A [A-Z]{3}( |$)|N$")
_ENOUGH = 1024


def recognise(head: bytes) -> str:
    """Return the format of a file that begins with these bytes: the whole file, or at least `LOOKED_AT` bytes.

    Raises ValueError with advice.
    """
    if is_image(head):
        return "raw"
    for line in lines(BytesIO(head)):
        if line.content.startswith(_AMQSBCG):
            raise ValueError("this is the output of amqsbcg, which is not read: unload the queue with dmpmqmsg")
        if line.content.startswith(qload.HEADS) or _DESCRIPTOR.match(line.content):
            return "qload"
        if line.content.strip() and not line.content.startswith((b"*", b"#")):
            data = _beginning(line.content[:_ENOUGH])
            if not data:
                raise ValueError("unknown format; known are: " + ", ".join(FORMATS))
            if is_message(data) == _begins_packet(data):
                fits = "may be both" if is_message(data) else "are neither"
                raise ValueError(f"its hexadecimal digits {fits}: MQTT packets, and a tibrvMsg")
            return "rendezvous" if is_message(data) else "mqtt"
    raise ValueError("the file has no capture in it")


def _begins_packet(data: bytes) -> bool:
    try:
        header, _ = FixedHeader.decode(data)
        require_flags(header, 0, "5")
    except WireError:
        return False
    return True


def _beginning(line: bytes) -> bytes:
    """Return the bytes that a possibly cut line begins with; none if it is not hexadecimal."""
    for end in (len(line), len(line) - 1):
        try:
            found = capture(BoundedLine(0, line[:end]))
        except LineError:
            continue
        return b"" if found is None else found.data
    return b""
