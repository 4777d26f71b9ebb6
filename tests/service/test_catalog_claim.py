"""What keeps a gateway from starting, sentence by sentence."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from app.model.errors import CatalogError, CatalogTaken, GatewayError
from app.model.message import PhysicalMessage, Position
from app.model.records import Checkpoint, JournalIdentity
from app.service.context import ReceiverContext
from app.service.receiving.catalog_claim import claim, keep_lock
from app.testing.gateway_stages import service_context


@pytest.fixture
def context(tmp_path: Path) -> Iterator[ReceiverContext]:
    with service_context(tmp_path) as made:
        (position,) = made.journal.append([PhysicalMessage("here", "sas_queue", body=b"x")])
        made.catalog.checkpoint(Checkpoint(progress=position.pack()))
        yield made


def with_journal(context: ReceiverContext, **told: Any) -> ReceiverContext:
    """The same with a journal that tells other things."""
    real = context.journal
    asked = {"identity": real.identity(), "end": real.end(), "segments": real.segments(), **told}
    journal: Any = SimpleNamespace(**{name: lambda value=value: value for name, value in asked.items()})
    return replace(context, journal=journal)


def test_a_catalog_of_before_is_bound_and_stays_so(context: ReceiverContext) -> None:
    claim(context)
    assert context.catalog.journal_identity() == context.journal.identity()
    claim(context)


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"identity": JournalIdentity("b" * 32, 9)}, "is journal bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"),
        ({"end": None}, "is empty, and the catalog"),
        ({"end": Position(0, 5, 1)}, "ends at segment 0, batch 5, row 1, and the catalog.*: the file of segment 1 is"),
        ({"segments": [], "end": Position(0, 5, 1)}, "the files of segment 1 and of those after it are missing"),
        ({"segments": [], "end": Position(9, 0, 0)}, "continues, and the catalog.*: the file of segment 1 is missing"),
    ],
)
def test_what_does_not_belong_together_is_said(context: ReceiverContext, told: dict[str, Any], says: str) -> None:
    claim(context)
    before = context.catalog.journal_identity()
    with pytest.raises(GatewayError, match=says) as refused:
        claim(with_journal(context, **told))
    assert "`attachment-gateway " in str(refused.value)
    assert "\n" not in str(refused.value)
    assert context.catalog.journal_identity() == before


def test_a_database_that_is_away_is_waited_for_and_another_gateway_is_not(
    context: ReceiverContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.service.receiving.catalog_claim.LOCK_SECONDS", 0.01)
    claim(context)
    answers: list[Exception | None] = [
        CatalogError("away"),
        None,
        CatalogTaken("for a moment"),
        CatalogTaken("for good"),
    ]

    def lock() -> None:
        answer = answers.pop(0)
        if not answers:
            context.catalog.bind(JournalIdentity("c" * 32, 1))
        if answer is not None:
            raise answer

    monkeypatch.setattr(context.catalog, "lock", lock)
    with pytest.raises(CatalogTaken, match="for good"):
        keep_lock(context, Event())
    assert not answers
