"""A batch over an archive without headers that were retired: the catalog still has what they said."""

from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from adapters.arrow_journal.archive import ArrowArchive
from adapters.sql_catalog import SqlCatalog
from app.assembly.header_checks import message_address, waiting_key
from app.model.message import PhysicalMessage
from app.model.records import MessageRecord
from app.pipeline.assemble.earlier_state import EarlierState, of_earlier_batches, of_gone_headers
from app.pipeline.commit.commit import Committer
from app.pipeline.references.header_pass import HeaderPass
from app.pipeline.references.message_references import (
    AttachmentClaim,
    CommonDialects,
    MessageBegun,
    Reference,
    ReferenceKind,
    RepeatedHeader,
)
from app.pipeline.run.batch import ReprocessingScope, process, unfinished
from app.testing.host_results import settings
from tests.support.damaged_archive import Killed, die_after
from tests.support.header_apart import HeaderApart
from tests.support.local_steps import LocalSteps, committer_of, found_up_to, opened_run, run_batch
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
    with opened_run(archive.out, archive.journal) as run:
        committer = committer_of(run)
        committer.commit(found_up_to(run, last, committer.progress))


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
    with opened_run(begun.out, begun.journal) as run:
        for interrupted in unfinished(run):
            process(LocalSteps(), run, interrupted)
    if last == 3:
        assert run_batch(begun.out, begun.journal) is not None
    begun.assert_same_as(whole)


def test_processing_again_takes_nothing_from_what_is_open(begun: HeaderApart) -> None:
    commit_to(begun, 3)
    with closing(SqlCatalog(settings(begun.out).catalog_url)) as catalog:
        before = {record.id: record for record in catalog.attachments_by_id(_listed(catalog))}
    begun.retire_header()
    (begun.journal / f"{4:010}.arrows").rename(begun.journal.with_name("held"))
    assert run_batch(begun.out, begun.journal, ReprocessingScope(from_segment=1)) is not None
    with closing(SqlCatalog(settings(begun.out).catalog_url)) as catalog:
        assert {record.id: record for record in catalog.attachments_by_id(_listed(catalog))} == before


def _incomplete(catalog: SqlCatalog) -> list[MessageRecord]:
    return [message for message in catalog.messages(None, None, 500).items if message.complete_at is None]


def _listed(catalog: SqlCatalog) -> list[str]:
    return [each for message in _incomplete(catalog) for each in message.attachments]


def test_the_catalog_gives_what_is_not_read(begun: HeaderApart) -> None:
    with closing(SqlCatalog(settings(begun.out).catalog_url)) as catalog:
        records = catalog.attachments_by_id(_listed(catalog))
        waiting = [waiting_key(message_address(each))[0][1] for each in _incomplete(catalog)]
        keys = [("s", [*(record.correl_id for record in records), *waiting])]
        progress, archive = catalog.progress(), ArrowArchive(str(begun.journal), None)
        assert progress is not None
        assert of_gone_headers(catalog, {1, 2, 3, 4}, keys).references == ()
        gone = of_gone_headers(catalog, {2, 3, 4}, keys)
        assert [each.kind for each in gone.references] == [
            *[ReferenceKind.MESSAGE] * len(waiting),
            *[ReferenceKind.CLAIM] * len(records),
        ]
        held = of_earlier_batches(catalog, archive, progress, keys)
        assert {each.kind for each in held.references} == {ReferenceKind.HELD}
        assert len(held.references) == len(records) + len(waiting)
        assert of_earlier_batches(catalog, archive, -1, keys).references == (), (
            "all of it is of a commit that did not end"
        )


def test_later_headers_are_judged_by_those_that_are_retired() -> None:
    program = Program(Random(3))
    listing, bare = (message(program, some)[0]._replace(source="s") for some in ([binary_file(program, "a", b"x")], []))

    def read(earlier: EarlierState, one: PhysicalMessage, position: int) -> list[Reference]:
        return list(HeaderPass(earlier.remembered("s"), lambda each: each, 9).read(position, one))

    narrowed, begun, claim = read(EarlierState(), listing, 1)
    assert isinstance(narrowed, CommonDialects)
    assert isinstance(begun, MessageBegun)
    assert isinstance(claim, AttachmentClaim)
    (again,) = (each for each in read(EarlierState((begun, claim)), listing, 5) if not isinstance(each, CommonDialects))
    assert isinstance(again, RepeatedHeader)
    assert again.first_position == 1
    assert [*map(type, read(EarlierState(), bare, 5))] == [CommonDialects, MessageBegun], "more than are known"
    assert [*map(type, read(EarlierState((), {"s": narrowed.dialects}), bare, 5))] == [MessageBegun]
