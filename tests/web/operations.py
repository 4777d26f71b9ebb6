"""A gateway without keys that has something for every operation, and everything that could change in it."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.model.attachment import AttachmentKind, DeliveryState
from app.model.records import DeliveryRecord
from app.web.app import create_app
from tests.support.tables import parquet, pupils
from tests.support.webhook_receiver import SECRET
from tests.web.stock import Stock, serving

PARQUET = "application/vnd.apache.parquet"


class Operation(NamedTuple):
    """An operation of the OpenAPI document, with the path of something that is there, and a body as JSON."""

    name: str
    method: str
    path: str
    body: str


class Answer(NamedTuple):
    """What the gateway has answered."""

    method: str
    path: str
    status: int


class Everything:
    """The gateway, its operations, and what it has answered so far."""

    def __init__(self, stock: Stock) -> None:
        self.stock, self.address, self.answers = stock, "", list[Answer]()
        self.app = create_app(stock.gateway)

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def recording(self) -> ASGIApp:
        """Return the application, which notes its answers."""

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            async def noting(message: Message) -> None:
                if message["type"] == "http.response.start":
                    self.answers.append(Answer(scope["method"], scope["path"], message["status"]))
                await send(message)

            await self.app(scope, receive, noting if scope["type"] == "http" else send)

        app.state = self.app.state  # type: ignore[attr-defined]
        return app

    def fill(self) -> None:
        """Put something in for each operation, and list all operations."""
        record = self.stock.stored(parquet(pupils(), 100), PARQUET, kind=AttachmentKind.DATA_SET, qualifier_2="PUPILS")
        entries = [self.stock.quarantined(b"spoilt").id for _ in range(2)]
        now = self.stock.clock.now()
        delivery = DeliveryRecord(f"{now:032x}", "archive", bytes(24), bytes(24), (), now, now, DeliveryState.FAILED)
        self.stock.catalog.add_delivery(delivery, [])
        self.stock.table("WORK.PUPILS", "orders")
        with httpx.Client(base_url=self.address, timeout=60) as client:
            upload = client.post("/v1/uploads", headers={"Tus-Resumable": "1.0.0", "Upload-Length": "3"}).json()["id"]
            described = client.get("/openapi.json").json()["paths"]
        identifiers = {
            "attachment_id": record.id,
            "position": f"{0:016x}",
            "destination": "archive",
            "quarantine_id": entries[0],
            "delivery_id": delivery.id,
            "name": "WORK.PUPILS",
            "word": "not-found",
            "journal": self.stock.receiver("pod-0", 3600),
            "upload_id": upload,
            "message_id": self.stock.message([record]).id,
        }
        ids = json.dumps({"ids": entries[1:]})
        bodies = {"dismiss_many_quarantined": ids, "replay_many_quarantined": ids}
        bodies["query_tables"] = '{"sql": "SELECT count(*) FROM work.pupils"}'
        bodies["create_link"] = f'{{"path": "/v1/attachments/{record.id}/content"}}'
        bodies["send_message"] = '{"destination": "archive", "uploads": {}, "attachments": []}'
        self.operations = [
            Operation(operation["operationId"], method.upper(), self._path(path, identifiers), body)
            for path, item in described.items()
            for method, operation in item.items()
            for body in [bodies.get(operation["operationId"], "{}")]
        ]
        others = {"get_openapi": "/openapi.json", "get_docs": "/docs", "get_console": "/console/main.js"}
        others["files of the documentation"] = "/docs/files/swagger-ui.css"
        self.operations += [Operation(name, "GET", path, "") for name, path in others.items()]

    @staticmethod
    def _path(path: str, identifiers: dict[str, Any]) -> str:
        return path.format(**identifiers | ({"name": "audit"} if path.startswith("/v1/webhooks/") else {}))

    def state(self) -> Any:
        """Return all rows of the catalog, and the files of journal and content store with their sizes."""
        folder = self.stock.settings.data
        with closing(sqlite3.connect(folder / "catalog.sqlite")) as catalog:
            rows = list(catalog.iterdump())
        places = [folder / "journal", folder / "content"]
        return rows, sorted((str(file), file.stat().st_size) for place in places for file in place.rglob("*"))


@contextmanager
def everything(folder: Path) -> Iterator[Everything]:
    """A gateway with something for every operation, served without keys."""
    webhook = {"url": "https://hook.example/in", "secrets": [SECRET]}
    stock = Stock(folder, webhooks={"audit": webhook}, http={"hosts": ["gateway.example", "*.wild.example", "fd00::1"]})
    made = Everything(stock)
    with serving(made.recording()) as made.address:
        made.fill()
        yield made
    stock.close()
