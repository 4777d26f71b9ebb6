"""A receiver publishes what it has received, whatever fails, and whoever else does."""

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from random import Random
from time import sleep
from typing import Any

import pytest

from adapters.arrow_journal import ArrowJournal, ObjectJournal
from adapters.arrow_journal.archive import ArrowArchive
from adapters.arrow_journal.segment_storage import FolderSegments
from app.model.errors import CatalogError, GatewayError, JournalTaken
from app.model.message import PhysicalMessage, Position
from app.model.records import Publication
from app.ports import ArchivedJournal, AttachmentFilter
from app.service.receiving.publishing import LOOK_SECONDS, TURN, Publisher, archived_journal
from app.testing.gateway_stages import ManualClock, service_context
from tests.support.kept import assemble
from tests.support.receivers_together import SOURCE, CalledWith, ReceiversTogether
from tests.support.sas_client import Program, binary_file, disordered, message


@pytest.fixture
def place(tmp_path: Path) -> Iterator[ReceiversTogether]:
    with service_context(tmp_path, ManualClock()) as context:
        found = ReceiversTogether(tmp_path, context)
        yield found
        for journal in found.journals.values():
            journal.close()


def fails(*_: Any, **__: Any) -> Any:
    raise CatalogError("the database is down")


def fails_after(method: Callable[..., Any], *given: Any) -> Any:
    method(*given)
    raise GatewayError("the answer is lost")


def test_several_segments_become_one_in_the_order_of_the_receivers(place: ReceiversTogether) -> None:
    one, two = place.begin("one"), place.begin("two")
    one.receive(b"1")
    one.receive(b"2", b"3")
    two.receive(b"4")
    one.context.journal.append([PhysicalMessage(SOURCE, "sas_queue", body=b"not sealed")])
    two.publisher.publish()
    one.publisher.publish()
    one.publisher.publish()
    assert place.archived() == [b"4", b"1", b"2", b"3"]
    assert [each.number for each in place.archive.segments()] == [1, 2]
    assert sorted(place.published()) == [1, 2]
    assert (one.retirable, two.retirable) == ([1, 2], [1])
    last = [positions[-1] for positions, _ in place.archive.replay(None)][-1]
    assert place.catalog.published() == last.pack()


def test_what_is_asked_for_is_published_at_once_and_then_said(place: ReceiversTogether) -> None:
    one = place.begin("one")
    journal = one.context.journal

    def owes() -> bool:
        (known,) = place.catalog.receiving_journals()
        return known.owes

    def look() -> None:
        one.publisher._looked_at = -LOOK_SECONDS
        one.publisher.publish()

    journal.append([PhysicalMessage(SOURCE, "sas_queue", body=b"not sealed")])
    look()
    assert place.archived() == []
    one.archive["add"] = fails
    place.catalog.ask_to_publish()
    for _ in range(3):
        look()
        journal.append([PhysicalMessage(SOURCE, "sas_queue", body=b"later")])
    assert (one.error, owes()) == ("the database is down", True)
    assert len(journal.segments()) == 2, "only what there was when it was asked is sealed early"
    one.archive.clear()
    one.publisher.publish()
    assert (place.archived(), owes()) == ([b"not sealed"], False)

    # One that has stopped owes nothing, unless it could not publish all. It does again when it is back.
    journal.seal()
    one.publisher.leave()
    place.catalog.ask_to_publish()
    assert not owes()
    one = place.begin("one")
    assert owes()
    one.publisher.publish()
    assert owes(), "the numbers of these segments are published, but they are not compared yet"
    one.context.journal.retire(*one.retirable)
    look()
    assert not owes()
    one.receive(b"last")
    one.archive["add"] = fails
    one.publisher.leave()
    place.catalog.ask_to_publish()
    assert owes()


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("which", ["add", "record_published"])
@pytest.mark.parametrize("fault", [fails, fails_after])
def test_what_fails_is_repeated_and_published_once(
    place: ReceiversTogether, which: str, fault: Callable[..., Any], ends: bool
) -> None:
    one, two = place.begin("one"), place.begin("two")
    one.receive(b"1")
    two.receive(b"2")
    (one.archive if which == "add" else one.catalog)[which] = fault
    one.publisher.publish()
    assert one.error is not None
    assert one.retirable == [], "nothing is retired before it is known to be recorded"
    if ends:
        one = place.begin("one")
    else:
        one.catalog.clear()
        one.archive.clear()
    two.publisher.publish()
    one.publisher.publish()
    assert sorted(place.archived()) == [b"1", b"2"]
    assert (one.error, one.retirable, two.retirable) == (None, [1], [1])


