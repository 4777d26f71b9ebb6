"""Waiting on conditions."""

from collections.abc import Callable
from time import monotonic, sleep
from typing import TypeVar

T = TypeVar("T")


def until(condition: Callable[[], T], timeout: float = 30.0, pause: float = 0.02) -> T:
    """The condition's first true value. Raises TimeoutError after `timeout` seconds."""
    end = monotonic() + timeout
    while not (value := condition()):
        if monotonic() > end:
            raise TimeoutError(f"not within {timeout} seconds")
        sleep(pause)
    return value
