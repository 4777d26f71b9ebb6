"""Failed sign-ins of one address are entries up to a number, and counted beyond it."""

from typing import Any

import pytest

from app.service.access import audit
from app.service.access.audit import Entry, Repeats, entry


def failed(address: str) -> Entry:
    return {**entry("sign-in", "refused", who=None), "from": address}


def test_beyond_the_limit_failures_are_counted_for_each_address(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    added: list[Any] = []
    monkeypatch.setattr(audit, "MOST", 3)
    monkeypatch.setattr(audit, "monotonic", lambda: now)
    log = Repeats(added.append)
    for _ in range(10):
        log.add(failed("a"))
    log.add(failed("b"))
    assert [(each["from"], each.get("count")) for each in added] == [("a", None)] * 3 + [("b", None)]
    log.flush()
    log.flush()
    assert (added[-1]["from"], added[-1]["count"], len(added)) == ("a", 7, 5)
    log.add(failed("a"))
    now = 61.0
    log.add(failed("a"))
    assert [(each["from"], each.get("count")) for each in added[5:]] == [("a", 1), ("a", None)]


def test_the_number_of_addresses_in_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    added: list[Any] = []
    monkeypatch.setattr(audit, "MOST", 1)
    monkeypatch.setattr(audit, "ADDRESSES", 2)
    log = Repeats(added.append)
    for address in ("a", "a", "b", "c"):
        log.add(failed(address))
    assert [(each["from"], each.get("count")) for each in added] == [("a", None), ("b", None), ("a", 1), ("c", None)]
    assert len(log._windows) == 2
