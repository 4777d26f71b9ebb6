"""The journal of a receiver without a disk: objects of a store, appends whose answer is lost, and the fence."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adapters.arrow_journal import ObjectJournal
from adapters.arrow_journal.archive import ArrowArchive
from app.model.errors import GatewayError, JournalTaken
from app.model.message import PhysicalMessage, Position
from app.model.records import JournalIdentity

SHARED = JournalIdentity("f" * 32, 1)


def messages(*bodies: bytes) -> list[PhysicalMessage]:
    return [PhysicalMessage("orders", "sas_queue", body=body) for body in bodies]


@pytest.fixture(params=["folder", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return tmp_path.as_uri() if request.param == "folder" else f"memory://{tmp_path.name}-{id(request)}"


@pytest.fixture
def journal(place: str, tmp_path: Path) -> ObjectJournal:
    return ObjectJournal(place, tmp_path / "cache")


def bodies(archive: ArrowArchive) -> list[bytes]:
    return [bytes(message.body) for _, found in archive.replay(None) for message in found]


def losing(journal: ObjectJournal, monkeypatch: pytest.MonkeyPatch, *, is_added: bool) -> None:
    """Have the next answer of the store be lost."""
    add: Callable[..., bool] = journal._storage.add

    def lost(number: int, pieces: Any) -> bool:
        monkeypatch.setattr(journal._storage, "add", add)
        if is_added:
            add(number, pieces)
        raise GatewayError("the answer is lost")

    monkeypatch.setattr(journal._storage, "add", lost)


def test_each_append_is_an_object_that_others_read(journal: ObjectJournal, place: str, tmp_path: Path) -> None:
    assert journal.append(messages(b"1", b"2")) == [Position(1, 0, 0), Position(1, 0, 1)]
    assert journal.append(messages(*[b"%d" % number for number in range(600)]))[-1] == Position(2, 1, 87)
    assert [segment.number for segment in journal.segments()] == [1, 2]
    assert (journal.end(), journal.append([])) == (Position(2, 1, 87), [])
    other = ArrowArchive(ObjectJournal.place(place, journal.identity().id), tmp_path / "other")
    assert bodies(other) == [b"1", b"2", *(b"%d" % number for number in range(600))]
    assert other.identity() == journal.identity()
    journal.retire(1)
    assert [segment.number for segment in other.segments()] == [2]


@pytest.mark.parametrize("is_added", [True, False])
def test_what_is_appended_again_after_a_lost_answer_is_there_once(
    journal: ObjectJournal, monkeypatch: pytest.MonkeyPatch, is_added: bool
) -> None:
    sent = messages(b"1")
    losing(journal, monkeypatch, is_added=is_added)
    with pytest.raises(GatewayError, match="the answer is lost"):
        journal.append(sent)
    assert journal.append(sent) == [Position(1, 0, 0)]
    assert journal.append(messages(b"2")) == [Position(2, 0, 0)]
    assert bodies(journal) == [b"1", b"2"]


def test_another_append_after_a_lost_answer_has_a_number_of_its_own(
    journal: ObjectJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    losing(journal, monkeypatch, is_added=True)
    with pytest.raises(GatewayError, match="the answer is lost"):
        journal.append(messages(b"1"))
    assert journal.append(messages(b"2")) == [Position(2, 0, 0)]
    assert bodies(journal) == [b"1", b"2"], "the first one was never acknowledged, and comes again"


def test_nothing_is_added_behind_a_fence(journal: ObjectJournal, place: str, tmp_path: Path) -> None:
    journal.append(messages(b"1"))
    other = ArrowArchive(ObjectJournal.place(place, journal.identity().id), tmp_path / "other")
    assert other.fence(1)
    with pytest.raises(JournalTaken, match=r"another receiver has taken .*0000000002\.arrows"):
        journal.append(messages(b"2"))
    assert [segment.number for segment in other.segments()] == [1], "a fence is no segment"
    other.remove(1)
    assert other.segments() == []
    assert other.fence(1), "whoever did not come to the end does it again"
    with pytest.raises(JournalTaken):
        journal.append(messages(b"2"))


def test_a_fence_comes_behind_what_was_published_and_removed(
    journal: ObjectJournal, place: str, tmp_path: Path
) -> None:
    for number in range(3):
        journal.append(messages(b"%d" % number))
        journal.retire(number + 1)
    other = ArrowArchive(ObjectJournal.place(place, journal.identity().id), tmp_path / "other")
    assert other.fence(3)
    with pytest.raises(JournalTaken):
        journal.append(messages(b"4"))


def test_a_segment_that_was_just_added_comes_before_the_fence(
    journal: ObjectJournal, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = ArrowArchive(ObjectJournal.place(place, journal.identity().id), tmp_path / "other")
    listing = other._storage.listing

    def late() -> Any:
        found = listing()
        journal.append(messages(b"1"))
        return found

    monkeypatch.setattr(other._storage, "listing", late)
    assert not other.fence(0)


def test_what_is_published_is_not_fetched(
    journal: ObjectJournal, place: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    journal.append(messages(b"1"))
    journal.append(messages(b"2"))
    if place.startswith("memory"):
        monkeypatch.setattr("adapters.arrow_journal.segment_storage.obstore.get_range", None)
    origin, pieces = journal.published([1, 2], 7, SHARED)
    (tmp_path / "shared").mkdir()
    shared = ArrowArchive(tmp_path / "shared")
    assert shared.add(7, pieces)
    assert (origin.segment, Position.unpack(origin.end)) == (2, Position(7, 1, 0))
    assert bodies(shared) == [b"1", b"2"]
