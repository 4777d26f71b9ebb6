"""The archives that a run reads: what their segments say of themselves, gaps between them, and one order for several.

Parts of an attachment may be spread over several archives, as by a queue with several consumers. Everything behind an
archive has one order and one cursor. So the catalog gives each segment of each archive the next free number, once, and
positions count these numbers. No bytes are copied: a segment is read in the archive that it is in.

Segments that are new in a run get their numbers in the order of the times at which they were begun, as their headers
say; those of one journal keep their order. Of equal times, the ids of the journals decide. So it does not matter in
which order archives are named, and what has a number keeps it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise

from app.model.errors import GatewayError
from app.model.records import CombinedArchives
from app.observe import logger
from app.ports import Catalog, JournalArchive
from app.service.threads import together

_ALL = "name all archives of these results in each run, or give other results a place of their own (--out)"

Gaps = tuple[tuple[int, int], ...]
"""Closed ranges of segment numbers."""

log = logger(__name__)


def is_folder(place: str) -> bool:
    """Tell whether a path or URL names a folder."""
    return "://" not in place or place.startswith("file:")


def first_received_at(archive: JournalArchive, segment: int) -> int | None:
    """Return when the first message of a segment was received (µs); None if it has none, or if that cannot be read.

    Messages are journalled in the order of their reception.
    """
    try:
        received_at: int = archive.record_batch(segment, 0).column("received_at")[0].value
    except (GatewayError, KeyError, IndexError):
        return None
    return received_at


# --- gaps: segments that retention deleted, or that are missing -------------------------------------------------------


def missing_segments(numbers: Iterable[int], after: int = 0) -> Gaps:
    """Return the gaps in the numbers above `after`, up to the highest one. A journal's first segment has number 1."""
    present = [after, *sorted(number for number in numbers if number > after)]
    return tuple((low + 1, high - 1) for low, high in pairwise(present) if high > low + 1)


def spoken(ranges: Sequence[tuple[int, int]]) -> str:
    """Return closed ranges as people write them: `3, 7-9`."""
    return ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in ranges)


# --- several archives -------------------------------------------------------------------------------------------------


def combined(
    places: Sequence[str], catalog: Catalog, opened: Callable[[str], JournalArchive]
) -> CombinedArchives | None:
    """Return the order of the segments of archives after giving a number to each new one; None for a single archive
    whose results are of no other.

    Raises GatewayError, and changes nothing, if one of the places has no segment, or segments that do not say of which
    journal they are; if two are of the same journal; if one is left out whose journal the catalog has results of; and
    if the catalog is of a gateway that receives.
    """
    recorded = catalog.combined()
    if recorded is None and len(places) == 1:
        return None
    archives = _by_journal(places, opened)
    bound = catalog.journal_identity()
    known = dict(recorded.places) if recorded else {} if bound is None else {bound.id: ""}
    left_out = [
        f"{place or 'the archive'} of journal {journal}" for journal, place in known.items() if journal not in archives
    ]
    if left_out:
        raise GatewayError(
            f"the results have messages of {', '.join(left_out)} too, and only {', '.join(places)} is named: {_ALL}"
        )
    if recorded is None and catalog.receiving_time():
        raise GatewayError(
            "the catalog is of a gateway that receives, and positions in it are of that gateway's journal alone: give "
            "the results of several archives a place of their own (--out)"
        )
    numbers = {journal: [each.number for each in archive.segments()] for journal, (_, archive) in archives.items()}
    for journal, (place, _) in archives.items():
        if missing := missing_segments(numbers[journal]):
            log.warning("segments_not_found", segments=spoken(missing), journal=place)
    has_number = {(each.journal, each.segment) for each in recorded.segments} if recorded else set()
    new = {
        journal: [number for number in numbers[journal] if (journal, number) not in has_number] for journal in archives
    }
    catalog.combine(
        {journal: place for journal, (place, _) in archives.items()},
        {journal: some[-1] for journal, some in numbers.items()},
        [*_in_order({journal: (archive, new[journal]) for journal, (_, archive) in archives.items()})],
    )
    return catalog.combined()


def _by_journal(
    places: Sequence[str], opened: Callable[[str], JournalArchive]
) -> dict[str, tuple[str, JournalArchive]]:
    """Return the place and the archive of each journal. Raises GatewayError."""
    found: dict[str, tuple[str, JournalArchive]] = {}
    for place in places:
        archive = opened(place)
        if not archive.segments():
            raise GatewayError(f"there is no sealed segment in {place}: name the folder or URL of an archive")
        identity = archive.identity()
        if identity is None:
            raise GatewayError(
                f"the segments in {place} do not say of which journal they are, since the headers of the first and the "
                "last are damaged: put undamaged copies in their place"
            )
        if identity.id in found:
            raise GatewayError(
                f"{found[identity.id][0]} and {place} are archives of the same journal {identity.id}: name one of them"
            )
        found[identity.id] = place, archive
    return found


def _in_order(archives: Mapping[str, tuple[JournalArchive, Sequence[int]]]) -> Iterator[tuple[str, int]]:
    """Yield these segments of each journal in the order in which they get numbers."""
    keyed: list[tuple[int, str, int]] = []
    for journal, (archive, numbers) in archives.items():
        # One whose header cannot be read follows the one before it, and so does one whose clock was behind.
        begun = accumulate((at or 0 for at in together(archive.begun_at, numbers)), max)
        keyed += zip(begun, [journal] * len(numbers), numbers, strict=True)
    yield from ((journal, number) for _, journal, number in sorted(keyed))
