"""The messages that a source has received, and that its broker may send again.

Until a broker has got the acknowledgement of a message it may send it again, also on the next connection of the
session. The packet identifier then stands for the message that was received already, which must not be submitted twice.
With QoS 2 this lasts until the broker sends PUBREL (MQTT, 4.3.3). If the broker has no session any more, it has
forgotten all identifiers.

A duplicate is better than a loss. So a message counts as repeated only if it has DUP set and has the same bytes: a
broker may have given its identifier to another one.

Where messages are numbered on arrival, a duplicate is no better than a loss. There the journal keeps which delivery a
message was (`Delivery`), so that repeated messages are known after a restart, and with QoS 1, too. But with QoS 1, and
after a restart, it is unknown whether the broker has got an acknowledgement and used the identifier again. Most brokers
count: each message has the next identifier. With such a broker an identifier shows which message it is, and whether one
is missing before it. `in_doubt` says what is not proved.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from crc32c import crc32c

from adapters.mqtt.client import Arrival
from app.codecs.mqtt.properties import message_expiry_interval

_IDENTIFIERS: Final = 65_535
_HALF: Final = _IDENTIFIERS // 2


class Delivery(NamedTuple):
    """Which delivery of a broker a message is: the session, the QoS, the packet identifier, and a checksum."""

    session: str
    qos: int
    mid: int
    checksum: int

    @classmethod
    def of(cls, session: str, arrival: Arrival) -> "Delivery":
        """Return the delivery of a message in a session.

        Its checksum is of the packet's topic, properties and payload, and has the length in its high bits. It leaves
        out the message expiry interval, which the broker counts down.
        """
        packet = arrival.packet
        expiry = message_expiry_interval(arrival.properties()) if arrival.payload_at > arrival.properties_at else None
        if expiry is None:
            checksum = crc32c(packet)
        else:
            start, stop = arrival.properties_at + expiry.start, arrival.properties_at + expiry.stop
            checksum = crc32c(packet[stop:], crc32c(packet[:start]))
        return cls(session, arrival.qos, arrival.mid, checksum | len(packet) << 32)

    @classmethod
    def parse(cls, text: str) -> "Delivery | None":
        """Return the delivery that a text names; None for any other text."""
        try:
            session, qos, mid, checksum = text.split(" ")
            return cls(session, int(qos), int(mid), int(checksum, 16))
        except ValueError:
            return None

    def __str__(self) -> str:
        return f"{self.session} {self.qos} {self.mid} {self.checksum:x}"


@dataclass(slots=True)
class FirstCopy:
    """The first copy of a message: its checksum, whether it is on disk, and whether the broker may have given its
    identifier to another message since."""

    qos: int
    checksum: int
    is_durable: bool = False
    may_be_reused: bool = False


class SeenMessages:
    """First copies of messages by packet identifier. Only the thread that reads uses it."""

    def __init__(self) -> None:
        self._copies: dict[int, FirstCopy] = {}
        self._last = 0
        """The identifier of the newest message; 0 if there is none."""
        self._steps = 0
        self.is_ascending = True
        """Whether no identifier was given again soon."""
        self._is_consecutive = True
        self._is_resumed = self._is_reconnected = False
        """Whether the next message must have the next identifier: always, or if the broker counts."""

    @classmethod
    def resumed(cls, deliveries: list[Delivery]) -> "SeenMessages":
        """Return what an earlier process has seen and journalled, in this order."""
        seen = cls()
        for each in deliveries:
            seen.add(each).is_durable = True
        for copy in seen._copies.values():
            copy.may_be_reused = True
        seen._is_resumed = True
        return seen

    def reconnected(self) -> None:
        """Take note of another connection of the session."""
        self._is_reconnected = True

    def repeated(self, delivery: Delivery, arrival: Arrival) -> FirstCopy | None:
        """Return the first copy of a message; None if this is the first, or nothing proves that it is not."""
        copy = self._copies.get(delivery.mid)
        if copy is None or not arrival.repeated or (copy.qos, copy.checksum) != (delivery.qos, delivery.checksum):
            return None
        if copy.may_be_reused and (not self.is_ascending or self._is_next(delivery.mid)):
            return None
        return copy

    def in_doubt(self, delivery: Delivery, arrival: Arrival) -> str | None:
        """Return why nothing proves that a message follows the one before it; None if it does. `repeated` has returned
        None for it."""
        is_next = self._is_next(delivery.mid)
        must_be_next = self._is_resumed or (self._is_reconnected and self._steps > 0 and self._is_consecutive)
        self._is_resumed = self._is_reconnected = False
        if must_be_next and not is_next:
            return f"packet identifier {delivery.mid} follows {self._last}: nothing proves that no message is missing"
        copy = self._copies.get(delivery.mid) if arrival.repeated and not is_next else None
        if copy is not None and (self.is_ascending or copy.checksum == delivery.checksum):
            return f"packet identifier {delivery.mid} comes again: nothing proves which message it stands for"
        return None

    def add(self, delivery: Delivery) -> FirstCopy:
        """Note the first copy of a message."""
        self.skip(delivery.mid)
        copy = self._copies[delivery.mid] = FirstCopy(delivery.qos, delivery.checksum)
        return copy

    def skip(self, mid: int) -> None:
        """Note the identifier of a message that is not handed over."""
        if self._last:
            self._steps += 1
            self.is_ascending = self.is_ascending and 0 < (mid - self._last) % _IDENTIFIERS < _HALF
            self._is_consecutive = self._is_consecutive and self._is_next(mid)
        self._last = mid

    def release(self, mid: int) -> None:
        """Forget a message: its identifier will be given to another one."""
        self._copies.pop(mid, None)

    def _is_next(self, mid: int) -> bool:
        return mid == self._last % _IDENTIFIERS + 1
