"""The open connections of a server by their addresses, and those of them that are idle, longest first.

What a new connection costs depends on no other: a flood of them must not keep the gateway from answering.
"""

from collections import defaultdict
from typing import Protocol


class Idling(Protocol):
    """A connection that may be closed for another while it is idle."""

    @property
    def address(self) -> str | None:
        """The address at the other end: that of a proxy, if there is one."""

    def is_closing(self) -> bool:
        """Return whether it is being closed already."""

    def abort(self) -> None:
        """Close it at once."""


class _Group:
    """Connections, and the idle ones among them in the order in which they became idle."""

    def __init__(self) -> None:
        self.all: set[Idling] = set()
        self.idle: dict[Idling, None] = {}

    def idlest(self, other_than: Idling) -> Idling | None:
        for each in self.idle:
            if each is not other_than and not each.is_closing():
                return each
        return None


class Connections:
    """All connections of one server. Only the thread of its event loop may use it."""

    def __init__(self) -> None:
        self._all = _Group()
        self._by_address: defaultdict[str | None, _Group] = defaultdict(_Group)

    def add(self, connection: Idling) -> None:
        """Add a new connection, which is idle."""
        for group in self._groups(connection):
            group.all.add(connection)
        self.idle(connection)

    def idle(self, connection: Idling) -> None:
        """Note that a connection has become idle."""
        if connection in self._all.all:
            for group in self._groups(connection):
                group.idle[connection] = None

    def busy(self, connection: Idling) -> None:
        """Note that a connection is not idle any more."""
        if connection in self._all.all:
            for group in self._groups(connection):
                group.idle.pop(connection, None)

    def is_idle(self, connection: Idling) -> bool:
        return connection in self._all.idle

    def remove(self, connection: Idling) -> None:
        """Forget a connection that is closed, or that is being closed and keeps no place."""
        if connection not in self._all.all:
            return
        self.busy(connection)
        for group in self._groups(connection):
            group.all.discard(connection)
        if not self._by_address[connection.address].all:
            del self._by_address[connection.address]

    def beyond(self, connection: Idling, limit: int, *, of_its_address: bool) -> bool:
        """Tell whether there are more than `limit` connections, in all or of the address of one."""
        return len(self._group(connection, of_its_address).all) > limit

    def idlest(self, connection: Idling, *, of_its_address: bool) -> Idling | None:
        """Return the connection that has been idle longest beside this one, in all or of its address; None without."""
        return self._group(connection, of_its_address).idlest(connection)

    def _group(self, connection: Idling, of_its_address: bool) -> _Group:
        return self._by_address[connection.address] if of_its_address else self._all

    def _groups(self, connection: Idling) -> tuple[_Group, _Group]:
        return self._all, self._by_address[connection.address]
