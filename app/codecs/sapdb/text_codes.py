"""The codes of texts in packets."""

from typing import NamedTuple

from app.codecs.sapdb.constants import MessCode
from app.wire import WireError
from app.wire.kinds import Buffer, Order

_UCS2: dict[Order, str] = {">": "utf-16-be", "<": "utf-16-le"}
_EBCDIC = "cp500"


class Code(NamedTuple):
    """How a packet writes texts: the Python codec of its own code, and of columns that are Unicode in any packet."""

    text: str
    unicode: str

    @property
    def is_unicode(self) -> bool:
        """Return whether texts of the packet's code have two bytes a character."""
        return self.text == self.unicode


def code_of(mess_code: int, order: Order) -> Code:
    """Return the code of a packet. Codes that are not known are read as ISO 8859-1, which takes any bytes."""
    match mess_code:
        case MessCode.UNICODE:
            return Code(_UCS2[">"], _UCS2[">"])
        case MessCode.UNICODE_SWAP:
            return Code(_UCS2["<"], _UCS2["<"])
        case MessCode.UNICODE_NATIVE:
            return Code(_UCS2[order], _UCS2[order])
        case MessCode.UTF8:
            return Code("utf-8", _UCS2[order])
        case MessCode.EBCDIC:
            return Code(_EBCDIC, _UCS2[order])
        case _:
            return Code("latin-1", _UCS2[order])


def decode_text(data: Buffer, codec: str, row: str, at: int) -> str:
    """Return the text of bytes that begin at byte `at`. Raises WireError."""
    try:
        return str(data, codec)
    except UnicodeDecodeError as error:
        raise WireError(row, at + error.start, f"{codec} does not have these bytes: {error.reason}") from None


def encode_text(text: str, codec: str, row: str) -> bytes:
    """Return the bytes of a text. Raises WireError."""
    try:
        return text.encode(codec)
    except UnicodeEncodeError as error:
        raise WireError(row, 0, f"{text[error.start : error.end]!r} has no bytes in {codec}") from None
