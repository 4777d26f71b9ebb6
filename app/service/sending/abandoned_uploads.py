"""Uploads of deliveries that were never queued, because the process that received them was killed."""

from collections.abc import Iterator

from app.service.context import ServiceContext

FOLDER = "outgoing/"
LONGEST_UPLOAD = 24 * 3600.0
"""Seconds after which no request that began to upload may still be at work."""


def drop_abandoned_uploads(context: ServiceContext) -> None:
    """Remove all of them. Call it before uploads begin, and only where no other process takes any.

    Raises CatalogTaken when another gateway has taken over, whose uploads may be among those that were found.
    """
    found = list(context.store.names(FOLDER))
    if found:
        context.catalog.flush()
    for name in _abandoned(context, found):
        context.store.delete(name)


class AbandonedUploads:
    """Removes them while other processes receive uploads: what belonged to no delivery for a day, as this process has
    seen."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context
        self._seen: dict[str, float] = {}

    def step(self) -> None:
        """Look through all uploads, and remove what is due."""
        now = self._context.clock.monotonic()
        found = [*_abandoned(self._context, list(self._context.store.names(FOLDER)))]
        self._seen = {name: self._seen.get(name, now) for name in found}
        over = [name for name, since in self._seen.items() if now - since > LONGEST_UPLOAD]
        if over:
            self._context.catalog.flush()  # raises LeaseLost when another process is the keeper
            self._context.store.delete_all(over)


def _abandoned(context: ServiceContext, names: list[str]) -> Iterator[str]:
    return (name for name in names if context.catalog.delivery(name.split("/")[1]) is None)