@pytest.mark.parametrize("call", ["published", "receiving_journal", "add", "record_published", "release_lease"])
def test_a_receiver_stands_still_while_another_publishes(place: ReceiversTogether, call: str) -> None:
    """Also one that the same journal was opened after."""
    one, two = place.begin("one"), place.begin("two")
    two.receive(b"2")
    one.receive(b"1")

    def still(method: Callable[..., Any], *given: Any) -> Any:
        del calls[call]
        for _ in range(2):
            place.end_lease()
            two.publisher.publish()
            two.receive(b"3")
        assert two.error is None
        return method(*given)

    calls = one.archive if call == "add" else one.catalog
    calls[call] = still
    one.publisher.publish()
    two.publisher.publish()
    assert (one.error, two.error) == (None, None)
    assert sorted(place.archived()) == [b"1", b"2", b"3", b"3"]
    assert (one.retirable, two.retirable) == ([1], [1, 2, 3])


@pytest.mark.parametrize("call", ["published", "receiving_journal", "add", "record_published"])
@pytest.mark.parametrize("instance", ["the same", "another"])
def test_a_process_stands_still_while_the_next_one_publishes_from_its_journal(
    place: ReceiversTogether, call: str, instance: str
) -> None:
    one = place.begin("one", instance="the same")
    one.receive(b"1")
    one.receive(b"2")

    def still(method: Callable[..., Any], *given: Any) -> Any:
        del calls[call]
        place.end_lease()
        following = place.begin("one", place.journals["one"], instance)
        following.publisher.publish()
        assert (following.error, following.retirable) == (None, [1, 2])
        return method(*given)

    calls = one.archive if call == "add" else one.catalog
    calls[call] = still
    one.publisher.publish()
    one.publisher.publish()
    assert place.archived() == [b"1", b"2"]
    is_refused = one.error is not None and "another has opened the journal" in one.error
    assert is_refused == (instance == "another")


def test_a_catalog_that_was_put_back_does_not_end_a_receiver(place: ReceiversTogether) -> None:
    """It knows the process that had the journal before."""
    one = place.begin("one")
    one.receive(b"1")
    one.catalog["receiving_journal"] = lambda method, journal: (
        (known := method(journal)) and known._replace(receiver="one before", opened_at=known.opened_at - 1)
    )
    one.publisher.publish()
    assert (one.publisher.taken, "one before" in (one.error or "")) == (None, True)
    one.catalog.clear()
    one.publisher.publish()
    assert (one.error, place.archived()) == (None, [b"1"])


def test_only_one_publishes_at_a_time(place: ReceiversTogether) -> None:
    one, two = place.begin("one"), place.begin("two")
    one.receive(b"1")
    lease = place.catalog.take_lease(TURN, "two", 60.0)
    assert lease is not None
    one.publisher.publish()
    assert (one.error, place.archived()) == (None, [])
    place.catalog.release_lease(lease)
    two.publisher.publish()  # has nothing, and takes no turn
    one.publisher.publish()
    assert place.archived() == [b"1"]


def test_a_receiver_that_was_made_to_leave_publishes_and_joins_again(place: ReceiversTogether) -> None:
    one = place.begin("one")
    one.receive(b"1")
    one.publisher.publish()
    one.receive(b"2")
    assert place.catalog.leave(one.context.journal.identity().id)
    assert place.catalog.receiving_journals() == []
    one.publisher._looked_at = -LOOK_SECONDS
    one.publisher.publish()
    assert (one.error, place.archived(), place.published()) == (None, [b"1", b"2"], [2])


def test_a_segment_of_a_gateway_that_archives_alone_is_not_passed_over(place: ReceiversTogether) -> None:
    one = place.begin("one")
    with closing(ArrowJournal(place.folder / "alone")) as alone:
        alone.append([PhysicalMessage(SOURCE, "sas_queue", body=b"x")])
        alone.seal()
        assert place.archive.add(1, alone.segment_bytes(1))
    one.receive(b"1")
    one.publisher.publish()
    assert "another gateway archives its own journal" in (one.error or "")
    assert one.retirable == []


