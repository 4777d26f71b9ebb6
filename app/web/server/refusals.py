"""Requests that are refused before the application sees them: what is wrong with them, and the response.

Sources: RFC 9110 (HTTP semantics), RFC 9112 (HTTP/1.1).
"""

from collections.abc import Sequence
from http import HTTPStatus
from time import time

import httptools
import orjson

from app.model.times import http_date
from app.web.problems.problem_types import PROBLEMS, ProblemType

LONGEST_TARGET = 0xFFFF - 1
"""The longest request target, in bytes, that the parser of targets can read."""
_SHOWN = 100
"""The maximum number of characters of a refused text that are repeated."""
_RETRY_SECONDS = 5

_KINDS = {400: "malformed", 408: "request-timeout", 503: "busy"}
_UNTYPED = {
    414: "the request line is longer than http.header_bytes allows",
    431: "the request's head, or what its content has around it, is longer than http.header_bytes allows",
}

_REASONS = {
    "Invalid method encountered": "the request line does not begin with a method such as GET",
    "Expected HTTP/, RTSP/ or ICE/": "the request line does not end with HTTP/1.1, or a blank in its target is not "
    "percent-encoded",
    "Expected CRLF after version": "the request line does not end with CR and LF",
    "Invalid header token": "a header field's name is empty, or has a character that names cannot have",
    "Invalid header value char": "a header field's value has a control character",
    "Unexpected whitespace after header value": "a header field continues on a second line (obsolete line folding)",
    "Missing expected LF after header value": "a header field's value has a CR",
    "Missing expected CR after header value": "a header field does not end with CR and LF",
    "Invalid character in Content-Length": "Content-Length is not one number of digits",
    "Empty Content-Length": "Content-Length is empty",
    "Content-Length overflow": "Content-Length is too large",
    "Duplicate Content-Length": "there is more than one Content-Length",
    "Transfer-Encoding can't be present with Content-Length": "there are both Content-Length and Transfer-Encoding",
    "Content-Length can't be present with Transfer-Encoding": "there are both Content-Length and Transfer-Encoding",
    "Empty Transfer-Encoding": "Transfer-Encoding is empty",
    "Invalid character in chunk size": "a chunk's size is not a hexadecimal number",
    "Chunk size overflow": "a chunk's size is too large",
    "Expected LF after chunk data": "a chunk is longer than its size",
    "Missing expected CR after chunk size": "a chunk's size does not end with CR and LF",
}
"""The words of the parser, and what they mean. For others there is one text."""
_CODINGS = "Transfer-Encoding has another coding than chunked, or chunked twice; send the content chunked once"
_TARGET = "the request target is neither a path nor an http URL, or has a character that must be percent-encoded"
_VERSION = "the request's version is not HTTP/1.1 or HTTP/1.0"
_OF_CODINGS = frozenset({"Invalid `Transfer-Encoding` header value", "Request has invalid `Transfer-Encoding`"})
_OF_VERSION = frozenset({"Invalid HTTP version", "Pause on PRI/Upgrade"})

Fields = Sequence[tuple[bytes, bytes]]


