"""The one way to answer the sender of a message: by a connected receiver of its source, at the address that the message
names, if the settings allow that address.

Whoever may send messages can name any address in them. So the receiver compares it with `request_missing_to`, and sends
nothing elsewhere, whatever is sent: a request for missing parts, or a receipt.
"""

from collections.abc import Mapping
from typing import NamedTuple

from app.model.message import PhysicalMessage
from app.ports import AskingReceiver, Receiver
from app.settings import Settings


class ReplyPath(NamedTuple):
    """A receiver, and the address to which it can send a reply."""

    by: AskingReceiver
    address: str


class ReplyPaths:
    """The receivers of each source, by which replies go; those of sources that are the same count as one."""

    def __init__(self, settings: Settings, receivers: Mapping[str, Receiver]) -> None:
        self._receivers: dict[str, list[Receiver]] = {}
        for name, receiver in receivers.items():
            self._receivers.setdefault(settings.named(name), []).append(receiver)

    def is_connected(self, source: str) -> bool:
        """Return whether a receiver of the source is connected."""
        return any(each.status()["connected"] for each in self._receivers.get(source, ()))

    def to_sender(self, source: str, message: PhysicalMessage) -> ReplyPath | None:
        """Return the way to the sender of a message; None if it names no address, if that is not allowed, or if no
        receiver is connected."""
        for receiver in self._receivers.get(source, ()):
            if isinstance(receiver, AskingReceiver) and receiver.status()["connected"]:
                address = receiver.reply_address(message)
                if address is not None:
                    return ReplyPath(receiver, address)
        return None
