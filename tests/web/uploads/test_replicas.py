"""Uploads whose requests come to several processes, which share the catalog and the content store only."""

import threading
from collections.abc import Iterator
from random import Random

import httpx
import pytest

from app.web.app import create_app
from tests.web.stock import Stock, serving
from tests.web.uploads.uploading import DATA, OCTETS, TUS, append, begun, content, offset, sent


class Replicas:
    """Two apps of one stock. Each knows nothing of the requests to the other."""

    def __init__(self, first: str, second: str) -> None:
        self.clients = [httpx.Client(base_url=address, timeout=30) for address in (first, second)]

    def close(self) -> None:
        for client in self.clients:
            client.close()


@pytest.fixture
def replicas(stock: Stock) -> Iterator[Replicas]:
    with serving(create_app(stock.gateway)) as first, serving(create_app(stock.gateway)) as second:
        found = Replicas(first, second)
        yield found
        found.close()


@pytest.mark.parametrize("seed", range(4))
def test_pieces_may_come_to_any_of_them(stock: Stock, replicas: Replicas, seed: int) -> None:
    random, data = Random(seed), DATA[: 100_000 + seed]
    path = begun(random.choice(replicas.clients), len(data))
    while (at := offset(random.choice(replicas.clients), path)) < len(data):
        piece = data[at : at + random.randrange(1, 30_000)]
        wrong = append(random.choice(replicas.clients), path, at + 1, piece)
        assert wrong.status_code == 409
        broken = random.random() < 0.3

        def body(piece: bytes = piece, broken: bool = broken) -> Iterator[bytes]:
            yield piece[: len(piece) // 2]
            if broken:
                raise ConnectionError
            yield piece[len(piece) // 2 :]

        try:
            answer = append(random.choice(replicas.clients), path, at, body())
        except ConnectionError:
            continue
        assert answer.status_code == 204
    answer = sent(random.choice(replicas.clients), path)
    assert content(stock, answer.json()) == data


def test_a_newer_request_at_another_process_wins(stock: Stock, replicas: Replicas) -> None:
    """The older one has stalled, as one of a paused process. What it brings later does not count."""
    old, new = replicas.clients
    path = begun(old, 10)
    begin, go_on = threading.Event(), threading.Event()
    answers: list[httpx.Response] = []

    def slow() -> Iterator[bytes]:
        yield b"OLD"
        begin.set()
        assert go_on.wait(60)
        yield b"OLDOLD!"

    stalled = threading.Thread(target=lambda: answers.append(append(old, path, 0, slow())))
    stalled.start()
    assert begin.wait(60)
    assert offset(new, path) == 0
    assert append(new, path, 0, b"01234").status_code == 204
    go_on.set()
    stalled.join()
    assert (answers[0].status_code, answers[0].json()["type"]) == (409, "/problems/superseded")
    assert offset(old, path) == 5
    assert append(old, path, 5, b"56789").status_code == 204
    assert content(stock, sent(new, path).json()) == b"0123456789"
    assert new.delete(path, headers=TUS).status_code == 204
    assert old.patch(path, content=b"x", headers={**TUS, **OCTETS, "Upload-Offset": "10"}).status_code == 404
    assert list(stock.store.names("uploads/")) == []
