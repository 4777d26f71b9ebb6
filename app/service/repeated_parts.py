"""The parts that came again with the same bytes, as far as this process has seen them.

The catalog keeps only their number. So this is for people who look at an attachment while it is received.
"""

from collections import OrderedDict
from threading import Lock
from typing import Final

ATTACHMENTS: Final = 1000
NUMBERS: Final = 10_000
"""The most sequence numbers of an attachment that are kept."""


class RepeatedParts:
    """Sequence numbers of repeated parts, of the attachments that got one last. The lock guards `_known`."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, set[int]] = OrderedDict()
        self._lock = Lock()

    def add(self, attachment_id: str, sequence: int) -> None:
        """Record that a part came again."""
        with self._lock:
            numbers = self._known.setdefault(attachment_id, set())
            self._known.move_to_end(attachment_id)
            if len(numbers) < NUMBERS:
                numbers.add(sequence)
            if len(self._known) > ATTACHMENTS:
                self._known.popitem(last=False)

    def of(self, attachment_id: str) -> frozenset[int]:
        """Return the sequence numbers of an attachment's repeated parts."""
        with self._lock:
            return frozenset(self._known.get(attachment_id, ()))
