"""Assembly with Spark's state, without Spark: what is kept, when it is let go, and what is told of it."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from app.model.message import PhysicalMessage
from app.pipeline.assemble import key_state
from app.pipeline.assemble.assemble_key import KeyOutcome
from app.pipeline.job.job import Job, open_job
from app.pipeline.references.message_references import (
    SCHEMA,
    AttachmentClaim,
    Header,
    Reference,
    ReferenceKind,
    RefusedMessage,
    SequencedParts,
    to_batch,
)
from app.pipeline.run import spark_steps
from app.pipeline.run.processors import AttachmentProcessor, HeaderProcessor
from app.service.retention.expiry import write_released
from app.settings import Settings
from app.testing.reference_passes import Announcing, all_references, journalled
from tests.support.sas_client import Program, binary_file, message

WAIT = 100.0
NOW = 1_000_000.0
"""Seconds: how long an attachment may be silent, and when its messages were received."""


def job(folder: Path) -> Job:
    settings = Settings.model_validate({"data": folder, "expiry": {"unfinished": WAIT}})
    return Job.of(settings, str(folder / "journal"), in_place=True)


def sent(parts: int) -> list[PhysicalMessage]:
    program = Program(Random(parts), body_limit=1024)
    file = binary_file(program, "a.bin", program.random.randbytes(1000 * parts))
    return [
        each._replace(source="s", received_at=int((NOW + place / 1000) * 1e6))
        for place, each in enumerate(message(program, [file]))
    ]


class OfPairs(AttachmentProcessor):
    """The tester gives every key as a column of its own; a stream that is grouped by two columns gives the pair."""

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        return super().handleInputRows(key[0], rows, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        return super().handleExpiredTimer(key[0], timerValues, expiredTimerInfo)


class Attachment:
    """The references of one attachment, given to the processor in pieces."""

    def __init__(self, folder: Path, messages: list[PhysicalMessage]) -> None:
        archive = journalled(folder / "journal", messages, batch=1)
        found = Announcing(archive).references(all_references(archive))
        self.key = max((each.source, each.key) for each in found if isinstance(each, SequencedParts | AttachmentClaim))
        self.references = [each for each in found if (each.source, each.key) == self.key]
        self.job = job(folder)
        self.processor = OfPairs(self.job)
        self.tester = TwsTester(self.processor, timeMode="ProcessingTime")
        self.at(NOW)

    def at(self, time: float) -> list[KeyOutcome]:
        return outcomes(self.tester.setProcessingTime(int(time * 1000)))

    def take(self, references: Iterable[Reference]) -> list[KeyOutcome]:
        return outcomes(self.tester.test(self.key, rows(references)))

    def told(self, positions: dict[str, int]) -> None:
        """The gateway tells up to where it has let go; another task begins."""
        write_released(open_job(self.job).stores.store, positions)
        vars(self.processor).pop("_steps", None)

    def held(self, name: str) -> tuple[Any, ...] | None:
        return self.tester.peekValueState(name, self.key)


def rows(references: Iterable[Reference]) -> list[Row]:
    return [Row(**row) for row in to_batch(list(references)).to_pylist()]


def outcomes(found: Iterable[Row]) -> list[KeyOutcome]:
    return [spark_steps.unpack(row.outcome) for row in found]


def test_an_attachment_is_open_until_it_is_done(tmp_path: Path) -> None:
    attachment = Attachment(tmp_path, sent(5))
    *first, last = attachment.references
    (outcome,) = attachment.take(first)
    assert outcome.complete is None
    assert outcome.state == key_state.KeyStateRow(*attachment.held("open") or ()).size > 0
    assert attachment.held("done") is None
    (outcome,) = attachment.take([last])
    assert outcome.complete is not None
    assert attachment.held("open") is None
    assert attachment.held("done") is not None


def test_what_comes_late_is_known_for_what_it_is(tmp_path: Path) -> None:
    attachment = Attachment(tmp_path, sent(5))
    attachment.take(attachment.references)
    part = next(each for each in attachment.references if isinstance(each, SequencedParts))
    (outcome,) = attachment.take([replace(part, position=1 << 40)])
    assert outcome.repeated == ((part.position, 1 << 40),)
    assert outcome.complete is None
    assert outcome.record is not None
    assert outcome.record.duplicates == 1
    assert attachment.held("open") is None


def test_what_has_no_key_leaves_no_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.pipeline.assemble.assemble_key.WITHOUT_KEY_AT_ONCE", 2)
    attachment = Attachment(tmp_path, sent(1))
    refusal = RefusedMessage("s", b"", 1, (1,), (1,), "code", "row", -1, "why")
    refused = [replace(refusal, position=position) for position in range(1, 6)]
    told = outcomes(attachment.tester.test(("s", b""), rows(refused)))
    assert [each.position for one in told for each in one.refused] == [1, 2, 3, 4, 5]
    assert attachment.tester.peekValueState("open", ("s", b"")) is None


def test_no_clock_lets_go_of_what_is_open(tmp_path: Path) -> None:
    """A job that was away for long has not read what came meanwhile."""
    attachment = Attachment(tmp_path, sent(5))
    *first, last = attachment.references
    attachment.take(first)
    for wait in range(1, 5):
        assert attachment.at(NOW + wait * (WAIT + 1)) == []
        assert attachment.held("open") is not None
    (outcome,) = attachment.take([last])
    assert outcome.complete is not None


def test_what_the_gateway_has_let_go_is_let_go(tmp_path: Path) -> None:
    attachment = Attachment(tmp_path, sent(5))
    attachment.take(attachment.references[:2])
    reached = max(each.position for each in attachment.references[:2])
    attachment.told({"s": reached - 1, "another": 1 << 60})
    assert attachment.at(NOW + WAIT + 1) == []
    assert attachment.held("open") is not None
    attachment.told({"s": reached})
    assert attachment.at(NOW + 2 * WAIT + 5) == []
    assert attachment.held("open") is None


def test_what_comes_for_what_was_let_go_begins_anew(tmp_path: Path) -> None:
    attachment = Attachment(tmp_path, sent(5))
    *first, last = attachment.references
    attachment.take(first)
    attachment.told({"s": max(each.position for each in first)})
    (outcome,) = attachment.take([last])
    assert outcome.complete is None
    (outcome,) = attachment.take(first)
    assert outcome.complete is not None


@pytest.mark.parametrize("parts", [50, 2000])
def test_state_does_not_grow_with_an_attachment(tmp_path: Path, parts: int) -> None:
    attachment = Attachment(tmp_path, sent(parts))
    (outcome,) = attachment.take(attachment.references[:-1])
    assert outcome.record is not None
    assert outcome.record.parts_received > parts * 0.9
    assert outcome.state < 1500


def test_headers_remember_from_batch_to_batch(tmp_path: Path) -> None:
    program = Program(Random(1))
    first, second = (message(program, [binary_file(program, name, b"x")])[0] for name in ("a", "b"))
    contradicting = second._replace(body=bytes(second.body[:24]) + bytes(first.body[24:]))
    messages = [each._replace(source="s") for each in (first, first, contradicting)]
    archive = journalled(tmp_path / "journal", messages, batch=1)
    tester = TwsTester(HeaderProcessor(job(tmp_path)), timeMode="ProcessingTime")
    headers = [each for each in all_references(archive) if isinstance(each, Header)]
    said = [tester.test("s", rows([each])) for each in headers]
    assert [[row.kind for row in one] for one in said] == [
        [ReferenceKind.DIALECTS, ReferenceKind.MESSAGE, ReferenceKind.CLAIM],
        [ReferenceKind.REPEATED],
        [ReferenceKind.REFUSED, ReferenceKind.EVENT],
    ]
    assert {name for one in said for row in one for name in row.asDict()} == set(SCHEMA.names)
