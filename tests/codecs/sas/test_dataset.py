"""The messages of a data set: spanning, and numbers that the bytes do not bear out."""

import struct
from collections.abc import Sequence
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.codecs.sas.constants import MessageKind
from app.codecs.sas.data_set_messages import (
    DataSetDefinition,
    Index,
    Variable,
    message_kinds,
    observation_blocks,
    read_constraints,
    read_definition,
    read_indexes,
    read_variables,
    write_constraints,
    write_definition,
    write_indexes,
    write_observations,
    write_variables,
)
from app.codecs.sas.dialect import ALL, DIALECTS, Dialect, mask_of
from app.wire import WireError
from tests.codecs.sas.samples import dialects, variables

BIG = mask_of(Dialect())
PACKED = [dialect for dialect in DIALECTS if not dialect.aligned]


@given(st.lists(variables, min_size=2, max_size=6), st.data())
def test_a_definition_may_span_messages_at_any_byte(found: list[Variable], data: st.DataObject) -> None:
    dialect = data.draw(st.sampled_from(PACKED))
    (whole,) = write_variables(found, dialect)
    cut = data.draw(st.integers(4, len(whole)))
    bodies = [whole[:cut], whole[:4] + whole[cut:]]
    assert list(read_variables(bodies, len(found), mask_of(dialect))[0]) == found


@pytest.mark.parametrize("count", [-1, 0, 1, 3, 1_000_000, 1 << 31])
def test_a_wrong_number_of_variables_is_refused(count: int) -> None:
    bodies = list(write_variables([Variable("A"), Variable("B")], Dialect()))
    with pytest.raises(WireError, match=r"VariableMessage\.variables"):
        read_variables(bodies, count, BIG)


def test_no_variables_need_no_message() -> None:
    assert read_variables([], 0, BIG) == ((), BIG)
    with pytest.raises(WireError, match="2 variables in 0 bytes"):
        read_variables([], 2, BIG)


UNLIKELY_VARIABLES = [
    (Variable(""), "name", "a variable without a name"),
    (Variable("A\x01"), "name", "control character 01"),
    (Variable("A", length=9), "length", "9 is not from 1 to 8"),
    (Variable("A", type=b"\2", length=0), "length", "0 is not from 1 to"),
    (Variable("A", type=b"\2", length=-5), "length", "-5 is not from 1 to"),
    (Variable("A", format_length=-1), "format_length", "-1 is not from 0 to"),
]


@pytest.mark.parametrize(("variable", "where", "why"), UNLIKELY_VARIABLES)
def test_an_unlikely_variable_is_named(variable: Variable, where: str, why: str) -> None:
    bodies = list(write_variables([Variable("FIRST"), variable], Dialect()))
    with pytest.raises(WireError, match=why) as raised:
        read_variables(bodies, 2, BIG)
    assert raised.value.row == f"VariableMessage.variables[1].{where}"


UNLIKELY_DEFINITIONS = [
    (DataSetDefinition(2), "type", "2 instead of 1"),
    (DataSetDefinition(1, observations=-2), "observations", "-2 is not from -1"),
    (DataSetDefinition(1, variables=-1), "variables", "-1 is not from 0"),
    (DataSetDefinition(1, obs_length=-1), "obs_length", "-1 is not from 0"),
    (DataSetDefinition(1, sort_variables=1), "sort_variables", "1 instead of 0"),
    (DataSetDefinition(1, label="a\x00b"), "label", "control character 00"),
]


@pytest.mark.parametrize(("definition", "where", "why"), UNLIKELY_DEFINITIONS)
def test_an_unlikely_definition_is_named(definition: DataSetDefinition, where: str, why: str) -> None:
    with pytest.raises(WireError, match=why) as raised:
        read_definition(write_definition(definition, Dialect()), BIG)
    assert raised.value.row == f"DataSetDefinition.{where}"


