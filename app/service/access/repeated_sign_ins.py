"""Failed sign-ins of one address, so many that they would push older entries out of the audit log: they are counted."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from time import monotonic

from app.service.access.audit import Entry, entry

WINDOW_SECONDS = 60.0
MOST = 500
"""The maximum number of entries of one address in a window. Further ones are counted in one entry at its end."""
ADDRESSES = 10_000
"""The maximum number of addresses in memory."""


@dataclass(slots=True)
class _Window:
    since: float
    added: int = 0
    left_out: int = 0


class Repeats:
    """Adds the failed sign-ins to the audit log, through `add`. The lock guards `_windows`."""

    def __init__(self, add: Callable[[Entry], None]) -> None:
        self._add = add
        self._windows: OrderedDict[object, _Window] = OrderedDict()
        self._lock = Lock()

    def add(self, failed: Entry) -> None:
        """Add the entry of a failed sign-in, or count it."""
        with self._lock:
            window = self._window(failed.get("from"))
            if window.added < MOST:
                window.added += 1
                self._add(failed)
            else:
                window.left_out += 1

    def flush(self) -> None:
        """Add entries for what was only counted so far."""
        with self._lock:
            for address, window in self._windows.items():
                self._tell(address, window)

    def _window(self, address: object) -> _Window:
        now = monotonic()
        window = self._windows.get(address)
        if window is not None and now - window.since < WINDOW_SECONDS:
            return window
        if window is not None:
            self._tell(address, self._windows.pop(address))
        if len(self._windows) >= ADDRESSES:
            self._tell(*self._windows.popitem(last=False))
        self._windows[address] = _Window(now)
        return self._windows[address]

    def _tell(self, address: object, window: _Window) -> None:
        if window.left_out:
            count, window.left_out = window.left_out, 0
            reason = f"{count} more failed sign-ins from this address"
            told = entry("sign-in", "refused", who=None, count=count, reason=reason)
            self._add({**told, "from": address})
