"""The documents by which a receiver asks a sender for missing parts, and by which a sender says that it has none.

Both are JSON objects in UTF-8 of at most 16 KiB. Other members are ignored, so that later versions may add some.

| member | type | in | |
|---|---|---|---|
| `type` | text | both | `missing` for a request, `gone` for the answer that there is nothing to send again |
| `version` | number | both | 1 |
| `framing` | text | both | by which the attachment was cut into messages |
| `attachment` | text | both | its key, 1 to 24 bytes in hexadecimal digits: of `sas_queue` the 16 bytes of its correlid, of `mq_group` the GroupId |
| `parts` | array | request | ranges, each `[first, last]`, of the sequence numbers that have not come, or of MsgSeqNumbers; in order; at most 100. A `last` of null means all that follow |
| `header` | boolean | request | the header that announces it has not come |
| `count` | boolean | request | the message with the number of its parts has not come |
| `request` | number | request | 1 for the first request for this attachment |
| `reason` | text | answer | a sentence for people |
"""  # noqa: E501 - rows of a table

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from app.wire import WireError

LONGEST: Final = 16 << 10
"""The most bytes of a document."""
MOST_RANGES: Final = 100
LONGEST_KEY: Final = 24
LONGEST_REASON: Final = 500
HIGHEST: Final = (1 << 32) - 1
"""The highest number of a part."""
VERSION: Final = 1

MEDIA_TYPE: Final = "application/vnd.attachment-gateway.missing+json"
"""The media type of both documents."""
GONE_FORMAT: Final = "AGMISSNG"
"""The Format of a physical message whose body is an answer, and not a part of anything."""
GONE_MSG_TYPE: Final = 100002
"""The message type of an answer: none that a SAS program waits for."""

MissingRange = tuple[int, int | None]
"""The first and the last number of a range of missing parts. A last one of None means all that follow."""


class MissingParts(NamedTuple):
    """A request for the parts of one attachment that have not come."""

    framing: str
    attachment: bytes
    parts: tuple[MissingRange, ...] = ()
    header: bool = False
    total: bool = False
    request: int = 1

    @property
    def is_empty(self) -> bool:
        return not (self.parts or self.header or self.total)

    def has(self, number: int) -> bool:
        """Tell whether a request asks for the part with this number."""
        return any(first <= number and (last is None or number <= last) for first, last in self.parts)


class PartsGone(NamedTuple):
    """The answer that a sender has nothing of an attachment to send again."""

    framing: str
    attachment: bytes
    reason: str = ""


Document = MissingParts | PartsGone


def write_document(document: Document) -> bytes:
    """Return a document in bytes."""
    shared = {"version": VERSION, "framing": document.framing, "attachment": document.attachment.hex()}
    if isinstance(document, PartsGone):
        return json.dumps({"type": "gone", **shared, "reason": document.reason[:LONGEST_REASON]}).encode()
    asked = {"parts": document.parts, "header": document.header, "count": document.total, "request": document.request}
    return json.dumps({"type": "missing", **shared, **asked}).encode()


def read_document(body: bytes | memoryview) -> Document:
    """Return the document in these bytes. Raises WireError."""
    if len(body) > LONGEST:
        raise WireError("document", LONGEST, f"{len(body):,} bytes, at most {LONGEST:,} are read")
    try:
        found = json.loads(bytes(body).decode())
    except (ValueError, RecursionError) as error:
        raise WireError("document", -1, f"no JSON document in UTF-8: {str(error)[:80]}") from error
    if not isinstance(found, dict):
        raise WireError("document", -1, "no JSON object")
    kind, version = found.get("type"), found.get("version")
    if kind not in ("missing", "gone"):
        raise WireError("type", -1, f"{_shown(kind)} is neither 'missing' nor 'gone'")
    if type(version) is not int or version != VERSION:
        raise WireError("version", -1, f"{_shown(version)}; version {VERSION} is known")
    framing, key = _text(found, "framing", 80), _key(found)
    if kind == "gone":
        return PartsGone(framing, key, _text(found, "reason", LONGEST_REASON, ""))
    request = found.get("request", 1)
    if not _is_number(request):
        raise WireError("request", -1, f"{_shown(request)} is no number from 1 to {HIGHEST}")
    return MissingParts(framing, key, _ranges(found), _flag(found, "header"), _flag(found, "count"), request)


def _ranges(found: Mapping[str, Any]) -> tuple[MissingRange, ...]:
    given = found.get("parts", [])
    if not isinstance(given, list) or len(given) > MOST_RANGES:
        raise WireError("parts", -1, f"no array of at most {MOST_RANGES} ranges")
    before = 0
    for number, each in enumerate(given):
        if not isinstance(each, list) or len(each) != 2 or not _is_range(*each) or each[0] <= before:
            why = f"item {number} is no range [first, last] of numbers from 1 to {HIGHEST} behind the one before it"
            raise WireError("parts", -1, why)
        before = HIGHEST if each[1] is None else each[1]
    return tuple((first, last) for first, last in given)


def _is_range(first: Any, last: Any) -> bool:
    return _is_number(first) and (last is None or (_is_number(last) and bool(first <= last)))


def _is_number(value: object) -> bool:
    return type(value) is int and 1 <= value <= HIGHEST


def _flag(found: Mapping[str, Any], name: str) -> bool:
    value = found.get(name, False)
    if not isinstance(value, bool):
        raise WireError(name, -1, f"{_shown(value)} is neither true nor false")
    return value


def _text(found: Mapping[str, Any], name: str, longest: int, initial: str | None = None) -> str:
    value = found.get(name, initial)
    if not isinstance(value, str) or len(value) > longest:
        raise WireError(name, -1, f"no text of at most {longest} characters")
    return value


def _key(found: Mapping[str, Any]) -> bytes:
    value = found.get("attachment")
    try:
        key = bytes.fromhex(value) if isinstance(value, str) and len(value) <= 2 * LONGEST_KEY else b""
    except ValueError:
        key = b""
    if not key:
        raise WireError("attachment", -1, f"{_shown(value)} is not 1 to {LONGEST_KEY} bytes in hexadecimal digits")
    return key


def _shown(value: object) -> str:
    """Return a value for people, or its type: an array may be nested too deeply to be written."""
    return f"{value!r:.80}" if isinstance(value, str | int | float | None) else type(value).__name__


def spoken(asked: MissingParts) -> str:
    """Return what is asked for, for people, such as `header, parts 2-3, 9 and all that follow`."""
    ranges = ", ".join(
        f"{first} and all that follow" if last is None else str(first) if first == last else f"{first}-{last}"
        for first, last in asked.parts
    )
    named = [*["header"] * asked.header, *([f"parts {ranges}"] if ranges else []), *["count"] * asked.total]
    return ", ".join(named) or "nothing"
