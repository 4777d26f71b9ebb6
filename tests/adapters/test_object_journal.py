"""The journal of a receiver without a disk: objects of a store, appends whose answer is lost, and the fence."""

from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import obstore
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
    assert journal.begin_append(messages(b"1", b"2"))() == [Position(1, 0, 0), Position(1, 0, 1)]
    assert journal.begin_append(messages(*[b"%d" % number for number in range(600)]))()[-1] == Position(2, 1, 87)
    assert [segment.number for segment in journal.segments()] == [1, 2]
    assert journal.end() == Position(2, 1, 87)
    other = ArrowArchive(ObjectJournal.place(place, journal.identity().id), tmp_path / "other")
    assert bodies(other) == [b"1", b"2", *(b"%d" % number for number in range(600))]
    assert other.identity() == journal.identity()
    journal.retire(1)
    assert [segment.number for segment in other.segments()] == [2]


@pytest.mark.parametrize("is_added", [True, False])
def test_what_is_put_again_after_a_lost_answer_is_there_once(
    journal: ObjectJournal, monkeypatch: pytest.MonkeyPatch, is_added: bool
) -> None:
    losing(journal, monkeypatch, is_added=is_added)
    put = journal.begin_append(messages(b"1"))
    with pytest.raises(GatewayError, match="the answer is lost"):
        put()
    assert journal.begin_append(messages(b"2"))() == [Position(2, 0, 0)]
    assert journal.segments() == [], "nothing counts behind what is not known to be there"
    assert put() == [Position(1, 0, 0)]
    assert bodies(journal) == [b"1", b"2"]


def test_an_object_that_others_have_published_and_removed_meanwhile_is_put_again(
    journal: ObjectJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    losing(journal, monkeypatch, is_added=True)
    put = journal.begin_append(messages(b"1"))
    with pytest.raises(GatewayError, match="the answer is lost"):
        put()
    find = journal._storage.find

    def removed(number: int) -> Any:
        monkeypatch.setattr(journal._storage, "find", find)
        journal._storage.remove(number)
        return find(number)

    monkeypatch.setattr(journal._storage, "find", removed)
    with pytest.raises(GatewayError, match="was removed while it was put"):
        put()
    assert put() == [Position(1, 0, 0)]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_objects_that_are_put_at_once_count_in_their_order(
    journal: ObjectJournal, place: str, tmp_path: Path, order: tuple[int, ...]
) -> None:
    other = ArrowArchive(ObjectJournal.place(place, journal.identity().id), tmp_path / "other")
    puts = [journal.begin_append(messages(b"%d" % number)) for number in range(3)]
    done: set[int] = set()
    for number in order:
        assert puts[number]() == [Position(number + 1, 0, 0)]
        done.add(number)
        first = next((each for each in range(3) if each not in done), 3)
        assert [segment.number for segment in journal.segments()] == list(range(1, first + 1))
        assert journal.end() == (Position(first, 0, 0) if first else None)
        assert [segment.number - 1 for segment in other.segments()] == sorted(done)


def test_nothing_is_added_behind_a_fence(journal: ObjectJournal, place: str, tmp_path: Path) -> None:
    journal.begin_append(messages(b"1"))()
    other = ArrowArchive(ObjectJournal.place(place, journal.identity().id), tmp_path / "other")
    assert other.fence(1)
    with pytest.raises(JournalTaken, match=r"another receiver has taken .*0000000002\.arrows"):
        journal.begin_append(messages(b"2"))()
    assert [segment.number for segment in other.segments()] == [1], "a fence is no segment"
    other.remove(1)
    assert other.segments() == []
    assert other.fence(1), "whoever did not come to the end does it again"
    journal.begin_append(messages(b"3"))()
    assert journal.end() == Position(1, 0, 0), "nothing counts behind a fence"


def test_a_fence_comes_behind_what_was_published_and_removed(
    journal: ObjectJournal, place: str, tmp_path: Path
) -> None:
    for number in range(3):
        journal.begin_append(messages(b"%d" % number))()
        journal.retire(number + 1)
    other = ArrowArchive(ObjectJournal.place(place, journal.identity().id), tmp_path / "other")
    assert other.fence(3)
    with pytest.raises(JournalTaken):
        journal.begin_append(messages(b"4"))()


def test_a_fence_is_not_put_behind_a_segment(journal: ObjectJournal, place: str, tmp_path: Path) -> None:
    other = ArrowArchive(ObjectJournal.place(place, journal.identity().id), tmp_path / "other")
    journal.begin_append(messages(b"1"))()
    assert not other.fence(0)
    assert journal.begin_append(messages(b"2"))() == [Position(2, 0, 0)]


def test_what_is_published_is_not_fetched(
    journal: ObjectJournal, place: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    journal.begin_append(messages(b"1"))()
    journal.begin_append(messages(b"2"))()
    if place.startswith("memory"):
        monkeypatch.setattr("adapters.arrow_journal.segment_storage.obstore.get_range", None)
    origin, pieces = journal.published([1, 2], 7, SHARED)
    (tmp_path / "shared").mkdir()
    shared = ArrowArchive(tmp_path / "shared")
    assert shared.add(7, pieces)
    assert (origin.segment, Position.unpack(origin.end)) == (2, Position(7, 1, 0))
    assert bodies(shared) == [b"1", b"2"]


def test_many_objects_are_removed_at_once(
    journal: ObjectJournal, place: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for number in range(5):
        journal.begin_append(messages(b"%d" % number))()
    journal.retire(2)
    requests: list[Any] = []
    delete = obstore.delete

    def counted(store: Any, names: Any) -> None:
        requests.append(names)
        delete(store, names)

    monkeypatch.setattr(obstore, "delete", counted)
    other = ArrowArchive(ObjectJournal.place(place, journal.identity().id), tmp_path / "other")
    other.remove(1, 2, 3, 4)  # 2 is gone
    assert bodies(other) == [b"4"]
    assert len(requests) == place.startswith("memory")
