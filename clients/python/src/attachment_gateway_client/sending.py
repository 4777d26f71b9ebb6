"""Files, and messages with them. Large files are uploaded first, by tus 1.0; small ones are in the request itself."""

import hashlib
import json
import os
import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import ceil
from pathlib import Path
from stat import S_ISREG
from typing import Any
from uuid import uuid4

from attachment_gateway_client.calls import RETRIES, Call, Flow, Pause, Work, located, patiently, pause
from attachment_gateway_client.errors import AttachmentGatewayError, InvalidKey, Problem, Unreachable

Progress = Callable[[str, int], None]
"""A function that gets the name of a part and the number of its bytes sent so far. It may be called in another
thread."""

PIECE = 1 << 20
_OCTETS = "application/octet-stream"

RESUMABLE_FROM = 8 << 20
"""The size in bytes from which on a file is uploaded resumably."""
SMALL_TOGETHER = 64 << 20
"""The most bytes of small files in one request, which are held in memory."""
WAIT_SECONDS = 30
Tell = Callable[[int], None]
"""A function that gets the number of bytes sent so far."""
_UNDER_WAY = {"queued", "sending", "receiving", "complete"}
_TUS = {"Tus-Resumable": "1.0.0"}
_KEY = re.compile("[!-~]{1,255}")
_AGAIN = ("/problems/mismatching-upload-offset", "/problems/superseded", "/problems/in-flight")


@dataclass(frozen=True, slots=True)
class File:
    """One file: a path, or bytes with a name.

    `kind` is `data-set`, `text-file` or `binary-file`; None for the gateway to recognise it. `attachment` has further
    members of its entry in the message, such as `data_set`.
    """

    source: Path | bytes
    file_name: str
    kind: str | None = None
    name: str | None = None
    description: str | None = None
    content_type: str = _OCTETS
    attachment: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, given: "File | Path | str", **more: Any) -> "File":
        """Return a file of its path. Raises OSError for a path that is not a regular file."""
        if isinstance(given, File):
            return given
        path = Path(given)
        if not S_ISREG(path.stat().st_mode):
            raise OSError(None, "not a regular file", str(path))
        return cls(path, path.name, **more)

    @property
    def size(self) -> int:
        return len(self.source) if isinstance(self.source, bytes) else self.source.stat().st_size

    def entry(self, part: str) -> dict[str, Any]:
        """Return its entry in the description of a message."""
        named = {"kind": self.kind, "name": self.name, "description": self.description}
        return {"part": part, **{key: value for key, value in named.items() if value}, **(self.attachment or {})}

    def read(self) -> bytes:
        return self.source if isinstance(self.source, bytes) else self.source.read_bytes()

    def pieces(self, offset: int = 0, tell: Callable[[int], None] = lambda _at: None) -> Iterator[bytes]:
        """Yield the bytes from `offset` on; `tell` gets the number of bytes read so far, from the beginning."""
        if isinstance(self.source, bytes):
            for at in range(offset, len(self.source), PIECE):
                yield self.source[at : at + PIECE]
                tell(min(at + PIECE, len(self.source)))
            return
        with self.source.open("rb") as file:
            file.seek(offset)
            while piece := file.read(PIECE):
                yield piece
                offset += len(piece)
                tell(offset)

    def digest(self) -> str:
        """Return the digest of the whole content, as the header `Repr-Digest` has it."""
        whole = hashlib.sha256()
        for piece in self.pieces():
            whole.update(piece)
        return f"sha-256=:{b64encode(whole.digest()).decode()}:"

    def metadata(self) -> str:
        """Return the header `Upload-Metadata` of tus, with the file's name and media type."""
        pairs = {"filename": os.fsencode(self.file_name), "filetype": self.content_type.encode()}
        return ",".join(f"{key} {b64encode(value).decode()}" for key, value in pairs.items())


def described(
    destination: str,
    files: Sequence[File],
    *,
    description: str = "",
    message: str | bytes | Mapping[str, Any] | None = None,
) -> tuple[dict[str, Any], dict[str, File]]:
    """Return the description of a message with these files, and the files by the names of their parts."""
    parts = {f"file-{number}": file for number, file in enumerate(files)}
    draft: dict[str, Any] = {"destination": destination, "attachments": [f.entry(part) for part, f in parts.items()]}
    if description:
        draft["description"] = description
    if isinstance(message, bytes):
        draft["application_message"] = {"base64": b64encode(message).decode()}
    elif message is not None:
        draft["application_message"] = {"text": message} if isinstance(message, str) else dict(message)
    return draft, parts


