"""The messages of QoS 2 that a source has taken, and that its broker has not released yet.

Until the broker has got a PUBREC it may send the same message again, also on the next connection of the session. The
packet identifier then stands for the message that was taken already, which must not be handed over twice (MQTT, 4.3.3).
The broker ends this with PUBREL; if it has no session any more, it has forgotten all identifiers.

A duplicate is better than a loss. So a message counts as repeated only if it has DUP set, and if its packet begins with
the same bytes: a broker that lets a message expire between two attempts may have given its identifier to another one.
All this is in memory. After a restart of the gateway, messages whose PUBREC did not arrive come twice.
"""

from dataclasses import dataclass

from crc32c import crc32c

from adapters.mqtt.client import Arrival

_COMPARED = 4096
"""The bytes of a packet that are compared: topic, properties, and an MQ image's descriptor are among them."""


@dataclass(slots=True)
class Copy:
    """The first copy of a message of QoS 2: a checksum of it, and whether it is on disk."""

    checksum: int
    is_durable: bool = False


class Taken:
    """First copies by packet identifier. Only the thread that reads uses it."""

    def __init__(self) -> None:
        self._copies: dict[int, Copy] = {}

    def repeated(self, arrival: Arrival) -> Copy | None:
        """Return the first copy of a message; None if this is the first."""
        copy = self._copies.get(arrival.mid)
        is_repeated = copy is not None and arrival.repeated and copy.checksum == _checksum(arrival)
        return copy if is_repeated else None

    def take(self, arrival: Arrival) -> Copy:
        """Note the first copy of a message."""
        copy = self._copies[arrival.mid] = Copy(_checksum(arrival))
        return copy

    def release(self, mid: int) -> None:
        """Forget a message: the identifier stands for another one from now on."""
        self._copies.pop(mid, None)

    def clear(self) -> None:
        """Forget all messages."""
        self._copies.clear()


def _checksum(arrival: Arrival) -> int:
    packet = arrival.packet
    return crc32c(packet[:_COMPARED], len(packet))
