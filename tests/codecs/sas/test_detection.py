"""Finding out a dialect: what any dialect writes is read, and thousands of messages are read as they were meant."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.codecs.sas.attachment_messages import read_header, write_header
from app.codecs.sas.data_set_messages import (
    DataSetDefinition,
    Index,
    Variable,
    read_definition,
    read_indexes,
    read_variables,
    write_definition,
    write_indexes,
    write_variables,
)
from app.codecs.sas.dialect import ALL, DIALECTS, Dialect, frames, mask_of, members, narrow, preferred
from app.model.attachment import MessageHeader
from tests.codecs.sas import samples

THOUSANDS = 3_000


@given(samples.headers, samples.dialects)
def test_a_header_of_any_dialect(header: MessageHeader, dialect: Dialect) -> None:
    assert read_header(write_header(header, dialect), known=mask_of(dialect)) == (header, mask_of(dialect))


@given(samples.definitions, samples.dialects)
def test_a_definition_of_any_dialect(definition: DataSetDefinition, dialect: Dialect) -> None:
    body = write_definition(definition, dialect)
    assert DataSetDefinition.decode(body, 0, dialect.context()) == (definition, len(body))
    assert read_definition(body, mask_of(dialect))[0] == definition


@given(st.lists(samples.variables, min_size=1, max_size=8), samples.dialects, st.integers(600, 2000))
def test_variables_of_any_dialect_in_any_number_of_messages(
    variables: list[Variable], dialect: Dialect, limit: int
) -> None:
    bodies = list(write_variables(variables, dialect, limit=limit))
    assert max(map(len, bodies)) <= limit
    found, dialects = read_variables(bodies, len(variables), mask_of(dialect))
    assert list(found) == variables
    assert mask_of(dialect) & dialects


@given(st.lists(samples.indexes(), max_size=6), samples.dialects, st.integers(400, 900))
def test_indexes_of_any_dialect(indexes: list[Index], dialect: Dialect, limit: int) -> None:
    bodies = list(write_indexes(indexes, dialect, limit=limit))
    assert list(read_indexes(bodies, mask_of(dialect))[0]) == indexes


def header_again(header: MessageHeader, dialect: Dialect) -> Any:
    return read_header(write_header(header, dialect))


def definition_again(definition: DataSetDefinition, dialect: Dialect) -> Any:
    return read_definition(write_definition(definition, dialect), ALL)


def variables_again(variables: tuple[Variable, ...], dialect: Dialect) -> Any:
    bodies = list(write_variables(variables, dialect))
    return read_variables(bodies, len(variables), ALL)


@pytest.mark.parametrize(
    ("make", "again"),
    [
        (samples.some_header, header_again),
        (samples.some_definition, definition_again),
        (samples.some_variables, variables_again),
    ],
    ids=["headers", "definitions", "variables"],
)
def test_thousands_of_messages_of_unknown_dialect_mean_what_was_meant(
    make: Callable[[Random], Any], again: Callable[[Any, Dialect], Any]
) -> None:
    random = Random(20100101)
    wrong = 0
    for _ in range(THOUSANDS):
        meant, dialect = make(random), random.choice(DIALECTS)
        meaning, dialects = again(meant, dialect)
        wrong += meaning != meant or not dialects & mask_of(dialect)
    assert wrong == 0


def test_the_names_of_dialects() -> None:
    assert len(DIALECTS) == len({dialect.name for dialect in DIALECTS}) == 32
    assert [Dialect.parse(dialect.name) for dialect in DIALECTS] == list(DIALECTS)
    assert DIALECTS[0].name == "big-4-excluded-packed"
    with pytest.raises(ValueError, match="unknown dialect 'middle'; write"):
        Dialect.parse("middle")


@given(st.integers(0, ALL))
def test_sets_of_dialects(mask: int) -> None:
    assert mask_of(*members(mask)) == mask
    assert frames(mask) & mask == mask
    assert frames(frames(mask)) == frames(mask)
    assert {(d.order, d.long, d.aligned) for d in members(frames(mask))} == {
        (d.order, d.long, d.aligned) for d in members(mask)
    }


def test_what_is_preferred() -> None:
    big, little = Dialect(">"), Dialect("<")
    both = mask_of(big, little)
    assert preferred(both) == big
    assert preferred(both, encoding=546) == little
    assert preferred(both, encoding=273, known=mask_of(little)) == big
    assert preferred(both, known=mask_of(little)) == little
    assert preferred(mask_of(little), encoding=273) == little
    with pytest.raises(ValueError, match="no dialect"):
        preferred(0)


def test_what_is_known_is_narrowed_or_replaced() -> None:
    assert narrow(0b0110, 0b0011) == 0b0010
    assert narrow(0b0110, 0b1000) == 0b1000


def test_what_is_known_of_a_source_comes_before_everything_else() -> None:
    empty = MessageHeader(bytes(24), 0, bytes(24), bytes(24), ())
    known = mask_of(Dialect("<", 4, "absent"))
    assert read_header(write_header(empty, Dialect()), known=known) == (empty, known)


def test_a_source_that_changes_its_dialect_is_still_read() -> None:
    random = Random(7)
    header = samples.some_header(random)
    found, dialects = read_header(write_header(header, Dialect("<")), known=mask_of(Dialect(">")))
    assert found == header
    assert {dialect.order for dialect in members(dialects)} == {"<"}


@pytest.mark.parametrize("encoding", [273, 546])
def test_the_descriptors_byte_order_decides_between_meanings(encoding: int) -> None:
    header = MessageHeader(bytes(24), 256, bytes(24), bytes(24), ())
    body = write_header(header, Dialect(">"))
    found, dialects = read_header(body, encoding=encoding)
    assert found.original_msg_type == {273: 256, 546: 1 << 16}[encoding]
    assert len({dialect.order for dialect in members(dialects)}) == 1


def test_the_data_set_may_end_strings_otherwise_than_the_header() -> None:
    random = Random(3)
    _, dialects = read_header(write_header(samples.some_header(random), Dialect("<", 8, "included")))
    definition = samples.some_definition(random)
    found, dialects = read_definition(write_definition(definition, Dialect("<", 8, "absent")), dialects)
    assert found == definition
    variables = samples.some_variables(random)
    bodies = list(write_variables(variables, Dialect("<", 8, "excluded")))
    assert read_variables(bodies, len(variables), dialects)[0] == variables
