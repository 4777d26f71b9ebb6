"""Attachments whose messages are spread over several archives come to what they come to in one archive."""

import shutil
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from random import Random

import obstore
import pytest
from pyspark.sql import SparkSession
from structlog.testing import capture_logs

from adapters.arrow_journal import ArrowJournal
from adapters.arrow_journal.archive import ArrowArchive
from adapters.sql_catalog import SqlCatalog
from adapters.storage_places import bucket
from app.main import build
from app.model.attachment import AttachmentState
from app.model.errors import GatewayError
from app.model.message import PhysicalMessage
from app.model.records import CombinedArchives
from app.pipeline.commit.commit import Committer
from app.pipeline.run import batch
from app.pipeline.run.batch import ReprocessingScope
from app.pipeline.run.spark_steps import SparkSteps
from app.service.repair import backup
from app.service.repair.consistency_check import check_all
from app.service.repair.repair_stores import opened
from app.service.roles import receiving
from app.testing.host_results import HostResults, assert_same, in_folder, of_several, settings, tables
from app.testing.waiting import until
from tests.support import group_loads, loads, mixed_journal
from tests.support.damaged_archive import Killed, die_after
from tests.support.length import IS_LONG
from tests.support.local_steps import LocalSteps, opened_run, run_batch
from tests.support.sas_client import disordered


