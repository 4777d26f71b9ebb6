"""Indexes and integrity constraints on TIB/Rendezvous, against bytes made by the specification."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from app.codecs.sas.rendezvous_indexes import (
    CheckConstraint,
    Constraint,
    ForeignKeyConstraint,
    KeyConstraint,
    RendezvousIndex,
    read_constraints,
    read_indexes,
    write_constraints,
    write_indexes,
)
from app.wire import WireError
from tests.codecs.sas.rendezvous_bytes import Made, i32, message, opaque, string, text

INDEXES = (
    RendezvousIndex(0, "NAME", 1, 1, ("NAME",)),
    RendezvousIndex(3, "NMAGE", 2, 2, ("NAME", "AGE")),
    RendezvousIndex(0, "NONE", 0, 0, ()),
)


def index_fields(index: RendezvousIndex) -> list[Made]:
    """Fields 3 to 9 of the specification."""
    keys = [string(key) for key in index.keys]
    return [i32(index.upercmx), *text(index.name), i32(index.flags), i32(index.variables), i32(len(keys)), *keys]


ATI = message("ATI", [i32(4), i32(3), *(field for index in INDEXES for field in index_fields(index))])

CHECK = Constraint(1, 64, "ck", CheckConstraint(0, 4, "AGE", 12, (b"\1\2", b"\3")))
NO_TREE = Constraint(1, 64, "ck0", CheckConstraint(0, 4, "AGE", 0, ()))
UNIQUE = Constraint(3, 64, "uq", KeyConstraint(2, ("NAME", "AGE")))
ONE_KEY = Constraint(2, 64, "pk", KeyConstraint(1, ("NAME",)))
FOREIGN = Constraint(5, 64, "fk", ForeignKeyConstraint(1, ("NAME",), 60, 1, 2, "pk_name", "WORK", "PEOPLE", 7))

FIELDS = {
    CHECK: [
        i32(1),
        i32(64),
        string("ck"),
        i32(0),
        i32(4),
        string("AGE"),
        i32(12),
        i32(2),
        opaque(b"\1\2"),
        opaque(b"\3"),
    ],
    NO_TREE: [i32(1), i32(64), string("ck0"), i32(0), i32(4), string("AGE"), i32(0), i32(0)],
    UNIQUE: [i32(3), i32(64), string("uq"), i32(2), i32(2), string("NAME"), string("AGE"), i32(1)],
    ONE_KEY: [i32(2), i32(64), string("pk"), i32(1), i32(1), string("NAME"), i32(1)],
    FOREIGN: [
        *(i32(5), i32(64), string("fk"), i32(1), i32(1), string("NAME"), i32(60), i32(1), i32(2), i32(8)),
        *(string("pk_name"), string("WORK    "), *text("PEOPLE"), i32(7)),
    ],
}


def atc(*constraints: Constraint) -> bytes:
    return message("ATC", [i32(5), i32(len(constraints)), *(field for each in constraints for field in FIELDS[each])])


def test_indexes_are_read_and_written() -> None:
    assert read_indexes(ATI) == INDEXES
    assert list(write_indexes(INDEXES)) == [ATI]


@pytest.mark.parametrize("first", FIELDS)
@pytest.mark.parametrize("second", FIELDS)
def test_constraints_of_any_kind_follow_each_other(first: Constraint, second: Constraint) -> None:
    """The codes of a constraint's type are not published: its fields tell what it is."""
    for constraints in [(first,), (first, second), (first, second, first)]:
        assert read_constraints(atc(*constraints)) == constraints
        assert list(write_constraints(constraints)) == [atc(*constraints)]


def test_they_are_written_in_messages_of_a_limited_size() -> None:
    bodies = [*write_constraints([CHECK, UNIQUE, FOREIGN] * 40, limit=1000)]
    assert len(bodies) > 5
    assert max(map(len, bodies)) <= 1000
    assert [each for body in bodies for each in read_constraints(body)] == [CHECK, UNIQUE, FOREIGN] * 40


@pytest.mark.parametrize(
    ("read", "body", "why"),
    [
        (read_indexes, message("ATI", [i32(5), i32(0)]), "type of record is 4"),
        (read_indexes, message("ATI", [i32(4), i32(9), *index_fields(INDEXES[0])]), "9 times 6 fields"),
        (read_indexes, message("ATI", [i32(4), i32(1), *index_fields(INDEXES[0]), i32(1)]), "1 fields too many"),
        (read_constraints, message("ATC", [i32(4), i32(0)]), "type of record is 5"),
        (read_constraints, message("ATC", [i32(5), i32(1), *FIELDS[UNIQUE][:-1]]), "times 6 fields|ends after"),
        (
            read_constraints,
            message("ATC", [i32(5), i32(1), *FIELDS[FOREIGN][:9], i32(3), *FIELDS[FOREIGN][10:]]),
            "3 for a name",
        ),
    ],
)
def test_what_the_specification_does_not_allow_is_refused(read: Callable[[bytes], Any], body: bytes, why: str) -> None:
    with pytest.raises(WireError, match=why):
        read(body)


@pytest.mark.parametrize(("read", "whole"), [(read_indexes, ATI), (read_constraints, atc(*FIELDS))])
def test_cuts_and_mutations_give_a_value_or_our_error(read: Callable[[bytes], Any], whole: bytes) -> None:
    for end in range(len(whole)):
        with pytest.raises(WireError):
            read(whole[:end])
    random = Random(13)
    for _ in range(5_000):
        data = bytearray(whole)
        for _ in range(random.choice((1, 1, 2, 8))):
            data[random.randrange(len(data))] = random.randrange(256)
        try:
            read(bytes(data))
        except WireError as error:
            assert 0 <= error.at <= len(data)  # noqa: PT017
