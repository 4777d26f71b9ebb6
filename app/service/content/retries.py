"""Attachments that failed, and when each is tried again: after a pause that doubles with each failure."""

from collections.abc import Container, Iterator
from itertools import islice
from time import monotonic
from typing import NamedTuple

MOST = 100_000
TOGETHER = 256
"""The most attachments that are tried again together."""


class _Failed(NamedTuple):
    times: int
    due: float


class Retries:
    """The attachments that failed last, by identifier; the oldest failures first.

    The pauses are in seconds. Beyond `MOST` attachments the oldest failures are forgotten.
    """

    def __init__(self, first_pause: float, longest_pause: float) -> None:
        self._first_pause, self._longest_pause = first_pause, longest_pause
        self._failed: dict[str, _Failed] = {}

    def __len__(self) -> int:
        return len(self._failed)

    def __iter__(self) -> Iterator[str]:
        return iter(self._failed)

    def __contains__(self, attachment_id: object) -> bool:
        return attachment_id in self._failed

    def add(self, attachment_id: str) -> bool:
        """Note that an attachment has failed, perhaps again. Return whether another one was forgotten for it."""
        before = self._failed.pop(attachment_id, None)
        times = 1 if before is None else before.times + 1
        if forgets := len(self._failed) >= MOST:
            del self._failed[next(iter(self._failed))]
        pause = min(self._longest_pause, self._first_pause * 2 ** min(times - 1, 20))
        self._failed[attachment_id] = _Failed(times, monotonic() + pause)
        return forgets

    def remove(self, attachment_id: str) -> bool:
        """Note that an attachment has not failed. Return whether it had failed before."""
        return self._failed.pop(attachment_id, None) is not None

    def keep(self, attachment_ids: Container[str]) -> None:
        """Forget all other attachments."""
        self._failed = {each: failed for each, failed in self._failed.items() if each in attachment_ids}

    def is_due(self, attachment_id: str) -> bool:
        """Tell whether an attachment may be tried: it has not failed, or its pause is over."""
        failed = self._failed.get(attachment_id)
        return failed is None or failed.due <= monotonic()

    def due(self) -> list[str]:
        """Return failed attachments whose pause is over, to try together.

        The more often they have failed, the fewer: one of them may be why the others fail.
        """
        now = monotonic()
        due = ((each, failed.times) for each, failed in self._failed.items() if failed.due <= now)
        if (first := next(due, None)) is None:
            return []
        attachment_id, times = first
        more = (each for each, failed_times in due if failed_times == times)
        return [attachment_id, *islice(more, max(0, (TOGETHER >> times) - 1))]
