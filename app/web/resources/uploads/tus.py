"""The header fields of tus 1.0 (https://tus.io/protocols/resumable-upload), in requests and in responses."""

from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Mapping
from hashlib import md5, sha1, sha256, sha512
from typing import Any, Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.model.times import http_date
from app.service.uploads import Upload
from app.web.dependencies.request_gateway import API
from app.web.problems import Problem

VERSION: Final = "1.0.0"
EXTENSIONS: Final = "creation,creation-defer-length,creation-with-upload,expiration,checksum,termination"
MEDIA_TYPE: Final = "application/offset+octet-stream"
METADATA_BYTES: Final = 4096
LONGEST: Final = 2**62
"""The greatest size that a header may name, in bytes; the gateway's own limit is far below."""
REQUEST_FIELDS: Final = (
    *("Tus-Resumable", "Upload-Length", "Upload-Defer-Length", "Upload-Offset", "Upload-Metadata"),
    "Upload-Checksum",
)
RESPONSE_FIELDS: Final = (
    *("Tus-Resumable", "Tus-Version", "Tus-Extension", "Tus-Max-Size", "Tus-Checksum-Algorithm"),
    *("Upload-Offset", "Upload-Length", "Upload-Defer-Length", "Upload-Metadata", "Upload-Expires"),
)
# tus asks every server for SHA-1. Checksums tell transmission errors, not attacks.
ALGORITHMS: Final[Mapping[str, Any]] = {"sha1": sha1, "sha256": sha256, "sha512": sha512, "md5": md5}

Headers = Mapping[str, str]


class Checksum:
    """The checksum of a client's request, `Upload-Checksum`. Raises Problem for one that cannot be read."""

    def __init__(self, text: str) -> None:
        algorithm, _, encoded = text.strip().partition(" ")
        if algorithm not in ALGORITHMS:
            raise Problem("malformed", f"unknown checksum {algorithm[:40]!r}; use {', '.join(ALGORITHMS)}")
        try:
            self._given = b64decode(encoded, validate=True)
        except (NotBase64, ValueError):
            raise Problem("malformed", "Upload-Checksum is not an algorithm and base64") from None
        if not self._given:
            raise Problem("malformed", f"Upload-Checksum has no {algorithm} behind a blank")
        self._algorithm, self._hash = algorithm, ALGORITHMS[algorithm](usedforsecurity=False)

    def update(self, piece: bytes | memoryview) -> None:
        """Include the next bytes."""
        self._hash.update(piece)

    def check(self) -> None:
        """Raise Problem if the bytes differ from the client's checksum."""
        if self._hash.digest() != self._given:
            raise Problem("checksum-mismatch", f"the {self._algorithm} of the body is not the one in Upload-Checksum")


class TusMiddleware:
    """Middleware that adds `Tus-Resumable` to all responses of uploads, whatever answers the request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = str(scope.get("path", "")).removeprefix(scope.get("root_path", ""))
        if scope["type"] != "http" or not path.startswith(f"{API}/uploads"):
            await self._app(scope, receive, send)
            return

        async def with_version(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["Tus-Resumable"] = VERSION
            await send(message)

        await self._app(scope, receive, with_version)


def require_version(version: str) -> None:
    """Raise Problem for a version of tus that is not supported."""
    if version != VERSION:
        why = f"this gateway speaks version {VERSION} of tus, not {version[:40]!r}"
        raise Problem("unsupported-tus-version", why, {"Tus-Version": VERSION})


def require_creation(headers: Headers, length: int | None) -> None:
    """Raise Problem if the header fields of a request begin no upload. `length` is its `Upload-Length`."""
    if (length is None) == (headers.get("upload-defer-length") != "1"):
        raise Problem("malformed", "give Upload-Length, or else Upload-Defer-Length: 1")
    if "upload-concat" in headers:
        raise Problem("malformed", "the extension concatenation of tus is not supported")
    if has_body(headers):
        require_type(headers)


def has_body(headers: Headers) -> bool:
    """Tell whether a request that begins an upload brings bytes of it."""
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


def require_type(headers: Headers) -> None:
    """Raise Problem if the body of a request is not of the media type of tus."""
    if headers.get("content-type", "").partition(";")[0].strip().lower() != MEDIA_TYPE:
        why = f"the body of an upload is sent as {MEDIA_TYPE}"
        raise Problem("unsupported-media-type", why, {"Accept-Patch": MEDIA_TYPE}, accepted=[MEDIA_TYPE])


def metadata(text: str) -> dict[str, str]:
    """Return the pairs of `Upload-Metadata`. Raises Problem."""
    if len(text) > METADATA_BYTES:
        raise Problem("too-large", f"Upload-Metadata over {METADATA_BYTES} bytes", limit=METADATA_BYTES)
    pairs = [pair.strip().partition(" ") for pair in text.split(",") if pair.strip()]
    try:
        return {key: b64decode(value.strip(), validate=True).decode("utf-8") for key, _, value in pairs}
    except (NotBase64, ValueError):
        raise Problem("malformed", "Upload-Metadata has a value that is not UTF-8 in base64") from None


def mismatch(upload: Upload, given: int) -> Problem:
    """Return the problem of an append at another offset than the upload's."""
    why = f"the upload must continue at byte {upload.offset}, not at {given}"
    return Problem("mismatching-upload-offset", why, {"Upload-Offset": f"{upload.offset}"})


def inconsistent(why: str) -> Problem:
    """Return the problem of sizes that contradict each other."""
    return Problem("inconsistent-upload-length", why)


def described(upload: Upload) -> dict[str, str]:
    """Return the header fields that tell the state of an upload."""
    record = upload.record
    size = {"Upload-Defer-Length": "1"} if record.length is None else {"Upload-Length": f"{record.length}"}
    return {
        "Upload-Offset": f"{upload.offset}",
        **size,
        **({"Upload-Metadata": record.metadata} if record.metadata else {}),
        "Upload-Expires": http_date(record.expires_at // 1_000_000),
        "Cache-Control": "no-store",
    }


def capabilities(most_bytes: int) -> dict[str, str]:
    """Return the header fields that tell what the gateway supports."""
    return {
        "Tus-Version": VERSION,
        "Tus-Extension": EXTENSIONS,
        "Tus-Max-Size": f"{most_bytes}",
        "Tus-Checksum-Algorithm": ",".join(ALGORITHMS),
    }
