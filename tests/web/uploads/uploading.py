"""Requests of resumable uploads."""

from base64 import b64encode
from hashlib import sha256
from typing import Any

import httpx

from tests.web.stock import Stock

MIB = 1 << 20
DATA = bytes(range(256)) * 4000
TUS = {"Tus-Resumable": "1.0.0"}
OCTETS = {"Content-Type": "application/offset+octet-stream"}


def digest(data: bytes) -> str:
    return f"sha-256=:{b64encode(sha256(data).digest()).decode()}:"


def metadata(**pairs: str) -> str:
    return ",".join(f"{key} {b64encode(value.encode()).decode()}" for key, value in pairs.items())


def begun(http: httpx.Client, size: int | None = None, **headers: str) -> str:
    """The address of an upload that was begun without any bytes, of unknown size if none is given."""
    length = {"Upload-Defer-Length": "1"} if size is None else {"Upload-Length": f"{size}"}
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = http.post("/v1/uploads", headers={**TUS, **length, **given})
    assert answer.status_code == 201, answer.text
    return str(answer.headers["location"])


def whole(http: httpx.Client, data: bytes, **pairs: str) -> httpx.Response:
    """The answer to a request that brings all bytes of an upload, with these pairs of metadata."""
    headers = {**TUS, **OCTETS, "Upload-Length": f"{len(data)}", "Upload-Metadata": metadata(**pairs)}
    return http.post("/v1/uploads", content=data, headers=headers)


def append(http: httpx.Client, path: str, offset: int, data: Any, **more: str) -> httpx.Response:
    headers = {**TUS, **OCTETS, "Upload-Offset": f"{offset}"}
    return http.patch(path, content=data, headers=headers | {k.replace("_", "-"): v for k, v in more.items()})


def offset(http: httpx.Client, path: str) -> int:
    return int(http.head(path, headers=TUS).headers["upload-offset"])


def sent(http: httpx.Client, path: str, **more: Any) -> httpx.Response:
    uploads = {"file": path.rpartition("/")[2]}
    message = {"destination": "partner", "uploads": uploads, "attachments": [{"part": "file"}], **more}
    return http.post("/v1/messages", json=message)


def content(stock: Stock, delivery: dict[str, Any]) -> bytes:
    record = stock.catalog.delivery(delivery["id"])
    assert record is not None
    (attachment,) = record.attachments
    return b"".join(stock.store.read(attachment.object_name))