@pytest.mark.parametrize("dialect", PACKED, ids=lambda dialect: dialect.name)
def test_control_characters_in_labels_do_not_cost_a_data_set(dialect: Dialect) -> None:
    definition = DataSetDefinition(1, label="a\x07b\x1f", variables=2, obs_length=16)
    variables = (Variable("FIRST", label="bell\x07"), Variable("SECOND", label="\x01"))
    found, dialects = read_definition(write_definition(definition, dialect), ALL)
    assert (found, bool(dialects & mask_of(dialect))) == (definition, True)
    found_variables, dialects = read_variables(list(write_variables(variables, dialect)), 2, dialects)
    assert (found_variables, bool(dialects & mask_of(dialect))) == (variables, True)


@pytest.mark.parametrize("dialect", PACKED, ids=lambda dialect: dialect.name)
def test_an_absent_collating_sequence_may_have_the_length_one(dialect: Dialect) -> None:
    definition = DataSetDefinition(1, label="L", sort_flags=1)
    context = dialect.context()
    cells = {cell.name: cell for cell in DataSetDefinition.cells(definition.encode(context), 0, context)}
    length, text = cells["DataSetDefinition.collating.length"], cells["DataSetDefinition.collating"]
    body = definition.encode(context)
    one = struct.pack(f"{dialect.order}{'q' if dialect.long == 8 else 'i'}", 1)
    other = body[: length.at] + one + b"\0" + body[text.at + text.size :]
    assert read_definition(other, mask_of(dialect))[0] == definition


def test_a_type_is_a_number_or_a_digit() -> None:
    assert [Variable("A", type=mark).is_numeric for mark in (b"\1", b"1", b"\xf1", b"\2", b"2", b"\0")] == [
        True,
        True,
        True,
        False,
        False,
        False,
    ]


def rows(count: int, length: int) -> list[bytes]:
    return [bytes([number % 251]) * length for number in range(count)]


def defined(count: int, length: int) -> DataSetDefinition:
    return DataSetDefinition(1, observations=count, variables=1, obs_length=length)


@given(st.integers(0, 60), st.integers(1, 40), st.integers(5, 200), st.integers(1, 9), dialects, st.booleans())
def test_observations_come_back(
    count: int, length: int, limit: int, block: int, dialect: Dialect, counted: bool
) -> None:
    data = b"".join(rows(count, length))
    blocks = [data[at : at + block * length] for at in range(0, len(data), block * length)]
    bodies = list(write_observations(blocks, length, dialect, limit))
    assert all(len(body) <= limit for body in bodies)
    if length <= limit - 4:
        assert all((len(body) - 4) % length == 0 for body in bodies)
    definition = defined(count if counted else -1, length)
    assert b"".join(observation_blocks(bodies, definition)) == data


def test_a_type_is_no_value() -> None:
    """As many bytes of rows are lost as the types of the other messages have."""
    data = b"".join(rows(8, 8))
    bodies = [b"\0\0\0\3" + data[at : at + 8] for at in range(0, 24, 8)] + [b"\0\0\0\3"]
    assert sum(map(len, bodies)) - 4 == 36 == 9 * 4
    with pytest.raises(WireError, match="24 bytes instead of 9 rows of 4 bytes"):
        observation_blocks(bodies, defined(9, 4))


DISAGREEING: list[tuple[int, int, Sequence[bytes]]] = [
    (1 << 31, 8, [b"\0\0\0\3" + bytes(16)]),
    (2, 1 << 30, [b"\0\0\0\3" + bytes(16)]),
    (3, 8, [b"\0\0\0\3" + bytes(16)]),
    (1, 8, [b"\0\0\0\3" + bytes(16)]),
    (-1, 5, [b"\0\0\0\3" + bytes(16)]),
    (-1, 0, [b"\0\0\0\3" + bytes(16)]),
    (2, 8, []),
]


