"""Sending of messages. Large files are uploaded first, by tus 1.0; small ones are in the request itself."""

import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import ceil
from typing import Any
from uuid import uuid4

from attachment_gateway_client.calls import RETRIES, Call, Flow, Pause, Work, located, patiently, pause
from attachment_gateway_client.errors import AttachmentGatewayError, Problem, Unreachable
from attachment_gateway_client.files import File, Progress

RESUMABLE_FROM = 8 << 20
"""The size in bytes from which on a file is uploaded resumably."""
SMALL_TOGETHER = 64 << 20
"""The most bytes of small files in one request, which are held in memory."""
WAIT_SECONDS = 30
Tell = Callable[[int], None]
"""A function that gets the number of bytes sent so far."""
_UNDER_WAY = {"queued", "sending", "receiving", "complete"}
_TUS = {"Tus-Resumable": "1.0.0"}
_AGAIN = ("/problems/mismatching-upload-offset", "/problems/superseded", "/problems/in-flight")


def _silent(_part: str, _sent: int) -> None:
    pass


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
    """Send a message, and return its delivery, or the dry run. Raises Problem, Unreachable, OSError.

    The request has an idempotency key, so that it can be repeated when its connection breaks.
    """
    tell = progress or _silent
    small, large = _by_size(parts, resumable_from)
    uploads: dict[str, str] = {}
    try:
        for part, file in large.items():
            uploads[part] = (yield from upload(file, partial(tell, part)))["id"]
        contents: dict[str, bytes] = {}
        for part, file in small.items():
            contents[part] = yield Work(file.read)
        answer = yield from _post(draft, parts, contents, uploads, None if dry_run else key or uuid4().hex)
    except Problem:
        yield from _delete(uploads)
        raise
    for part, content in contents.items():
        tell(part, len(content))
    yield from _delete(uploads)
    return answer


def _by_size(parts: Mapping[str, File], limit: int) -> tuple[dict[str, File], dict[str, File]]:
    """Return the small files and the large ones."""
    small: dict[str, File] = {}
    together = 0
    for part, file in parts.items():
        size = file.size
        if size < limit and together + size <= SMALL_TOGETHER:
            small[part] = file
            together += size
    return small, {part: file for part, file in parts.items() if part not in small}


def _post(
    draft: Mapping[str, Any],
    parts: Mapping[str, File],
    contents: Mapping[str, bytes],
    uploads: Mapping[str, str],
    key: str | None,
) -> Flow[Any]:
    whole = {**draft, "uploads": dict(uploads)} if uploads else dict(draft)
    body: list[tuple[str, Any]] = [("message", (None, json.dumps(whole), "application/json"))]
    for part, content in contents.items():
        body.append((part, (parts[part].file_name, content, parts[part].content_type)))
    headers = {} if key is None else {"Idempotency-Key": key}
    parameters = {"dry_run": "true"} if key is None else {}
    response = yield from patiently(Call("POST", "messages", parameters, headers, files=body))
    return response.json()


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
        try:
            yield _appending(path, file, offset, size, tell)
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


def _appending(path: str, file: File, offset: int, size: int, tell: Tell) -> Call:
    headers = {
        **_TUS,
        "Upload-Offset": f"{offset}",
        "Content-Type": "application/offset+octet-stream",
        "Content-Length": f"{size - offset}",
    }
    return Call("PATCH", path, headers=headers, pieces=partial(file.pieces, offset, tell))


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
