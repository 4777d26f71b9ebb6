"""Receipts by REST: who gets them, when there is none, and that they stay."""

import json
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.codecs.receipts import statements
from app.model.attachment import AttachmentState, DeliveryState
from app.model.principals import Scope
from app.model.records import AttachmentRecord, Checkpoint, Finished, NewEvent
from app.service.access.api_keys import KeyLimits, make_key
from app.service.events.event_entries import delivery_event, finished_events
from app.service.receipts.receipt_appender import ReceiptAppender
from app.service.retention.removal import Remover, RetentionClock
from app.settings import RetentionSettings
from tests.contracts.catalog.records import deleted, delivery
from tests.support.receipts import KEY, PEM
from tests.web.conftest import connected
from tests.web.stock import Stock

RING = statements.key_ring([KEY.public_key()])


@pytest.fixture
def stock(tmp_path: Path) -> Iterator[Stock]:
    stock = Stock(tmp_path, receipts={"key": PEM, "events": True})
    yield stock
    stock.close()


@pytest.fixture
def http(stock: Stock) -> Iterator[httpx.Client]:
    with connected(stock) as client:
        yield client


def finish(stock: Stock, data: bytes, **fields: Any) -> AttachmentRecord:
    """Have an attachment finished, with its event."""
    record = stock.stored(data, **fields)
    assert record.sha256 is not None
    assert record.finished_at is not None
    found = Finished(record.id, len(data), record.sha256, "", "store", record.finished_at)
    stock.catalog.checkpoint(Checkpoint(events=finished_events(record, found)))
    return record


def append(stock: Stock) -> None:
    settings = stock.settings.receipts
    assert settings is not None
    ReceiptAppender(stock.gateway.context, settings).step()


def test_a_receipt_comes_and_stays(stock: Stock, http: httpx.Client) -> None:
    """It is announced until it is made, says what was finished, and outlives the attachment and its row."""
    unfinished = stock.receiving([(1, 2)], 5)
    record = finish(stock, b"content")
    path = f"/v1/attachments/{record.id}/receipt"
    assert http.get(f"/v1/attachments/{record.id}").json()["links"]["receipt"] == path
    assert http.get(f"/v1/attachments/{record.id}").json()["receipt"] == "coming"
    assert http.get(f"/v1/attachments/{unfinished.id}").json()["receipt"] is None
    for given, waits in ((path, "2"), ("/v1/receipt-log", "2"), (f"/v1/attachments/{unfinished.id}/receipt", None)):
        none = http.get(given)
        assert (none.status_code, none.json()["type"]) == (404, "/problems/no-receipt"), given
        assert none.headers.get("retry-after") == waits, given
    append(stock)
    found = http.get(f"/v1/attachments/{record.id[:8]}/receipt")
    assert found.headers["content-type"] == statements.COSE_TYPE
    assert found.content == http.get(path).content
    verified = statements.verify_statement(found.content, RING)
    assert record.id.encode() in verified.statement
    assert record.sha256 is not None
    assert record.sha256.encode() in verified.statement
    assert http.get(f"/v1/deliveries/{record.id}/receipt").status_code == 404
    assert http.get(f"/v1/attachments/{record.id}").json()["receipt"] == "made"
    told = [each for each in stock.catalog.events_about(record.id, 0) if each.type == "receipt.made"]
    assert [each.data for each in told] == [
        {
            "source": record.source,
            "name": record.qualifier_2,
            "receipt": path,
            "leaf_hash": sha256(b"\0" + verified.statement).hexdigest(),
            "leaf_index": verified.place,
            "tree_size": verified.head.size,
        }
    ]
    happened = http.get(f"/v1/attachments/{record.id}/timeline").json()["items"]
    (made,) = [each for each in happened if each["type"] == "receipt-made"]
    assert made["detail"] == "number 0 of the log of receipts"

    assert http.delete(f"/v1/attachments/{record.id}").status_code == 204
    stock.catalog.drop_attachments([AttachmentState.DELETED], stock.clock.now() + 1, 10, deleted)
    assert http.get(f"/v1/attachments/{record.id}").status_code == 404
    assert http.get(path).content == found.content


