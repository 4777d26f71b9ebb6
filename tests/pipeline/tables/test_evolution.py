import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.codecs.sapdb.constants import DataType
from app.codecs.sapdb.packet_records import ParameterInfo
from app.codecs.sas.data_set_messages import Variable
from app.dataset import side_columns
from app.dataset.sapdb.column_types import schema as packet_schema
from app.dataset.schema import arrow_schema, columns
from app.pipeline.commit.tables.schema_evolution import FIXED, MOST_FORMER, Evolution, evolve, word
from tests.pipeline.tables.schemas import data_set_schemas
from tests.support.tables import field, visits

SCHEMAS = st.lists(data_set_schemas(), max_size=6)


def evolved(*columns: list[pa.Field]) -> Evolution:
    return evolve(None, [pa.schema(fields) for fields in columns])


def names(evolution: Evolution) -> list[str]:
    found: list[str] = evolution.schema.names
    assert found[:5] == FIXED.names
    return found[5:]


@settings(deadline=None)
@given(SCHEMAS)
def test_columns_have_names_of_their_own_and_one_variable_and_type_each(schemas: list[pa.Schema]) -> None:
    schema, mappings, _ = evolve(None, schemas)
    assert schema.names[:5] == FIXED.names
    assert len({name.casefold() for name in schema.names}) == len(schema)
    assert all(field.nullable for field in schema)
    belongs: dict[str, object] = {}
    for data_set, mapping in zip(schemas, mappings, strict=True):
        assert [source.column for source in mapping] == data_set.names
        targets = dict(mapping)
        assert len(set(targets.values())) == len(mapping)
        for each in data_set:
            target = schema.field(targets[each.name])
            assert target.name not in FIXED.names
            assert target.type in {each.type, pa.duration("us") if word(each.type) == "time" else each.type}
            owner = side_columns.missing_of(each) or side_columns.bytes_of(each)
            what = (for_sas(each.name), word(each.type)) if owner is None else (targets[owner], each.type)
            assert belongs.setdefault(target.name, what) == what
            if owner is not None:
                assert (side_columns.missing_of(target) or side_columns.bytes_of(target)) == targets[owner]
    assert len(set(belongs.values())) == len(belongs) == len(schema) - 5


