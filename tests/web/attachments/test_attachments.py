from hashlib import sha256
from typing import Any

import httpx
import pytest

from app.model.attachment import AttachmentKind, AttachmentState
from app.model.records import GroupProgress
from tests.web.stock import Stock


def ids(response: httpx.Response) -> list[str]:
    return [item["id"] for item in response.raise_for_status().json()["items"]]


def test_a_listing_goes_page_by_page_newest_first(stock: Stock, http: httpx.Client) -> None:
    made = []
    for at in range(7):
        stock.clock.fixed = 1_000_000 * at
        made.append(stock.attachment().id)
    seen: list[str] = []
    url = "/v1/attachments?limit=3&source=orders"
    while url:
        response = http.get(url)
        seen += ids(response)
        url = response.links.get("next", {}).get("url", "")
        assert bool(url) is (response.json()["next"] is not None)
    assert seen == made[::-1]


def test_filters(stock: Stock, http: httpx.Client) -> None:
    stock.clock.fixed = 1_700_000_000_000_000
    text = stock.attachment(kind=AttachmentKind.TEXT_FILE, qualifier_2="d:\\Report.TXT")
    stock.clock.fixed += 1_000_000
    other = stock.attachment(source="invoices", state=AttachmentState.EXPIRED, qualifier_2="x")
    message = stock.message([text])
    for query, expected in [
        ("kind=text-file", [text.id]),
        ("state=expired", [other.id]),
        ("source=invoices", [other.id]),
        ("name=report", [text.id]),
        (f"message={message.id}", [text.id]),
        ("received_after=2023-11-14T22:13:20.5Z", [other.id]),
        ("received_before=2023-11-14T22:13:20.5", [text.id]),
        ("received_after=2023-11-15T00:13:20.5%2B02:00", [other.id]),
        ("state=finished", []),
    ]:
        assert ids(http.get(f"/v1/attachments?{query}")) == expected, query


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("limit=501", "limit"),
        ("limit=0", "limit"),
        ("state=lost", "state"),
        ("kind=2", "kind"),
        ("cursor=%00", "cursor"),
    ],
)
def test_a_wrong_query_names_its_parameter(shared_http: httpx.Client, query: str, parameter: str) -> None:
    response = shared_http.get(f"/v1/attachments?{query}")
    assert response.status_code == 422
    assert response.headers["content-type"] == "application/problem+json"
    assert [error["parameter"] for error in response.json()["errors"]] == [parameter]


def test_what_is_receiving_tells_its_progress(stock: Stock, http: httpx.Client) -> None:
    record = stock.receiving([(1, 3), (5, 5), (9, 9)], 10)
    seen = http.get(f"/v1/attachments/{record.id}").json()
    assert seen["state"] == "receiving"
    assert seen["progress"] == {
        "parts_received": 5,
        "parts_expected": 10,
        "bytes_received": 100,
        "duplicates": 0,
        "missing_parts": [[4, 4], [6, 8], [10, 10]],
    }
    assert seen["links"] == {"self": f"/v1/attachments/{record.id}"}

    content = http.get(f"/v1/attachments/{record.id}/content")
    assert content.status_code == 409
    problem = content.json()
    assert problem["type"] == "/problems/not-ready"
    assert problem["progress"] == seen["progress"]


def test_of_a_group_the_messages_that_are_not_whole_are_missing(stock: Stock, http: httpx.Client) -> None:
    record = stock.receiving([(1, 3), (5, 5)], None, correl_id=b"G" * 24, group=GroupProgress(7, 4, 100))
    seen = http.get(f"/v1/attachments/{record.id}").json()
    assert seen["correl_id"] == "47" * 24
    assert (seen["progress"]["parts_expected"], seen["progress"]["missing_parts"]) == (None, [[4, 4], [6, 7]])


def test_what_is_finished_tells_everything(stock: Stock, http: httpx.Client) -> None:
    data = b"four\nlines\n"
    named: dict[str, Any] = {"kind": AttachmentKind.TEXT_FILE, "qualifier_2": "d:\\a\ud800.txt", "message_id": "owner"}
    record = stock.stored(data, "text/plain; charset=utf-8", **named)
    message = stock.message([record], id="owner")
    seen = http.get(f"/v1/attachments/{record.id}").json()
    assert seen["sha256"] == sha256(data).hexdigest()
    assert (seen["size"], seen["kind"], seen["name"], seen["file_name"]) == (11, "text-file", "d:\\a?.txt", "a_.txt")
    assert seen["correl_id"] == record.correl_id.hex()
    assert seen["progress"]["missing_parts"] is None
    own = f"/v1/attachments/{record.id}"
    assert seen["links"] == {"self": own, "content": f"{own}/content", "message": f"/v1/messages/{message.id}"}
    assert all(http.get(link).status_code == 200 for link in seen["links"].values())


@pytest.mark.parametrize(
    ("state", "status", "word"),
    [
        (AttachmentState.RECEIVING, 409, "not-ready"),
        (AttachmentState.COMPLETE, 409, "not-ready"),
        (AttachmentState.QUARANTINED, 409, "unreadable"),
        (AttachmentState.EXPIRED, 410, "gone"),
        (AttachmentState.DELETED, 410, "gone"),
    ],
)
def test_content_that_is_not_there(
    shared_stock: Stock, shared_http: httpx.Client, state: AttachmentState, status: int, word: str
) -> None:
    record = shared_stock.attachment(state=state, reason_code="length", reason="too long")
    response = shared_http.get(f"/v1/attachments/{record.id}/content")
    assert (response.status_code, response.json()["type"]) == (status, f"/problems/{word}")
    assert response.json()["reason"] == {"code": "length", "text": "too long"}


def test_content_whose_object_vanished_is_damage(stock: Stock, http: httpx.Client) -> None:
    record = stock.stored(b"data")
    stock.store.delete(f"attachments/{record.id}")
    response = http.get(f"/v1/attachments/{record.id}/content")
    assert (response.status_code, response.json()["type"]) == (500, "/problems/damaged")


def test_deleting(stock: Stock, http: httpx.Client) -> None:
    record = stock.stored(b"data")
    url = f"/v1/attachments/{record.id}"
    assert http.delete(url).status_code == 204
    assert http.get(f"{url}/content").status_code == 410
    assert http.get(url).json()["state"] == "deleted"
    assert list(stock.store.names()) == []
    assert http.delete(url).status_code == 404
    assert http.delete("/v1/attachments/none").status_code == 404
