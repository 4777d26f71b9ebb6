"""Requests that send a message, and what became of them."""

import json
from io import BytesIO
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq

from app.model.message import PhysicalMessage
from app.model.records import DeliveryRecord
from app.service.sending.framer import Framer
from app.service.sending.outbox import framing_options
from tests.web.stock import Stock

Files = list[tuple[str, tuple[str | None, bytes] | tuple[str | None, bytes, str]]]


def described(description: dict[str, Any], **parts: bytes) -> Files:
    """A multipart body whose first part is the JSON `message`."""
    files: Files = [("message", (None, json.dumps(description).encode(), "application/json"))]
    return files + [(name, (None, data, "application/octet-stream")) for name, data in parts.items()]


def simple(**changes: Any) -> dict[str, Any]:
    return {"destination": "partner", "attachments": [{"part": "a", "kind": "binary-file", "name": "a.bin"}], **changes}


def parquet() -> bytes:
    sink = BytesIO()
    pq.write_table(pa.table({"x": [1.0, 2.0]}), sink)
    return sink.getvalue()


def delivery(stock: Stock, response: httpx.Response) -> DeliveryRecord:
    assert response.status_code == 202, response.text
    record = stock.catalog.delivery(response.json()["id"])
    assert record is not None
    return record


def errors(response: httpx.Response) -> list[str]:
    assert response.headers["content-type"] == "application/problem+json"
    return [error["pointer"] for error in response.json()["errors"]]


def sent(stock: Stock, record: DeliveryRecord) -> list[PhysicalMessage]:
    """The physical messages that a delivery becomes."""
    cut = framing_options(stock.settings.destinations[record.destination], 32_000)
    return [each._replace(body=bytes(each.body)) for each in Framer(cut, stock.store).frame(record)]
