"""Messages that a broker may refuse for their size without a word.

A broker of MQTT 3.1.1 does not announce its limit of a packet. It ends the connection when a larger one comes, and says
nothing. What shows it: the connection breaks again and again while a message is on its way that is larger than all that
the broker has taken.
"""

from collections.abc import Collection

_AGAIN = 2


class Sizes:
    """The sizes of packets that the broker has taken, and of those with which the connection broke."""

    def __init__(self) -> None:
        self._taken = self._suspected = self._breaks = 0

    @property
    def is_suspected(self) -> bool:
        """Whether messages are to be sent one at a time, so that the one that breaks the connection is known."""
        return self._breaks > 0

    def taken(self, size: int) -> None:
        """Note that the broker has confirmed a packet."""
        self._taken = max(self._taken, size)
        if size >= self._suspected:
            self._suspected = self._breaks = 0

    def broke(self, sizes: Collection[int]) -> str:
        """Note that the connection broke before these packets were confirmed. Return what that shows, as the end of a
        sentence; it is empty if their size is not the reason."""
        size = max(sizes, default=0)
        if size <= self._taken:
            return ""
        self._suspected, self._breaks = size, self._breaks + 1
        if self._breaks < _AGAIN:
            return f" while a packet of {size:,} bytes was sent"
        largest = f"the largest that it has taken has {self._taken:,} bytes" if self._taken else "it has taken none yet"
        return (
            f", again and again when a packet of {size:,} bytes was sent: it is probably over the broker's limit "
            f"({largest}). Raise that limit, or set max_packet_size of the destination to it and send again"
        )
