"""A batch over an archive without headers that were retired: the catalog still has what they said."""

from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from adapters.sql_catalog import SqlCatalog
from app.main import SystemClock
from app.model.message import PhysicalMessage
from app.pipeline.commit.commit import Committer
from app.pipeline.job.job import open_job
from app.pipeline.references.header_pass import HeaderPass
from app.pipeline.references.message_references import Reference, What
from app.pipeline.references.retired_headers import Retired, retired_headers
from app.pipeline.run import runs
from app.pipeline.run.runs import ReprocessingScope
from app.testing.host_results import settings
from tests.support.damaged_archive import Killed, die_after
from tests.support.header_apart import HeaderApart
from tests.support.passes import LocalPasses, job_of, run_batch
from tests.support.sas_client import Program, binary_file, message


@pytest.fixture
def whole(tmp_path: Path) -> HeaderApart:
    """Results of a batch over all segments."""
    made = HeaderApart.written(tmp_path / "whole")
    assert run_batch(made.out, made.journal) is not None
    return made


@pytest.fixture
def begun(tmp_path: Path) -> HeaderApart:
    """Results of a stream that has come to the second segment; its checkpoint has the header."""
    made = HeaderApart.written(tmp_path / "begun")
    commit_to(made, 2)
    return made


def commit_to(archive: HeaderApart, last: int) -> None:
    passes, job = LocalPasses(), job_of(archive.out, archive.journal).anew()
    with closing(SqlCatalog(settings(archive.out).catalog_url)) as catalog:
        committer = Committer(open_job(job), catalog, SystemClock(), passes.table_writer(job))
        committer.commit(*passes.news(job, last, committer.progress))


def test_a_batch_finishes_what_a_retired_header_has_announced(whole: HeaderApart, begun: HeaderApart) -> None:
    begun.retire_header()
    assert run_batch(begun.out, begun.journal) is not None
    begun.assert_same_as(whole)


@pytest.mark.parametrize("last", [3, 4])
@pytest.mark.parametrize("name", ["_commit_tables", "_commit_catalog"])
def test_the_commit_of_a_stream_is_ended_without_the_header(
    whole: HeaderApart, begun: HeaderApart, monkeypatch: pytest.MonkeyPatch, last: int, name: str
) -> None:
    with monkeypatch.context() as patched:
        die_after(patched, Committer, name)
        with pytest.raises(Killed):
            commit_to(begun, last)
    begun.retire_header()
    job = job_of(begun.out, begun.journal).anew()
    with closing(SqlCatalog(settings(begun.out).catalog_url)) as catalog:
        runs.resolve(LocalPasses(), job, catalog, SystemClock())
    if last == 3:
        assert run_batch(begun.out, begun.journal) is not None
    begun.assert_same_as(whole)


def test_processing_again_takes_nothing_from_what_is_open(begun: HeaderApart) -> None:
    commit_to(begun, 3)
    with closing(SqlCatalog(settings(begun.out).catalog_url)) as catalog:
        before = {record.id: record for record in catalog.attachments_by_id(_listed(catalog))}
    begun.retire_header()
    job = job_of(begun.out, begun.journal).anew()
    (begun.journal / f"{4:010}.arrows").rename(begun.journal.with_name("held"))
    with closing(SqlCatalog(settings(begun.out).catalog_url)) as catalog:
        runs.run(LocalPasses(), job, catalog, SystemClock(), ReprocessingScope(from_segment=1))
        assert {record.id: record for record in catalog.attachments_by_id(_listed(catalog))} == before


def _listed(catalog: SqlCatalog) -> list[str]:
    return [each for message in catalog.incomplete_messages() for each in message.attachments]


def test_nothing_is_asked_of_the_catalog_while_all_segments_are_there(begun: HeaderApart) -> None:
    with closing(SqlCatalog(settings(begun.out).catalog_url)) as catalog:
        assert retired_headers(catalog, {1, 2, 3, 4}) == Retired()
        assert {each.what for each in retired_headers(catalog, {2, 3, 4}).references} == {What.ADDRESS, What.CLAIM}


def test_later_headers_are_judged_by_those_that_are_retired() -> None:
    program = Program(Random(3))
    listing, bare = (message(program, some)[0]._replace(source="s") for some in ([binary_file(program, "a", b"x")], []))

    def read(retired: Retired, one: PhysicalMessage, position: int) -> list[Reference]:
        return list(HeaderPass(retired.remembered("s"), lambda each: each, 9).read(position, one))

    narrowed, *first = read(Retired(), listing, 1)
    assert [each.what for each in (narrowed, *first)] == [What.DIALECTS, What.ADDRESS, What.CLAIM]
    (again,) = (each for each in read(Retired(tuple(first)), listing, 5) if each.what != What.DIALECTS)
    assert (again.what, again.detail) == (What.REPEATED, 1)
    assert [each.what for each in read(Retired(), bare, 5)] == [What.DIALECTS, What.ADDRESS], "more than are known"
    assert [each.what for each in read(Retired((), {"s": narrowed.detail}), bare, 5)] == [What.ADDRESS]