def test_a_catalog_that_is_older_than_the_archive_is_brought_up_to_date(place: ReceiversTogether) -> None:
    one, two = place.begin("one"), place.begin("two")
    journals = {each.context.journal.identity().id: each for each in (one, two)}
    for number, each in enumerate((one, two, one), 1):
        each.receive(b"%d" % number)
        each.publisher.publish()
    for journal in journals:
        place.catalog.leave(journal)
    with service_context(place.folder / "new") as context:
        place.catalog = context.catalog
        one = place.begin("one")
        assert (Position.unpack(place.catalog.published()).segment, one.retirable) == (3, [1, 2])
        assert place.published() == [2], "one that has not joined again counts as one that has left"
        one.receive(b"4")
        one.publisher.publish()
        assert place.archived() == [b"1", b"2", b"3", b"4"]
        assert (one.error, place.published()) == (None, [3])


def test_what_the_archive_has_is_told_apart(place: ReceiversTogether) -> None:
    assert archived_journal(place.archive)[1:] == (0, 0)
    with closing(ArrowJournal(place.folder / "alone")) as alone:
        for body in (b"1", b"2"):
            alone.append([PhysicalMessage(SOURCE, "sas_queue", body=body)] * 700)
            alone.seal()
        for number in (1, 2):
            assert place.archive.add(number, alone.segment_bytes(number))
        last = alone.end()
        assert last is not None
        wanted = ArchivedJournal(alone.identity(), last.pack(), 2)
        assert archived_journal(place.archive) == wanted
        alone.append([PhysicalMessage(SOURCE, "sas_queue", body=b"3")])
        alone.seal()
        for number in (3, 4):
            assert place.archive.add(number, alone.published([3], number, alone.identity())[1])
            assert archived_journal(place.archive) == wanted._replace(newest=number)
    for number in (1, 2):
        (place.folder / "archive" / f"000000000{number}.arrows").unlink()
    assert archived_journal(ArrowArchive(place.folder / "archive")) == (
        wanted.journal,
        Position(3, 0, 0).pack() - 1,
        4,
    )


def test_a_place_is_behind_what_was_received_and_before_what_came_later(place: ReceiversTogether) -> None:
    one, two = place.begin("one"), place.begin("two")
    assert one.publisher.place(-1) == (0, 0)
    first = one.receive(b"1").pack()
    assert one.publisher.place(first) is None
    second = one.receive(b"2").pack()
    one.archive["add"] = fails
    one.publisher.publish()
    two.receive(b"3")
    two.publisher.publish()
    before = place.catalog.published()
    third = one.receive(b"4").pack()
    del one.archive["add"]
    one.publisher.publish()
    two.receive(b"5")
    two.publisher.publish()
    present = place.catalog.published()
    for position in (first, second):
        reached = one.publisher.place(position)
        assert reached is not None
        assert before <= reached.before < Position(2, 0, 0).pack()
        assert reached.last == present
    assert one.publisher.place(third) == (present, present), "one that receives nothing waits for nothing"
    assert place.begin("one").publisher.place(third) == (present, present)


def test_a_segment_with_another_end_than_its_number_is_refused(place: ReceiversTogether) -> None:
    one = place.begin("one")
    one.receive(b"1")
    one.publisher.publish()
    one.receive(b"2")
    one.archive["add"] = lambda _method, *_: False
    one.archive["origin"] = lambda _method, _number: Publication("x", 1, Position(3, 0, 0).pack())
    one.publisher.publish()
    assert "says that it ends at" in (one.error or "")