def spread(folders: Sequence[Path], sent: Sequence[PhysicalMessage], random: Random) -> None:
    """Write each message to one of some journals, which seal now and then."""
    journals = [ArrowJournal(folder) for folder in folders]
    timed = [each._replace(received_at=mixed_journal.BEGAN_AT + 1000 * at) for at, each in enumerate(sent)]
    pieces = 5 * len(folders)
    for piece in range(pieces):
        shares: list[list[PhysicalMessage]] = [[] for _ in folders]
        for each in timed[len(timed) * piece // pieces : len(timed) * (piece + 1) // pieces]:
            random.choice(shares).append(each)
        for journal, share in zip(journals, shares, strict=True):
            if share:
                journal.append(share)
            if random.random() < 0.4:
                journal.seal()
    for journal in journals:
        journal.close()


def order_of(out: Path) -> CombinedArchives:
    with closing(SqlCatalog(settings(out).catalog_url)) as catalog:
        found = catalog.combined()
    assert found is not None
    return found


def as_one(out: Path, folder: Path) -> Path:
    """Write one journal with the segments of all archives in the order that the results have."""
    order = order_of(out)
    archives = {journal: ArrowArchive(place) for journal, place in order.places}
    with closing(ArrowJournal(folder)) as journal:
        for number, origin, segment in order.segments:
            for of_batch in range(len(archives[origin].batch_sizes(segment))):
                rows = range(archives[origin].record_batch(segment, of_batch).num_rows)
                journal.append(archives[origin].messages(segment, of_batch, rows))
            journal.seal()
            assert journal.segments()[-1].number == number
    return folder


def finished(results: HostResults) -> dict[str, tuple[str, int, str]]:
    """Return the name, the size and the SHA-256 of each finished attachment."""
    return {
        key: (each["qualifier_2"], each["size"], each["sha256"])
        for key, each in results.attachments.items()
        if each["state"] is AttachmentState.FINISHED
    }


@pytest.fixture
def places(tmp_path: Path) -> list[Path]:
    """Three archives, over which the messages of binary files, text files and data sets are spread."""
    folders = [tmp_path / name for name in "abc"]
    random = Random(11)
    program = mixed_journal.programs(random)["east"]
    sent = [each._replace(source="east") for each in loads.messages(program, loads.mixed(program, 6))]
    spread(folders, disordered(sent, random), random)
    return folders


@pytest.mark.parametrize("seed", range(20 if IS_LONG else 1))
def test_several_archives_are_as_one_in_their_order(tmp_path: Path, seed: int) -> None:
    """With noise, conflicts, duplicates and losses, of several framings and dialects."""
    random = Random(seed)
    a, b, c = (tmp_path / name for name in "abc")
    spread([a, b, c], mixed_journal.traffic(random, 3, 40_000), random)
    assert min(len(ArrowArchive(each).segments()) for each in (a, b, c)) > 1
    out, alone = tmp_path / "out", tmp_path / "alone"
    assert run_batch(out, [b, a]) is not None
    before = finished(of_several(out))
    assert run_batch(out, [c, b, a]) is not None
    assert before.items() < finished(of_several(out)).items()
    one = as_one(out, tmp_path / "one")
    assert run_batch(alone, one) is not None
    assert_same(of_several(out), in_folder(alone, one), settled=True)
    assert tables(out) == tables(alone)
    again = run_batch(out, [b, c, a])
    assert again is not None
    assert again.was_known


def test_the_order_in_which_they_are_named_does_not_matter(places: list[Path], tmp_path: Path) -> None:
    one, other, copied = (tmp_path / name for name in ("one", "other", "copied"))
    assert run_batch(one, places) is not None
    assert run_batch(other, [places[1], places[2], places[0]]) is not None
    copies = [shutil.copytree(place, copied / place.name, copy_function=shutil.copyfile) for place in reversed(places)]
    assert run_batch(copied, copies) is not None
    for out in (other, copied):
        assert order_of(out).segments == order_of(one).segments
        assert_same(of_several(out), of_several(one), settled=True)
        assert tables(out) == tables(one)
    assert len(finished(of_several(one))) == 6


def test_on_spark_all_that_was_sent_is_finished_once(tmp_path: Path, spark: SparkSession) -> None:
    random = Random(7)
    program = mixed_journal.programs(random)["south"]
    sent = [each._replace(source="south") for each in loads.messages(program, loads.mixed(program, 3))]
    sent += [each._replace(source="groups") for file in group_loads.files(random)[6:12] for each in file.messages]
    sent = disordered(sent, random)
    a, b, c, one = (tmp_path / name for name in ("a", "b", "c", "one"))
    spread([a, b, c], sent, random)
    spread([one], sent, random)
    out, whole = tmp_path / "out", tmp_path / "whole"
    assert run_batch(whole, one) is not None
    assert run_batch(out, [a, b]) is not None
    with opened_run(out, [c, b, a]) as run:
        assert batch.run(SparkSteps(spark), run) is not None
    assert finished(of_several(out)) == finished(in_folder(whole, one))
    assert len(finished(of_several(out))) == 3 + 6
    mine, theirs = tables(out), tables(whole)
    assert {name: rows for name, (rows, _) in mine.items()} == {name: rows for name, (rows, _) in theirs.items()}


def test_segments_that_come_later_are_taken_by_the_next_run(places: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    a, b, c = places
    assert run_batch(out, places) is not None
    known, before = order_of(out), finished(of_several(out))
    later = tmp_path / "later"
    random = Random(12)
    program = mixed_journal.programs(random)["west"]
    spread([later], [each._replace(source="west") for each in loads.messages(program, loads.mixed(program, 2))], random)
    for folder in (c, a):
        with closing(ArrowJournal(folder)) as journal:
            for _, messages in ArrowArchive(later).replay(None):
                journal.append(messages)
    assert finished(of_several(out)) == before
    assert run_batch(out, [c, b, a]) is not None
    now = order_of(out)
    assert now.segments[: len(known.segments)] == known.segments
    assert [each.journal for each in now.segments[len(known.segments) :]] == [of(c), of(a)]
    assert len(finished(of_several(out))) == len(before) + 2


def of(archive: Path) -> str:
    identity = ArrowArchive(archive).identity()
    assert identity is not None
    return identity.id


def test_archives_are_added_to_one_whose_commit_was_interrupted(
    places: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the catalog has of the first archive keeps its positions, also content that stays in place."""
    a, b, c = places
    out, whole = tmp_path / "out", tmp_path / "whole"
    with monkeypatch.context() as patched:
        die_after(patched, Committer, "_commit_tables")
        with pytest.raises(Killed):
            run_batch(out, a, in_place=True)
    for named in ([a], [b, a], [c, a, b]):
        assert run_batch(out, named, in_place=True) is not None
    assert order_of(out).segments[0].journal == of(a)
    assert run_batch(whole, as_one(out, tmp_path / "one")) is not None
    assert_same(of_several(out), in_folder(whole, tmp_path / "one"), settled=False)
    assert tables(out) == tables(whole)


def test_an_archive_may_be_moved_to_an_object_store(places: list[Path], tmp_path: Path) -> None:
    a, b, c = places
    out = tmp_path / "out"
    assert run_batch(out, [a, b], in_place=True) is not None
    url = f"memory://{tmp_path.name}-combining"
    for segment in b.glob("*.arrows"):
        obstore.put(bucket(url), segment.name, segment)
    shutil.rmtree(b)
    assert run_batch(out, [c, url, a], in_place=True) is not None
    assert len(finished(of_several(out))) == 6


def test_a_segment_that_was_missing_is_put_back(places: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run_batch(out, places) is not None
    known, before = order_of(out), finished(of_several(out))
    lost = next(each for each in known.segments if each.journal == of(places[1]) and each.segment == 2)
    path = places[1] / f"{lost.segment:010}.arrows"
    aside = path.rename(tmp_path / path.name)
    with capture_logs() as logs:
        found = run_batch(out, places)
    assert found is not None
    assert found.missing == ((lost.number, lost.number),)
    assert {"segments": "2", "journal": str(places[1])}.items() <= next(iter(logs)).items()
    aside.rename(path)
    found = run_batch(out, places, ReprocessingScope(lost.number))
    assert found is not None
    assert (found.missing, order_of(out), finished(of_several(out))) == ((), known, before)
    found = run_batch(out, places, ReprocessingScope(since=mixed_journal.BEGAN_AT))
    assert (found, finished(of_several(out))) == (found and found._replace(was_known=True), before)


def test_a_segment_that_no_run_has_seen_comes_last(places: list[Path], tmp_path: Path) -> None:
    out, whole = tmp_path / "out", tmp_path / "whole"
    late = places[0] / "0000000002.arrows"
    aside = late.rename(tmp_path / late.name)
    assert run_batch(out, places) is not None
    aside.rename(late)
    for _ in range(2):
        assert run_batch(out, places) is not None
    last = order_of(out).segments[-1]
    assert last[1:] == (of(places[0]), 2)
    with opened_run(out, places) as run:
        assert [last.number] in run.archive.sequences()
        with closing(ArrowJournal(places[0])) as journal:
            for _, messages in run.archive.replay(None):
                journal.append(messages)
    assert run_batch(out, places) is not None
    assert run_batch(whole, as_one(out, tmp_path / "one")) is not None
    assert_same(of_several(out), in_folder(whole, tmp_path / "one"), settled=True)


def test_what_cannot_be_right_is_refused(places: list[Path], tmp_path: Path) -> None:
    a, b, c = places
    out, empty, copy, damaged = (tmp_path / name for name in ("out", "empty", "copy", "damaged"))
    empty.mkdir()
    shutil.copytree(b, copy)
    shutil.copytree(c, damaged)
    for segment in damaged.glob("*.arrows"):
        segment.write_bytes(bytes(4096) + segment.read_bytes()[4096:])
    for wrong, why in (
        ([a, empty], f"no sealed segment in {empty}"),
        ([a, damaged], f"segments in {damaged} do not say of which journal"),
        ([b, a, copy], f"{b} and {copy} are archives of the same journal {of(b)}: name one"),
        ([a, tmp_path / "nowhere"], "no such folder"),
    ):
        with pytest.raises(GatewayError, match=why):
            run_batch(out, wrong)
    assert run_batch(out, [a, b]) is not None
    before = finished(of_several(out))
    for fewer in ([a], [a, c]):
        with pytest.raises(
            GatewayError, match=f"messages of {b} of journal {of(b)} too, and only {a}.* is named: name"
        ):
            run_batch(out, fewer)
    assert finished(of_several(out)) == before
    alone = tmp_path / "alone"
    assert run_batch(alone, c) is not None
    with pytest.raises(GatewayError, match=f"messages of the archive of journal {of(c)} too, and only"):
        run_batch(alone, [a, b])


def test_a_gateway_does_not_continue_them_and_only_serves(places: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run_batch(out, places, in_place=True) is not None
    chosen = settings(out)
    for roles in ("serve", "keep"), ("receive", "serve", "keep"):
        with pytest.raises(GatewayError, match="results of several archives"):
            build(chosen.model_copy(update={"roles": frozenset(roles)})).start()
    gateway = build(chosen.model_copy(update={"roles": frozenset(["serve"])}))
    record = next(each for each in gateway.catalog.unsettled_attachments(1 << 62, 1))
    content = gateway.contents.open(record)
    assert sum(len(each) for each in content.read(0, content.size)) == record.size
    gateway.catalog.close()
    with opened(chosen, write=False) as stores:
        assert [*check_all(stores, Silent())] == []
        with pytest.raises(GatewayError, match="results of several archives, and a backup"):
            backup.back_up(stores, stores.store, Silent())
    with pytest.raises(GatewayError, match="results of several archives"), opened(chosen, write=True):
        pass


def test_a_process_that_serves_one_archive_ends_when_there_are_more(
    places: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "LOOK_SECONDS", 0.05)
    out, reasons = tmp_path / "out", list[str]()
    assert run_batch(out, places[0]) is not None
    gateway = build(settings(out).model_copy(update={"roles": frozenset(["serve"])}))
    gateway.on_taken = reasons.append
    gateway.receiving.start()
    assert run_batch(out, places) is not None
    until(lambda: reasons != [])
    gateway.stop()
    assert reasons[0].startswith("the catalog has results of several archives now")


class Silent:
    """Progress that nobody sees."""

    def begin(self, work: str, total: int | None) -> None:
        pass

    def advance(self, amount: int) -> None:
        pass


def test_the_catalog_of_a_gateway_that_receives_stays_its_own(places: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    with closing(SqlCatalog(settings(out).catalog_url)) as catalog:
        catalog.save_receiving_time({"east": 9}, [], {})
    with pytest.raises(GatewayError, match="of a gateway that receives"):
        run_batch(out, places)
    with opened_run(out, places[0]) as run:
        assert batch.run(LocalSteps(), run) is not None
