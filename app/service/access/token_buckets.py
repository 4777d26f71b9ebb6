"""Token buckets: how many requests, and how many bytes of content, each client may have a second.

A bucket begins full, with what ten seconds allow, and refills at its rate. A request takes one token. Bytes may take a
bucket below zero: a transfer that has begun is never cut or slowed. The next request is refused until the bucket has
tokens again, so the rate holds on the average.

Responses tell clients by the fields of draft-ietf-httpapi-ratelimit-headers.
"""

from collections import OrderedDict
from collections.abc import Callable
from ipaddress import ip_address, ip_network
from math import ceil, floor
from typing import NamedTuple

from app.model.principals import Principal

WINDOW_SECONDS = 10
"""A full bucket has what its rate allows in this time."""
CLIENTS = 10_000
"""The maximum number of clients in memory. The one that was last seen longest ago is forgotten."""
_NETWORK_BITS = 64
"""An address of IPv6 counts with its network: a host can have all of that network's addresses."""


class RateExceeded(Exception):
    """A client has used up what a policy allows. It may try again after so many seconds."""

    def __init__(self, policy: str, seconds: int) -> None:
        super().__init__(policy)
        self.policy, self.seconds = policy, seconds


class _Level(NamedTuple):
    tokens: float
    at: float


class Buckets:
    """The buckets of all clients by one policy. `unit` is the draft's quota unit."""

    def __init__(self, name: str, rate: int, unit: str, monotonic: Callable[[], float]) -> None:
        """Begin with full buckets. `rate` is in tokens a second."""
        self._name, self._rate, self._full, self._monotonic = name, rate, rate * WINDOW_SECONDS, monotonic
        self._levels: OrderedDict[str, _Level] = OrderedDict()
        self.policy = f'"{name}";q={self._full};w={WINDOW_SECONDS}' + (f';qu="{unit}"' if unit != "requests" else "")

    def tokens(self, client: str) -> float:
        """Return how many tokens a client has now."""
        level = self._levels.get(client)
        if level is None:
            return self._full
        return min(self._full, level.tokens + (self._monotonic() - level.at) * self._rate)

    def take(self, client: str, tokens: float) -> None:
        """Take tokens, even if there are too few. A negative number gives some back."""
        self._levels[client] = _Level(min(self._full, self.tokens(client) - tokens), self._monotonic())
        self._levels.move_to_end(client)
        if len(self._levels) > CLIENTS:
            self._levels.popitem(last=False)

    def require(self, client: str, tokens: float) -> None:
        """Raise RateExceeded unless a client has this number of tokens."""
        missing = tokens - self.tokens(client)
        if missing > 0:
            raise RateExceeded(self._name, ceil(missing / self._rate))

    def state(self, client: str) -> str:
        """Return the item of the field `RateLimit`: the tokens that remain, and the seconds until it is full."""
        tokens = self.tokens(client)
        return f'"{self._name}";r={max(0, floor(tokens))};t={ceil((self._full - tokens) / self._rate)}'


class Rates:
    """The policies that the settings name. Only one thread may use them."""

    def __init__(self, requests: int | None, content: int | None, monotonic: Callable[[], float]) -> None:
        """Take the limits a second: of requests, and of bytes of content. None means no limit."""
        self._requests = None if requests is None else Buckets("requests", requests, "requests", monotonic)
        self._bytes = None if content is None else Buckets("bytes", content, "content-bytes", monotonic)
        self._all = [each for each in (self._requests, self._bytes) if each is not None]

    def begin(self, client: str) -> None:
        """Count a request. Raises RateExceeded, and counts nothing then."""
        for buckets in self._all:
            buckets.require(client, 1)
        if self._requests is not None:
            self._requests.take(client, 1)

    def add_bytes(self, client: str, size: int) -> None:
        """Count bytes of content that a client sends or gets; a negative number takes announced ones back."""
        if self._bytes is not None and size:
            self._bytes.take(client, size)

    def fields(self, client: str) -> list[tuple[str, str]]:
        """Return the header fields that tell a client its limits."""
        return [
            ("RateLimit-Policy", ", ".join(each.policy for each in self._all)),
            ("RateLimit", ", ".join(each.state(client) for each in self._all)),
        ]


def client_of(principal: Principal | None, address: str | None) -> str:
    """Return whose buckets count: the key's or the token's, else the address's."""
    if principal is not None and principal.kind != "anonymous":
        return f"{principal.kind} {principal.id} {principal.name}"
    try:
        found = ip_address(address or "")
    except ValueError:
        return f"address {address}"
    return f"address {ip_network((found, _NETWORK_BITS), strict=False) if found.version == 6 else found}"
