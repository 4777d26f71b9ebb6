"""Captures in the formats of other programs, written without the gateway's readers."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from io import BytesIO
from re import finditer
from typing import Any, Literal, cast

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from app.capture.capture_entries import BoundedLine, Entry, Origin, lines
from app.codecs.ibm_mq.headers import put_date_and_time
from app.codecs.ibm_mq.image import write_image
from app.framing.registry import traits
from app.model.message import PhysicalMessage
from tests.support.publish import PROTOCOLS, Version, envelope

NOW = 1_795_246_200_000_000
SOURCE = "captured"
Display = Literal["hex", "columns", "ascii"]

_HEAD = ["* QLOAD Version:1.9 Created:Sat Nov 21 07:30:00 2026", "* Qmgr  = QM1", "* Queue = Q1", ""]
_PRINTABLE = rb"([\x20-\x7e]+)|([^\x20-\x7e]+)"


def origin(framing: str = "sas_queue", **said: Any) -> Origin:
    return Origin(PhysicalMessage(SOURCE, framing, **said), lambda: NOW, traits(framing))


def entries(
    read: Callable[[Iterator[BoundedLine], Origin], Iterator[Entry]], text: bytes, framing: str = "sas_queue"
) -> list[Entry]:
    """Return the entries that a reader finds in a file, with bodies as bytes."""
    found = list(read(lines(BytesIO(text)), origin(framing)))
    return [each._replace(body=bytes(each.body)) if isinstance(each, PhysicalMessage) else each for each in found]


def unloaded(messages: Iterable[PhysicalMessage], display: Display = "hex", width: int = 25) -> bytes:
    """Return a queue's messages in the format of dmpmqmsg; `display` is its option -d: none, a or A."""
    out = [line.encode() for line in _HEAD]
    for message in messages:
        out += [line.encode("latin-1") for line in _descriptor(message)]
        out += _DISPLAYS[display](bytes(message.body), width)
        out.append(b"")
    return b"\n".join(out) + b"\n"


def _descriptor(message: PhysicalMessage) -> list[str]:
    put_date, put_time = put_date_and_time(message.put_time)
    fields = {
        "VER": 2,
        "RPT": 0,
        "MST": message.msg_type,
        "EXP": -1,
        "FDB": 0,
        "ENC": message.encoding,
        "CCS": message.ccsid,
        "FMT": message.format.ljust(8),
        "PRI": 4,
        "PER": 1,
        "MSI": message.message_id.ljust(24, b"\0").hex().upper(),
        "COI": message.correl_id.hex().upper(),
        "BOC": 0,
        "RTQ": " " * 48,
        "RTM": "QM1".ljust(48),
        "USR": "sasdemo".ljust(12),
        "ACC": bytes(32).hex(),
        "AIX": (b" " * 32).hex(),
        "PAT": 6,
        "PAN": "sas".ljust(28),
        "PTD": put_date.ljust(8),
        "PTT": put_time.ljust(8),
        "AOX": (b" " * 4).hex(),
        "GRP": message.group_id.ljust(24, b"\0").hex().upper(),
        "MSQ": message.msg_seq_number,
        "OFF": message.offset,
        "MSF": message.msg_flags,
        "ORL": message.original_length,
    }
    return [f"A {code} {value}" for code, value in fields.items()]


def _hex(body: bytes, width: int) -> list[bytes]:
    return [b"X " + body[at : at + width].hex().upper().encode() for at in range(0, max(len(body), 1), width)]


def _columns(body: bytes, width: int) -> list[bytes]:
    out = []
    for at in range(0, max(len(body), 1), width):
        piece = body[at : at + width]
        shown = bytes(byte if 0x20 <= byte < 0x7F else 0x2E for byte in piece)
        digits = piece.hex().upper().encode()
        out.append(b"X " + (digits.ljust(2 * width + 2) + b"<" + shown + b">" if piece else b""))
    return out


def _ascii(body: bytes, width: int) -> list[bytes]:
    out: list[bytes] = []
    for found in finditer(_PRINTABLE, body):
        text, other = found.groups()
        if text is None:
            out += _hex(other, width)
            continue
        step = 2 * width - 2
        pieces = [text[at : at + step] for at in range(0, len(text), step)]
        out += [b'S "' + piece.replace(b"~", b"~~").replace(b'"', b'~"') + b'"' for piece in pieces]
    return out or [b"S "]


_DISPLAYS: dict[Display, Callable[[bytes, int], list[bytes]]] = {"hex": _hex, "columns": _columns, "ascii": _ascii}


class Packets:
    """A replacement for paho's socket that keeps the packets it is given."""

    def __init__(self) -> None:
        self.sent = b""

    def send(self, data: bytes) -> int:
        self.sent += data
        return len(data)

    def close(self) -> None: ...

    def fileno(self) -> int:
        return -1


def packet(message: PhysicalMessage, version: Version, qos: int = 1, topic: str = "sas/bücher") -> bytes:
    """Return the packet of a publish.

    With MQTT 5 the descriptor is in properties, with 3.1.1 in an MQ image. A message of type 0 has no descriptor.
    """
    client = Client(CallbackAPIVersion.VERSION2, protocol=PROTOCOLS[version])
    packets = Packets()
    client._sock = cast("Any", packets)
    if message.msg_type and version == "5":
        client.publish(topic, bytes(message.body), qos, properties=envelope(message))
    else:
        client.publish(topic, write_image(message) if message.msg_type else bytes(message.body), qos)
    client._sock = None
    return packets.sent


def in_hexadecimal(captures: Sequence[bytes]) -> bytes:
    """Return captures as hexadecimal digits, one per line."""
    return b"".join(each.hex().encode() + b"\n" for each in captures)
