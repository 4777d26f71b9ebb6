"""The journal that receivers share: who has joined, what is published, and receivers that are forgotten."""

from app.model.message import Position
from app.model.records import JournalIdentity, Publication, ReceivingMark
from app.ports import ArchivedJournal, Catalog

SHARED = ArchivedJournal(JournalIdentity("f" * 32, 1), 0, 0)
ONE, OTHER = JournalIdentity("1" * 32, 1), JournalIdentity("2" * 32, 1)
SOURCES = ("quay",)


class Receivers:
    """A part of `CatalogContract`, which the tests of adapters inherit."""

    def test_receivers_join_one_journal_and_publish_in_one_order(self, catalog: Catalog) -> None:
        assert catalog.receiving_journals() == []
        assert catalog.join(ONE, "a", SOURCES, SHARED) == SHARED.journal
        another = ArchivedJournal(JournalIdentity("e" * 32, 1), 0, 0)
        assert catalog.join(OTHER, "b", SOURCES, another) == SHARED.journal
        first, second = (Position(number, 0, 4).pack() for number in (1, 2))
        catalog.record_published(Publication(ONE.id, 7, first))
        catalog.record_published(Publication(OTHER.id, 3, second))
        catalog.record_published(Publication(ONE.id, 9, first))  # late, by one who found the number taken
        assert catalog.published() == second
        found = catalog.receiving_journals()
        assert [(each.id, each.receiver, each.published) for each in found] == [(ONE.id, "a", 7), (OTHER.id, "b", 3)]
        catalog.join(ONE, "a again", SOURCES, SHARED)
        assert [(each.receiver, each.published) for each in catalog.receiving_journals()] == [("a again", 7), ("b", 3)]

    def test_a_receiver_is_away_when_it_has_not_been_seen_for_a_minute(self, catalog: Catalog) -> None:
        catalog.join(ONE, "a", SOURCES, SHARED)
        (joined,) = catalog.receiving_journals()
        catalog.see(ONE.id)
        (seen,) = catalog.receiving_journals()
        assert seen.seen_at >= joined.seen_at
        assert not seen.is_away
        assert seen._replace(silent=61_000_000).is_away

    def test_a_forgotten_receiver_holds_nothing_back_until_it_joins_again(self, catalog: Catalog) -> None:
        marks = [ReceivingMark("quay", 5, 1, ONE.id)]
        for each in (ONE, OTHER):
            catalog.join(each, "any", SOURCES, SHARED)
        catalog.record_published(Publication(ONE.id, 7, Position(1, 0, 4).pack()))
        catalog.save_receiving_time({"quay": 5}, marks, {}, ONE.id)
        catalog.save_receiving_time({"quay": 9}, [], {}, OTHER.id)
        assert catalog.leave(ONE.id)
        assert not catalog.leave(ONE.id)
        assert [each.id for each in catalog.receiving_journals()] == [OTHER.id]
        assert (catalog.receiving_time(), catalog.receiving_marks()) == ({OTHER.id: {"quay": 9}}, [])
        catalog.save_receiving_time({"quay": 6}, marks, {}, ONE.id)  # it was only paused
        assert (catalog.receiving_time(), catalog.receiving_marks()) == ({OTHER.id: {"quay": 9}}, [])
        catalog.join(ONE, "back", SOURCES, SHARED)
        assert catalog.receiving_time() == {ONE.id: {"quay": 9}, OTHER.id: {"quay": 9}}
        assert [each.published for each in catalog.receiving_journals()] == [7, 0]