@pytest.mark.parametrize(("count", "length", "bodies"), DISAGREEING)
def test_observations_that_disagree_with_their_definition_are_refused_at_once(
    count: int, length: int, bodies: Sequence[bytes]
) -> None:
    with pytest.raises(WireError, match=r"ObservationMessage.data.* instead of"):
        observation_blocks(bodies, defined(count, length))


def test_observations_are_not_copied() -> None:
    body = memoryview(b"\0\0\0\3" + bytes(16))
    (block,) = observation_blocks([body], defined(2, 8))
    assert block.obj is body.obj


def test_half_a_row_is_not_written() -> None:
    with pytest.raises(WireError, match="7 bytes are not whole rows of 8"):
        list(write_observations([bytes(7)], 8, Dialect()))
    with pytest.raises(WireError, match="rows of 0 bytes"):
        list(write_observations([b""], 0, Dialect()))


def test_kinds_of_messages() -> None:
    orders: list[Literal["big", "little"]] = ["big", "little"]
    for order, other in zip(orders, reversed(orders), strict=True):
        bodies = [kind.to_bytes(4, order) + b"more" for kind in MessageKind]
        assert list(message_kinds(bodies, ALL)) == list(MessageKind)
        for body in (b"", b"\0\0\0", bytes(4), (6).to_bytes(4, order), b"\xff" * 4, (3).to_bytes(4, other) + b"more"):
            with pytest.raises(WireError, match="message 6 begins with the unknown type identifier"):
                list(message_kinds([*bodies, body, bodies[0]], ALL))
    with pytest.raises(WireError, match="message 1 begins with the unknown type identifier 03000000"):
        list(message_kinds([b"\3\0\0\0"], BIG))


def test_a_definition_larger_than_a_message_is_refused() -> None:
    with pytest.raises(WireError, match="do not fit in a message of 100"):
        list(write_variables([Variable("A", label="x" * 100)], Dialect(), limit=100))


def test_indexes_without_any() -> None:
    assert list(write_indexes([], Dialect())) == []
    assert read_indexes([], BIG) == ((), BIG)


@given(dialects)
def test_an_index_whose_length_counts_nuls_the_other_way_is_read(dialect: Dialect) -> None:
    indexes = [Index(7, "I", 0, 2, ["A", "LONGER"]), Index(0, "B", 1, 1, ["OTHER"])]
    (body,) = write_indexes(indexes, dialect)
    word: Literal["big", "little"] = "big" if dialect.order == ">" else "little"
    counts = dialect.nul in {"included", "absent"}
    for texts, count in ((b"A\0LONGER\0", 2), (b"OTHER\0", 1)):
        said = len(texts) - (0 if counts else count)
        other = len(texts) - (count if counts else 0)
        told, instead = (length.to_bytes(dialect.long, word) + texts for length in (said, other))
        assert body.count(told) == 1
        body = body.replace(told, instead)
    assert read_indexes([body], mask_of(dialect))[0] == tuple(indexes)


def test_an_index_whose_names_do_not_add_up_is_refused() -> None:
    (body,) = write_indexes([Index(0, "I", 0, 2, ["A", "B"])], Dialect())
    at = body.rindex(b"\0\0\0\2A")
    for length in (b"\0\0\0\1", b"\0\0\0\7", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff"):
        with pytest.raises(WireError, match=r"IndexMessage.indexes"):
            read_indexes([body[:at] + length + body[at + 4 :]], BIG)
    with pytest.raises(WireError, match="3 texts, but the count is 2"):
        list(write_indexes([Index(0, "I", 0, 2, ["A", "B", "C"])], Dialect()))


def test_integrity_constraints_stay_as_they_came() -> None:
    bodies = list(write_constraints(b"whatever they mean", Dialect(), limit=10))
    assert all(len(body) <= 10 for body in bodies)
    assert set(message_kinds(bodies, BIG)) == {MessageKind.CONSTRAINTS}
    assert read_constraints(bodies) == b"whatever they mean"
