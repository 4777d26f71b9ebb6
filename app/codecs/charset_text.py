"""Python's codecs of character sets, and incremental decoding of text; undecodable bytes are replaced and counted."""

import codecs
from collections.abc import Iterable, Iterator
from typing import Final

from app.wire.kinds import Buffer

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_BYTE_ORDER_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"
_UTF_16_MARKS = {codecs.BOM_UTF16_BE: "utf-16-be", codecs.BOM_UTF16_LE: "utf-16-le"}
_NO_CHARACTER_SETS: Final = frozenset(
    {"charmap", "idna", "mbcs", "oem", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"}
)
"""Python's codecs of texts that are no character sets, or not the same one on every machine."""


def charset_codec(name: str) -> str:
    """Return the name of Python's codec of a character set. Raises ValueError for a name that is none of a character
    set."""
    try:
        found = codecs.lookup(name).name
        "".encode(found)  # Python refuses codecs that convert no text to bytes
    except (LookupError, ValueError):
        found = ""
    if not found or found in _NO_CHARACTER_SETS:
        raise ValueError(f"unknown character set {name!r}")
    return found


class TextDecoder:
    """A decoder of one text in pieces.

    Bytes that are invalid in the character set become U+FFFD. `undecodable` is the number of such bytes, and `first` is
    the byte offset of the first one (None if there is none). A byte order mark at the beginning is not part of the
    text; it sets the byte order of UTF-16.
    """

    def __init__(self, codec: str) -> None:
        self.undecodable = 0
        self.first: int | None = None
        self._codec = codec
        self._decoder: codecs.IncrementalDecoder | None = None
        self._begun = False
        self._taken = 0

    def decode(self, pieces: Iterable[Buffer]) -> Iterator[str]:
        """Yield the text in pieces; call this once."""
        waiting = b""
        for piece in pieces:
            waiting += piece
            if self._decoder is not None or len(waiting) >= len(codecs.BOM_UTF16_BE):
                yield self._text(waiting)
                waiting = b""
        yield self._text(waiting, final=True)

    def _text(self, data: bytes, *, final: bool = False) -> str:
        if self._decoder is None:
            is_utf_16 = self._codec.startswith("utf-16")
            codec = _UTF_16_MARKS.get(data[:2], self._codec) if is_utf_16 else self._codec
            self._decoder = codecs.getincrementaldecoder(codec)()
        self._taken += len(data)
        texts = []
        while True:
            try:
                texts.append(self._decoder.decode(data, final))
                break
            except UnicodeDecodeError as error:
                # `error.object` begins with the bytes that the decoder had kept from earlier pieces.
                bad, end = bytes(error.object), max(error.end, error.start + 1)
                if self.first is None:
                    self.first = self._taken - len(bad) + error.start
                self.undecodable += end - error.start
                self._decoder.reset()
                texts.append(self._decoder.decode(bad[: error.start]) + REPLACEMENT)
                data = bad[end:]
        text = "".join(texts)
        if text and not self._begun:
            self._begun = True
            text = text.removeprefix(_BYTE_ORDER_MARK)
        return text
