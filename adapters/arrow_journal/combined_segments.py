"""Segments of several archives as those of one storage, by their numbers in one order."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from adapters.arrow_journal.batch_columns import Bytes
from adapters.arrow_journal.segment_cache import own_folder
from adapters.arrow_journal.segment_files import SegmentState
from adapters.arrow_journal.segment_storage import SegmentStorage, segments_at
from adapters.disk import ReadFile
from app.model.errors import GatewayError
from app.model.records import CombinedSegment, JournalIdentity
from app.ports import Order


class CombinedSegments:
    """A `SegmentStorage` that reads each segment from the archive that it is in.

    It asks for the `order` behind the last number that it knows, whenever it lists segments or is asked for another
    one. An archive is opened when one of its segments is asked for.
    """

    def __init__(self, order: Order, cache: Path | None, cache_bytes: int) -> None:
        self._order, self._cache, self._cache_bytes = order, cache, cache_bytes
        self.journal: JournalIdentity | None = None
        self._places: dict[str, str] = {}
        self._opened: dict[str, SegmentStorage] = {}
        self._origins: dict[int, CombinedSegment] = {}
        self._numbers: dict[tuple[str, int], int] = {}
        self._ask()

    def origin(self, number: int) -> CombinedSegment:
        """Return where a segment comes from. Raises KeyError if its number is not recorded."""
        if number not in self._origins:
            self._ask()
        return self._origins[number]

    def listing(self) -> dict[int, SegmentState]:
        self._ask()
        found: dict[int, SegmentState] = {}
        for journal in self._places:
            for own, state in self._archive(journal).listing().items():
                if (number := self._numbers.get((journal, own))) is not None:
                    found[number] = replace(state, number=number)
        return dict(sorted(found.items()))

    def find(self, number: int) -> SegmentState:
        _, journal, own = self.origin(number)
        return replace(self._archive(journal).find(own), number=number)

    def open(self, state: SegmentState) -> ReadFile:
        return self._archive_of(state.number).open(state)

    def start(self, state: SegmentState, length: int) -> bytes:
        return self._archive_of(state.number).start(state, length)

    def drop_copy(self, state: SegmentState, file: ReadFile) -> bool:
        return self._archive_of(state.number).drop_copy(state, file)

    def path(self, number: int) -> str:
        _, journal, own = self.origin(number)
        return self._archive(journal).path(own)

    def add(self, number: int, pieces: Iterable[Bytes]) -> bool:  # noqa: ARG002
        raise self._only_read()

    def keep(self, state: SegmentState, data: memoryview) -> None:  # noqa: ARG002
        raise self._only_read()

    def remove(self, *numbers: int) -> None:  # noqa: ARG002
        raise self._only_read()

    def _only_read(self) -> GatewayError:
        return GatewayError(
            f"the archives {', '.join(self._places.values())} have one order, in which they are only read: add "
            "segments to one of them, or remove them there"
        )

    def _ask(self) -> None:
        found = self._order(max(self._origins, default=0))
        if found is None:
            return
        self.journal = found.journal
        self._places = dict(found.places)
        for each in found.segments:
            self._numbers[each.journal, each.segment] = each.number
            self._origins[each.number] = each

    def _archive_of(self, number: int) -> SegmentStorage:
        return self._archive(self.origin(number).journal)

    def _archive(self, journal: str) -> SegmentStorage:
        if journal not in self._opened:
            cache = self._cache
            if cache is None and self.journal is not None:
                cache = own_folder(self.journal.id)
            self._opened[journal] = segments_at(self._places[journal], cache, self._cache_bytes)
        return self._opened[journal]
