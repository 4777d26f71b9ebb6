"""The two protocols of resumable uploads: their header fields, in requests and in responses.

A request with `Tus-Resumable` speaks tus 1.0; any other speaks HTTP's own resumable uploads
(draft-ietf-httpbis-resumable-upload, interop version 8).
"""

from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import formatdate
from enum import StrEnum
from typing import Final

from app.service.uploads import Upload
from app.web.http.disposition import file_name_of
from app.web.problems import Problem
from app.web.resources.uploads.upload_checksums import ALGORITHMS

TUS_VERSION: Final = "1.0.0"
INTEROP_VERSION: Final = "8"
TUS_EXTENSIONS: Final = "creation,creation-defer-length,creation-with-upload,expiration,checksum,termination"
METADATA_BYTES: Final = 4096
LONGEST: Final = 2**62
"""The greatest size that a header may name, in bytes; the gateway's own limit is far below."""

Headers = Mapping[str, str]


class Protocol(StrEnum):
    """A protocol of resumable uploads; the value is the media type of PATCH."""

    TUS = "application/offset+octet-stream"
    HTTP = "application/partial-upload"


@dataclass(frozen=True, slots=True)
class Creation:
    """What a request says that begins an upload. `is_last` if its body is the end of the content."""

    length: int | None
    is_last: bool
    has_body: bool
    file_name: str | None
    content_type: str
    metadata: str | None = None
    repr_digest: str | None = None


def spoken(headers: Headers) -> Protocol:
    """Return the protocol of a request. Raises Problem for a version of it that is not supported."""
    version, interop = headers.get("tus-resumable"), headers.get("upload-draft-interop-version")
    if version is None:
        if interop not in (None, INTEROP_VERSION):
            why = f"this gateway speaks interop version {INTEROP_VERSION} of resumable uploads, not {interop[:40]!r}"
            raise Problem("malformed", why, {"Upload-Draft-Interop-Version": INTEROP_VERSION})
        return Protocol.HTTP
    if version != TUS_VERSION:
        why = f"this gateway speaks version {TUS_VERSION} of tus, not {version[:40]!r}"
        raise Problem("unsupported-tus-version", why, {"Tus-Version": TUS_VERSION})
    return Protocol.TUS


def creation(protocol: Protocol, headers: Headers, length: int | None, complete: str | None) -> Creation:
    """Return what a request says that begins an upload. `length` and `complete` are its `Upload-Length` and
    `Upload-Complete`. Raises Problem."""
    if protocol is Protocol.TUS:
        return _tus_creation(headers, length)
    is_last = complete != "?0"
    announced = headers.get("content-length")
    if is_last and announced is not None:
        length = consistent(length, int(announced))
    media_type, name = headers.get("content-type", ""), headers.get("content-disposition")
    return Creation(
        length,
        is_last,
        has_body=announced != "0",
        file_name=None if name is None else file_name_of(name.encode("latin-1")),
        content_type=media_type.strip().lower()[:255],
        repr_digest=headers.get("repr-digest"),
    )


def _tus_creation(headers: Headers, length: int | None) -> Creation:
    if (length is None) == (headers.get("upload-defer-length") != "1"):
        raise Problem("malformed", "give Upload-Length, or else Upload-Defer-Length: 1")
    if "upload-concat" in headers:
        raise Problem("malformed", "the extension concatenation of tus is not supported")
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    if has_body:
        require_type(Protocol.TUS, headers)
    metadata = headers.get("upload-metadata")
    known = _metadata(metadata or "")
    name = known.get("filename", known.get("name"))
    content_type = known.get("filetype", known.get("type", ""))
    return Creation(
        length,
        is_last=False,
        has_body=has_body,
        file_name=name,
        content_type=content_type.strip().lower()[:255],
        metadata=metadata,
        repr_digest=headers.get("repr-digest"),
    )


def _metadata(text: str) -> dict[str, str]:
    """Return the pairs of `Upload-Metadata`. Raises Problem."""
    if len(text) > METADATA_BYTES:
        raise Problem("too-large", f"Upload-Metadata over {METADATA_BYTES} bytes", limit=METADATA_BYTES)
    pairs = [pair.strip().partition(" ") for pair in text.split(",") if pair.strip()]
    try:
        return {key: b64decode(value.strip(), validate=True).decode("utf-8") for key, _, value in pairs}
    except (NotBase64, ValueError):
        raise Problem("malformed", "Upload-Metadata has a value that is not UTF-8 in base64") from None


def require_type(protocol: Protocol, headers: Headers) -> None:
    """Raise Problem if the body of a request is not of the media type that its protocol wants."""
    if headers.get("content-type", "").partition(";")[0].strip().lower() != protocol:
        raise Problem(
            "unsupported-media-type",
            f"the body of an upload is sent as {protocol}",
            {"Accept-Patch": protocol},
            accepted=[protocol],
        )


def consistent(known: int | None, length: int) -> int:
    """Return the length of the whole content. Raises Problem if another one was told before."""
    if known is not None and known != length:
        raise inconsistent(f"the whole content has {known} bytes, as was told before, and not {length}")
    return length


def inconsistent(why: str) -> Problem:
    """Return the problem of sizes that contradict each other."""
    return Problem("inconsistent-upload-length", why)


def mismatch(upload: Upload, given: int) -> Problem:
    """Return the problem of an append at another offset than that of the upload."""
    return Problem(
        "mismatching-upload-offset",
        f"the upload goes on at byte {upload.offset}, not at {given}",
        {"Upload-Offset": f"{upload.offset}", "Upload-Complete": _boolean(upload.is_complete)},
        **{"expected-offset": upload.offset, "provided-offset": given},
    )


def described(protocol: Protocol, upload: Upload) -> dict[str, str]:
    """Return the header fields that tell the state of an upload."""
    record = upload.record
    fields = {"Upload-Offset": f"{upload.offset}", "Cache-Control": "no-store"}
    if record.length is not None:
        fields["Upload-Length"] = f"{record.length}"
    if protocol is Protocol.HTTP:
        return fields | {"Upload-Complete": _boolean(upload.is_complete)}
    if record.length is None:
        fields["Upload-Defer-Length"] = "1"
    if record.metadata:
        fields["Upload-Metadata"] = record.metadata
    expires = formatdate(record.expires_at / 1e6, usegmt=True)
    return fields | {"Upload-Expires": expires}


def capabilities(most_bytes: int, lifetime: int) -> dict[str, str]:
    """Return the header fields that tell what the gateway supports, in both protocols. `lifetime` is in
    microseconds."""
    return {
        "Tus-Resumable": TUS_VERSION,
        "Tus-Version": TUS_VERSION,
        "Tus-Extension": TUS_EXTENSIONS,
        "Tus-Max-Size": f"{most_bytes}",
        "Tus-Checksum-Algorithm": ",".join(ALGORITHMS),
        "Accept-Patch": f"{Protocol.HTTP}, {Protocol.TUS}",
        "Upload-Limit": limit(most_bytes, lifetime),
    }


def limit(most_bytes: int, lifetime: int) -> str:
    """Return the field `Upload-Limit`. `lifetime` is in microseconds."""
    return f"max-size={most_bytes}, max-age={lifetime // 1_000_000}"


def _boolean(value: bool) -> str:
    return "?1" if value else "?0"