def for_sas(name: str) -> str:
    """Return a name as SAS compares it: without the case of ASCII letters, and of no others."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in name)


def test_variables_are_one_only_where_sas_has_one() -> None:
    """Columns of tables differ in more: Spark takes `É` and `é` for one."""
    data_sets = [pa.schema([pa.field(name, pa.float64())]) for name in ("straße", "STRASSE", "É", "é", "Id", "ID")]
    schema, mappings, _ = evolve(None, data_sets)
    assert [mapping[0].target for mapping in mappings] == ["straße", "STRASSE_", "É", "é_", "Id", "Id"]
    assert len({name.casefold() for name in schema.names}) == len(schema)


@settings(deadline=None)
@given(SCHEMAS, SCHEMAS)
def test_it_does_not_matter_where_batches_are_cut(first: list[pa.Schema], second: list[pa.Schema]) -> None:
    begun = evolve(None, first)
    at_once, in_two = evolve(None, first + second), evolve(begun.schema, second)
    assert in_two.schema.equals(at_once.schema, check_metadata=True)
    assert begun.mappings + in_two.mappings == at_once.mappings
    assert begun.warnings + in_two.warnings == at_once.warnings


@settings(deadline=None)
@given(SCHEMAS)
def test_what_is_known_changes_nothing_and_is_not_warned_of_again(schemas: list[pa.Schema]) -> None:
    once = evolve(None, schemas)
    again = evolve(once.schema, schemas)
    assert again.schema.equals(once.schema, check_metadata=True)
    assert (again.mappings, again.warnings) == (once.mappings, [])


def test_a_first_data_set_gives_its_columns() -> None:
    schema, (mapping,), warnings = evolve(None, [visits().schema])
    assert [source.column for source in mapping] == [source.target for source in mapping] == visits().column_names
    assert schema.types[5:] == visits().schema.types
    assert warnings == []
    assert schema.metadata == {b"sas.library": b"CLINIC", b"sas.member": b"VISITS", b"sas.label": b"Who came"}
    assert schema.field("Seen").metadata == {
        b"sas.type": b"numeric",
        b"sas.length": b"8",
        b"sas.format": b"DATE9.",
        b"sas.kind": b"date",
        b"table.variable": b"seen",
    }


def test_case_makes_no_new_column_and_new_variables_stand_behind() -> None:
    one, other = field("Value", pa.float64()), field("New", pa.string())
    evolution = evolved([one], [other, one.with_name("VALUE")])
    assert names(evolution) == ["Value", "New"]
    assert evolution.mappings[1] == (("New", "New"), ("VALUE", "Value"))


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (pa.string(), "Value__text"),
        (pa.date32(), "Value__date"),
        (pa.timestamp("us"), "Value__datetime"),
        (pa.time64("us"), "Value__time"),
        (pa.duration("us"), "Value__time"),
        (pa.decimal128(9, 2), "Value__decimal_9_2"),
    ],
)
def test_another_type_gets_a_column_of_its_own_and_a_warning(kind: pa.DataType, name: str) -> None:
    evolution = evolved([field("Value", pa.float64())], [field("Value", kind)], [field("VALUE", kind)])
    assert names(evolution) == ["Value", name]
    said = name.partition("__")[2]
    why = f"Value is {said} in some data sets, and number in others"
    assert evolution.warnings == [f"{why}: the values are in {name}"]
    assert evolution.schema.field(name).metadata[b"table.warning"].decode() == why
    assert evolution.schema.field(name).metadata[b"sas.name"] == b"Value"
    assert evolution.mappings[2] == (("VALUE", name),)


def test_a_decimal_of_another_size_gets_a_column_of_its_own_and_a_warning() -> None:
    evolution = evolved([field("A", pa.decimal128(5, 0))], [field("A", pa.decimal128(10, 2))])
    assert names(evolution) == ["A", "A__decimal_10_2"]
    why = "A is decimal_10_2 in some data sets, and decimal_5_0 in others"
    assert evolution.warnings == [f"{why}: the values are in A__decimal_10_2"]


def test_names_that_are_taken_are_not_taken_again() -> None:
    evolution = evolved(
        [field("value__text", pa.float64()), field("Value", pa.float64())], [field("VALUE", pa.string())]
    )
    assert names(evolution) == ["value__text", "Value", "VALUE__text_"]


@pytest.mark.parametrize("name", ["source", "ROW", "Received_At"])
def test_variables_leave_the_first_columns_alone(name: str) -> None:
    evolution = evolved([field(name, pa.string())], [field(name, pa.float64())])
    assert names(evolution) == [f"{name}__variable", f"{name}__number"]
    assert evolution.warnings[0] == f"{name} is a column that every table has: the values are in {name}__variable"


def test_characters_that_tables_do_not_allow_are_replaced() -> None:
    evolution = evolved([field("a b;c\n(=)", pa.string()), field("a_b_c____", pa.string())])
    assert names(evolution) == ["a_b_c____", "a_b_c_____"]
    assert evolution.schema.field("a_b_c____").metadata[b"sas.name"] == b"a b;c\n(=)"


def test_a_time_becomes_a_duration_and_stays_one() -> None:
    day, span = field("T", pa.time64("us")), field("T", pa.duration("us"))
    for order in ([day, span, day], [span, day], [day, day, span]):
        evolution = evolved(*([each] for each in order))
        assert (names(evolution), evolution.schema.field("T").type) == (["T"], pa.duration("us"))
        assert evolution.warnings == []


def test_side_columns_go_with_the_column_of_their_type() -> None:
    number, text = field("X", pa.float64()), field("X", pa.string())
    taken: set[str] = set()
    evolution = evolved(
        [text], [number, side_columns.missing_field("X", taken)], [text, side_columns.bytes_field("X", taken)]
    )
    assert names(evolution) == ["X", "X__number", "X__number__missing", "X__bytes"]
    assert side_columns.missing_of(evolution.schema.field("X__number__missing")) == "X__number"
    assert side_columns.bytes_of(evolution.schema.field("X__bytes")) == "X"


def test_labels_and_formats_are_the_newest_and_lengths_the_longest() -> None:
    evolution = evolved(
        [field("X", pa.string(), label="one", length="8", format="$8.")],
        [field("X", pa.string(), label="two", length="20", format="$8.")],
        [field("X", pa.string(), label="", length="4", format="")],
        [field("X", pa.string(), label="one", length="4", format="$9.")],
    )
    said = {key.decode(): value.decode() for key, value in evolution.schema.field("X").metadata.items()}
    assert (said["sas.label"], said["sas.length"], said["sas.format"]) == ("one", "20", "$9.")
    assert (said["table.former_labels"], said["table.former_formats"]) == ('["two"]', '["$8."]')
    assert evolution.warnings == [
        "X had the label 'one', and now has 'two'",
        "X had the format '$8.', and now has '$9.'",
    ]


def test_few_former_labels_are_kept() -> None:
    evolution = evolved(*([field("X", pa.string(), label=f"label {n}")] for n in range(100)))
    former = json.loads(evolution.schema.field("X").metadata[b"table.former_labels"])
    assert former == [f"label {n}" for n in range(99 - MOST_FORMER, 99)]


def test_columns_that_others_have_added_stay() -> None:
    table = evolved([field("X", pa.string())]).schema.append(pa.field("x_note", pa.string()))
    evolution = evolve(table, [pa.schema([field("X_NOTE", pa.float64())])])
    assert names(evolution) == ["X", "x_note", "X_NOTE_"]


def test_variables_of_one_data_set_never_share_a_column() -> None:
    pair = [field("Id", pa.float64()), field("ID", pa.float64()), side_columns.missing_field("ID", set())]
    evolution = evolved(pair, [field("id", pa.float64())], pair)
    assert names(evolution) == ["Id", "ID_", "ID___missing"]
    both = (("Id", "Id"), ("ID", "ID_"), ("ID__missing", "ID___missing"))
    assert evolution.mappings == [both, (("id", "Id"),), both]
    assert evolution.warnings == [
        "ID is the name of several variables of one data set, apart from its case: the values are in ID_"
    ]
    assert evolve(evolution.schema, [pa.schema(pair)]).schema.equals(evolution.schema, check_metadata=True)


def test_a_table_does_not_grow_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.pipeline.commit.tables.schema_evolution.MOST_COLUMNS", 8)
    number = field("A", pa.float64())
    first = [number, side_columns.missing_field("A", set()), field("B", pa.string())]
    beyond = field("C", pa.float64())
    evolution = evolved(first, [beyond, side_columns.missing_field("C", set()), number])
    assert names(evolution) == ["A", "A__missing", "B"]
    assert evolution.mappings[1] == (("C", None), ("C__missing", None), ("A", "A"))
    assert evolution.warnings == ["2 columns are left out: a table has at most 8"]
    assert evolve(evolution.schema, [pa.schema([beyond])]).schema.equals(evolution.schema, check_metadata=True)


@given(st.data())
def test_the_order_of_variables_does_not_change_where_they_go(data: st.DataObject) -> None:
    several = [field(name, pa.float64()) for name in ("Id", "ID", "iD", "id")]
    first = data.draw(st.lists(st.sampled_from(several), min_size=1, unique_by=lambda each: each.name))
    second = data.draw(st.permutations(first))
    evolution = evolved(first, second)
    assert dict(evolution.mappings[0]) == dict(evolution.mappings[1])
    assert sorted(column.casefold().rstrip("_") for column in names(evolution)) == ["id"] * len(first)
    again = evolve(evolution.schema, [pa.schema(second)])
    assert again.mappings == evolution.mappings[1:]
    assert again.schema.equals(evolution.schema, check_metadata=True)


@given(st.lists(st.sampled_from(["A", "a", "A\x1fA", "A\x1f2", "a\x1fa", "A\x1f3"]), max_size=9))
def test_no_two_variables_of_a_data_set_have_one_column(given: list[str]) -> None:
    evolution = evolved([field(name, pa.float64()) for name in given])
    targets = [source.target for source in evolution.mappings[0]]
    assert None not in targets
    assert len(set(targets)) == len(given)


def received(names: Sequence[str], kinds: Sequence[str]) -> pa.Schema:
    """Return the schema of a data set with variables of these names, as its sender wrote them."""
    variables = [
        Variable(name, "DATE" if kind == "date" else "", "", "", b"\2" if kind == "text" else b"\1", 8)
        for name, kind in zip(names, kinds, strict=True)
    ]
    found = [
        replace(column, has_side=kind == "tagged", moment=column.moment if kind == "date" else None)
        for column, kind in zip(columns(variables, [0] * len(names)), kinds, strict=True)
    ]
    return arrow_schema(found, {})


def received_in_packets(names: Sequence[str], kinds: Sequence[str]) -> pa.Schema:
    """Return the schema of an order packet's data set with columns of these names."""
    types = {"text": DataType.VARCHAR_ASCII, "date": DataType.DATE}
    infos = [ParameterInfo(0, 0, types.get(kind, DataType.FLOAT), 0, 8, 9, 1) for kind in kinds]
    return packet_schema(names, infos, {})


