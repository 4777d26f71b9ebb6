"""Connections to hosts whose addresses are checked.

A name is resolved once for each connection, and the connection goes to the address that was checked. So a name server
cannot give a public address for the check and a private one for the connection.
"""

import socket
import ssl
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from math import inf
from time import monotonic
from typing import Any

import httpcore


class Deadline:
    """The time at which a request must have ended."""

    def __init__(self) -> None:
        self._at = inf

    def begin(self, seconds: float) -> None:
        """Give the next request this number of seconds."""
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


Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_NAT64 = ip_network("64:ff9b::/96")
_GLOBAL_UNICAST = ip_network("2000::/3")
"""All that is allocated to public hosts. What Python calls global is more: site-local addresses, and those of
translators (64:ff9b:1::/48, RFC 8215), which lead to any address of IPv4."""


class RefusedAddress(Exception):
    """A host none of whose addresses may be connected to."""


def is_allowed(address: Address, networks: Sequence[Network]) -> bool:
    """Return whether an address is public, or in one of these networks.

    An IPv6 address that stands for an IPv4 address is as public as that one.
    """
    if any(address.version == network.version and address in network for network in networks):
        return True
    if isinstance(address, IPv4Address):
        inner = None
    elif address in _NAT64:
        inner = IPv4Address(int(address) & 0xFFFFFFFF)
    else:
        inner = address.ipv4_mapped or address.sixtofour
    if inner is not None:
        return is_allowed(inner, networks)
    is_unicast = address.version == 4 or address in _GLOBAL_UNICAST
    return is_unicast and address.is_global and not address.is_multicast


def resolve(host: str, port: int, networks: Sequence[Network]) -> list[str]:
    """Return those addresses of a host that may be connected to, in the resolver's order.

    Raises RefusedAddress if there are only others, and OSError if the host cannot be resolved.
    """
    found = [str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    allowed = [each for each in found if is_allowed(ip_address(each.partition("%")[0]), networks)]
    if not allowed:
        told = ", ".join(dict.fromkeys(found))
        raise RefusedAddress(f"{host} has the address {told}, which is not public; `networks` can allow it")
    return list(dict.fromkeys(allowed))


class CheckedBackend(httpcore.NetworkBackend):
    """Connects to checked addresses only, until a deadline. TLS still verifies the name of the host."""

    def __init__(self, networks: Sequence[Network], deadline: Deadline) -> None:
        self._networks, self._deadline = networks, deadline
        self._backend = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to the first address that answers. Raises RefusedAddress and httpcore.ConnectError."""
        try:
            addresses = resolve(host, port, self._networks)
        except (OSError, UnicodeError) as error:  # UnicodeError: a label that is empty or too long
            why = getattr(error, "strerror", None) or error
            raise httpcore.ConnectError(f"cannot resolve {host}: {why}") from error
        failed: Exception | None = None
        for address in addresses:
            try:
                within = self._deadline.within(timeout)
                stream = self._backend.connect_tcp(address, port, within, local_address, socket_options)
                return LimitedStream(stream, self._deadline)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failed = error
        assert failed is not None
        raise failed