class RequestRefused(Exception):
    """A request that is refused, with a status. The parser reports it as an error of a callback."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail


def too_large(status: int) -> RequestRefused:
    """Return the refusal of a head with 414 or 431."""
    return RequestRefused(status, _UNTYPED[status])


def check_version(version: str) -> None:
    """Raise RequestRefused for a request line with a version other than 1.1 or 1.0; "0.0" has not come yet."""
    if version == "0.9":
        raise RequestRefused(400, "the request line has no version; it must end with HTTP/1.1")
    if version not in ("0.0", "1.0", "1.1"):
        raise RequestRefused(505, _VERSION)


def check_head(version: str, target: bytes, fields: Fields) -> None:
    """Raise RequestRefused for the head of a request with which nothing can be done, whatever it asks for."""
    check_version(version)
    hosts = sum(name == b"host" for name, _ in fields)
    if hosts > 1 or (hosts == 0 and version == "1.1"):  # RFC 9112, section 3.2
        raise RequestRefused(400, f"the request has {hosts} header fields Host; it must have one")
    given = [value for name, value in fields if name == b"transfer-encoding"]
    if given:
        codings = [coding.strip().lower() for coding in b",".join(given).split(b",")]
        if codings != [b"chunked"]:  # section 6.1
            raise RequestRefused(501, _CODINGS)
        if version == "1.0":
            raise RequestRefused(400, "a request of HTTP/1.0 has Transfer-Encoding; send Content-Length")
    if any(name == b"content-range" for name, _ in fields):  # RFC 9110, section 14.5
        raise RequestRefused(400, "Content-Range: no request can change a part of a content; send all of it")
    try:
        parsed = httptools.parse_url(target)
    except httptools.HttpParserInvalidURLError:
        raise RequestRefused(400, f"the request target {_shown(target)} cannot be read") from None
    if not parsed.path or not parsed.path.startswith(b"/"):
        raise RequestRefused(400, f"the request target {_shown(target)} has no path; it must begin with /")
    if not target.isascii():
        raise RequestRefused(400, "the request target has bytes that are not ASCII; percent-encode them")


def combined(target: bytes, fields: Fields) -> Fields:
    """Return header fields with the lines of each one combined, in their order (RFC 9110, section 5.3).

    `Host` is the host of a target that is a whole URL (RFC 9112, section 3.2.2).
    """
    lines: dict[bytes, list[bytes]] = {}
    for name, value in fields:
        lines.setdefault(name, []).append(value)
    if not target.startswith(b"/"):
        authority = target.split(b"/", 3)[2]
        lines[b"host"] = [authority.rpartition(b"@")[2]]
    return [(name, b", ".join(values)) for name, values in lines.items()]


def path_of(target: bytes) -> bytes:
    """Return the path of a request target, which `check_head` has accepted."""
    return httptools.parse_url(target).path or b"/"


def refused(error: httptools.HttpParserError, where: str) -> RequestRefused:
    """Return the refusal for an error of the parser; `where` tells what it had read before."""
    reason = str(error)
    if reason in _OF_CODINGS:
        return RequestRefused(501, _CODINGS)
    if reason in _OF_VERSION:
        return RequestRefused(505, _VERSION)
    other = _TARGET if isinstance(error, httptools.HttpParserInvalidURLError) else "the request is not valid HTTP"
    return RequestRefused(400, f"{_REASONS.get(reason, other)} ({where})")


def where(target: bytes, fields: Fields, *, in_head: bool, content: int) -> str:
    """Return how far a request was read, for people."""
    if not in_head:
        return f"after {content} bytes of content"
    if fields:
        return f"after the header field {_shown(fields[-1][0])}"
    return "after the request line" if target else "in the request line"


def response(refusal: RequestRefused) -> bytes:
    """Return a whole response with a problem; without a problem type, it has the title of its status."""
    status, detail = refusal.status, refusal.detail
    title = HTTPStatus(status).phrase
    kind = PROBLEMS[_KINDS[status]] if status in _KINDS else ProblemType("", status, title, title)
    body = orjson.dumps({"type": kind.uri, "title": kind.title, "status": status, "detail": detail})
    fields = [
        f"HTTP/1.1 {status} {title}",
        f"date: {http_date(int(time()))}",
        "content-type: application/problem+json",
        f"content-length: {len(body)}",
        "connection: close",
        *([f"retry-after: {_RETRY_SECONDS}"] if status == 503 else []),
    ]
    return "\r\n".join([*fields, "", ""]).encode() + body


def _shown(text: bytes) -> str:
    cut = text[:_SHOWN].decode("latin-1")
    return repr(cut if len(text) <= _SHOWN else f"{cut}...")
