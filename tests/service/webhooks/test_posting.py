"""Requests to webhooks: signatures, addresses, and the meaning of answers."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from ipaddress import ip_address, ip_network
from pathlib import Path
from select import select
from time import sleep, time_ns
from typing import Any

import pytest
from standardwebhooks import Webhook as Verifier
from standardwebhooks import WebhookVerificationError

from app.model.event_logs import EventLogs
from app.model.records import EventRecord
from app.secret import Secret, Words
from app.service.webhooks import checked_network
from app.service.webhooks.webhook_request import (
    MOST_RETRY_AFTER,
    Poster,
    WebhookAnswer,
    WebhookOutcome,
    retry_after,
    signed_headers,
)
from app.settings.webhooks import Webhook, secret_bytes
from tests.support.mosquitto import free_port
from tests.support.webhook_receiver import OTHER_SECRET, SECRET, Answered, WebhookReceiver

LOGS = EventLogs((0, 4), ("0a", "3f9a2b01"))
EVENT = EventRecord(7, "attachment.finished", "a1", 1_790_000_000_000_000, {"name": "Ünï.txt"})
NOW = 1_790_000_000_500_000
LOOPBACK = ["127.0.0.0/8"]


@pytest.fixture
def receiver() -> Iterator[WebhookReceiver]:
    with WebhookReceiver() as receiver:
        yield receiver


def posted(url: str, now: int, **settings: Any) -> WebhookAnswer:
    poster = Poster(Webhook(**{"url": url, "secrets": [SECRET], "networks": LOOPBACK, **settings}))
    try:
        return poster.post(LOGS, EVENT, now)
    finally:
        poster.close()


def now() -> int:
    """The present time: the verifier refuses signatures older than five minutes."""
    return time_ns() // 1000


def test_a_signature_as_the_specification_computes_it() -> None:
    """The values are the example of the Standard Webhooks specification."""
    identifier, body = "msg_p5jXN8AQM9LWM0D4loKWxJek", b'{"test": 2432232314}'
    headers = signed_headers([secret_bytes(SECRET)], identifier, 1614265330, body)
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_both_secrets_verify_while_one_is_replaced() -> None:
    seconds = now() // 1_000_000
    headers = signed_headers([secret_bytes(SECRET), secret_bytes(OTHER_SECRET)], "event-1", seconds, b"{}")
    for secret in (SECRET, OTHER_SECRET):
        Verifier(secret).verify(b"{}", headers)
    with pytest.raises(WebhookVerificationError):
        Verifier(SECRET).verify(b"{ }", headers)
    with pytest.raises(WebhookVerificationError):
        Verifier("whsec_" + "A" * 32).verify(b"{}", headers)


def test_an_event_is_one_signed_cloud_event(receiver: WebhookReceiver) -> None:
    assert posted(receiver.url, now()) == WebhookAnswer(WebhookOutcome.DELIVERED)
    (received,) = receiver.taken
    assert received.id == "event-7-1790000000000000"
    assert received.headers["content-type"].startswith("application/cloudevents+json")
    assert received.event["data"] == {"name": "Ünï.txt"}
    assert (received.event["specversion"], received.event["type"]) == ("1.0", "attachment.finished")
    assert receiver.forged == []


def test_a_secret_that_was_replaced_in_its_file_signs_the_next_request(tmp_path: Path) -> None:
    file = tmp_path / "secrets"
    file.write_text(f"{SECRET}\n")
    settings = Webhook.model_validate({"url": "http://127.0.0.1:9", "secrets_file": str(file), "networks": LOOPBACK})
    for secret in (SECRET, OTHER_SECRET):
        file.write_text(f"{secret}\n")
        with WebhookReceiver(secret) as knowing:
            poster = Poster(settings.model_copy(update={"url": knowing.url}))
            assert poster.post(LOGS, EVENT, now()) == WebhookAnswer(WebhookOutcome.DELIVERED)
            file.write_text(f"{OTHER_SECRET}\n")
            assert (poster.post(LOGS, EVENT, now()).outcome is WebhookOutcome.DELIVERED) == (secret == OTHER_SECRET)
            poster.close()


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, WebhookOutcome.DELIVERED),
        (302, WebhookOutcome.FAILED),
        (400, WebhookOutcome.REFUSED),
        (404, WebhookOutcome.FAILED),
        (410, WebhookOutcome.GONE),
        (422, WebhookOutcome.REFUSED),
        (429, WebhookOutcome.FAILED),
        (503, WebhookOutcome.FAILED),
    ],
)
def test_what_a_status_means(receiver: WebhookReceiver, status: int, outcome: WebhookOutcome) -> None:
    receiver.answer = lambda _event: Answered(status, {"Location": "/other", "Retry-After": "17"})
    answer = posted(receiver.url, now())
    assert answer.outcome is outcome
    assert answer.retry_after == (17 if outcome is WebhookOutcome.FAILED else 0)
    assert len(receiver.asked) == 1, "no redirect is followed"


def test_a_receiver_that_is_away() -> None:
    answer = posted(f"http://127.0.0.1:{free_port()}/", NOW)
    assert answer.outcome is WebhookOutcome.FAILED
    assert "refused" in (answer.reason or "")


def test_a_receiver_that_never_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        answer = posted(f"http://127.0.0.1:{silent.getsockname()[1]}/", NOW, timeout="100ms")
    assert (answer.outcome, answer.reason) == (WebhookOutcome.FAILED, "ReadTimeout: timed out")


@pytest.mark.parametrize(
    ("head", "outcome"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n", WebhookOutcome.DELIVERED),
        (b"HTTP/1.1 200 OK\r\nX: ", WebhookOutcome.FAILED),
    ],
)
def test_a_receiver_that_drips_has_the_time_of_one_request(head: bytes, outcome: WebhookOutcome) -> None:
    """Each byte comes within the time limit of a read."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as dripping:
        sent = dripping.submit(_drip, server, head)
        answer = posted(f"http://127.0.0.1:{server.getsockname()[1]}/", NOW, timeout="300ms")
        assert sent.result() < DROPS
    assert answer.outcome is outcome


