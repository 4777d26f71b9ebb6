import base64

import httpx
import pytest

from app.model.attachment import AttachmentState
from app.model.records import AttachmentRecord
from tests.web.stock import Stock


@pytest.mark.parametrize(
    ("body", "ccsid", "charset", "text"),
    [
        (b"This is it.", 1208, "utf-8", "This is it."),
        ("Grüße".encode("cp1140"), 1140, "cp1140", "Grüße"),
        (b"\xff\xfe", 1208, "utf-8", None),
        (b"x", 65535, None, None),
        (b"Gr\xfc\xdfe", 0, "cp1252", "Grüße"),
    ],
)
def test_a_message_and_its_application_message(
    stock: Stock, http: httpx.Client, body: bytes, ccsid: int, charset: str | None, text: str | None
) -> None:
    attachments = [stock.attachment(description="first"), stock.stored(b"data")]
    record = stock.message(
        attachments,
        original_correl_id=b"\x01" * 24,
        application_body=body,
        application_format="MQSTR",
        application_ccsid=ccsid,
    )
    seen = http.get(f"/v1/messages/{record.id}").json()
    assert seen["header_correl_id"] == record.header_correl_id.hex()
    assert seen["original_correl_id"] == "01" * 24
    assert seen["application_message"] == {
        "format": "MQSTR",
        "ccsid": ccsid,
        "charset": charset,
        "size": len(body),
        "text": text,
        "values": None,
        "base64": base64.b64encode(body).decode(),
    }
    assert [entry["id"] for entry in seen["attachments"]] == [attachment.id for attachment in attachments]
    listed = [(entry["state"], entry["size"], entry["description"]) for entry in seen["attachments"]]
    assert listed == [("receiving", None, "first"), ("finished", 4, "")]
    assert "content" in seen["attachments"][1]["links"]
    (summary,) = http.get("/v1/messages").json()["items"]
    assert summary["attachments"] == [attachment.id for attachment in attachments]


def test_a_message_without_an_application_message(shared_stock: Stock, shared_http: httpx.Client) -> None:
    record = shared_stock.message([])
    assert shared_http.get(f"/v1/messages/{record.id}").json()["application_message"] is None


def test_listing(stock: Stock, http: httpx.Client) -> None:
    made = [stock.message([]).id for _ in range(5)]
    first = http.get("/v1/messages", params={"limit": 2, "source": "orders"})
    second = http.get(first.links["next"]["url"])
    third = http.get(second.links["next"]["url"])
    assert [item["id"] for page in (first, second, third) for item in page.json()["items"]] == made[::-1]
    assert "next" not in third.links
    assert http.get("/v1/messages", params={"source": "other"}).json() == {"items": [], "next": None}


def test_a_message_is_deleted_after_its_attachments(stock: Stock, http: httpx.Client) -> None:
    there: dict[AttachmentState, AttachmentRecord] = {
        state: stock.stored(b"data") if state is AttachmentState.FINISHED else stock.attachment(state=state)
        for state in AttachmentState
    }
    record = stock.message([there[state] for state in AttachmentState])
    url = f"/v1/messages/{record.id}"
    refused = http.delete(url)
    assert (refused.status_code, refused.json()["type"]) == (409, "/problems/not-ended")
    lasting = [AttachmentState.RECEIVING, AttachmentState.COMPLETE, AttachmentState.FINISHED]
    assert refused.json()["attachments"] == [{"id": there[state].id, "state": state} for state in lasting]
    before = http.get(url).headers["ETag"]
    for state in lasting:
        assert http.delete(f"/v1/attachments/{there[state].id}").status_code == 204
    changed = http.delete(url, headers={"If-Match": before})
    etag = http.get(url).headers["ETag"]
    assert (changed.status_code, changed.headers["ETag"]) == (412, etag)
    assert http.get(url).status_code == 200
    assert http.delete(url, headers={"If-Match": etag}).status_code == 204
    assert [http.request(method, url).status_code for method in ("GET", "DELETE")] == [404, 404]
    assert http.get("/v1/messages").json()["items"] == []
    left = http.get("/v1/attachments", params={"message": record.id}).json()["items"]
    assert {item["state"] for item in left} == {"deleted"}
    last = stock.catalog.events_after(0, 100)[-1]
    assert (last.type, last.subject, last.data) == ("message.deleted", record.id, {"source": "orders"})
