"""Queues with one server that takes what waits as a batch, in simulated time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from math import ceil, inf
from typing import NamedTuple


class Amount(NamedTuple):
    """What a batch has. Its bytes are in so many segments of the journal."""

    attachments: float
    messages: float
    size: float
    objects: float = 1


class Events:
    """What happens, in the order of time."""

    def __init__(self) -> None:
        self.now = 0.0
        self._next: list[tuple[float, int, Callable[[], None]]] = []
        self._number = count()

    def at(self, when: float, act: Callable[[], None]) -> None:
        heappush(self._next, (when, next(self._number), act))

    def run(self, until: float) -> None:
        """Let all happen that happens until then."""
        while self._next and self._next[0][0] <= until:
            self.now, _, act = heappop(self._next)
            act()


@dataclass
class Came:
    """Attachments that came at one time, and the number of their pieces that are not assembled yet."""

    at: float
    left: int


class Piece(NamedTuple):
    """What one receiver gets of attachments that came together."""

    came: Came
    has: Amount


def total(pieces: Sequence[Piece], objects: float = 1) -> Amount:
    """Return what pieces have together, as a batch from so many segments."""
    return Amount(
        sum(each.has.attachments for each in pieces),
        sum(each.has.messages for each in pieces),
        sum(each.has.size for each in pieces),
        objects,
    )


class Queue:
    """A queue with one server. It takes what waits as a batch of at most `most` bytes, and looks each `pause` seconds
    if it had nothing to do."""

    def __init__(
        self,
        events: Events,
        seconds: Callable[[list[Piece]], float],
        done: Callable[[list[Piece]], None],
        most: float = inf,
        pause: float = 0.0,
    ) -> None:
        self._events, self._seconds, self._done, self._most, self._pause = events, seconds, done, most, pause
        self.waiting: list[Piece] = []
        self.served: list[Piece] = []
        """The batch that is being served."""
        self.busy = 0.0
        self._is_working = False

    def put(self, pieces: Sequence[Piece]) -> None:
        self.waiting += pieces
        if not self._is_working:
            self._is_working = True
            now = self._events.now
            self._events.at(ceil(now / self._pause) * self._pause if self._pause else now, self._begin)

    def _begin(self) -> None:
        size, number = 0.0, 0
        while number < len(self.waiting) and (not number or size < self._most):
            size += self.waiting[number].has.size
            number += 1
        self.served, self.waiting = self.waiting[:number], self.waiting[number:]
        seconds = self._seconds(self.served)
        self.busy += seconds
        self._events.at(self._events.now + seconds, self._end)

    def _end(self) -> None:
        batch, self.served = self.served, []
        self._done(batch)
        if self.waiting:
            self._begin()
        else:
            self._is_working = False