CONFUSING = ["ID", "Id", "id", "ID_", "ID_2", "Id_2", "id_3", "iD__text", "Id__missing", "ID_2__missing", "Id__date"]
CONFUSING += [
    "",
    "VAR1",
    "var2",
    "COLUMN_2",
    "source",
    "Source__variable",
    "straße",
    "STRASSE",
    "A\x1fA",
    "\x1f1\x1fID",
]
SHAPES = st.tuples(
    st.sampled_from([received, received_in_packets]),
    st.lists(st.tuples(st.sampled_from(CONFUSING), st.sampled_from(["number", "text", "date", "tagged"])), max_size=5),
)


@settings(deadline=None, max_examples=300)
@given(st.lists(SHAPES, min_size=1, max_size=5), st.data())
def test_no_column_has_values_of_two_variables_and_none_of_a_variable_are_elsewhere(
    shapes: list[tuple[Callable[[Sequence[str], Sequence[str]], pa.Schema], list[tuple[str, str]]]], data: st.DataObject
) -> None:
    """The names are as senders write them; those that a data set's columns got in the place of others say nothing."""
    schema: pa.Schema | None = None
    owners: dict[str, set[tuple[str, str]]] = {}
    places: dict[tuple[object, ...], str] = {}
    exact: set[str] = set()
    warned: list[str] = []
    data_sets = [(made(*(zip(*named, strict=True) if named else ((), ()))), named) for made, named in shapes]
    while data_sets:
        batch = [data_sets.pop(0) for _ in range(data.draw(st.integers(1, len(data_sets))))]
        schema, mappings, warnings = evolve(schema, [each for each, _ in batch])
        warned += warnings
        for (data_set, named), mapping in zip(batch, mappings, strict=True):
            targets = [target or "" for name, target in mapping if not side_columns.is_side(data_set.field(name))]
            sides = {t for name, t in mapping if side_columns.is_side(data_set.field(name))}
            assert len({target for _, target in mapping}) == len(mapping)
            assert all(side_columns.missing_of(schema.field(side)) in targets for side in sides)
            alike = Counter(for_sas(name) for name, _ in named)
            exact |= {name for name, _ in named if name and alike[for_sas(name)] > 1}
            times: Counter[str] = Counter()
            for at, ((name, kind), target) in enumerate(zip(named, targets, strict=True)):
                times[name] += 1
                variable = ("", str(at)) if not name else ("name", for_sas(name))
                if alike[for_sas(name)] > 1 and name:
                    variable = (f"{times[name]}", name)
                elif name in exact:
                    variable = ("1", name)
                owners.setdefault(target, set()).add(variable)
                of_type = (variable, "number" if kind == "tagged" else kind)
                if variable[0] != "name":
                    assert places.setdefault(of_type, target) == target, (named, mapping)
            for name, target in zip((name for name, _ in named), targets, strict=True):
                note = (schema.field(target).metadata or {}).get(b"table.warning")
                assert note or not name or target.casefold() == name.replace("\x1f", "_").casefold()
                assert not note or any(warning.startswith(note.decode()) for warning in warned)
    for variables in owners.values():
        known_exactly = {each for each in variables if each[0] != "name"}
        assert len(known_exactly) <= 1, variables
        assert len({for_sas(name) for _, name in variables}) == 1, variables
