"""The connection that gives way to a new one: the one idle longest, else the one unknown longest."""

from app.web.server.open_connections import ConnectionPlaces


class Connection:
    """A connection from an address; the test says when it is closing."""

    def __init__(self, address: str) -> None:
        self.address: str | None = address
        self.closing = False

    def is_closing(self) -> bool:
        return self.closing

    def abort(self) -> None:
        self.closing = True


def admitted(places: ConnectionPlaces, *addresses: str) -> list[Connection]:
    made = [Connection(address) for address in addresses]
    assert all(places.admit(each) for each in made)
    return made


def test_the_idlest_gives_way_and_then_the_one_unknown_longest() -> None:
    places = ConnectionPlaces(4, 3)
    first, second, third, other = admitted(places, "a", "a", "b", "c")
    places.busy(other)
    places.unproved(second)
    places.unproved(first)
    order = []
    for address in "defg":
        new = Connection(address)
        has_place = places.admit(new)
        order.append([each.closing for each in (first, second, third, other)].count(True))
        assert has_place is (address != "g"), "a connection that is busy for somebody known does not give way"
        places.busy(new)
    assert order == [1, 2, 3, 3]
    assert third.closing
    assert not places.is_idle(new)


def test_an_address_takes_places_of_its_own_only() -> None:
    places = ConnectionPlaces(10, 2)
    other, first, second = admitted(places, "b", "a", "a")
    places.unproved(first)
    (third,) = admitted(places, "a")
    assert (first.closing, second.closing, other.closing) == (False, True, False), "idle before unknown"
    places.busy(third)
    admitted(places, "a")
    assert first.closing, "and unknown before one that is known"


def test_none_gives_way_to_an_address_with_more_connections() -> None:
    places = ConnectionPlaces(4, 4)
    single, *many = admitted(places, "a", "b", "b", "b")
    for each in many:
        places.busy(each)
    assert not places.admit(Connection("b"))
    assert not single.closing
    places.unproved(many[1])
    assert places.admit(Connection("b"))
    assert (single.closing, many[1].closing) == (False, True), "it takes a place of its own address"
    admitted(places, "c")
    assert single.closing


def test_what_is_removed_does_not_count_and_stays_away() -> None:
    places = ConnectionPlaces(2, 2)
    first, other = admitted(places, "a", "b")
    for _ in range(2):
        places.remove(other)
    for note in (places.idle, places.unproved, places.busy):
        note(other)
    assert not places.is_idle(other)
    assert list(places._by_address) == ["a"]
    admitted(places, "b")
    assert not first.closing