def test_an_archive_is_listed_once_for_all_messages_that_are_assembled(
    place: ReceiversTogether, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program(Random(1), body_limit=100)
    attached = [binary_file(program, f"file {number}", program.random.randbytes(1000)) for number in range(2)]
    one = place.begin("one")
    for sent in disordered(message(program, attached), program.random):
        one.context.journal.append([sent._replace(source=SOURCE)])
    one.context.journal.seal()
    one.publisher.publish()

    listings, listing = [], FolderSegments.listing

    def counted(*given: Any) -> Any:
        listings.append(given)
        return listing(*given)

    monkeypatch.setattr(FolderSegments, "listing", counted)
    archive: Any = ArrowArchive(place.folder / "archive", is_growing=True)
    place.catalog.bind(archive.identity())
    listings.clear()
    assemble(replace(place.context, journal=archive))
    found, _ = place.catalog.attachments(AttachmentFilter(), None, 10)
    assert sorted(str(each.sha256) for each in found) == sorted(each.sha256 for each in attached)
    assert len(listings) == 1


def test_a_segment_that_is_gone_before_it_is_read_is_named(place: ReceiversTogether) -> None:
    """Another receiver has taken over a journal and publishes it, while its own process goes on."""

    def gone(method: Callable[..., Any], segments: list[int], *given: Any) -> Any:
        journal.retire(segments[0])
        return method(segments, *given)

    with closing(ArrowJournal(place.folder / "one")) as journal:
        own: Any = CalledWith(journal, {"published": gone})
        one = place.begin("one", own)
        one.receive(b"1")
        one.receive(b"2")
        one.publisher.publish()
        assert f"segment 1 of the journal {journal.identity().id} is gone: " in (one.error or "")
        assert place.archived() == []


def test_two_gateways_that_archive_in_one_place_are_told(place: ReceiversTogether) -> None:
    one = place.begin("one")
    with service_context(place.folder / "another gateway") as context:
        other = ReceiversTogether(place.folder, context)
        two = other.begin("two")
        for each in (one, two):
            each.receive(b"1")
            each.publisher.publish()
        assert one.error is None
        assert "give each gateway an archive of its own" in (two.error or "")
        assert (two.retirable, other.published()) == ([], [0])
        other.journals["two"].close()


def without_disk(place: ReceiversTogether, name: str) -> tuple[Publisher, ObjectJournal]:
    """Begin a process whose journal is in the place of the archive."""
    archive = (place.folder / "archive").as_uri()
    journal = place.context.settings.journal.model_copy(update={"archive_url": archive, "ack": "archive"})
    settings = place.context.settings.model_copy(update={"journal": journal})
    own = ObjectJournal(archive)
    context: Any = replace(place.context, settings=settings, journal=own, instance=name)  # type: ignore[arg-type]
    return Publisher(context, ArrowArchive(place.folder / "archive", is_growing=True), ["orders"]), own


def test_what_a_killed_receiver_without_a_disk_has_left_is_published_by_another_one(
    place: ReceiversTogether, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, killed = without_disk(place, "killed")
    other, own = without_disk(place, "other")
    killed.begin_append([PhysicalMessage("orders", "sas_queue", body=body) for body in (b"1", b"2")])()
    killed.begin_append([PhysicalMessage("orders", "sas_queue", body=b"3")])()
    own.begin_append([PhysicalMessage("orders", "sas_queue", body=b"4")])()
    monkeypatch.setattr("app.service.receiving.publishing.TAKEN_OVER_SECONDS", 0.0)
    sleep(0.01)
    leave, failures = place.catalog.leave, [CatalogError("the database is away")]

    def failing(journal: str, **how: bool) -> bool:
        if failures:
            raise failures.pop()
        return leave(journal, **how)

    monkeypatch.setattr(place.catalog, "leave", failing)
    other.publish()
    assert place.archived() == [b"4", b"1", b"2", b"3"]
    with pytest.raises(JournalTaken):  # it was only paused
        killed.begin_append([PhysicalMessage("orders", "sas_queue", body=b"5")])()
    assert killed.identity().id in {each.id for each in place.catalog.receiving_journals()}

    other._looked_at = -LOOK_SECONDS
    other.publish()
    assert (other.check()["error"], place.archived()) == (None, [b"4", b"1", b"2", b"3"])
    assert [each.id for each in place.catalog.receiving_journals()] == [own.identity().id]
    other.leave()
    assert place.catalog.receiving_journals() == []


def test_a_receiver_without_a_disk_says_that_it_has_published(place: ReceiversTogether) -> None:
    publisher, journal = without_disk(place, "own")
    for body in (b"1", b"2"):
        journal.begin_append([PhysicalMessage("orders", "sas_queue", body=body)])()
    place.catalog.ask_to_publish()
    publisher._looked_at = -LOOK_SECONDS
    publisher.publish()
    assert place.archived() == [b"1", b"2"]
    assert [each.owes for each in place.catalog.receiving_journals()] == [False]


def test_who_was_paused_has_acknowledged_nothing_that_is_not_published(
    place: ReceiversTogether, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three objects are on their way when their receiver is paused. Each arrives before another receiver looks for what
    it has left, between publishing and the fence, or later."""
    monkeypatch.setattr("app.service.receiving.publishing.TAKEN_OVER_SECONDS", 0.0)
    other, _ = without_disk(place, "other")
    fence = ArrowArchive.fence
    for moments in product(("before", "between", "after"), repeat=3):
        archived = len(place.archived())
        _, paused = without_disk(place, "paused")
        sent = [b"%d" % number for number in range(3)]
        puts = [paused.begin_append([PhysicalMessage("orders", "sas_queue", body=body)]) for body in sent]
        arrived: set[int] = set()

        def arrive(moment: str) -> None:
            for number in [at for at in range(3) if moments[at] == moment and at not in arrived]:  # noqa: B023
                with suppress(JournalTaken):
                    puts[number]()  # noqa: B023
                    arrived.add(number)  # noqa: B023

        def fenced(archive: ArrowArchive, after: int) -> bool:
            arrive("between")
            return fence(archive, after)

        monkeypatch.setattr(ArrowArchive, "fence", fenced)
        arrive("before")
        for _ in range(3):
            other._looked_at = -LOOK_SECONDS
            other.publish()
            assert other.check()["error"] is None
        arrive("after")
        acknowledged = [body for at, body in enumerate(sent) if set(range(at + 1)) <= arrived]
        published = place.archived()[archived:]
        assert published[: len(acknowledged)] == acknowledged, moments
        assert published == sent[: len(published)], moments
        assert paused.identity().id not in {each.id for each in place.catalog.receiving_journals()}


def test_a_fence_that_comes_late_removes_nothing(place: ReceiversTogether, monkeypatch: pytest.MonkeyPatch) -> None:
    """A receiver that is taken for dead is at work: it publishes and retires before the fence of another one, which
    so gets a number that was used before."""
    publisher, working = without_disk(place, "working")
    other, _ = without_disk(place, "other")
    first, gap, behind = (
        working.begin_append([PhysicalMessage("orders", "sas_queue", body=b"%d" % number)]) for number in range(3)
    )
    fence = ArrowArchive.fence

    def late(archive: ArrowArchive, after: int) -> bool:
        place.end_lease()
        first()
        publisher.publish()
        working.retire(1)
        behind()
        return fence(archive, after)

    monkeypatch.setattr("app.service.receiving.publishing.TAKEN_OVER_SECONDS", 0.0)
    sleep(0.01)
    with monkeypatch.context() as late_fence:
        late_fence.setattr(ArrowArchive, "fence", late)
        other.publish()
    gap()  # now all three are acknowledged
    publisher.publish()
    assert (publisher.check()["error"], place.archived()) == (None, [b"0", b"1", b"2"])


def test_who_removes_what_another_one_has_left_is_seen_at_work(
    place: ReceiversTogether, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.service.receiving.publishing.TAKEN_OVER_SECONDS", 0.0)
    monkeypatch.setattr("app.service.receiving.publishing.LOOK_SECONDS", 0.0)
    monkeypatch.setattr("app.service.receiving.publishing.REMOVED_AT_ONCE", 2)
    _, killed = without_disk(place, "killed")
    other, own = without_disk(place, "other")
    for number in range(5):
        killed.begin_append([PhysicalMessage("orders", "sas_queue", body=b"%d" % number)])()
    sleep(0.01)
    steps: list[str] = []
    see, remove = place.catalog.see, ArrowArchive.remove

    def seen(journal: str) -> None:
        steps.append(journal)
        see(journal)

    def removes(archive: ArrowArchive, *segments: int) -> None:
        steps.append("removes")
        remove(archive, *segments)

    monkeypatch.setattr(place.catalog, "see", seen)
    monkeypatch.setattr(ArrowArchive, "remove", removes)
    other.publish()
    assert steps.count("removes") == 3
    assert all(before == own.identity().id for before, step in pairwise(steps) if step == "removes")
