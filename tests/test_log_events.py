"""The names of log events, as the sources have them: a noun, and what became of it."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from app.service.events.event_log import LEVELS

LOGGERS = {"log", "_log"}
LEVEL_METHODS = {"debug", "info", "warning", "error", "exception", "critical"}
GIVEN_AS_ARGUMENTS = {"app/observe.py", "app/service/events/event_log.py", "adapters/mqtt/receiver.py"}
"""Modules with a function that logs the event that it is given: `Recurring`, LEVELS, `_warn_once`."""

IRREGULAR = {"begun", "found", "gave", "left", "lost", "read", "rebuilt", "sent", "set", "taken", "retaken", "written"}
PARTICLES = {"aside", "out", "up"}


class Event(NamedTuple):
    """A name, and where it is logged."""

    place: str
    name: str


def sources() -> Iterator[Path]:
    return (path for folder in ("app", "adapters") for path in sorted(Path(folder).rglob("*.py")))


def is_of_logger(function: ast.expr) -> bool:
    if not isinstance(function, ast.Attribute) or function.attr not in {*LEVEL_METHODS, "log"}:
        return False
    owner = function.value
    return (owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", None)) in LOGGERS


def named_by(call: ast.Call) -> ast.expr | None:
    """The argument of a call that names an event, or the noun of a recurring fault."""
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
    if name == "Recurring" or (is_of_logger(function) and name == "log"):
        return call.args[1]
    if name == "_warn_once" or is_of_logger(function):
        return call.args[0]
    return None


def events_of(path: Path) -> Iterator[Event]:
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call) or (named := named_by(node)) is None:
            continue
        place = f"{path}:{node.lineno}"
        if isinstance(named, ast.Constant) and isinstance(named.value, str):
            is_fault = getattr(node.func, "id", None) == "Recurring"
            yield Event(place, f"{named.value}_failed" if is_fault else named.value)
        else:
            assert str(path) in GIVEN_AS_ARGUMENTS, f"{place}: the name of a log event is a literal"


@cache
def all_events() -> list[Event]:
    """Return the events of all sources, which every worker process would read if the module did it."""
    return [event for path in sources() for event in events_of(path)] + [
        Event("LEVELS of app/service/events/event_log.py", kind.replace(".", "_")) for kind in LEVELS
    ]


def is_noun_verbed(name: str) -> bool:
    """Tell whether a name ends in a past form behind at least one other word; `up` and the like may follow it."""
    if not re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)+", name):
        return False
    words = name.split("_")
    if len(words) > 2 and words[-1] in PARTICLES:
        words.pop()
    return words[-1] in IRREGULAR or words[-1].endswith("ed")


def test_events_of_the_whole_program_are_found() -> None:
    names = {event.name for event in all_events()}
    assert len(names) > 100
    assert {"gateway_started", "segment_damaged", "assembly_failed", "qos_0_granted", "delivery_sent"} <= names


def test_a_log_event_is_a_noun_and_what_became_of_it() -> None:
    assert [event for event in all_events() if not is_noun_verbed(event.name)] == []


def test_each_irregular_form_and_particle_is_of_an_event() -> None:
    words = {word for event in all_events() for word in event.name.split("_")}
    assert words >= IRREGULAR | PARTICLES


def test_the_events_of_the_documents_are_logged() -> None:
    _, _, behind = Path("docs/health.md").read_text().partition("| log event |")
    table, _, _ = behind.partition("\n\n")
    named = {
        name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1] if "|" in row else "")
    }
    assert len(named) > 10
    assert named <= {event.name for event in all_events()}


@pytest.mark.parametrize(
    "name", ["segments_missing", "tables_ahead", "content_sound_again", "connected", "gateway_starting", "Segment_lost"]
)
def test_other_names_are_noticed(name: str) -> None:
    assert not is_noun_verbed(name)