def send(
    draft: Mapping[str, Any],
    parts: Mapping[str, File],
    *,
    key: str | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
    resumable_from: int = RESUMABLE_FROM,
) -> Flow[Any]:
    """Send a message, and return its delivery, or the dry run. Raises Problem, Unreachable, InvalidKey, OSError.

    The request has an idempotency key, so that it can be repeated when its connection breaks.
    """
    if key is not None and not _KEY.fullmatch(key):
        raise InvalidKey(f"{key!r} is no idempotency key: give 1 to 255 printable ASCII characters without spaces")
    tell = progress or (lambda _part, _sent: None)
    small: dict[str, File] = {}
    together = 0
    for part, file in parts.items():
        size = file.size
        if size < resumable_from and together + size <= SMALL_TOGETHER:
            small[part] = file
            together += size
    uploads: dict[str, str] = {}
    try:
        for part, file in parts.items():
            if part not in small:
                uploads[part] = (yield from upload(file, partial(tell, part)))["id"]
        contents: dict[str, bytes] = {}
        for part, file in small.items():
            contents[part] = yield Work(file.read)
        whole = {**draft, "uploads": dict(uploads)} if uploads else dict(draft)
        body: list[tuple[str, Any]] = [("message", (None, json.dumps(whole), "application/json"))]
        for part, content in contents.items():
            body.append((part, (parts[part].file_name, content, parts[part].content_type)))
        headers = {} if dry_run else {"Idempotency-Key": key or uuid4().hex}
        parameters = {"dry_run": "true"} if dry_run else {}
        answer = (yield from patiently(Call("POST", "messages", parameters, headers, files=body))).json()
    except Problem:
        yield from _delete(uploads)
        raise
    for part, content in contents.items():
        tell(part, len(content))
    yield from _delete(uploads)
    return answer


def _delete(uploads: Mapping[str, str]) -> Flow[None]:
    """Delete uploads that are not needed any more. They expire anyway, so errors do not matter."""
    for identifier in uploads.values():
        with suppress(AttachmentGatewayError):
            yield Call("DELETE", located("uploads", identifier), headers=_TUS)


def upload(file: File, tell: Tell = lambda _sent: None, retries: int = RETRIES) -> Flow[Any]:
    """Upload a file, going on where a broken connection ended, and return the upload. Raises Problem, Unreachable.

    It gives up after `retries` failures without a further byte.
    """
    size = file.size
    headers = {
        **_TUS,
        "Upload-Length": f"{size}",
        "Upload-Metadata": file.metadata(),
        "Repr-Digest": (yield Work(file.digest)),
    }
    begun = yield from patiently(Call("POST", "uploads", headers=headers), retries)
    path = located("uploads", begun.json()["id"])
    offset = failures = 0
    while True:
        appended = {
            **_TUS,
            "Upload-Offset": f"{offset}",
            "Content-Type": "application/offset+octet-stream",
            "Content-Length": f"{size - offset}",
        }
        try:
            yield Call("PATCH", path, headers=appended, pieces=partial(file.pieces, offset, tell))
        except Unreachable:
            failures += 1
        except Problem as problem:
            if not (problem.is_temporary or problem.type in _AGAIN):
                raise
            failures += 1
        else:
            return (yield from patiently(Call("GET", path), retries)).json()
        if failures > retries:
            raise Unreachable(f"the upload of {file.file_name} was given up at byte {offset} of {size}")
        yield Pause(pause(failures - 1))
        here = yield from _offset(path, retries)
        if here > offset:
            failures = 0
        offset = here


def _offset(path: str, retries: int) -> Flow[int]:
    """Return the byte at which an upload continues. Wait for a gateway that cannot be reached."""
    for attempt in range(retries + 1):
        try:
            response = yield from patiently(Call("HEAD", path, headers=_TUS), retries)
        except Unreachable as error:
            if attempt == retries or not error.is_refused:
                raise
            yield Pause(pause(attempt))
        else:
            return int(response.headers["upload-offset"])
    raise AssertionError("the last attempt returns or raises")


def wait(path: str, seconds: float | None = None) -> Flow[Any]:
    """Return what is at this path, an attachment or a delivery, once its state is final.

    After `seconds`, rounded up to whole ones (None: no limit), it is returned whatever its state. Raises Problem and
    Unreachable.
    """
    left = seconds
    while True:
        turn = WAIT_SECONDS if left is None else min(WAIT_SECONDS, ceil(max(0, left)))
        found = (yield from patiently(Call("GET", path, {"wait": turn}))).json()
        left = None if left is None else left - turn
        if found["state"] not in _UNDER_WAY or (left is not None and left <= 0):
            return found
