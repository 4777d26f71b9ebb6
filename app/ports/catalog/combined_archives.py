"""The order of the segments of several archives, where a catalog has the results of more than one."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from app.model.records import CombinedArchives


class CombiningCatalog(Protocol):
    """Which segment of which archive has which number in positions. Every change is durable on return."""

    def combined(self, after: int = 0) -> CombinedArchives | None:
        """Return the archives that have one order, and their segments behind number `after`; None if the catalog is new
        or of one archive."""

    def combine(self, places: Mapping[str, str], newest: Mapping[str, int], coming: Sequence[tuple[str, int]]) -> None:
        """Record the places of archives, by the ids of their journals, and give each of the `coming` segments the next
        number, in this order, unless it has one. A segment is a journal and its number there.

        Positions in a catalog that is of one archive keep their meaning: the segments of its journal have their own
        numbers, up to its `newest` one, and up to what was assembled. A new catalog gets a journal of its own, whose
        numbers these are.
        """
