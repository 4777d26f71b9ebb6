"""Answers wait in memory until they can be given; what fails for one source loses none of another."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from app.model.errors import CatalogError
from app.model.message import TOPIC, TOPIC_PREFIX, PhysicalMessage
from app.service.assembling.answering import Answers, HeardMessage
from app.testing.gateway_stages import service_context

SOURCES = ("one", "two", "three")


class Answering:
    """A receiver that keeps what it should answer."""

    def __init__(self) -> None:
        self.answered: list[PhysicalMessage] = []

    def answer(self, answers: Sequence[PhysicalMessage]) -> None:
        self.answered += answers

    def run(self, *_: Any) -> None: ...

    def resume(self, _: Any) -> bool:
        return False

    def session(self, _: Any = None) -> None: ...

    def status(self) -> dict[str, Any]:
        return {}


def heard(source: str) -> HeardMessage:
    properties = {TOPIC: f"{source}/init", TOPIC_PREFIX: "$file-async"}
    return HeardMessage(PhysicalMessage(source, "file_transfer", properties=properties), None)


def test_an_error_loses_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    receivers: dict[str, Any] = {name: Answering() for name in SOURCES}
    with service_context(tmp_path) as context:
        answers = Answers(context, receivers)
        assert [*answers._receivers] == [*SOURCES]
        answers.put([heard(source) for source in SOURCES])
        by_key = context.catalog.attachments_by_key

        def fails(source: str, keys: Sequence[bytes]) -> Any:
            if source == "two":
                raise CatalogError("the database is away")
            return by_key(source, keys)

        with monkeypatch.context() as patched:
            patched.setattr(context.catalog, "attachments_by_key", fails)
            with pytest.raises(CatalogError):
                answers.step()
        assert [len(each.answered) for each in receivers.values()] == [1, 0, 0]
        answers.step()
        assert [len(each.answered) for each in receivers.values()] == [1, 1, 1]
        answers.step()
        assert [len(each.answered) for each in receivers.values()] == [1, 1, 1]
