"""The beginning of a connection over TLS: the handshake, within the limits that connections have.

asyncio tells a protocol of its connection after the handshake. Until then a client could hold a descriptor for a
minute, as often as it likes. So the server listens without TLS: a connection has its place from its first moment, and
`http.header_timeout` for the handshake. The protocol of HTTP, which takes a place of its own, continues it.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from uvicorn.protocols.utils import get_remote_addr

from app.web.server.http_protocol import LimitedProtocol
from app.web.server.open_connections import ConnectionPlaces


class TlsHandshake(asyncio.Protocol):
    """A connection until its handshake has ended; `make` returns the protocol that continues it."""

    def __init__(self, context: ssl.SSLContext, make: Callable[[], LimitedProtocol]) -> None:
        self._context, self._protocol = context, make()
        self._connections: set[Any] = self._protocol.connections
        self.address: str | None = None
        self._socket: socket.socket | None = None
        self._place: ConnectionPlaces | None = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        client = get_remote_addr(transport)
        self.address = client[0] if client else None
        places = (self._protocol.places, self._protocol.health_places)
        self._place = next((each for each in places if each.admit(self)), None)
        if self._place is not None:
            # Nothing has been read yet: the connection goes on by another descriptor.
            self._socket = transport.get_extra_info("socket").dup()
            self._connections.add(self)  # uvicorn calls their `shutdown`
            self._task = asyncio.get_running_loop().create_task(self._shake_hands(self._socket))
        transport.abort()

    async def _shake_hands(self, connection: socket.socket) -> None:
        within = self._protocol.limits.header_timeout.total_seconds()
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._continued, connection, ssl=self._context, ssl_handshake_timeout=within
            )
        except OSError:  # of TLS, of time, or of a client that has left
            connection.close()
        finally:
            self._leave()

    def _continued(self) -> LimitedProtocol:
        """Return the protocol, which gets the place when the handshake has ended."""
        begin = self._protocol.connection_made

        def connection_made(transport: asyncio.Transport) -> None:
            self._leave()
            begin(transport)

        self._protocol.connection_made = connection_made  # type: ignore[method-assign]
        return self._protocol

    def _leave(self) -> None:
        self._connections.discard(self)
        if self._place is not None:
            self._place.remove(self)
            self._place = None

    def is_closing(self) -> bool:
        return self._place is None

    def abort(self) -> None:
        """Close the connection at once."""
        self._leave()
        if self._socket is not None:
            with suppress(OSError):  # it is closed already
                self._socket.shutdown(socket.SHUT_RDWR)

    shutdown = abort
