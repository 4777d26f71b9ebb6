"""Messages that are sent: limits, repeated and broken requests, and deliveries."""

import socket
from dataclasses import replace
from hashlib import sha256
from threading import Thread
from typing import Any

import httpx
import pytest

from app.model.attachment import DeliveryState
from app.model.errors import StoreFull
from app.testing.waiting import until
from tests.web.messages.sending import delivery, described, errors, simple
from tests.web.stock import Stock


def test_files_are_sent_as_groups(stock: Stock, http: httpx.Client) -> None:
    stock.gateway.start()
    sent = http.post("/v1/messages", files=described(simple(destination="groups"), a=bytes(70_000))).json()
    until(lambda: http.get(sent["links"]["self"]).json()["state"] == "sent")
    assert [(message.msg_seq_number, len(message.body)) for message in stock.recorder.sent] == [
        (1, 32_000),
        (2, 32_000),
        (3, 6_000),
    ]
    assert {message.group_id.hex()[:32] for message in stock.recorder.sent} == {sent["attachments"][0]["correl_id"]}


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize(("destination", "status"), [("groups", 422), ("partner", 202), ("rendezvous", 202)])
def test_a_message_type_that_receivers_refuse_is_not_sent(
    shared_http: httpx.Client, destination: str, status: int, *, dry_run: bool
) -> None:
    wanted = described(simple(destination=destination, original_msg_type=4), a=b"x")
    response = shared_http.post("/v1/messages", files=wanted, params={"dry_run": dry_run})
    assert response.status_code == (200 if dry_run and status == 202 else status)
    if status == 422:
        assert errors(response) == ["#/original_msg_type"]
        assert "receivers of the framing mq_group refuse MsgType 4" in response.json()["detail"]


@pytest.mark.usefixtures("one_process")
def test_an_upload_over_the_limit(stock: Stock, http: httpx.Client) -> None:
    limits = stock.settings.limits.model_copy(update={"upload_bytes": 3 << 20, "attachments_a_message": 3})
    stock.gateway.settings = stock.settings.model_copy(update={"limits": limits})

    def chunked() -> Any:
        yield b'--b\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\n'
        for _ in range(64):
            yield bytes(1 << 16)

    announced = http.post("/v1/messages", files={"file": ("a", bytes(4 << 20))})
    discovered = http.post(
        "/v1/messages", content=chunked(), headers={"Content-Type": "multipart/form-data; boundary=b"}
    )
    many = http.post("/v1/messages", files=[("file", ("a", b""))] * 4)
    assert [r.status_code for r in (announced, discovered, many)] == [413, 413, 413]
    assert [r.json()["limit"] for r in (announced, discovered, many)] == [3 << 20, 3 << 20, 3]
    assert list(stock.store.names()) == []


def test_an_idempotency_key_sends_once(stock: Stock, http: httpx.Client) -> None:
    headers = {"Idempotency-Key": "k-1"}
    first = http.post("/v1/messages", files=described(simple(), a=b"1"), headers=headers)
    record = delivery(stock, first)
    stock.catalog.update_delivery(replace(record, state=DeliveryState.SENT, attempts=1, messages_sent=5))
    again = http.post("/v1/messages", files=described(simple(), a=b"1"), headers=headers)
    assert (again.status_code, again.json(), again.headers["location"]) == (
        202,
        first.json(),
        first.headers["location"],
    )
    assert again.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers

    for other in (described(simple(), a=b"2"), described(simple(description="x"), a=b"1")):
        refused = http.post("/v1/messages", files=other, headers=headers)
        assert (refused.status_code, refused.json()["type"]) == (422, "/problems/key-reused")
    assert len(stock.catalog.deliveries(None, None, None, 10).items) == 1
    assert len(list(stock.store.names())) == 1

    different = http.post("/v1/messages", files=described(simple(), a=b"1"), headers={"Idempotency-Key": "k-2"})
    assert different.json()["id"] != first.json()["id"]
    assert http.post("/v1/messages", files=[], headers={"Idempotency-Key": "a b"}).status_code == 422


class SlowUpload:
    """A request whose body stops in the middle until it is told to go on."""

    def __init__(self, http: httpx.Client, **headers: str) -> None:
        boundary = "slow"
        self.head = (
            b'--slow\r\nContent-Disposition: form-data; name="destination"\r\n\r\npartner\r\n'
            b'--slow\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\n' + bytes(3 << 20)
        )
        self.tail = b"\r\n--slow--\r\n"
        fields = {
            "Host": "localhost",
            "Content-Type": f"multipart/form-data; boundary={boundary}",
            "Content-Length": str(len(self.head) + len(self.tail)),
            "Connection": "close",
            **headers,
        }
        self.socket = socket.create_connection((http.base_url.host, http.base_url.port or 80), timeout=30)
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        self.socket.sendall(f"POST /v1/messages HTTP/1.1\r\n{lines}\r\n".encode() + self.head)

    def finish(self) -> int:
        self.socket.sendall(self.tail)
        status = int(self.socket.makefile("rb").readline().split()[1])
        self.socket.close()
        return status


