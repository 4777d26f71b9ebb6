"""The reasons why a message cannot be sent. REST answers each of these errors with its own problem type."""

from collections.abc import Iterable
from typing import NamedTuple

from app.dataset.checks import Fault
from app.model.attachment import DeliveryState


class MessageFault(NamedTuple):
    """A fault and its place: the steps from the message down to the fault, as in ("attachments", 0, "kind")."""

    where: tuple[str | int, ...]
    fault: Fault


class Refusal(NamedTuple):
    """A part of a message that its destination does not take: the steps down to it, and the reason."""

    where: tuple[str | int, ...]
    why: str


class SendingError(Exception):
    """A message that is not sent."""


class CannotSend(SendingError):
    """A delivery that no other attempt can send, because its content or its names are wrong."""


class UnknownDestination(SendingError):
    """A message to a destination that the settings do not have."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(f"unknown destination {name!r}")
        self.name = name
        self.known = sorted(known)


class DestinationRefuses(SendingError):
    """A message with parts that its destination does not take."""

    def __init__(self, destination: str, refusals: list[Refusal]) -> None:
        why = "; ".join(refusal.why for refusal in refusals)
        super().__init__(f"the destination {destination!r} does not take this: {why}")
        self.refusals = refusals


class UnsuitableDataSets(SendingError):
    """A message with files that do not become data sets, with every fault of every file."""

    def __init__(self, faults: list[MessageFault]) -> None:
        super().__init__(f"{len(faults)} faults in files of data sets")
        self.faults = faults


class KeyReused(SendingError):
    """An idempotency key that was used for another message."""


class DeliveryOver(SendingError):
    """A delivery whose state does not allow what a client asks for."""

    def __init__(self, state: DeliveryState, why: str) -> None:
        super().__init__(why)
        self.state = state
