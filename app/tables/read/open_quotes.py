"""Find quotes in a CSV file that are not closed: each would swallow the rows up to the next quote, or to the end.

A quote opens a cell only at its beginning; elsewhere it is a character of the text. In a file that follows RFC 4180,
each opening quote is at the beginning of a cell and each closing quote at its end. This is checked for many rows at
once; rows that are different are read quote by quote.
"""

import codecs
import re
from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.tables.read.read_request import unreadable

PIECE_BYTES: Final = 512 << 10
LONGEST_LINE: Final = 64 << 20
"""The maximum size in bytes of a line; a row is much smaller."""

_QUOTE, _LF, _CR = b'"\n\r'
_AS_THEY_ARE = frozenset({"utf-8", "latin-1", "iso8859-1", "cp1252"})
"""Character sets that have ASCII's bytes for quotes, delimiters and line ends, in no other character."""

Bytes = NDArray[np.uint8]
Places = NDArray[np.intp]


class QuotePlace(NamedTuple):
    """The place of a quote: its byte in the file, from 0, and the number of rows that end before it."""

    byte: int
    rows: int


def check_quotes(file: BinaryIO, charset: str, delimiter: str, before: int, *, blank_rows: bool) -> bool:
    """Return whether the file has a NUL. Raises InvalidInputError for a quote that is not closed in its cell.

    `before` is the number of rows before the first of data. With `blank_rows`, a blank line is a row.
    """
    file.seek(0)
    begin = len(codecs.BOM_UTF8) if file.read(len(codecs.BOM_UTF8)) == codecs.BOM_UTF8 else 0
    scan = _Scan(delimiter.encode()[0], begin, blank_rows=blank_rows)
    has_nul = False
    for lines in _lines(file, charset, begin):
        scan.see(lines)
        has_nul = has_nul or b"\0" in lines
    if scan.opened is not None:
        raise _unclosed(scan.opened, "is never closed", charset, before)
    if scan.wrong is not None:
        raise _unclosed(scan.wrong, "ends in a later line, before text that is not a new cell", charset, before)
    return has_nul


def _unclosed(place: QuotePlace, why: str, charset: str, before: int) -> Exception:
    byte = f" at byte {place.byte}" if charset in _AS_THEY_ARE else ""
    row = place.rows + 1 - before
    sentence = f"the quote that opens{byte} {why}; close it, or double it if it belongs to the text"
    return unreadable(sentence, row) if row > 0 else unreadable(f"the row of names: {sentence}")


def _lines(file: BinaryIO, charset: str, begin: int) -> Iterator[bytes]:
    """Yield whole lines, many at a time, in a character set that contains ASCII; the last one may lack its end."""
    file.seek(begin)
    pieces = iter(lambda: file.read(PIECE_BYTES), b"")
    if charset not in _AS_THEY_ARE:
        pieces = (text.encode("utf-8", "surrogatepass") for text in codecs.iterdecode(pieces, charset))
    held = b""
    for piece in pieces:
        held += piece
        cut = max(held.rfind(b"\n"), held.rfind(b"\r", 0, -1)) + 1
        if cut:
            yield held[:cut]
            held = held[cut:]
        if len(held) > LONGEST_LINE:
            raise unreadable(f"a line is longer than {LONGEST_LINE:,} bytes")
    if held:
        yield held


class _Scan:
    """The state between lines: the quote that is open, and the first one that is wrong."""

    def __init__(self, delimiter: int, begin: int, *, blank_rows: bool) -> None:
        self.opened: QuotePlace | None = None
        self.wrong: QuotePlace | None = None
        self._bytes, self._rows = begin, 0
        self._blank_rows = blank_rows
        self._ends = np.zeros(256, np.bool_)
        self._ends[[delimiter, _LF, _CR, _QUOTE]] = True
        mark = re.escape(bytes([delimiter]))
        self._opening = re.compile(rb"(?:\A|(?<=[\r\n])|(?<=" + mark + rb'))"')
        self._closing = re.compile(rb'[^"]*+(?:""[^"]*+)*+"')
        self._after = re.compile(rb"[\r\n]|\Z|" + mark)

    def see(self, lines: bytes) -> None:
        """Add whole lines."""
        if self.opened is None and _QUOTE not in lines and _are_plain(lines, blank_rows=self._blank_rows):
            self._rows += lines.count(b"\n")
            self._bytes += len(lines)
            return
        data = np.frombuffer(lines, np.uint8)
        quotes = np.flatnonzero(data == _QUOTE) if _QUOTE in lines else np.zeros(0, np.intp)
        inside = self.opened is not None
        opening, closing = quotes[inside::2], quotes[1 - inside :: 2]
        before, after = opening[opening > 0] - 1, closing[closing < len(data) - 1] + 1
        # Every second quote begins a cell, and the others end one.
        if self._ends[data[before]].all() and self._ends[data[after]].all():
            ends = self._row_ends(data)
            if len(ends) and (inside or len(quotes)):
                ends = ends[(np.searchsorted(quotes, ends) + inside) % 2 == 0]
            if len(quotes):
                self.opened = self._place(int(quotes[-1]), ends) if (len(quotes) + inside) % 2 else None
            self._rows += len(ends)
        else:
            self._see_one_by_one(lines, data)
        self._bytes += len(lines)

    def _row_ends(self, data: Bytes) -> Places:
        """Return the places of line ends, of blank lines only if they are rows."""
        is_end = data == _LF
        is_return = data == _CR
        if is_return.any():
            lone = is_return.copy()
            lone[:-1] &= ~is_end[1:]
            is_end = is_end | lone
        ends = np.flatnonzero(is_end)
        if self._blank_rows:
            return ends
        starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
        length = ends - starts
        blank = (length == 0) | ((length == 1) & (data[starts] == _CR))
        found: Places = ends[~blank]
        return found

    def _see_one_by_one(self, lines: bytes, data: Bytes) -> None:
        """Read lines with quotes that are characters of texts, or wrong."""
        hidden = np.zeros(len(data), np.bool_)
        opened = None if self.opened is None else -1
        wrong: int | None = None
        at = 0
        while True:
            if opened is None:
                found = self._opening.search(lines, at)
                if found is None:
                    break
                at = found.end()
                opened = at - 1
            closing = self._closing.match(lines, at)
            end = len(lines) if closing is None else closing.end()
            hidden[at:end] = True
            if closing is None:
                break
            # A text that was opened in earlier lines (-1) has a line end.
            has_line_end = opened < 0 or lines.find(b"\n", opened, end) >= 0 or lines.find(b"\r", opened, end) >= 0
            if wrong is None and has_line_end and not self._after.match(lines, end):
                wrong = opened
            opened, at = None, end
        ends = self._row_ends(np.where(hidden, 0, data))
        if self.wrong is None and wrong is not None:
            self.wrong = self._place(wrong, ends)
        self.opened = None if opened is None else self._place(opened, ends)
        self._rows += len(ends)

    def _place(self, at: int, ends: Places) -> QuotePlace | None:
        """Return the place of a quote in these lines; for -1 the place of the quote that was open before."""
        return self.opened if at < 0 else QuotePlace(self._bytes + at, self._rows + int(np.searchsorted(ends, at)))


def _are_plain(lines: bytes, *, blank_rows: bool) -> bool:
    """Tell whether every line ends in LF or CR LF and is a row."""
    if not blank_rows and (lines.startswith((b"\n", b"\r")) or b"\n\n" in lines or b"\n\r" in lines):
        return False
    return b"\r" not in lines or lines.count(b"\r") == lines.count(b"\r\n")
