"""A bell that many may wait for."""

from threading import Condition


class Bell:
    """Wakes every waiter when rung; `rings` counts, so that a ring between two looks is not missed."""

    def __init__(self) -> None:
        self._changed = Condition()
        self.rings = 0

    def ring(self) -> None:
        with self._changed:
            self.rings += 1
            self._changed.notify_all()

    def wait(self, heard: int, timeout: float) -> int:
        """Waits until there were more rings than `heard`, or for so many seconds; returns how many there were."""
        with self._changed:
            self._changed.wait_for(lambda: self.rings > heard, timeout)
            return self.rings
