"""The log of what happened: a line for each event, and one for many."""

import logging
from pathlib import Path
from typing import Any

import pytest

from app.model.records import Checkpoint, NewEvent
from app.service.events.event_log import IDS_LOGGED, LEVELS, ONE_BY_ONE, log_events
from app.service.events.event_reader import AT_ONCE, EventReader
from app.testing.gateway_stages import service_context


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str, dict[str, Any]]]:
    """What is logged: level, event, fields."""
    found: list[tuple[int, str, dict[str, Any]]] = []
    monkeypatch.setattr(
        "app.service.events.event_log.log.log", lambda level, event, **said: found.append((level, event, said))
    )
    return found


def finished(number: int) -> NewEvent:
    return NewEvent("attachment.finished", f"a{number}", number, {"name": "a.txt", "size": 3, "sha256": "5e"})


def test_each_event_is_a_line_and_none_is_logged_twice(tmp_path: Path, lines: list[Any]) -> None:
    with service_context(tmp_path) as context:
        context.catalog.checkpoint(Checkpoint(events=[finished(1)]))
        log = EventReader(context.catalog)
        log.follow(log_events)
        refused = NewEvent("attachment.quarantined", "a3", 3, {"code": "cut", "reason": "too short"})
        context.catalog.checkpoint(Checkpoint(events=[finished(2), refused, NewEvent("message.complete", "m1", 4, {})]))
        log.read()
        log.read()
    assert lines == [
        (logging.INFO, "attachment_finished", {"id": "a2", "name": "a.txt", "size": 3, "sha256": "5e"}),
        (logging.WARNING, "attachment_quarantined", {"id": "a3", "code": "cut", "reason": "too short"}),
    ]


def test_many_events_at_once_are_counted(tmp_path: Path, lines: list[Any]) -> None:
    with service_context(tmp_path) as context:
        log = EventReader(context.catalog)
        log.follow(log_events)
        context.catalog.checkpoint(Checkpoint(events=[finished(number) for number in range(AT_ONCE + ONE_BY_ONE)]))
        log.read()
    (many, *each) = lines
    assert many[1:] == (
        "attachment_finished",
        {"count": AT_ONCE, "ids": [f"a{number}" for number in range(IDS_LOGGED)]},
    )
    assert [said["id"] for _, _, said in each] == [f"a{AT_ONCE + number}" for number in range(ONE_BY_ONE)]


def test_what_goes_wrong_is_a_warning() -> None:
    assert {kind for kind, level in LEVELS.items() if level == logging.WARNING} == {
        "attachment.warned",
        "attachment.quarantined",
        "message.quarantined",
        "delivery.failed",
    }
