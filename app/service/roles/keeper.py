"""The keeper: of the processes with the role `keep`, the one that holds the lease `keeper` does its work."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from app.model.errors import GatewayError
from app.ports import HeldLease
from app.service.context import ServiceContext
from app.service.roles.election import Election
from app.service.roles.keeping import KeepingTerm

KEEPER: Final = "keeper"
LEASE_SECONDS: Final = 6.0
"""How long a keeper may be silent before another process takes its place."""

Begin = Callable[[ServiceContext, HeldLease], KeepingTerm]
"""A function that makes the work of a term, with the catalog of the term, and its lease."""


class Keeper(Election[KeepingTerm]):
    """Stands for election, and does the keeper's work while it holds the lease. `at_once` takes it from whoever had it:
    no other process uses the catalog."""

    def __init__(self, context: ServiceContext, begin: Begin, *, at_once: bool) -> None:
        def begun(lease: HeldLease) -> KeepingTerm:
            return begin(replace(context, catalog=context.catalog.under(lease)), lease)

        super().__init__(context.catalog, KEEPER, context.instance, LEASE_SECONDS, begun, at_once=at_once)
        self._context = context
        context.metrics.keeper.set_function(lambda: float(self.term is not None))

    def stop(self) -> None:
        """End the work, so that the lease can be released."""
        super().stop()
        if (term := self.term) is not None:
            term.stop.set()

    def record_before_retiring(self) -> None:
        """Record what the journal will lose, if this process is the keeper. Raises GatewayError if it is not, and the
        journal has no archive, from which it could be read."""
        if (term := self.term) is not None:
            term.recorder.record_before_retiring()
        elif self._context.settings.journal.archive_url is None:
            raise GatewayError("this process is not the keeper, which records the catalog: segments stay meanwhile")
