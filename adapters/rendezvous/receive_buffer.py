"""What has come and waits for the journal, in memory and bounded.

A daemon holds up every client when one of them does not read. So the thread that reads never waits: what the buffer has
no room for is dropped, counted and told of.
"""

from collections import deque
from threading import Condition

from app.model.message import MAX_ROWS_A_BATCH, PhysicalMessage, footprint

Refusal = tuple[str, str]
"""Why a message was not understood: a word for programs, a sentence for people."""

_MESSAGE_BYTES = 2048
"""What a message takes beside its body and its properties."""
_BATCH_BYTES = 4 << 20


class Buffer:
    """One thread puts, one thread takes. The lock of `_changed` guards all fields."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: deque[tuple[PhysicalMessage, Refusal | None, int]] = deque()
        self._changed = Condition()
        self._closed = False
        self.bytes = 0
        self.dropped = 0

    def put(self, message: PhysicalMessage, refusal: Refusal | None = None) -> bool:
        """Take a message in; False when there is no room for it."""
        size = footprint(message) + _MESSAGE_BYTES
        with self._changed:
            if self._held and self.bytes + size > self._limit:
                self.dropped += 1
                return False
            self._held.append((message, refusal, size))
            self.bytes += size
            self._changed.notify_all()
        return True

    def take(self) -> tuple[list[PhysicalMessage], Refusal | None] | None:
        """Return messages that go on together, or one that was refused; None once the buffer is closed and empty."""
        with self._changed:
            self._changed.wait_for(lambda: self._held or self._closed)
            if not self._held:
                return None
            messages: list[PhysicalMessage] = []
            taken = 0
            while self._held and len(messages) < MAX_ROWS_A_BATCH and taken < _BATCH_BYTES:
                _, refusal, _ = self._held[0]
                if refusal is not None and messages:
                    break
                message, _, size = self._held.popleft()
                messages.append(message)
                taken += size
                self.bytes -= size
                if refusal is not None:
                    return messages, refusal
            return messages, None

    def close(self) -> None:
        """Take nothing more in."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
