"""What a client and a Rendezvous daemon say to each other over TCP.

The daemon speaks first. The two exchange a version and parameters of fixed size; from then on every frame, in either
direction, is a tibrvMsg with the fields `sub` (the subject), `mtype` (the kind of message), `return` (the subject to
reply to) and `data`. A client introduces itself twice: with its service and network, and then with its session as well.
There are no acknowledgements. A client must send no kinds of `DaemonMessageKind` but the marked ones: a daemon
reads nothing more of one that does.
"""

from enum import StrEnum
from struct import Struct
from typing import Final, NamedTuple

from app.codecs.rendezvous.constants import HEADER_SIZE, LONG_SIZE, MAGIC, MOST_DEPTH, WireType
from app.codecs.rendezvous.field_values import read_value, size_of
from app.codecs.rendezvous.fields import message_end, places, whole_message_end
from app.codecs.rendezvous.subjects import INBOX
from app.codecs.rendezvous.tibrv_message import Field, Message, by_name, decode_fields, encode_message
from app.wire import WireError
from app.wire.kinds import Buffer

VERSION: Final = Struct(">3I").pack(0, 4, 0)
"""The first bytes of each side."""

PARAMETERS_SIZE: Final = 64
_PARAMETERS: Final = (2, 0, 1, 0, 0x04000000, 0x04000000, *[0] * 9)
RESPONSE: Final = Struct(">16I").pack(3, *_PARAMETERS)
"""A client's answer to the daemon's parameters, until these agree."""
AGREED: Final = 1
"""The first number of the daemon's parameters once they agree."""

PING: Final = HEADER_SIZE.to_bytes(4, "big") + MAGIC
"""An empty message, which a daemon ignores."""

CONNECTED: Final = "_RV.INFO.SYSTEM.RVD.CONNECTED"
_INITIALISED: Final = "RVD.INITRESP"
_REFUSED: Final = "RVD.INITREFUSED"
_CLIENT_VERSION: Final = {"vmaj": 5, "vmin": 4, "vupd": 2}

REFUSALS: Final = {
    1: "the daemon's host name cannot be resolved",
    2: "the daemon has no such network interface or host",
    3: "the daemon's host name cannot be resolved",
    5: "other clients of the daemon use this service with another network",
    17: "the daemon knows no such network",
    18: "the daemon takes this for no service number",
    19: "the daemon takes service or network for too long",
    20: "the daemon could not start the service",
}
"""Why a daemon refuses a client, by its error number."""


class DaemonMessageKind(StrEnum):
    """The kinds of message (`mtype`). Clients send INITIALISE, LISTEN, CANCEL and DATA."""

    INITIALISE = "I"
    LISTEN = "L"
    CANCEL = "C"
    DATA = "D"
    ADVISORY = "A"
    RESPONSE = "R"
    STATUS = "S"


class DaemonFrame(NamedTuple):
    """A frame as received. `data` is a slice of it: a tibrvMsg (`is_message`) or the bytes of text or of an opaque
    field; empty where there are none."""

    kind: str
    subject: str
    reply: str | None
    data: Buffer
    is_message: bool


class Agreement(NamedTuple):
    """What a daemon answers a client that it accepts: its own address, and a name for a session that no other has."""

    address: str
    unique: str


class DaemonRefused(Exception):
    """The daemon refuses the client; the text is the reason."""


def first_number(parameters: bytes) -> int:
    """Return the number that states how far the agreement on parameters is."""
    return int.from_bytes(parameters[:4], "big")


# --- what a client says -----------------------------------------------------------------------------------------------


def initialise(user: str, service: str, network: str, session: str | None = None) -> bytes:
    """Return the frame by which a client introduces itself: at first without its session, then with it."""
    texts = {"mtype": DaemonMessageKind.INITIALISE.value, "userid": user}
    if session is not None:
        texts["session"] = session
    texts |= {"service": service, "network": network}
    if session is not None:
        texts["control"] = inbox(session, "1")
    numbers = [Field(name, 0, "I32", number) for name, number in _CLIENT_VERSION.items()]
    return encode_message([*(Field(name, 0, "STRING", text) for name, text in texts.items()), *numbers])


def inbox(session: str, name: str) -> str:
    """Return a subject that only this session listens to."""
    return f"{INBOX}.{session}.{name}"


def session_name(address: str, unique: str) -> str:
    """Return the name of a session: the address in hexadecimal, and what no other client of it has."""
    return "".join(f"{int(octet):02X}" for octet in address.split(".")) + f".{unique}"


def listen(subject: str) -> bytes:
    """Return the frame by which a client listens to a subject. A daemon counts listens to the same subject."""
    return _subscription(DaemonMessageKind.LISTEN, subject)


