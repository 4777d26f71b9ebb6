"""The one order of the segments of several archives."""

from app.model.message import Position
from app.model.records import Checkpoint, CombinedSegment, JournalIdentity
from app.ports import Catalog

ONE, OTHER = "1" * 32, "2" * 32
PLACES = {ONE: "/one", OTHER: "s3://other"}


def numbers(catalog: Catalog, after: int = 0) -> list[tuple[int, str, int]]:
    found = catalog.combined(after)
    assert found is not None
    return [(number, journal, segment) for number, journal, segment in found.segments]


class Combining:
    """A part of `CatalogContract`, which the tests of adapters inherit."""

    def test_each_segment_has_a_number_once(self, catalog: Catalog) -> None:
        assert catalog.combined() is None
        catalog.combine(PLACES, {}, [(OTHER, 4), (ONE, 1), (OTHER, 5)])
        first = catalog.combined()
        assert first is not None
        assert (first.journal, dict(first.places)) == (catalog.journal_identity(), PLACES)
        assert numbers(catalog) == [(1, OTHER, 4), (2, ONE, 1), (3, OTHER, 5)]
        moved = PLACES | {ONE: "/moved", "3" * 32: "/third"}
        catalog.combine(moved, {ONE: 9}, [(ONE, 2), (OTHER, 5), ("3" * 32, 1), (ONE, 1)])
        found = catalog.combined(3)
        assert found is not None
        assert (found.journal, dict(found.places)) == (first.journal, moved)
        assert found.segments == (CombinedSegment(4, ONE, 2), CombinedSegment(5, "3" * 32, 1))
        assert found == catalog.combined(1)._replace(segments=found.segments)  # type: ignore[union-attr]

    def test_what_is_of_one_archive_keeps_its_numbers(self, catalog: Catalog) -> None:
        catalog.claim(JournalIdentity(ONE, 7), "/one")
        catalog.checkpoint(Checkpoint(progress=Position(2, 0, 0).pack()))
        catalog.combine(PLACES, {ONE: 3, OTHER: 8}, [(OTHER, 8), (ONE, 3), (ONE, 1)])
        assert catalog.journal_identity() == JournalIdentity(ONE, 7)
        assert numbers(catalog) == [(1, ONE, 1), (2, ONE, 2), (3, ONE, 3), (4, OTHER, 8)]

    def test_what_was_assembled_of_one_archive_keeps_its_numbers(self, catalog: Catalog) -> None:
        """Its last segments may be missing now."""
        catalog.claim(JournalIdentity(ONE, 7), "/one")
        catalog.checkpoint(Checkpoint(progress=Position(2, 0, 0).pack()))
        catalog.combine(PLACES, {ONE: 1, OTHER: 1}, [(OTHER, 1)])
        assert numbers(catalog, 1) == [(2, ONE, 2), (3, OTHER, 1)]
