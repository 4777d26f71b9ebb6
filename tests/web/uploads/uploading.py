"""Requests of resumable uploads, by HTTP's own protocol and by tus."""

from base64 import b64encode
from hashlib import sha256
from typing import Any

import httpx

from app.service.uploads import Uploads
from tests.web.stock import Stock

MIB = 1 << 20
DATA = bytes(range(256)) * 4000
IETF = "https://iana.org/assignments/http-problem-types#"
TUS = {"Tus-Resumable": "1.0.0"}


def digest(data: bytes) -> str:
    return f"sha-256=:{b64encode(sha256(data).digest()).decode()}:"


def metadata(**pairs: str) -> str:
    return ",".join(f"{key} {b64encode(value.encode()).decode()}" for key, value in pairs.items())


def begun(http: httpx.Client, **headers: str) -> str:
    """The address of an upload by HTTP's protocol that was begun without any bytes."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = http.post("/v1/uploads", headers={"Upload-Complete": "?0", **given})
    assert answer.status_code == 201, answer.text
    return str(answer.headers["location"])


def begun_by_tus(http: httpx.Client, size: int, **headers: str) -> str:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = http.post("/v1/uploads", headers={**TUS, "Upload-Length": f"{size}", **given})
    assert answer.status_code == 201, answer.text
    return str(answer.headers["location"])


def append(http: httpx.Client, path: str, offset: int, data: Any, complete: str = "?0", **more: str) -> httpx.Response:
    headers = {"Upload-Offset": f"{offset}", "Upload-Complete": complete, "Content-Type": "application/partial-upload"}
    return http.patch(path, content=data, headers=headers | {k.replace("_", "-"): v for k, v in more.items()})


def append_by_tus(http: httpx.Client, path: str, offset: int, data: bytes, **more: str) -> httpx.Response:
    headers = {**TUS, "Upload-Offset": f"{offset}", "Content-Type": "application/offset+octet-stream"}
    return http.patch(path, content=data, headers=headers | {k.replace("_", "-"): v for k, v in more.items()})


def offset(http: httpx.Client, path: str) -> int:
    return int(http.head(path).headers["upload-offset"])


def sent(http: httpx.Client, path: str, **more: Any) -> httpx.Response:
    uploads = {"file": path.rpartition("/")[2]}
    message = {"destination": "partner", "uploads": uploads, "attachments": [{"part": "file"}], **more}
    return http.post("/v1/messages", json=message)


def content(stock: Stock, delivery: dict[str, Any]) -> bytes:
    record = stock.catalog.delivery(delivery["id"])
    assert record is not None
    (attachment,) = record.attachments
    return b"".join(stock.store.read(attachment.object_name))


def _as_after_a_restart(stock: Stock) -> Uploads:
    return Uploads(stock.store, stock.clock, 10**12, stock.gateway.settings.limits, stock.gateway.metrics)
