"""The journal that receivers share: who has published what, and whose receiving time counts."""

import pytest

from app.model.errors import CatalogTaken, GatewayError
from app.model.message import Position
from app.model.records import ALONE, Checkpoint, JournalIdentity, Publication, ReceivingMark
from app.ports import ACTIVE, ArchivedJournal, Catalog
from tests.contracts.catalog.records import attachment, keep

SHARED, FIRST, SECOND = (JournalIdentity(letter * 32, 1) for letter in "abc")
EMPTY = ArchivedJournal(SHARED, 0, 0)
SOURCES = ("quay",)


def at(segment: int, row: int = 4) -> int:
    return Position(segment, 2, row).pack()


def joined(catalog: Catalog, *journals: JournalIdentity, archived: ArchivedJournal = EMPTY) -> None:
    for number, journal in enumerate(journals):
        assert catalog.join(journal, f"receiver {number}", SOURCES, archived) == SHARED


def published(catalog: Catalog) -> dict[str, int]:
    return {each.id: each.published for each in catalog.receiving_journals()}


class Sharing:
    """A part of `CatalogContract`, which the tests of adapters inherit."""

    def test_receivers_join(self, catalog: Catalog) -> None:
        assert (catalog.published(), catalog.receiving_journals()) == (0, [])
        joined(catalog, FIRST)
        assert catalog.journal_identity() == SHARED
        other = EMPTY._replace(journal=JournalIdentity("d" * 32, 1))
        assert catalog.join(SECOND, "receiver 1", SOURCES, other) == SHARED, "the catalog is of one journal"
        found = catalog.receiving_journals()
        assert [(each.id, each.receiver) for each in found] == [(FIRST.id, "receiver 0"), (SECOND.id, "receiver 1")]
        assert [(each.published, each.in_archive, each.has_left) for each in found] == [(0, False, False)] * 2
        catalog.record_published(Publication(FIRST.id, 3, at(1)))
        joined(catalog, FIRST._replace(epoch=2))
        assert published(catalog) == {FIRST.id: 3, SECOND.id: 0}

    def test_no_receiver_joins_while_a_gateway_beside_which_another_stands_by_is_active(self, catalog: Catalog) -> None:
        active = catalog.take_lease(ACTIVE, "one", 3600.0)
        assert active is not None
        with pytest.raises(CatalogTaken, match=r"another gateway \(one\) is running with the catalog"):
            joined(catalog, FIRST)
        assert catalog.receiving_journals() == []
        catalog.release_lease(active)
        joined(catalog, FIRST)

    def test_each_number_is_recorded_once_and_in_order(self, catalog: Catalog) -> None:
        joined(catalog, FIRST, SECOND)
        first = Publication(FIRST.id, 3, at(1))
        catalog.record_published(first)
        catalog.record_published(first)
        catalog.record_published(Publication(SECOND.id, 9, at(1, row=7)))
        catalog.record_published(Publication(SECOND.id, 9, at(3)))
        assert (catalog.published(), published(catalog)) == (at(1), {FIRST.id: 3, SECOND.id: 0})
        catalog.record_published(Publication(SECOND.id, 2, at(2)))
        catalog.record_published(first)
        assert (catalog.published(), published(catalog)) == (at(2), {FIRST.id: 3, SECOND.id: 2})
        catalog.record_published(Publication("a journal that has left", 2, at(3)))
        catalog.record_published(Publication(FIRST.id, 1, at(4)))  # of an older copy
        assert (catalog.published(), published(catalog)) == (at(4), {FIRST.id: 3, SECOND.id: 2})

    def test_a_journal_that_one_receiver_began_is_continued(self, catalog: Catalog) -> None:
        """Whoever joins first: the one that received alone has archived its segments up to the second one."""
        catalog.bind(SHARED)
        catalog.checkpoint(Checkpoint(progress=at(2, row=1)))
        catalog.save_receiving_time({"quay": 9, "crane": 7}, [ReceivingMark("quay", 5, 1)], {})
        joined(catalog, FIRST, archived=ArchivedJournal(SHARED, at(2), 2))
        assert (catalog.published(), published(catalog)) == (at(2), {FIRST.id: 0})
        catalog.record_published(Publication(FIRST.id, 1, at(3)))
        joined(catalog, SHARED, archived=ArchivedJournal(SHARED, at(2), 3))
        assert published(catalog) == {FIRST.id: 1, SHARED.id: 2}, "its third segment is still to be published"
        assert catalog.receiving_time() == {ALONE: {"crane": 7}, FIRST.id: {"quay": 9}, SHARED.id: {"quay": 9}}
        assert catalog.receiving_marks() == [ReceivingMark("quay", 5, 1, each.id) for each in (SHARED, FIRST)]

    def test_a_catalog_that_is_ahead_of_the_archive_is_refused(self, catalog: Catalog) -> None:
        catalog.bind(SHARED)
        catalog.checkpoint(Checkpoint(progress=at(3)))
        with pytest.raises(GatewayError, match=r"has assembled its journal up to segment 3, and the archive .* 2: let"):
            joined(catalog, FIRST, archived=ArchivedJournal(SHARED, at(2), 2))
        assert (catalog.receiving_journals(), catalog.published()) == ([], 0)
        joined(catalog, FIRST, archived=ArchivedJournal(SHARED, at(3), 3))

    def test_a_new_catalog_of_an_old_archive_has_it_recorded_again(self, catalog: Catalog) -> None:
        """Receivers have published segments from 3 to 8."""
        joined(catalog, FIRST, archived=ArchivedJournal(SHARED, at(2), 8))
        assert catalog.published() == at(2)

    def test_a_new_receiver_counts_from_where_the_one_is_that_has_counted_least(self, catalog: Catalog) -> None:
        joined(catalog, FIRST, SECOND)
        assert catalog.receiving_time() == {FIRST.id: {"quay": 0}, SECOND.id: {"quay": 0}}
        for journal, counted in ((FIRST, 70), (SECOND, 50)):
            mark = ReceivingMark("quay", counted - 1, counted, journal.id)
            catalog.save_receiving_time({"quay": counted}, [mark], {}, journal.id)
        third = JournalIdentity("e" * 32, 1)
        catalog.join(third, "receiver 3", ("quay", "crane"), EMPTY)
        assert catalog.receiving_time()[third.id] == {"quay": 50, "crane": 0}
        assert catalog.receiving_marks()[-1] == ReceivingMark("quay", 49, 50, third.id)
        catalog.join(third, "receiver 3", ("quay", "crane", "pier"), EMPTY)
        assert catalog.receiving_time()[third.id] == {"quay": 50, "crane": 0, "pier": 0}
        catalog.join(third, "receiver 3", (), EMPTY)
        assert catalog.receiving_time()[third.id] == {"crane": 0, "pier": 0}, "others receive from quay, without it"
        assert [each.journal for each in catalog.receiving_marks()] == [FIRST.id, SECOND.id]

    def test_whoever_leaves_is_not_waited_for(self, catalog: Catalog) -> None:
        joined(catalog, FIRST, SECOND)
        for journal in (FIRST, SECOND):
            catalog.save_receiving_time({"quay": 9}, [ReceivingMark("quay", 5, 1, journal.id)], {}, journal.id)
        assert [catalog.leave(FIRST.id), catalog.leave(FIRST.id), catalog.leave("unknown")] == [True, False, False]
        catalog.save_receiving_time({"quay": 10}, [ReceivingMark("quay", 6, 1, FIRST.id)], {}, FIRST.id)
        assert catalog.receiving_time() == {SECOND.id: {"quay": 9}}
        assert catalog.receiving_marks() == [ReceivingMark("quay", 5, 1, SECOND.id)]
        assert [*published(catalog)] == [SECOND.id]
        catalog.record_published(Publication(SECOND.id, 1, at(1)))
        catalog.leave(SECOND.id)
        joined(catalog, FIRST, archived=ArchivedJournal(SHARED, 0, 1))
        assert catalog.published() == at(1), "the journal continues after all have left"

    def test_whoever_has_left_is_known_and_joins_again(self, catalog: Catalog) -> None:
        catalog.join(FIRST, "receiver", SOURCES, EMPTY, in_archive=True)
        catalog.record_published(Publication(FIRST.id, 3, at(1)))
        catalog.leave(FIRST.id)
        known = catalog.receiving_journal(FIRST.id)
        assert known is not None
        assert (known.published, known.in_archive, known.has_left) == (3, True, True)
        joined(catalog, FIRST)
        assert published(catalog) == {FIRST.id: 3}
        assert catalog.receiving_journal(SECOND.id) is None

    def test_sessions_are_of_whoever_joined_with_them_last(self, catalog: Catalog) -> None:
        """A process without a disk has a new journal, and the sessions of the one before."""
        sessions = {"quay": "one", "crane": "two"}
        catalog.join(FIRST, "receiver", SOURCES, EMPTY, sessions=sessions)
        catalog.leave(FIRST.id, keeps_sessions=True)
        (left,) = catalog.receiving_journals()
        assert (left.has_left, left.sessions) == (True, sessions), "brokers keep them still"
        catalog.join(SECOND, "receiver", SOURCES, EMPTY, sessions={"quay": "one", "crane": "three"})
        assert [dict(each.sessions) for each in catalog.receiving_journals()] == [
            {"crane": "two"},
            {"quay": "one", "crane": "three"},
        ]
        assert catalog.leave(FIRST.id)
        assert [*published(catalog)] == [SECOND.id]
        assert not catalog.leave(FIRST.id)

    def test_receivers_are_asked_to_publish(self, catalog: Catalog) -> None:
        joined(catalog, FIRST, SECOND)
        catalog.ask_to_publish()
        catalog.ask_to_publish()
        catalog.answer(FIRST.id, 1)
        assert [(each.asked, each.answered, each.owes) for each in catalog.receiving_journals()] == [
            (2, 1, True),
            (2, 0, True),
        ]
        catalog.answer(FIRST.id, 2)
        catalog.answer(SECOND.id, None)
        assert not any(each.owes for each in catalog.receiving_journals())
        catalog.ask_to_publish()
        assert [each.owes for each in catalog.receiving_journals()] == [True, False], "the second one has stopped"
        joined(catalog, FIRST, SECOND)
        assert [each.owes for each in catalog.receiving_journals()] == [True, True]
        catalog.leave(FIRST.id)
        assert [each.owes for each in catalog.receiving_journals()] == [True]

    def test_a_receiver_is_asked_to_leave(self, catalog: Catalog) -> None:
        joined(catalog, FIRST, SECOND)
        assert not catalog.leave(FIRST.id, if_asked=True)
        catalog.ask_to_leave(FIRST.id)
        assert [each.state for each in catalog.receiving_journals()] == ["leaving", "receiving"]
        joined(catalog, FIRST)
        assert not catalog.leave(FIRST.id, if_asked=True), "it is back"
        catalog.ask_to_leave(FIRST.id)
        assert catalog.leave(FIRST.id, if_asked=True)
        assert [*published(catalog)] == [SECOND.id]
        catalog.ask_to_leave(FIRST.id)
        known = catalog.receiving_journal(FIRST.id)
        assert known is not None
        assert not known.is_leaving, "it has left already"

    def test_a_receiver_that_is_replaced_stays_asked_to_leave_until_its_sessions_have_ended(
        self, catalog: Catalog
    ) -> None:
        catalog.join(FIRST, "receiver", SOURCES, EMPTY, in_archive=True, sessions={"quay": "one"})
        catalog.ask_to_leave(FIRST.id)
        catalog.leave(FIRST.id, keeps_sessions=True)
        (left,) = catalog.receiving_journals()
        assert (left.has_left, left.state, left.sessions) == (True, "leaving", {"quay": "one"})
        assert catalog.leave(FIRST.id, if_asked=True)
        assert catalog.receiving_journals() == []

    def test_a_receiver_is_seen(self, catalog: Catalog) -> None:
        joined(catalog, FIRST)
        before = catalog.receiving_journals()[0]
        catalog.see(FIRST.id)
        seen = catalog.receiving_journals()[0]
        assert seen.seen_at >= before.seen_at
        assert not seen.is_away
        assert seen._replace(silent=61_000_000).is_away

    def test_what_has_expired_is_kept_for_as_long_after_one_has_left(self, catalog: Catalog) -> None:
        joined(catalog, FIRST, SECOND)
        for journal, counted in ((FIRST, 100), (SECOND, 400)):
            catalog.save_receiving_time({"quay": counted}, [], {}, journal.id)
        keep(catalog, attachment(1))
        catalog.expire([attachment(1)], 90, ["why"], [])
        catalog.leave(FIRST.id)
        assert catalog.expired_before("quay", 389, 9) == [], "90 was 10 before the time that counted, and is"
        assert [each.id for each in catalog.expired_before("quay", 390, 9)] == ["a1"]
