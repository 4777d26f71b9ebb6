"""The check at the start that a catalog and a journal belong together, before anything is assembled or received.

Positions in the catalog refer to segments of one journal. In another journal, in an older copy, or in one that lost its
newest segments, they would point to other messages. So the gateway does not start with such a pair.
"""

from threading import Event

from app.model.errors import CatalogError, CatalogTaken, GatewayError
from app.model.message import Position
from app.observe import Recurring, logger
from app.service.context import ServiceContext

log = logger(__name__)

LOCK_SECONDS = 5.0


def claim(context: ServiceContext) -> None:
    """Make this process the only gateway of the catalog, and bind the catalog to the journal.

    Raises GatewayError when the two do not belong together, or when another gateway uses the catalog.
    """
    catalog, journal = context.catalog, context.journal
    if context.settings.standby is None:  # otherwise its lock may be held by a gateway that is paused
        catalog.lock()
    bound, identity = catalog.journal_identity(), journal.identity()
    place, folder = context.settings.catalog_url, context.settings.journal_folder
    if bound is not None and bound.id != identity.id:
        raise GatewayError(
            f"the catalog {_shown(place)} belongs to journal {bound.id}, and {folder} is journal {identity.id}: put "
            "back the one that belongs here, or see with `attachment-gateway fsck` what is lost and repair it with "
            "`attachment-gateway fsck --repair`"
        )
    progress, end = catalog.progress(), journal.end()
    if progress is not None:
        reached = Position.unpack(progress)
        _require_reached(reached, end, f"the journal in {folder}", f"the catalog {_shown(place)}")
        _require_there(reached, {segment.number for segment in journal.segments()}, f"{folder}")
    catalog.bind(identity)


def _require_reached(reached: Position, end: Position | None, journal: str, catalog: str) -> None:
    if end is None or end < reached:
        ends = "is empty" if end is None else f"ends at {_spoken(end)}"
        raise GatewayError(
            f"{journal} {ends}, and {catalog} has assembled it up to {_spoken(reached)}: the newest segments are "
            "missing; put them back, or see with `attachment-gateway fsck` what is lost and repair it with "
            "`attachment-gateway fsck --repair`"
        )


def _require_there(reached: Position, segments: set[int], folder: str) -> None:
    if reached.segment not in segments:
        raise GatewayError(
            f"journal segment {reached.segment} is missing from {folder}, and the catalog has not assembled all of it: "
            "put it back, or see with `attachment-gateway fsck` what is lost and repair it with "
            "`attachment-gateway fsck --repair`"
        )


def keep_lock(context: ServiceContext, stop: Event) -> None:
    """Check until `stop` that the catalog's lock is still held.

    Raises CatalogTaken when another gateway has taken over. While the database cannot be reached, checks are repeated.
    """
    fault = Recurring(log, "catalog_lock")
    standby = context.settings.standby
    seconds = LOCK_SECONDS if standby is None else standby.retry.total_seconds()
    while not stop.wait(seconds):
        try:
            if standby is None:
                context.catalog.lock()
            else:
                _require_bound(context)
        except CatalogTaken as error:
            if context.catalog.journal_identity() != context.journal.identity():
                raise
            fault.failed(error)
        except CatalogError as error:
            fault.failed(error)
        else:
            fault.worked()


def _require_bound(context: ServiceContext) -> None:
    if (bound := context.catalog.journal_identity()) != context.journal.identity():
        raise CatalogTaken(f"another gateway has taken over the catalog: it is bound to {bound}")


def _spoken(position: Position) -> str:
    return f"segment {position.segment}, batch {position.batch}, row {position.row}"


def _shown(url: str) -> str:
    """Return a catalog's URL without its password."""
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"
