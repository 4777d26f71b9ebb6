"""The parts of a gateway that its roles run."""

from typing import Any

from app import plugins
from app.service.context import ArchiveContext, ReceiverContext
from app.service.gateway import Gateway
from app.service.roles.keeping import KeepingTerm
from app.service.roles.receiving import OwnReceiving
from app.settings import Role, Settings


def archive_of(context: ReceiverContext, roles: frozenset[Role], **settings: Any) -> ArchiveContext:
    """Return the context of another process, which reads what the journal has sealed."""
    folder = context.settings.data
    chosen = Settings(data=folder / "other", **settings).model_copy(update={"roles": roles})
    chosen.data.mkdir(exist_ok=True)
    return ArchiveContext(
        settings=chosen,
        journal=plugins.archive()(folder / "journal", is_growing=True),
        catalog=context.catalog,
        store=context.store,
        clock=context.clock,
        metrics=context.metrics,
    )


def own(gateway: Gateway) -> OwnReceiving:
    """Return what receives in a gateway with the role `receive`."""
    assert isinstance(gateway.receiving, OwnReceiving)
    return gateway.receiving


def term(gateway: Gateway) -> KeepingTerm:
    """Return the work of a gateway that is the keeper."""
    found = gateway._keeper.term
    assert found is not None
    return found
