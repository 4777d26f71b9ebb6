"""The character sets in which the text of a SAS message is read and written."""

from collections.abc import Iterator

from app.codecs.ibm_mq.encodings import EBCDIC, is_ebcdic
from app.codecs.ibm_mq.encodings import charset as named_charset
from app.model.message import PhysicalMessage
from app.model.records import FramingOptions


def charsets(message: PhysicalMessage) -> Iterator[str]:
    """Yield the character sets to read a message's text in: the one that its descriptor names first, Latin-1 last.

    Latin-1 reads any bytes, so that a name in an undeclared character set does not lose an attachment. For an EBCDIC
    character set without a codec, code page 500 has the capitals, digits and blanks.
    """
    named = named_charset(message.ccsid, message.encoding) or (EBCDIC if is_ebcdic(message.ccsid) else None)
    yield from dict.fromkeys(name for name in (named, "utf-8", "latin-1") if name)


def charset_of(options: FramingOptions) -> str:
    """Return the Python codec of the character set that names and texts are written in."""
    return named_charset(options.ccsid, options.encoding) or "utf-8"
