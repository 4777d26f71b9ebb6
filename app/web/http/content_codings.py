"""Content codings of converted text: zstd and gzip (RFC 9110, section 8.4; RFC 8878)."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from app.tables.write.output_pieces import OutputPieces
from app.web.http.negotiation import weight

CODINGS: Final = ("zstd", "gzip")
"""In the order in which they are preferred where a client accepts both alike."""
CODED: Final[Mapping[str, Any]] = {
    "Content-Encoding": {"description": "`zstd` or `gzip`, for converted text", "schema": {"type": "string"}}
}
"""OpenAPI's description of the header field."""
_IDENTITY: Final = "identity"
_TEXT: Final = ("text/", "application/json", "application/x-ndjson")


def is_text(media_type: str) -> bool:
    """Return whether content of a media type is text, which is worth compressing."""
    return media_type.startswith(_TEXT)


def chosen_coding(accepted: str | None) -> str | None:
    """Return the coding that an Accept-Encoding header prefers; None for content as it is."""
    weights: dict[str, float] = {}
    for item in (accepted or "").lower().split(","):
        name, *parameters = (piece.strip() for piece in item.split(";"))
        weights[name] = weight(parameters)
    others = weights.get("*", 0.0)
    best = max(CODINGS, key=lambda coding: weights.get(coding, others))
    # Without a word on it, identity is as good as anything that is refused, and worse than what is wanted.
    return best if weights.get(best, others) > max(0.0, weights.get(_IDENTITY, 0.0)) else None


def compressed(pieces: Iterator[bytes | memoryview], coding: str) -> Iterator[bytes | memoryview]:
    """Yield pieces in a coding, while they come."""
    sink = OutputPieces()
    with pa.CompressedOutputStream(pa.PythonFile(sink, mode="w"), coding) as stream:
        for piece in pieces:
            stream.write(piece)
            yield from sink.taken()
    yield from sink.rest()
