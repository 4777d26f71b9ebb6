"""What a task works with, and what it does when the journal is not what it was."""

import pickle
from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from adapters.arrow_journal import ArrowJournal
from app.assembly.machine import AssemblyLimits
from app.model.errors import GatewayError
from app.model.message import Position
from app.model.records import DAMAGED_PART
from app.pipeline.assemble.assemble_key import KeyOutcome, KeyState, assemble, by_key
from app.pipeline.commit import packages
from app.pipeline.finish import finish_outcomes
from app.pipeline.job.job import Job, open_job
from app.pipeline.references.header_pass import Remembered
from app.pipeline.run import header_steps, spark_steps
from app.settings import Settings
from app.testing.reference_passes import Announcing, all_references, journalled
from tests.support import mixed_journal
from tests.support.kept import flip
from tests.support.sas_client import Program, binary_file, message


def job(folder: Path, **settings: object) -> Job:
    return Job.of(Settings.model_validate({"data": folder, **settings}), str(folder / "journal"), in_place=False)


def test_a_job_is_done_with_its_own_settings(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    first = open_job(job(tmp_path))
    second = open_job(job(tmp_path, text={"line_end": "\r\n"}))
    assert first.archive is second.archive
    assert first.stores.settings.line_end("any") != second.stores.settings.line_end("any")


def test_a_job_has_the_same_journal_from_wherever_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = Settings.model_validate({"data": tmp_path})
    assert Job.of(settings, "journal", in_place=False) == Job.of(settings, f"{tmp_path}/journal", in_place=False)
    assert Job.of(settings, "s3://bucket/journal", in_place=False).journal == "s3://bucket/journal"


def test_a_job_carries_no_secret(tmp_path: Path) -> None:
    source = {"transport": "mqtt", "url": "mqtt://host", "topic": "t", "username": "u", "password": "hunter2"}
    said = job(tmp_path, catalog={"url": "postgresql://user:hunter2@host/db"}, sources={"s": source})
    assert "s" in said.settings.sources
    assert b"hunter2" not in pickle.dumps(said)
    assert "hunter2" not in repr(said)


def test_a_header_that_is_gone_fails_its_job(tmp_path: Path) -> None:
    program = Program(Random(1))
    header = message(program, [binary_file(program, "a", b"x")])[0]._replace(source="s")
    journalled(tmp_path / "journal", [header])
    with closing(ArrowJournal(tmp_path / "journal")) as journal:
        journal.retire(1)
    with pytest.raises(GatewayError, match=r"segment 1 of .* is gone"):
        list(header_steps.fetch_headers(open_job(job(tmp_path)), "s", [Position(1, 0, 0).pack()], Remembered()))


def test_results_do_not_depend_on_how_many_are_made_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = journalled(tmp_path / "journal", mixed_journal.traffic(Random(3), 5, 100_000))
    opened = open_job(job(tmp_path))
    coming = sorted(Announcing(archive).references(all_references(archive)), key=lambda each: (each.source, each.key))

    def outcomes() -> Iterator[KeyOutcome]:
        for key, some in by_key(coming):
            yield from assemble(key, some, KeyState(), AssemblyLimits())[0]

    together = list(finish_outcomes.finish(outcomes(), opened.stores, archive))
    monkeypatch.setattr(finish_outcomes, "RUNS_AT_ONCE", 50)
    apart = list(finish_outcomes.finish(outcomes(), opened.stores, archive))
    assert sorted(map(repr, apart)) == sorted(map(repr, together))
    assert any(result.fresh for result in together)
    assert not any(result.fresh for result in together if result.finished)
    packed = pa.RecordBatch.from_pylist(
        [{"outcome": spark_steps.pack(each)} for each in outcomes()], spark_steps.OUTCOMES
    )
    sent = pa.Table.from_batches(spark_steps.finish_all(opened, [packed]))
    found = chain.from_iterable(packages.held(sent).results())
    assert sorted(map(repr, found)) == sorted(map(repr, together))


def test_a_part_that_rotted_is_quarantined_and_stops_no_batch(tmp_path: Path) -> None:
    program, contents = Program(Random(5)), [Random(seed).randbytes(120_000) for seed in (1, 2)]
    sent = [each for at in (0, 1) for each in message(program, [binary_file(program, f"{at}.bin", contents[at])])]
    archive = journalled(tmp_path / "journal", [each._replace(source="s") for each in sent], batch=1)
    coming = sorted(Announcing(archive).references(all_references(archive)), key=lambda each: (each.source, each.key))
    outcomes = [
        outcome for key, some in by_key(coming) for outcome in assemble(key, some, KeyState(), AssemblyLimits())[0]
    ]
    (segment,) = (tmp_path / "journal").glob("*.arrows")
    flip(segment, segment.read_bytes().index(contents[0][70_000:70_040]))
    opened = open_job(job(tmp_path))
    results = list(finish_outcomes.finish(outcomes, opened.stores, opened.archive))
    refused = next(result for result in results if result.refused is not None)
    assert refused.refused is not None
    assert refused.record is not None
    assert refused.refused.code == DAMAGED_PART
    assert [(entry.code, entry.correl_id) for entry in refused.quarantine] == [(DAMAGED_PART, refused.record.correl_id)]
    assert [result.finished.size for result in results if result.finished is not None] == [120_000]
