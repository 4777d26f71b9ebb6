"""Determine the character set of a text file."""

import codecs
from typing import BinaryIO, NamedTuple

from app.codecs.charset_text import charset_codec
from app.dataset import character_columns
from app.dataset.character_columns import GUESSES
from app.tables.read.read_request import Remark, unreadable

_PIECE = 1 << 20
_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


KEPT = "each byte that is not in it is written as \\xHH"
"""How names, labels and formats that do not decode are kept."""


class Charset(NamedTuple):
    """A Python codec's name; `guessed` if the file does not prove it."""

    name: str
    guessed: bool = False


class Metadata:
    """The texts of a file that are not values: names, labels, formats. They were read as Latin-1.

    `remarks` tells which of them are not in the file's character set.
    """

    def __init__(self, charset: str) -> None:
        self._charset = charset
        self.remarks: list[Remark] = []

    def text(self, latin_1: str, what: str, column: str | None = None) -> str:
        """Return a text. `what` names it, and `column` is the column to which it belongs."""
        raw = latin_1.encode("latin-1")
        if not character_columns.decodes(raw, self._charset):
            shown = character_columns.shown(raw, self._charset)
            why = f"the {what} {shown!r} is not in character set {self._charset}: {KEPT}"
            self.remarks.append(Remark(column, why))
        return character_columns.shown(raw, self._charset).rstrip(" ")


def charset_of(file: BinaryIO, given: str | None) -> Charset:
    """Return the character set of a text file.

    It is the given one, or by the byte order mark, or UTF-8 if the whole file is UTF-8, or else Windows Latin 1.
    Raises InvalidInputError if the given one is unknown, and for bytes that are not in it.
    """
    if given is not None:
        return _checked(file, known(given))
    file.seek(0)
    head = file.read(3)
    for mark, name in _MARKS.items():
        if head.startswith(mark):
            return _checked(file, name)
    if _decodes(file, "utf-8"):
        return Charset("utf-8")
    return Charset(next(name for name in GUESSES if _decodes(file, name)), guessed=True)


def known(name: str) -> str:
    """Return the name of Python's codec. Raises InvalidInputError if the character set is unknown."""
    try:
        return charset_codec(name)
    except ValueError as error:
        raise unreadable(str(error)) from None


def _checked(file: BinaryIO, charset: str) -> Charset:
    try:
        found = _first_odd(file, charset)
    except UnicodeError as error:  # of a whole file, such as UTF-16 without a byte order mark
        raise unreadable(f"it is not in character set {charset}: {error}") from None
    if found is not None:
        raise unreadable(f"byte {found:,} is not in character set {charset}; state the encoding of the file")
    return Charset(charset)


def _decodes(file: BinaryIO, charset: str) -> bool:
    return _first_odd(file, charset) is None


def _first_odd(file: BinaryIO, charset: str) -> int | None:
    """Return the first byte of a file, from 0, that is not in a character set; None if all are."""
    decoder = codecs.getincrementaldecoder(charset)()
    file.seek(0)
    begin = 0
    piece = b" "
    while piece:
        piece = file.read(_PIECE)
        pending = len(decoder.getstate()[0])
        try:
            decoder.decode(piece, final=not piece)
        except UnicodeDecodeError as error:
            return begin - pending + error.start
        begin += len(piece)
    return None