def cancel(subject: str) -> bytes:
    """Return the frame that takes one listen back."""
    return _subscription(DaemonMessageKind.CANCEL, subject)


def _subscription(kind: DaemonMessageKind, subject: str) -> bytes:
    return encode_message([Field("mtype", 0, "STRING", kind.value), Field("sub", 0, "SUBJECT", subject)])


def publish_head(subject: str, reply: str | None = None) -> bytes:
    """Return the fields of a publication that stand before its data, without the message's length."""
    back = [] if reply is None else [Field("return", 0, "STRING", reply)]
    head = [Field("sub", 0, "SUBJECT", subject), Field("mtype", 0, "STRING", DaemonMessageKind.DATA.value), *back]
    return encode_message(head)[HEADER_SIZE:]


def publish(head: bytes, data: Buffer, *, is_message: bool) -> list[Buffer]:
    """Return the pieces of a publication: data that are a tibrvMsg travel as they are, others as opaque bytes."""
    if is_message:
        field = b"\x05data\0" + bytes([WireType.MSG, LONG_SIZE])
    else:
        field = b"\x05data\0" + bytes([WireType.OPAQUE]) + size_of(len(data))
    size = HEADER_SIZE + len(head) + len(field) + len(data)
    return [size.to_bytes(4, "big") + MAGIC + head + field, data]


# --- what a daemon says -----------------------------------------------------------------------------------------------


def is_frame(message: Buffer) -> bool:
    """Return whether a tibrvMsg is a frame: its first field is the subject or the kind of message, which has no
    identifier."""
    return bytes(message[HEADER_SIZE : HEADER_SIZE + 5]) == b"\x04sub\0" or (
        bytes(message[HEADER_SIZE : HEADER_SIZE + 7]) == b"\x06mtype\0"
    )


def read_frame(frame: Buffer) -> DaemonFrame:
    """Return what a frame says; fields of other names are passed over. Raises WireError."""
    end = whole_message_end(frame)
    texts: dict[str, str] = {}
    data: Buffer = b""
    is_message = False
    for place in places(frame, HEADER_SIZE, end):
        if place.name == "data":
            data, is_message = memoryview(frame)[place.data_at : place.end], place.type == WireType.MSG
            if place.type == WireType.STRING and len(data) and not data[-1]:
                data = data[:-1]
            elif place.type not in {WireType.MSG, WireType.OPAQUE, WireType.STRING}:
                raise WireError("data.type", place.type_at, f"type {place.type} of data")
        elif place.name in {"sub", "mtype", "return"}:
            wanted = WireType.SUBJECT if place.name == "sub" else WireType.STRING
            if place.type != wanted:
                raise WireError(f"{place.name}.type", place.type_at, f"type {place.type} instead of {wanted.name}")
            read = read_value(place.type, frame[place.data_at : place.end], str(place.name), place.data_at)
            assert read is not None
            texts[place.name] = str(read.value)
    return DaemonFrame(texts.get("mtype", ""), texts.get("sub", ""), texts.get("return"), data, is_message)


def fields_of(frame: DaemonFrame) -> Message:
    """Return the fields of a frame's data; none where these are no message. Raises WireError."""
    if not frame.is_message:
        return ()
    end = message_end(frame.data, 0, len(frame.data))
    return decode_fields(frame.data, HEADER_SIZE, end, MOST_DEPTH)


def agreement(frame: DaemonFrame) -> Agreement:
    """Return what the daemon answers a client's first introduction. Raises DaemonRefused, and WireError for another
    frame."""
    named = by_name(fields_of(frame))
    if frame.subject == _REFUSED:
        number = named["error"].value if "error" in named else 0
        raise DaemonRefused(f"{REFUSALS.get(number, 'the daemon refuses the connection')} (error {number})")
    if frame.subject != _INITIALISED:
        raise WireError("sub", 0, f"{frame.subject!r}, but the daemon answers {_INITIALISED}")
    address, unique = named.get("ipaddr"), named.get("gob")
    if address is None or address.type != "IPADDR32":
        raise WireError("data.ipaddr", 0, "the daemon does not say the client's address")
    return Agreement(str(address.value), str(unique.value) if unique else "")


def advisory(frame: DaemonFrame) -> dict[str, str]:
    """Return what an advisory says, as text by name. Raises WireError."""
    return {str(field.name): str(field.value) for field in fields_of(frame)}


def advisory_class(subject: str) -> str:
    """Return the class of an advisory by its subject: ERROR, WARN, INFO, or whatever stands there."""
    elements = subject.split(".")
    return elements[1] if len(elements) > 1 else ""


def is_loss(subject: str) -> bool:
    """Return whether an advisory says that messages were lost."""
    return ".DATALOSS." in f"{subject}."
