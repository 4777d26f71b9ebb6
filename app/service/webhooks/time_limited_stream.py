"""Network streams with a time limit for a whole request.

The limits of httpcore are those of one read or write each. A receiver that sends a byte now and then keeps within them.
"""

import ssl
from math import inf
from time import monotonic
from typing import Any

import httpcore


class Deadline:
    """The time at which a request must have ended."""

    def __init__(self) -> None:
        self._at = inf

    def begin(self, seconds: float) -> None:
        """Give the next request so many seconds."""
        self._at = monotonic() + seconds

    def within(self, timeout: float | None) -> float:
        """Return how long one operation may take: at most `timeout`. Raises httpcore.ReadTimeout if no time is left."""
        left = self._at - monotonic()
        if left <= 0:
            raise httpcore.ReadTimeout("timed out")
        return left if timeout is None else min(left, timeout)


class LimitedStream(httpcore.NetworkStream):
    """A stream whose operations end at a deadline."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._stream, self._deadline = stream, deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._deadline.within(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._deadline.within(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        within = self._deadline.within(timeout)
        return LimitedStream(self._stream.start_tls(ssl_context, server_hostname, within), self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
