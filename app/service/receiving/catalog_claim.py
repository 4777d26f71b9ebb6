"""The check at the start that a catalog and a journal belong together, before anything is assembled or received.

Positions in the catalog refer to segments of one journal. In another journal, in an older copy, or in one that lost its
newest segments, they would point to other messages. So the gateway does not start with such a pair.
"""

from pathlib import Path
from threading import Event

from app.model.errors import CatalogError, CatalogTaken, GatewayError
from app.model.masking import masked
from app.model.message import Position
from app.observe import Recurring, logger
from app.ports import Catalog, Journal
from app.service.context import ArchiveContext, ReceiverContext

log = logger(__name__)

LOCK_SECONDS = 5.0

_MENDS = "`attachment-gateway fsck --repair` shows what is lost, asks, and continues without it"


def claim(context: ReceiverContext) -> None:
    """Make this process the only gateway of the catalog, and bind the catalog to the journal.

    Raises GatewayError when the two do not belong together, when another gateway uses the catalog, or when receivers
    have joined it: what they have published is not in this journal.
    """
    catalog, journal = context.catalog, context.journal
    if context.settings.standby is None:  # otherwise a lease decides: a gateway that is paused may hold the lock
        catalog.lock()
    require_one_archive(catalog, masked(context.settings.catalog_url))
    require_no_receivers(catalog, masked(context.settings.catalog_url), "so that this process is one of them")
    _require_pair(context)
    catalog.bind(journal.identity())


def claim_again(context: ReceiverContext) -> None:
    """Make sure that the two still belong together, as the catalog's database was started or put back while this
    process runs. Raises GatewayError as `claim` does.

    A later epoch is of a gateway that has taken over: this process may write nothing more, and learns it elsewhere.
    """
    bound, identity = context.catalog.journal_identity(), context.journal.identity()
    if bound is not None and bound.id == identity.id and bound.epoch > identity.epoch:
        return
    _require_pair(context)
    if bound != identity:  # an older copy has an earlier epoch
        context.catalog.bind(identity)


def _require_pair(context: ReceiverContext) -> None:
    """Raise GatewayError when the catalog is of another journal, or when the journal lacks the catalog's progress."""
    catalog, journal = context.catalog, context.journal
    bound, identity = catalog.journal_identity(), journal.identity()
    place, folder = masked(context.settings.catalog_url), context.settings.journal_folder
    if bound is not None and bound.id != identity.id:
        raise GatewayError(
            f"the catalog {place} belongs to journal {bound.id}, and {folder} is journal {identity.id}. Put "
            f"back the one that belongs here; if that cannot be done, {_MENDS}"
        )
    if (progress := catalog.progress()) is not None:
        _require_reached(Position.unpack(progress), journal, folder, f"the catalog {place}")


def require_one_archive(catalog: Catalog, place: str) -> None:
    """Raise GatewayError if the catalog in a place has results of several archives: no gateway can continue them."""
    if (several := catalog.combined()) is not None:
        archives = ", ".join(place for _, place in several.places)
        raise GatewayError(
            f"the catalog {place} has the results of several archives ({archives}). `pipeline batch` continues them, "
            "and a process that only serves (--role serve) shows them: give this gateway a catalog of its own"
        )


def require_no_receivers(catalog: Catalog, place: str, why: str) -> None:
    """Raise GatewayError if receivers have joined the catalog in a place; `why` says why to set journal.shared."""
    if joined := catalog.receiving_journals():
        shared = f"{len(joined)} receivers share the journal of the catalog {place}"
        raise GatewayError(f"{shared}: set journal.shared, {why}")


def require_journal(context: ArchiveContext) -> None:
    """Raise GatewayError when the archive is of another journal than the catalog, for a process that does not receive.

    A catalog in a file is of one process: this one then takes its lock.
    """
    catalog, settings = context.catalog, context.settings
    if not settings.is_catalog_shared:
        catalog.lock()
    bound, found = catalog.journal_identity(), context.journal.identity()
    if bound is not None and found is not None and bound.id != found.id:
        place = settings.journal.archive_url or settings.journal_folder
        raise GatewayError(
            f"the catalog {masked(settings.catalog_url)} belongs to journal {bound.id}, and the archive {place} is of "
            f"journal {found.id}: set journal.archive_url to the archive of the former"
        )


def assembled(catalog: Catalog, journal: str) -> Position | None:
    """Return the last position of the journal with this id that a catalog includes: all up to it was durable once."""
    bound, progress = catalog.journal_identity(), catalog.progress()
    return None if progress is None or bound is None or bound.id != journal else Position.unpack(progress)


def _require_reached(reached: Position, journal: Journal, folder: Path, catalog: str) -> None:
    """Raise GatewayError when the journal lacks the place that the catalog has reached: a file is missing, or is an
    older one. What is damaged in a file keeps its place."""
    end, segments = journal.end(), {segment.number for segment in journal.segments()}
    if end is not None and end >= reached and reached.segment in segments:
        return
    ends = f"the journal in {folder} " + ("is empty" if end is None else f"ends at {_spoken(end)}")
    if reached.segment in segments:
        what = f"the file of segment {reached.segment} is an older one, or its end was cut off"
    elif end is None or end < reached:
        what = f"the files of segment {reached.segment} and of those after it are missing"
    else:
        ends, what = f"the journal in {folder} continues", f"the file of segment {reached.segment} is missing"
    why = f"{ends}, and {catalog} has assembled it up to {_spoken(reached)}: {what}"
    raise GatewayError(f"{why}. Put back what is missing; if that cannot be done, {_MENDS}")


def keep_lock(context: ReceiverContext, stop: Event) -> None:
    """Check until `stop` that the catalog's lock is still held.

    Raises CatalogTaken when another gateway has taken over. While the database cannot be reached, checks are repeated.
    """
    fault = Recurring(log, "catalog_lock")
    while not stop.wait(LOCK_SECONDS):
        try:
            context.catalog.lock()
        except CatalogTaken as error:
            if context.catalog.journal_identity() != context.journal.identity():
                raise
            fault.failed(error)
        except CatalogError as error:
            fault.failed(error)
        else:
            fault.worked()


def _spoken(position: Position) -> str:
    return f"segment {position.segment}, batch {position.batch}, row {position.row}"
