"""The places of conversions, and who gets the next one.

Callers share places fairly: a free one goes to the caller that has the fewest, and among those to the one that got its
last one longest ago. So whoever asks for much waits for itself, not others for it.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import Enum, auto
from itertools import count

from app.settings import Limits

WAIT_SECONDS = 60.0
"""The longest time that a conversion waits for a place."""
_CALLERS = 10_000
"""The maximum number of callers whose last turn is in memory."""


class Busy(Exception):
    """All places are taken, and the most allowed conversions wait."""


class SlotUse(Enum):
    """What a place is for."""

    UPLOAD = auto()
    DOWNLOAD = auto()
    QUERY = auto()


class _Waiter:
    def __init__(self, use: SlotUse, who: str) -> None:
        self.use, self.who = use, who
        self.granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def has_place(self) -> bool:
        return self.granted.done() and not self.granted.cancelled() and self.granted.exception() is None


class ConversionPlaces:
    """The places. Only the thread of the event loop may use them.

    Downloads leave one free for uploads, since their clients may be slow. Queries, which may be endless, have places of
    their own, and each caller leaves one of them to others.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._waiting: list[_Waiter] = []
        self._taken: Counter[tuple[SlotUse, str]] = Counter()
        self._last_turns: dict[str, int] = {}
        self._turns = count(1)

    @asynccontextmanager
    async def taken(self, use: SlotUse, who: str) -> AsyncIterator[None]:
        """Hold a place of a caller for the length of the block. Raises Busy."""
        waiter = _Waiter(use, who)
        self._waiting.append(waiter)
        self._grant()
        if not waiter.granted.done():
            self._refuse_one_too_many(use)
        try:
            try:
                async with asyncio.timeout(WAIT_SECONDS):
                    await waiter.granted
            except TimeoutError:
                raise Busy(f"no conversion ended for {WAIT_SECONDS:.0f} seconds") from None
            yield
        finally:
            if waiter.has_place:
                self._taken[use, who] -= 1
                self._taken += Counter()  # forgets those that have none
            else:
                self._waiting = [each for each in self._waiting if each is not waiter]
            self._grant()

    def _grant(self) -> None:
        """Give the free places to those whose turn it is."""
        for waiter in sorted(self._waiting, key=self._turn):
            if not waiter.granted.done() and self._is_free(waiter.use, waiter.who):
                waiter.granted.set_result(None)
                self._taken[waiter.use, waiter.who] += 1
                self._last_turns.pop(waiter.who, None)
                self._last_turns[waiter.who] = next(self._turns)
                if len(self._last_turns) > _CALLERS:
                    del self._last_turns[next(iter(self._last_turns))]
        self._waiting = [each for each in self._waiting if not each.granted.done()]

    def _turn(self, waiter: _Waiter) -> tuple[int, int]:
        return self._taken[waiter.use, waiter.who], self._last_turns.get(waiter.who, 0)

    def _is_free(self, use: SlotUse, who: str) -> bool:
        if use is SlotUse.QUERY:
            own = self._taken[use, who]
            return self._count(use) < self._limits.queries and own < self._limits.queries - 1
        downloads = self._count(SlotUse.DOWNLOAD)
        if use is SlotUse.DOWNLOAD and downloads >= max(1, self._limits.conversions - 1):
            return False
        return downloads + self._count(SlotUse.UPLOAD) < self._limits.conversions

    def _count(self, use: SlotUse) -> int:
        return sum(number for (of, _), number in self._taken.items() if of is use)

    def _refuse_one_too_many(self, use: SlotUse) -> None:
        """Refuse the newest of the caller that has most waiting, if more wait than may."""
        waiting = [each for each in self._waiting if each.use is use and not each.granted.done()]
        if len(waiting) <= self._limits.conversions_waiting:
            return
        ((most, _),) = Counter(each.who for each in reversed(waiting)).most_common(1)
        newest = next(each for each in reversed(waiting) if each.who == most)
        running = self._limits.queries if use is SlotUse.QUERY else self._limits.conversions
        newest.granted.set_exception(Busy(f"{running} conversions run and {len(waiting) - 1} wait; try again later"))