def test_heads_and_proofs(stock: Stock, http: httpx.Client) -> None:
    for number in range(3):
        finish(stock, b"%d" % number)
    append(stock)
    old = http.get("/v1/receipt-log/head")
    sent = replace(delivery(3), id="d" * 32, state=DeliveryState.SENT, updated_at=stock.clock.now())
    stock.catalog.add_delivery(sent, [delivery_event(sent, attempts=1)])
    append(stock)
    log = http.get("/v1/receipt-log").json()
    newer = http.get("/v1/receipt-log/head", params={"since": 3})
    head = statements.verify_head(newer.content, RING, [old.content])
    assert (log["size"], log["root"], log["issuer"]) == (4, head.root.hex(), "attachment-gateway")
    assert log["key_id"] == head.key_id.hex()
    with pytest.raises(statements.ReceiptInvalid, match="no proof"):
        statements.verify_head(http.get("/v1/receipt-log/head").content, RING, [old.content])
    of_delivery = http.get(f"/v1/deliveries/{sent.id}/receipt", params={"since": 3})
    assert statements.verify_statement(of_delivery.content, RING, [old.content]).place == 3
    ahead = http.get("/v1/receipt-log/head", params={"since": 5})
    assert (ahead.status_code, ahead.json()["errors"][0]["parameter"]) == (422, "since")
    assert "4 statements, fewer than the 5" in ahead.json()["detail"]
    assert http.get("/v1/receipt-log/head", params={"since": 0}).status_code == 422


def test_a_limited_key_gets_receipts_of_its_sources_alone(stock: Stock, http: httpx.Client) -> None:
    """Also of what is gone, of which only the statement tells the source."""
    mine, theirs = (finish(stock, b"content", source=source) for source in ("mine", "theirs"))
    append(stock)
    limits = KeyLimits(frozenset({"mine"}), None, None)
    key, text = make_key("limited", frozenset({Scope.READ}), stock.clock.now(), limits)
    stock.catalog.add_key(key)
    headers = {"Authorization": f"Bearer {text}"}
    for _ in range(2):
        statuses = [
            http.get(f"/v1/attachments/{each.id}/receipt", headers=headers).status_code for each in (mine, theirs)
        ]
        assert statuses == [200, 404]
        stock.catalog.set_state([mine.id, theirs.id], AttachmentState.DELETED)
        stock.catalog.drop_attachments([AttachmentState.DELETED], stock.clock.now() + 1, 10, deleted)
    link = http.post("/v1/links", json={"path": f"/v1/attachments/{mine.id}/receipt"}, headers=headers)
    assert http.get(link.json()["url"]).status_code == 200


def test_a_statement_of_what_became_something_else(stock: Stock) -> None:
    """An event whose facts the catalog has no longer gives a statement of what the event says."""
    stock.catalog.checkpoint(
        Checkpoint(events=[NewEvent("attachment.finished", "a" * 32, 5, {"source": "s", "name": "\ud800", "size": 1})])
    )
    append(stock)
    found = stock.catalog.receipt_statement("a" * 32)
    assert found is not None
    said = json.loads(found[1])
    assert (said["source"], said["name"], said["size"]) == ("s", "\ud800", 1)
    assert "kind" not in said


def test_events_wait_for_the_log(stock: Stock) -> None:
    """Retention removes no event that the log of receipts does not include yet."""
    settings = stock.settings.model_copy(update={"retention": RetentionSettings(events_count=1)})
    old = Remover(replace(stock.gateway.context, settings=settings), RetentionClock(stock.clock))
    record = finish(stock, b"content")
    finish(stock, b"other")
    old.drop_events()
    assert [each.type for each in stock.catalog.events_about(record.id, 0)] == ["attachment.finished"]
    append(stock)
    old.drop_events()
    assert [each.type for each in stock.catalog.events_about(record.id, 0)] == ["receipt.made"]


def test_what_fails_is_a_metric_until_it_works(stock: Stock, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = stock.settings.receipts
    assert settings is not None
    record = finish(stock, b"content")
    appender = ReceiptAppender(stock.gateway.context, settings)
    with monkeypatch.context() as patched:
        patched.setattr(appender._key, "current", lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            appender.step()
    failing = "attachment_gateway_receipts_failing %.1f"
    assert failing % 1 in stock.gateway.metrics.text().decode()
    appender.step()
    assert failing % 0 in stock.gateway.metrics.text().decode()
    assert stock.catalog.receipt_statement(record.id) is not None


def test_without_the_settings_there_are_none(tmp_path: Path) -> None:
    stock = Stock(tmp_path)
    record = finish(stock, b"content")
    with connected(stock) as client:
        assert "receipt" not in client.get(f"/v1/attachments/{record.id}").json()["links"]
        for path in (f"/v1/attachments/{record.id}/receipt", "/v1/receipt-log", "/v1/receipt-log/head"):
            none = client.get(path)
            assert (none.status_code, none.json()["type"]) == (404, "/problems/no-receipt")
            assert "retry-after" not in none.headers
    stock.close()
