"""Waiting on conditions."""

from collections.abc import Callable
from time import monotonic, sleep
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 3
"""Factor of all times, for a busy machine."""


def until(condition: Callable[[], T], timeout: float = 30.0, pause: float = 0.02) -> T:
    """Return the condition's first true value. Raises TimeoutError after `timeout` seconds times `PATIENCE`."""
    end = monotonic() + timeout * PATIENCE
    while not (value := condition()):
        if monotonic() > end:
            raise TimeoutError(f"not within {timeout * PATIENCE} seconds")
        sleep(pause)
    return value
