"""The open connections of a server: how many there may be, in all and from one address, and which one gives way.

If all places are taken, a new connection gets that of the one that has been idle longest, else that of the one whose
caller has not proved for longest who he is. None gives way to one of an address that has more connections: a flood
from few addresses must keep nobody else from being answered.
"""

from collections import defaultdict
from itertools import chain
from typing import Protocol


class Replaceable(Protocol):
    """A connection that may be closed for another while it is idle, or while nobody knows whose it is."""

    @property
    def address(self) -> str | None:
        """The address at the other end: the proxy's, if there is one."""

    def is_closing(self) -> bool:
        """Return whether it is being closed already."""

    def abort(self) -> None:
        """Close it at once."""


class _Group:
    """Connections, and those among them that give way, in the order in which they do."""

    def __init__(self) -> None:
        self.all: set[Replaceable] = set()
        self.idle: dict[Replaceable, None] = {}
        self.unproved: dict[Replaceable, None] = {}


class ConnectionPlaces:
    """The connections of one server that have a place: at most `limit`, and `limit_a_client` of one address.

    Only the thread of the server's event loop may use it.
    """

    def __init__(self, limit: int, limit_a_client: int) -> None:
        self._limit, self._limit_a_client = limit, limit_a_client
        self._all = _Group()
        self._by_address: defaultdict[str | None, _Group] = defaultdict(_Group)

    def admit(self, new: Replaceable) -> bool:
        """Give a connection, which is idle, a place. Return whether it has one: all others may be busy."""
        for group in self._groups(new):
            group.all.add(new)
        self.idle(new)
        own = self._by_address[new.address]
        if self._has_room(own, self._limit_a_client, new) and self._has_room(self._all, self._limit, new):
            return True
        self.remove(new)
        return False

    def idle(self, connection: Replaceable) -> None:
        """Note that a connection has become idle."""
        self.busy(connection)
        if connection in self._all.all:
            for group in self._groups(connection):
                group.idle[connection] = None

    def unproved(self, connection: Replaceable) -> None:
        """Note that a connection has become busy with a request whose caller has not proved who he is."""
        self.busy(connection)
        if connection in self._all.all:
            for group in self._groups(connection):
                group.unproved[connection] = None

    def busy(self, connection: Replaceable) -> None:
        """Note that a connection is busy for somebody who is known: it does not give way."""
        if connection in self._all.all:
            for group in self._groups(connection):
                group.idle.pop(connection, None)
                group.unproved.pop(connection, None)

    def is_idle(self, connection: Replaceable) -> bool:
        return connection in self._all.idle

    def remove(self, connection: Replaceable) -> None:
        """Forget a connection that is closed, or that is being closed and keeps no place."""
        if connection not in self._all.all:
            return
        self.busy(connection)
        for group in self._groups(connection):
            group.all.discard(connection)
        if not self._by_address[connection.address].all:
            del self._by_address[connection.address]

    def _has_room(self, group: _Group, limit: int, new: Replaceable) -> bool:
        """Return whether a new connection may stay in a group, for which another one may have to be closed."""
        if len(group.all) <= limit:
            return True
        size = len(self._by_address[new.address].all)
        for each in chain(group.idle, group.unproved):
            if each is not new and not each.is_closing() and len(self._by_address[each.address].all) >= size:
                each.abort()
                self.remove(each)
                return True
        return False

    def _groups(self, connection: Replaceable) -> tuple[_Group, _Group]:
        return self._all, self._by_address[connection.address]
