"""The connection that is closed for a new one is the one that is idle for longest."""

from app.web.connections import Connections


class Connection:
    """A connection from an address; the test says when it is closing."""

    def __init__(self, address: str) -> None:
        self.address: str | None = address
        self.closing = False

    def is_closing(self) -> bool:
        return self.closing

    def abort(self) -> None:
        self.closing = True


def test_the_idlest_is_found_in_all_and_of_an_address() -> None:
    opened = Connections()
    first, second, other, new = (Connection(address) for address in ("a", "a", "b", "a"))
    for each in (other, first, second, new):
        opened.add(each)
    assert opened.idlest(new, of_its_address=False) is other
    assert opened.idlest(new, of_its_address=True) is first
    opened.busy(first)
    assert opened.idlest(new, of_its_address=True) is second
    opened.idle(first)
    assert opened.idlest(new, of_its_address=True) is second, "the first has been idle for less time"
    second.abort()
    assert opened.idlest(new, of_its_address=True) is first
    opened.busy(first)
    assert opened.idlest(new, of_its_address=True) is None, "a new connection is not closed for itself"


def test_what_is_removed_does_not_count_and_stays_away() -> None:
    opened = Connections()
    first, other = Connection("a"), Connection("b")
    for each in (first, other):
        opened.add(each)
    assert opened.beyond(first, 1, of_its_address=False)
    assert not opened.beyond(first, 1, of_its_address=True)
    opened.remove(other)
    opened.remove(other)
    opened.idle(other)
    opened.busy(other)
    assert not opened.beyond(first, 1, of_its_address=False)
    assert opened.idlest(first, of_its_address=False) is None
    assert not opened.is_idle(other)
    assert list(opened._by_address) == ["a"]