DROPS = 100


def _drip(server: socket.socket, head: bytes) -> int:
    """Answer a connection with `head` and then a byte in every 50 ms, and return how many were taken."""
    connection, _ = server.accept()
    with connection, suppress(OSError):
        connection.sendall(head)
        for taken in range(DROPS):
            connection.sendall(b"x")
            sleep(0.05)
            if select([connection], [], [], 0)[0] and len(connection.recv(65536)) == 0:
                return taken
        return DROPS
    return 0


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ("", 0),
        ("30", 30),
        ("-1", 0),
        ("soon", 0),
        ("9" * 400, MOST_RETRY_AFTER),
        ("Mon, 21 Sep 2026 14:53:50 GMT", 29.5),
        ("Mon, 21 Sep 2020 14:53:50 GMT", 0),
        ("Mon, 21 Sep 9999 14:53:50 GMT", MOST_RETRY_AFTER),
        ("1 Jan 99999999999999999999 00:00:00 GMT", 0),
        ("Mon, 21 Sep 2026 14:53:50 +99999999999999999999", 0),
    ],
)
def test_retry_after(given: str, seconds: float) -> None:
    assert retry_after(given, 1_790_002_400_500_000) == seconds


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1",
        "fc00::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "2002:7f00:1::",
        "64:ff9b::10.0.0.1",
        "64:ff9b:1::10.0.0.1",
        "::ffff:0:127.0.0.1",
        "::127.0.0.1",
        "fec0::1",
        "5f00::1",
    ],
)
def test_addresses_that_are_not_public_are_refused(address: str) -> None:
    assert not checked_network.is_allowed(ip_address(address), [])
    if ":" not in address:
        assert checked_network.is_allowed(ip_address(address), [ip_network(f"{address}/32")])


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "::ffff:8.8.8.8"])
def test_public_addresses_are_allowed(address: str) -> None:
    assert checked_network.is_allowed(ip_address(address), [])


def test_a_private_receiver_is_not_connected_to(receiver: WebhookReceiver) -> None:
    url = receiver.url.replace("127.0.0.1", "localhost")
    poster = Poster(Webhook(url=url, secrets=Words([Secret(SECRET)]), networks=[ip_network("10.0.0.0/8")]))
    for _ in range(2):
        answer = poster.post(LOGS, EVENT, now())
        assert answer.outcome is WebhookOutcome.FAILED
        assert "not public" in (answer.reason or "")
    poster.close()
    assert receiver.asked == []


def test_a_name_that_cannot_be_resolved() -> None:
    answer = posted(f"http://{'a' * 70}.example/", NOW)
    assert answer.outcome is WebhookOutcome.FAILED
    assert "cannot resolve" in (answer.reason or "")


def test_a_name_is_resolved_once_and_connected_to_as_resolved(
    receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def resolving(host: str, port: int, *more: Any, **how: Any) -> list[Any]:
        """The first answer is allowed; a second one would lead elsewhere."""
        asked.append(host)
        address = "127.0.0.1" if len(asked) == 1 else "127.66.66.66"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    found = socket.getaddrinfo

    def only_the_name(host: Any, *given: Any, **how: Any) -> Any:
        return resolving(host, *given, **how) if host == "hook.example" else found(host, *given, **how)

    monkeypatch.setattr(socket, "getaddrinfo", only_the_name)
    answer = posted(receiver.url.replace("127.0.0.1", "hook.example"), now())
    assert answer.outcome is WebhookOutcome.DELIVERED
    assert asked == ["hook.example"]
    assert receiver.taken[0].headers["host"] == f"hook.example:{receiver.port}"
