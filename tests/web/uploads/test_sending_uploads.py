"""Messages that name uploads in place of parts."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from app.model.errors import GatewayError
from tests.support.tables import parquet, pupils
from tests.web.stock import Stock
from tests.web.uploads.uploading import append, begun, sent, whole


def test_messages_name_uploads_in_place_of_parts(stock: Stock, http: httpx.Client) -> None:
    upload = whole(http, parquet(pupils(), 100), filename="p.parquet")
    message = {
        "destination": "partner",
        "uploads": {"table": upload.json()["id"]},
        "attachments": [{"part": "table", "name": "WORK.PUPILS"}, {"part": "note", "name": "note.txt"}],
    }
    parts: dict[str, Any] = {"message": (None, json.dumps(message), "application/json"), "note": ("n", b"note")}
    answer = http.post("/v1/messages", files=parts)
    assert answer.status_code == 202, answer.text
    assert [(each["name"], each["kind"]) for each in answer.json()["attachments"]] == [
        ("PUPILS", "data-set"),
        ("note.txt", "text-file"),
    ]
    rehearsed = http.post("/v1/messages?dry_run=true", json=message | {"attachments": [{"part": "table"}]})
    assert rehearsed.json()["attachments"][0]["data_set"]["format"] == "parquet"
    record = stock.catalog.delivery(answer.json()["id"])
    assert record is not None
    assert set(stock.store.names("outgoing/")) == {each.object_name for each in record.attachments}


def test_a_message_continues_the_trace_of_its_request_or_of_its_upload(stock: Stock, http: httpx.Client) -> None:
    ours, uploads = (f"00-{number * 32}-{number * 16}-01" for number in "12")
    path = begun(http, 3, traceparent=uploads)
    append(http, path, 0, b"abc")
    message = {"destination": "partner", "uploads": {"f": path.rpartition("/")[2]}, "attachments": [{"part": "f"}]}
    given: list[tuple[list[tuple[str, str]], str]] = [
        ([("traceparent", ours)], ours),
        ([], uploads),
        ([("traceparent", ours), ("traceparent", ours)], uploads),
        ([("traceparent", ours.upper().replace("1", "A"))], uploads),
    ]
    for headers, expected in given:
        answer = http.post("/v1/messages", json=message, headers=headers).raise_for_status().json()
        assert answer["trace_parent"] == expected
        assert http.get(f"/v1/deliveries/{answer['id']}").json()["trace_parent"] == expected


def test_a_message_is_accepted_although_the_end_of_its_upload_cannot_be_noted(
    stock: Stock, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = begun(http, 3)
    append(http, path, 0, b"abc")
    create = stock.store.create

    def fail(name: str) -> Any:
        if name.startswith("uploads/"):
            raise GatewayError("the store is away")
        return create(name)

    monkeypatch.setattr(stock.store, "create", fail)
    message = {"destination": "partner", "uploads": {"f": path.rpartition("/")[2]}, "attachments": [{"part": "f"}]}
    answer = http.post("/v1/messages", json=message)
    assert answer.status_code == 202, answer.text
    assert stock.catalog.delivery(answer.json()["id"]) is not None


def _unknown(http: httpx.Client) -> str:
    del http
    return "0" * 32


def _unfinished(http: httpx.Client) -> str:
    return begun(http, 3).rpartition("/")[2]


@pytest.mark.parametrize(
    ("upload", "says"),
    [(_unknown, "there is no upload with this identifier"), (_unfinished, "not complete: 0 of 3 bytes")],
)
def test_uploads_that_cannot_be_sent(
    stock: Stock, http: httpx.Client, upload: Callable[[httpx.Client], str], says: str
) -> None:
    answer = sent(http, f"/{upload(http)}")
    assert (answer.status_code, answer.json()["type"]) == (422, "/problems/invalid")
    assert answer.json()["errors"][0]["pointer"] == "#/uploads/file"
    assert says in answer.json()["detail"]
    assert list(stock.store.names("outgoing/")) == []


def test_descriptions_that_do_not_fit_their_uploads(http: httpx.Client) -> None:
    unused = {"destination": "partner", "uploads": {"x": "0" * 32}, "attachments": [{"part": "y"}]}
    assert "'x' of uploads" in http.post("/v1/messages", json=unused).json()["detail"]
    absent = {"destination": "partner", "attachments": [{"part": "y"}]}
    assert "there is no part 'y'" in http.post("/v1/messages", json=absent).json()["detail"]
    long = http.post("/v1/messages", content=b" " * 70_000, headers={"Content-Type": "application/json"})
    assert long.status_code == 413
    assert http.post("/v1/messages", content=b"\xff", headers={"Content-Type": "application/json"}).status_code == 400
