"""Text in any of Python's character sets, piece by piece, with what does not decode counted and not lost in silence."""

import codecs
from collections.abc import Iterable, Iterator

from app.wire.kinds import Buffer

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_BYTE_ORDER_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"
_UTF_16_MARKS = {codecs.BOM_UTF16_BE: "utf-16-be", codecs.BOM_UTF16_LE: "utf-16-le"}


class TextDecoder:
    """Decodes pieces of one text.

    Bytes that mean nothing in the character set become U+FFFD. `undecodable` counts them, and `first` is the offset in
    bytes of the first of them, None when there is none. A byte order mark at the beginning is not part of the text; it
    decides about the byte order of UTF-16.
    """

    def __init__(self, codec: str) -> None:
        self.undecodable = 0
        self.first: int | None = None
        self._codec = codec
        self._decoder: codecs.IncrementalDecoder | None = None
        self._begun = False
        self._taken = 0

    def decode(self, pieces: Iterable[Buffer]) -> Iterator[str]:
        """The text, in pieces; call it once."""
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
        text = "".join(self._decoded(self._decoder, data, final=final))
        if text and not self._begun:
            self._begun = True
            text = text.removeprefix(_BYTE_ORDER_MARK)
        return text

    def _decoded(self, decoder: codecs.IncrementalDecoder, data: bytes, *, final: bool) -> Iterator[str]:
        self._taken += len(data)
        while True:
            try:
                yield decoder.decode(data, final)
            except UnicodeDecodeError as error:
                # What a decoder had kept of earlier pieces comes first in the object that the error tells of.
                bad, end = bytes(error.object), max(error.end, error.start + 1)
                if self.first is None:
                    self.first = self._taken - len(bad) + error.start
                self.undecodable += end - error.start
                decoder.reset()
                yield decoder.decode(bad[: error.start]) + REPLACEMENT
                data = bad[end:]
            else:
                return
