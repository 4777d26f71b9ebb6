"""Token buckets of clients."""

from collections.abc import Callable

import pytest

from app.model.principals import EVERYTHING, Principal
from app.service.access import token_buckets
from app.service.access.token_buckets import RateExceeded, Rates, client_of


class Time:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


def refused(begin: Callable[[], None]) -> tuple[str, int] | None:
    try:
        begin()
    except RateExceeded as error:
        return error.policy, error.seconds
    return None


def test_a_bucket_has_what_ten_seconds_allow_and_refills(time: Time) -> None:
    limits = Rates(2, None, time)
    assert [refused(lambda: limits.begin("a")) for _ in range(21)] == [None] * 20 + [("requests", 1)]
    assert refused(lambda: limits.begin("b")) is None
    assert limits.fields("a") == [("RateLimit-Policy", '"requests";q=20;w=10'), ("RateLimit", '"requests";r=0;t=10')]
    time.now += 0.5
    assert [refused(lambda: limits.begin("a")) for _ in range(2)] == [None, ("requests", 1)]
    time.now += 1000
    assert limits.fields("a")[1] == ("RateLimit", '"requests";r=20;t=0')


def test_bytes_may_take_a_bucket_below_zero_and_the_next_request_waits(time: Time) -> None:
    limits = Rates(100, 1000, time)
    limits.begin("a")
    limits.add_bytes("a", 15_000)
    assert refused(lambda: limits.begin("a")) == ("bytes", 6), "5,000 and the one that a request needs"
    assert limits.fields("a") == [
        ("RateLimit-Policy", '"requests";q=1000;w=10, "bytes";q=10000;w=10;qu="content-bytes"'),
        ("RateLimit", '"requests";r=999;t=1, "bytes";r=0;t=15'),
    ]
    limits.add_bytes("a", -6_000)
    assert refused(lambda: limits.begin("a")) is None, "they were announced and did not come"
    limits.add_bytes("a", -60_000)
    assert limits.fields("a")[1][1].endswith('"bytes";r=10000;t=0'), "no bucket has more than it can hold"


def test_the_number_of_clients_in_memory_is_bounded(time: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_buckets, "CLIENTS", 2)
    limits = Rates(1, None, time)
    for client in ("a", "b", "a", "c"):
        limits.begin(client)
    left = [dict(limits.fields(client))["RateLimit"] for client in "abc"]
    assert left == ['"requests";r=8;t=2', '"requests";r=10;t=0', '"requests";r=9;t=1']


def test_keys_have_their_own_buckets_and_callers_without_one_share_that_of_their_address() -> None:
    key = Principal("key", "billing", EVERYTHING, "a941")
    other = Principal("key", "billing", EVERYTHING, "b052")
    nobody = Principal("anonymous", "anonymous", EVERYTHING)
    assert len({client_of(key, "::1"), client_of(other, "::1"), client_of(nobody, "::1")}) == 3
    assert client_of(key, "10.0.0.1") == client_of(key, "10.0.0.2")
    assert client_of(nobody, "10.0.0.1") == client_of(None, "10.0.0.1") != client_of(None, "10.0.0.2")
    assert client_of(None, "2001:db8::1") == client_of(None, "2001:db8::ffff:1") != client_of(None, "2001:db8:0:1::1")
    assert client_of(None, None) == client_of(nobody, None)
