"""What `watch` says of the sources, from one answer of the gateway to the next."""

from typing import Any, cast

import pytest

from app.cli import watch_command
from app.cli.rest_client import Client


class Summaries:
    """A client whose gateway answers `summary` with one after the other."""

    def __init__(self, *answers: dict[str, bool | str]) -> None:
        self._answers = iter(answers)

    def get(self, path: str) -> dict[str, Any]:
        assert path == "summary"
        told = next(self._answers)
        removed = {"name": "removed", "adapter": None, "connected": False, "error": None}
        return {"sources": [_source(name, state) for name, state in told.items()] + [removed]}


def _source(name: str, state: bool | str) -> dict[str, Any]:
    error = state if isinstance(state, str) else None
    return {"name": name, "adapter": "mqtt", "connected": state is True, "error": error}


@pytest.mark.parametrize(
    ("answers", "lines"),
    [
        ([{}], ["there is no source"]),
        ([{"a": True, "b": True}, {"a": True, "b": True}], ["receiving from a, b"]),
        (
            [{"a": False, "b": "refused"}, {"a": True, "b": "refused"}, {"a": True, "b": True}],
            ["not receiving from a: it is not connected yet", "not receiving from b: refused", "receiving from a, b"],
        ),
        (
            [{"a": True}, {"a": "away"}, {"a": "still away"}, {"a": True}],
            ["receiving from a", "not receiving from a: away", "receiving from a"],
        ),
    ],
)
def test_each_change_of_the_sources_is_told_once(
    monkeypatch: pytest.MonkeyPatch, answers: list[dict[str, bool | str]], lines: list[str]
) -> None:
    monkeypatch.setattr(watch_command, "_SOURCES_SECONDS", 0.0)
    told: list[str] = []
    sources = watch_command._Sources(cast("Client", Summaries(*answers)), lambda text, _style: told.append(text))
    for _ in answers:
        sources.tell()
    assert told == lines