def partial_files(stock: Stock) -> int:
    return len(list((stock.settings.data / "content" / ".partial").iterdir()))


@pytest.mark.usefixtures("one_process")
def test_a_key_that_is_being_used_is_refused(stock: Stock, http: httpx.Client) -> None:
    slow = SlowUpload(http, **{"Idempotency-Key": "k"})
    until(lambda: partial_files(stock) == 1)
    response = http.post("/v1/messages", files=described(simple(), a=b""), headers={"Idempotency-Key": "k"})
    assert (response.status_code, response.json()["type"]) == (409, "/problems/in-flight")
    assert slow.finish() == 202
    assert http.post("/v1/messages", files=[("file", ("a", b""))], headers={"Idempotency-Key": "k"}).status_code == 422


def test_a_client_that_leaves_leaves_nothing(stock: Stock, http: httpx.Client) -> None:
    slow = SlowUpload(http)
    until(lambda: partial_files(stock) == 1)
    slow.socket.close()
    until(lambda: partial_files(stock) == 0)
    assert list(stock.store.names()) == []


def test_a_full_store(stock: Stock, http: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(name: str) -> Any:
        raise StoreFull("no space left")

    monkeypatch.setattr(stock.store, "create", full)
    response = http.post("/v1/messages", files=described(simple(), a=b""))
    assert (response.status_code, response.json()["type"]) == (507, "/problems/storage-full")


@pytest.mark.usefixtures("one_process")
def test_nothing_is_taken_while_the_gateway_drains(stock: Stock, http: httpx.Client) -> None:
    stock.gateway.draining = True
    response = http.post("/v1/messages", files=described(simple(), a=b""))
    assert (response.status_code, response.headers["retry-after"]) == (503, "5")


def test_many_at_once(stock: Stock, http: httpx.Client) -> None:
    contents = [bytes([n]) * (n << 18) for n in range(8)]
    answers: list[httpx.Response] = []

    def send(data: bytes) -> None:
        answers.append(httpx.post(f"{http.base_url}/v1/messages", files=described(simple(), a=data), timeout=60))

    threads = [Thread(target=send, args=(data,)) for data in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stored = {delivery(stock, answer).attachments[0].sha256 for answer in answers}
    assert stored == {sha256(data).hexdigest() for data in contents}


def test_what_is_sent_reaches_the_destination(stock: Stock, http: httpx.Client) -> None:
    stock.gateway.start()
    sent = http.post("/v1/messages", files=described(simple(), a=b"bytes")).json()
    until(lambda: http.get(sent["links"]["self"]).json()["state"] == "sent")
    assert any(b"bytes" in bytes(message.body) for message in stock.recorder.sent)
    listed = http.get("/v1/deliveries", params={"state": "sent", "destination": "partner"}).json()["items"]
    assert [item["id"] for item in listed] == [sent["id"]]


@pytest.mark.parametrize("state", [DeliveryState.SENT, DeliveryState.FAILED])
def test_a_delivery_is_deleted_when_it_has_ended(stock: Stock, http: httpx.Client, state: DeliveryState) -> None:
    files = described(simple(), a=b"content")
    again = {"Idempotency-Key": "once"}
    record = delivery(stock, http.post("/v1/messages", files=files, headers=again))
    url = f"/v1/deliveries/{record.id}"
    before = http.get(url).headers["ETag"]
    for open_ in (DeliveryState.QUEUED, DeliveryState.SENDING):
        stock.catalog.update_delivery(replace(record, state=open_))
        refused = http.delete(url)
        assert (refused.status_code, refused.json()["type"]) == (409, "/problems/not-ended")
        assert refused.json()["state"] == open_
        assert stock.catalog.drop_deliveries([record.id]) == set()
    stock.catalog.update_delivery(replace(record, state=state))
    changed = http.delete(url, headers={"If-Match": before})
    etag = http.get(url).headers["ETag"]
    assert (changed.status_code, changed.headers["ETag"]) == (412, etag)
    assert list(stock.store.names())
    assert http.delete(url[:24], headers={"If-Match": etag}).status_code == 204
    assert list(stock.store.names()) == []
    assert [http.request(method, url).status_code for method in ("GET", "DELETE")] == [404, 404]
    last = stock.catalog.events_after(0, 100)[-1]
    assert (last.type, last.subject, last.data) == ("delivery.deleted", record.id, {"destination": "partner"})
    assert delivery(stock, http.post("/v1/messages", files=files, headers=again)).id != record.id
