"""The journal that receivers share: who has joined, what is published, and receivers that are forgotten."""

from app.model.message import Position
from app.model.records import JournalIdentity, Publication, ReceivingMark
from app.ports import Catalog

SHARED = JournalIdentity("f" * 32, 1)
ONE, OTHER = JournalIdentity("1" * 32, 1), JournalIdentity("2" * 32, 1)


class Receivers:
    """A part of `CatalogContract`, which the tests of adapters inherit."""

    def test_receivers_join_one_journal_and_publish_in_one_order(self, catalog: Catalog) -> None:
        assert catalog.receiving_journals() == []
        assert catalog.join(ONE, "a", SHARED, 0) == SHARED
        assert catalog.join(OTHER, "b", JournalIdentity("e" * 32, 1), 0) == SHARED
        first, second = (Position(number, 0, 4).pack() for number in (1, 2))
        catalog.record_published(Publication(ONE.id, 7, first))
        catalog.record_published(Publication(OTHER.id, 3, second))
        catalog.record_published(Publication(ONE.id, 9, first))  # late, by one who found the number taken
        assert catalog.published() == second
        found = catalog.receiving_journals()
        assert [(each.id, each.receiver, each.published) for each in found] == [(ONE.id, "a", 7), (OTHER.id, "b", 3)]
        catalog.join(ONE, "a again", SHARED, 2)
        assert [(each.receiver, each.published) for each in catalog.receiving_journals()] == [("a again", 7), ("b", 3)]

    def test_a_receiver_is_seen_when_it_saves_its_receiving_time(self, catalog: Catalog) -> None:
        catalog.join(ONE, "a", SHARED, 0)
        (joined,) = catalog.receiving_journals()
        catalog.save_receiving_time({"quay": 5}, [], {}, ONE.id)
        (seen,) = catalog.receiving_journals()
        assert seen.seen_at >= joined.seen_at
        assert not seen.is_away
        assert seen._replace(silent=61_000_000).is_away

    def test_a_forgotten_receiver_holds_nothing_back_until_it_joins_again(self, catalog: Catalog) -> None:
        marks = [ReceivingMark("quay", 5, 1, ONE.id)]
        for each in (ONE, OTHER):
            catalog.join(each, "any", SHARED, 0)
        catalog.save_receiving_time({"quay": 5}, marks, {}, ONE.id)
        catalog.save_receiving_time({"quay": 9}, [], {}, OTHER.id)
        assert catalog.leave(ONE.id)
        assert not catalog.leave(ONE.id)
        assert (catalog.receiving_time(), catalog.receiving_marks()) == ({OTHER.id: {"quay": 9}}, [])
        catalog.save_receiving_time({"quay": 6}, marks, {}, ONE.id)  # it was only paused
        assert (catalog.receiving_time(), catalog.receiving_marks()) == ({OTHER.id: {"quay": 9}}, [])
        catalog.join(ONE, "back", SHARED, 0)
        assert catalog.receiving_time() == {ONE.id: {"quay": 9}, OTHER.id: {"quay": 9}}
