"""The parts of a gateway that its roles run."""

from app.service.gateway import Gateway
from app.service.roles.keeping import KeepingTerm
from app.service.roles.receiving import OwnReceiving


def own(gateway: Gateway) -> OwnReceiving:
    """Return what receives in a gateway with the role `receive`."""
    assert isinstance(gateway.receiving, OwnReceiving)
    return gateway.receiving


def term(gateway: Gateway) -> KeepingTerm:
    """Return the work of a gateway that is the keeper."""
    found = gateway._keeper.term
    assert found is not None
    return found
