"""Determine the character set of a text file."""

import codecs
from typing import BinaryIO, NamedTuple

from app.tables.read.request import unreadable

_PIECE = 1 << 20
_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


class Charset(NamedTuple):
    """A Python codec's name; `guessed` if the file does not prove it."""

    name: str
    guessed: bool = False


def charset_of(file: BinaryIO, given: str | None) -> Charset:
    """Return the character set of a text file.

    It is the given one, or that of the byte order mark, or UTF-8 if the whole file is UTF-8, or else Windows Latin 1.
    Raises InvalidInputError if the given one is unknown.
    """
    if given is not None:
        return Charset(_known(given))
    file.seek(0)
    head = file.read(3)
    for mark, name in _MARKS.items():
        if head.startswith(mark):
            return Charset(name)
    if _decodes(file, "utf-8"):
        return Charset("utf-8")
    return Charset("cp1252" if _decodes(file, "cp1252") else "latin-1", guessed=True)


def _known(name: str) -> str:
    try:
        found = codecs.lookup(name)
        "".encode(found.name)
    except (LookupError, ValueError):
        raise unreadable(f"unknown character set {name!r}") from None
    return found.name


def _decodes(file: BinaryIO, charset: str) -> bool:
    decoder = codecs.getincrementaldecoder(charset)()
    file.seek(0)
    try:
        while piece := file.read(_PIECE):
            decoder.decode(piece)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True
