import httpx

from app.model.message import Position
from tests.support.waiting import until
from tests.web.stock import Stock


def test_an_entry_shows_the_reason_and_the_bytes(stock: Stock, http: httpx.Client) -> None:
    body = bytes(range(256)) * 2
    record = stock.quarantined(body)
    (listed,) = http.get("/v1/quarantine", params={"state": "kept", "source": "orders"}).json()["items"]
    seen = http.get(listed["links"]["self"]).json()
    assert seen == {**listed, "preview": body[:256].hex(), "properties": {"mqmd.put_appl_name": "sas.exe"}}
    assert (seen["code"], seen["row"], seen["at"]) == ("truncated", "AttachmentHeader.attachments", 7)
    whole = http.get(seen["links"]["body"])
    assert (whole.content, whole.headers["content-type"]) == (body, "application/octet-stream")
    assert record.id == seen["id"]


def test_dismissing(stock: Stock, http: httpx.Client) -> None:
    record = stock.quarantined(b"x")
    assert http.delete(f"/v1/quarantine/{record.id}").status_code == 204
    assert http.get(f"/v1/quarantine/{record.id}").json()["state"] == "dismissed"
    assert http.get("/v1/quarantine", params={"state": "kept"}).json()["items"] == []


def test_replaying_tries_again(stock: Stock, http: httpx.Client) -> None:
    stock.gateway.start()
    record = stock.quarantined(b"still no header")
    assert http.post(f"/v1/quarantine/{record.id}/replay").json()["id"] == record.id
    until(lambda: http.get("/v1/quarantine", params={"state": "kept"}).json()["items"])


def test_when_the_segment_is_gone(stock: Stock, http: httpx.Client) -> None:
    record = stock.quarantined(b"x")
    stock.journal.seal()
    stock.journal.retire(Position.unpack(record.position).segment)
    assert http.get(f"/v1/quarantine/{record.id}").json()["preview"] is None
    assert http.get(f"/v1/quarantine/{record.id}/body").status_code == 410
    assert http.post(f"/v1/quarantine/{record.id}/replay").status_code == 410
