"""What variables columns become, and everything that SAS or a destination cannot take."""

import json
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dataset import checks
from app.model.errors import InvalidInputError
from app.tables.read.read_request import DataSetTarget, ReadOptions, VariableOverrides
from tests.tables.read.reading import defined, sent, whole

LATIN = DataSetTarget("latin-1")
IBM = DataSetTarget("cp037", "ibm")
MOMENT = datetime(2024, 2, 29, 12, 30, 15, 250_000)


def variables(table: pa.Table, **wishes: Any) -> dict[str, tuple[str, int, str]]:
    definition = defined(whole(table), **wishes)
    return {variable.name: (variable.type, variable.length, variable.format) for variable in definition.variables}


def test_every_type_becomes_a_variable_with_the_same_values() -> None:
    columns: dict[str, tuple[pa.Array, tuple[str, int, str], list[Any]]] = {
        "i": (pa.array([1, None, -(1 << 53)]), ("numeric", 8, ""), [1.0, None, -(2.0**53)]),
        "u": (pa.array([255, None, 0], pa.uint8()), ("numeric", 8, ""), [255.0, None, 0.0]),
        "b": (pa.array([True, None, False]), ("numeric", 8, ""), [1.0, None, 0.0]),
        "f": (pa.array([1.5, None, np.nan], pa.float32()), ("numeric", 8, ""), [1.5, None, None]),
        "m": (pa.array([Decimal("1.25"), None, Decimal("-2.00")]), ("numeric", 8, ""), [1.25, None, -2.0]),
        "n": (pa.nulls(3), ("numeric", 8, ""), [None, None, None]),
        "d": (
            pa.array([date(1960, 1, 2), None, date(1959, 12, 31)]),
            ("numeric", 8, "DATE9."),
            [date(1960, 1, 2), None, date(1959, 12, 31)],
        ),
        "s": (
            pa.array([MOMENT, None, MOMENT], pa.timestamp("ms")),
            ("numeric", 8, "DATETIME20."),
            [MOMENT, None, MOMENT],
        ),
        "t": (
            pa.array([time(1, 2), None, time(0)], pa.time32("s")),
            ("numeric", 8, "TIME8."),
            [time(1, 2), None, time(0)],
        ),
        "p": (
            pa.array([timedelta(hours=30), None, timedelta(0)], pa.duration("s")),
            ("numeric", 8, "TIME8."),
            [timedelta(hours=30), None, timedelta(0)],
        ),
        "c": (pa.array(["aä", None, " b  "]).dictionary_encode(), ("character", 3, ""), ["aä", "", " b"]),
        "l": (pa.array(["", None, ""], pa.large_string()), ("character", 1, ""), ["", "", ""]),
    }
    table = pa.table({name: column for name, (column, _, _) in columns.items()})
    assert variables(table) == {name: expected for name, (_, expected, _) in columns.items()}
    assert sent(defined(whole(table))).to_pydict() == {name: values for name, (_, _, values) in columns.items()}


@pytest.mark.parametrize(
    ("column", "reference", "data_type", "values"),
    [
        (pa.array([date(2024, 2, 29)]), "DATETIME20.", pa.timestamp("us"), [datetime(2024, 2, 29)]),
        (pa.array([datetime(2024, 2, 29)], pa.timestamp("ns")), "yymmdd10", pa.date32(), [date(2024, 2, 29)]),
        (pa.array([23_000.0]), "DATE9.", pa.float64(), [23_000.0]),
        (pa.array([date(2024, 2, 29)]), "BEST12.", pa.date32(), [date(2024, 2, 29)]),
        (pa.array([MOMENT]), "TOD8.", pa.timestamp("us"), [MOMENT]),
        (pa.array([date(2024, 2, 29)]), "DAYSUP.", pa.date32(), [date(2024, 2, 29)]),
    ],
)
def test_a_format_decides_what_is_counted(
    column: pa.Array, reference: str, data_type: pa.DataType, values: Any
) -> None:
    table = sent(defined(whole(pa.table({"x": column})), variables={"x": VariableOverrides(format=reference)}))
    assert (table["x"].type, table["x"].to_pylist()) == (data_type, values)


def test_what_is_given_comes_before_the_file_and_that_before_the_values() -> None:
    said = {"sas.label": "of the file", "sas.length": "12", "sas.type": "character", "sas.informat": "$12."}
    schema = pa.schema([pa.field("a", pa.string(), metadata=said), pa.field("B c", pa.int64())], {"sas.library": "LIB"})
    table = pa.table([["x"], [1]], schema=schema)
    wishes = {
        "a": VariableOverrides(label="given", format="$CHAR5."),
        "b c": VariableOverrides(name="BC", length=4, type="numeric"),
    }
    definition = defined(whole(table), member="M", variables=wishes)
    assert (definition.library, definition.member, definition.errors) == ("LIB", "M", ())
    a, b = definition.variables
    assert (a.name, a.label, a.length, a.format, a.informat) == ("a", "given", 12, "$CHAR5.", "$12.")
    assert a.origins == {
        "name": "inferred", "type": "file", "length": "file", "format": "given", "informat": "file", "label": "given",
    }  # fmt: skip
    assert (b.column, b.name, b.length, b.origins["length"]) == ("B c", "BC", 4, "given")


def test_numbers_may_be_sent_as_text() -> None:
    table = pa.table({"id": [10**17, None], "x": [1.5, None]})
    wishes = {"id": VariableOverrides(type="character"), "x": VariableOverrides(type="character")}
    assert sent(defined(whole(table), variables=wishes)).to_pydict() == {"id": [str(10**17), ""], "x": ["1.5", ""]}


def test_lengths_are_those_of_the_destination_s_character_set() -> None:
    table = pa.table({"c": ["äöü", "abcd"]})
    assert [
        defined(whole(table), DataSetTarget(name)).variables[0].length for name in ("utf-8", "latin-1", "utf-8")
    ] == [
        6,
        4,
        6,
    ]


def test_a_file_s_length_gives_way_to_its_values() -> None:
    numeric = pa.field("x", pa.float64(), metadata={"sas.type": "numeric", "sas.length": "3"})
    text = pa.field("c", pa.string(), metadata={"sas.type": "character", "sas.length": "2"})
    definition = defined(whole(pa.table([[0.1], ["abc"]], schema=pa.schema([numeric, text]))))
    assert [variable.length for variable in definition.variables] == [8, 3]
    assert [(fault.variable, fault.code) for fault in definition.warnings] == [("x", "length"), ("c", "length")]
    exact = defined(whole(pa.table([[8192.0], ["a"]], schema=pa.schema([numeric, text], {"sas.float": "ibm"}))))
    assert [variable.length for variable in exact.variables] == [4, 2]


def test_a_file_s_length_needs_no_type() -> None:
    fields = [
        pa.field(name, kind, metadata={"sas.length": length})
        for name, kind, length in (("x", pa.float64(), "3"), ("c", pa.string(), "12"), ("odd", pa.string(), "40000"))
    ]
    definition = defined(whole(pa.table([[1.0], ["a"], ["b"]], schema=pa.schema(fields))))
    assert [(variable.length, variable.origins["length"]) for variable in definition.variables] == [
        (3, "file"), (12, "file"), (1, "inferred"),
    ]  # fmt: skip
    assert [(fault.variable, fault.code) for fault in definition.warnings] == [("odd", "length")]


def test_names_are_refused_sent_as_literals_or_renamed() -> None:
    table = pa.table([[1]] * 5, ["order date", "Order_Date", "2nd", "é", "x" * 33])
    refused = defined(whole(table))
    assert [fault.variable for fault in refused.errors] == ["order date", "2nd", "é", "x" * 33]
    literal = defined(whole(table.select([0, 1, 2, 3])), names="literal")
    assert literal.errors == ()
    renamed = defined(whole(table), names="rename")
    names = ["order_date_2", "Order_Date", "_2nd", "VAR4", "x" * 32]
    assert [variable.name for variable in renamed.variables] == names
    assert [variable.label for variable in renamed.variables] == ["order date", "", "2nd", "é", "x" * 33]
    assert renamed.errors == ()
    assert [(fault.variable, fault.code) for fault in renamed.warnings] == [
        (name, "name") for name in names if name != "Order_Date"
    ]
    assert "'order date'" in renamed.warnings[0].why


SOME_NAMES = st.text(max_size=40) | st.sampled_from(
    ["a b", "a_b", "A_B", "a_b_2", "1x", "_1x", "é", "VAR1", "_n_", "_n__2"]
)


@given(st.lists(SOME_NAMES, max_size=12))
def test_renamed_columns_have_names_that_sas_takes_and_valid_names_stay(names: list[str]) -> None:
    renamed = checks.renamed(names)
    assert list(checks.name_faults(renamed, "ascii")) == []
    assert checks.renamed(renamed) == renamed
    kept: set[str] = set()
    for name, became in zip(names, renamed, strict=True):
        if not list(checks.name_faults([name], "ascii")) and name.upper() not in kept:
            assert became == name
            kept.add(name.upper())


def test_side_columns_are_found_by_their_names() -> None:
    table = pa.table(
        {"x": [1.0, None, None], "X__missing": ["", ".a", "._"], "c__missing": ["", "", ".A"], "c": list("abc")}
    )
    result = sent(defined(whole(table)))
    assert result.column_names == ["x", "x__missing", "c__missing", "c"]
    assert result["x__missing"].to_pylist() == [None, ".A", "._"]


LONG = "ä" * 17_000


@pytest.mark.parametrize(
    ("table", "target", "wish", "code", "row", "why"),
    [
        ({"x": [0, (1 << 53) + 1]}, LATIN, {}, "value", 2, "beyond 2^53"),
        ({"x": pa.array([1, (1 << 64) - 1], pa.uint64())}, LATIN, {}, "value", 2, "beyond 2^53"),
        ({"x": [Decimal(1), Decimal(10**20)]}, LATIN, {}, "value", 2, "beyond 2^53"),
        ({"x": [1.0, np.inf]}, LATIN, {}, "value", 2, "infinite"),
        ({"x": [1.0, 1e76]}, IBM, {}, "value", 2, "range of IBM floats"),
        ({"x": [1.0, 1e-79]}, IBM, {}, "value", 2, "range of IBM floats"),
        ({"x": [1.0, 0.1]}, LATIN, {"length": 4}, "value", 2, "does not fit a numeric of length 4"),
        ({"x": [1.0]}, LATIN, {"length": 2}, "length", None, "length 3 to 8, not 2"),
        ({"x": ["a"]}, LATIN, {"length": 32_768}, "length", None, "length 1 to 32767"),
        ({"x": ["a", "€", "b"]}, LATIN, {}, "value", 2, "'€' is not in character set latin-1"),
        ({"x": ["ab", "äb", "abc"]}, DataSetTarget(), {"length": 2}, "value", 2,
         "more than 2 bytes in character set utf-8"),
        ({"x": ["a", LONG]}, DataSetTarget(), {}, "value", 2, "more than 32767 bytes"),
        ({"x": [1.0]}, LATIN, {"label": "l" * 257}, "label", None, "at most 256 bytes"),
        ({"x": [1.0]}, LATIN, {"label": "€"}, "label", None, "lacks"),
        ({"x": [1.0]}, LATIN, {"format": "F" + "9" * 5000 + "."}, "format", None, "is not a format"),
        ({"x": [1.0]}, LATIN, {"format": "F" * 33 + "."}, "format", None, "at most 32 bytes"),
        ({"x": [1.0]}, DataSetTarget(version="V8"), {"format": "NLDATMYMS."}, "format", None, "at most 8 bytes"),
        ({"x": [1.0]}, LATIN, {"format": "$5."}, "format", None, "one without $"),
        ({"x": ["a"]}, LATIN, {"format": "DATE9."}, "format", None, "one with $"),
        ({"x": ["a"]}, LATIN, {"informat": "DATE9."}, "informat", None, "one with $"),
        ({"x": [1.0]}, LATIN, {"format": "9TO5."}, "format", None, "is not a format"),
        ({"x": [1.0]}, LATIN, {"format": "F99999.2"}, "format", None, "widths go to 32767"),
        ({"x": [time(1)]}, LATIN, {"format": "DATE9."}, "format", None, "the values are times"),
        ({"x": [MOMENT]}, LATIN, {"format": "DATE9."}, "value", 1, "has a time of day"),
        ({"x": ["a"]}, LATIN, {"type": "numeric"}, "type", None, "its values are text"),
        ({"x": [[1]]}, LATIN, {}, "type", None, "no equivalent of the type list"),
        ({"x": [b"raw"]}, LATIN, {}, "type", None, "no equivalent of the type binary"),
        ({"x": [1.0], "x__missing": [".A"]}, LATIN, {}, "value", 1, "has a value and a special missing value"),
        ({"x": [None, 1.0], "x__missing": ["?", ""]}, LATIN, {}, "value", 1, "not a SAS missing value"),
        ({"x": ["a"]}, DataSetTarget("utf-16-le"), {}, "charset", None, "more than one byte"),
    ],
)  # fmt: skip
def test_what_cannot_be_sent_is_told_with_its_row(
    table: dict[str, Any], target: DataSetTarget, wish: dict[str, Any], code: str, row: int | None, why: str
) -> None:
    definition = defined(whole(pa.table(table)), target, {"x": VariableOverrides(**wish)} if wish else None)
    faults = [(fault.code, fault.row) for fault in definition.errors]
    assert (code, row) in faults
    fault = definition.errors[faults.index((code, row))]
    assert why in fault.why
    assert fault.variable == (None if code == "charset" else "x")


def test_everything_that_is_wrong_is_told_at_once() -> None:
    table = pa.table([[1 << 60], ["€"], [[1]], [1.0], [1.0]], ["a b", "c", "l", "same", "SAME"])
    definition = defined(
        whole(table),
        LATIN,
        {"gone": VariableOverrides(), "c": VariableOverrides(label="€")},
        library="TOOLONGLIB",
        member="1",
        label="€",
    )
    assert sorted((fault.variable or "", fault.code) for fault in definition.errors) == [
        ("", "label"), ("", "library"), ("", "member"), ("SAME", "name"), ("a b", "name"), ("a b", "value"),
        ("c", "label"), ("c", "value"), ("gone", "unknown"), ("l", "type"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("column", "why", "row"),
    [
        (pa.array([MOMENT], pa.timestamp("us", "Europe/Berlin")), "sent in UTC", 1),
        (pa.array([0, 1500], pa.timestamp("ns")), "fractions of a second are lost that a double does not hold", 2),
        (pa.array([Decimal("0.1"), Decimal("12345678901234567.89")]), "more digits than a double holds", 2),
    ],
)
def test_what_is_changed_on_the_way_is_a_warning(column: pa.Array, why: str, row: int | None) -> None:
    definition = defined(whole(pa.table({"x": column})))
    ((variable, _, said, at),) = definition.warnings
    assert (variable, at) == ("x", row)
    assert why in said


def test_a_column_of_text_says_why_it_is_no_number() -> None:
    definition = defined(
        b"when,n\n2024-01-31,1\n31JAN2024,2\n", variables={"when": VariableOverrides(format="DATE9.", type="numeric")}
    )
    assert [(fault.variable, fault.code) for fault in definition.errors] == [("when", "type"), ("when", "format")]
    assert ReadOptions(types={"when": "numeric"}).type_of("WHEN") == "numeric"


def test_a_table_without_columns_is_no_data_set() -> None:
    definition = defined(whole(pa.table({})))
    assert [fault.code for fault in definition.errors] == ["variables"]


def test_the_name_of_the_file_is_the_last_resort() -> None:
    names = [defined(b"a\n1\n", file_stem=stem).member for stem in ("sales 2024", "2024", "日本", "x" * 40)]
    assert names == ["SALES_2024", "_2024", "DATA", "X" * 32]


def test_of_what_a_file_says_only_what_can_be_sent_is_kept() -> None:
    said = {
        "sas.compress": "CHAR",
        "sas.sort_flags": "x",
        "sas.reuse": "€",
        "sas.warnings": "old",
        "sas.passwords": "read",
    }
    schema = pa.schema([pa.field("a", pa.int64(), metadata={"sas.nsort": "300", "sas.kind": "date"})], said)
    refused = defined(whole(pa.table([[1]], schema=schema)), LATIN)
    assert [(fault.code, fault.why.split()[0]) for fault in refused.errors] == [
        ("attribute", "reuse"),
        ("attribute", "sort_flags"),
    ]
    kept = schema.remove_metadata().with_metadata({**said, "sas.sort_flags": "3", "sas.reuse": "R"})
    table = sent(defined(whole(pa.table([[1]], schema=kept)), LATIN))
    assert {key.decode(): value.decode() for key, value in table.schema.metadata.items()} == {
        "sas.compress": "CHAR", "sas.sort_flags": "3", "sas.reuse": "R", "sas.library": "WORK", "sas.member": "DATA",
        "sas.encoding": "latin-1", "sas.float": "ieee",
    }  # fmt: skip
    assert set(table.schema.field("a").metadata) == {b"sas.type", b"sas.length", b"sas.format", b"sas.position"}


@pytest.mark.parametrize("extension", ["parquet", "ndjson"])
def test_a_small_file_of_a_vast_table_is_not_read_to_its_end(extension: str) -> None:
    if extension == "parquet":
        sink = BytesIO()
        pq.write_table(pa.table({f"v{n}": pa.nulls(100_000, pa.float64()) for n in range(100)}), sink)
        data = sink.getvalue()
    else:
        data = b'{"%s": 0}\n' % b'": 0, "'.join(b"v%d" % n for n in range(100)) + b"{}\n" * 100_000
    assert len(data) < 1 << 20
    with pytest.raises(InvalidInputError, match="more than 50,000,000 bytes"):
        defined(data, DataSetTarget(most_bytes=50_000_000))


@pytest.mark.parametrize("length", [1 << 70, -(1 << 70)])
def test_a_length_that_cannot_be_is_the_only_fault(length: int) -> None:
    wishes = {"c": VariableOverrides(length=length)}
    definition = defined(b"c,n\na,1\n", DataSetTarget(most_bytes=1 << 10), variables=wishes)
    assert [(fault.variable, fault.code) for fault in definition.errors] == [("c", "length")]
    with pytest.raises(InvalidInputError, match="more than 1,024 bytes"):
        defined(b"c,n\n" + b"a,1\n" * 1_000, DataSetTarget(most_bytes=1 << 10), variables=wishes)


def test_more_columns_than_a_data_set_has_are_refused() -> None:
    names = [f"v{n}" for n in range(70_000)]
    for data in (
        ",".join(names).encode(),
        json.dumps(dict.fromkeys(names, 1)).encode(),
        json.dumps(
            {"datasetJSONVersion": "1.1", "columns": [{"name": n, "dataType": "string"} for n in names]}
        ).encode(),
    ):
        with pytest.raises(InvalidInputError, match="70,000 columns"):
            defined(data)


@pytest.mark.parametrize("length", ["", "0", "-3", "²", "9" * 5000, "12.5", "40000"])
def test_a_length_that_is_none_is_not_believed(length: str) -> None:
    for values, kind, expected in ((["abc"], "character", 3), ([1.5], "numeric", 8)):
        field = pa.field("x", pa.array(values).type, metadata={"sas.type": kind, "sas.length": length})
        (variable,) = defined(whole(pa.table([values], schema=pa.schema([field])))).variables
        assert (variable.length, variable.origins["length"]) == (expected, "inferred")


# --- limits of SAS ------------------------------------------------------------------------------------------------


def test_dates_that_sas_does_not_show_are_told() -> None:
    far = pa.array([-141_714, 6_549_162], pa.int32())  # 1582-01-01 and 19900-12-31
    table = pa.table(
        {
            "good": far.cast(pa.date32()),
            "early": pa.array([None, date(1581, 12, 31)]),
            "late": pa.array([0, 6_549_163], pa.int32()).cast(pa.date32()),
            "stamp": pa.array([datetime(1500, 1, 1), None]),
        }
    )
    definition = defined(whole(table))
    found = [(fault.variable, fault.code, fault.row) for fault in definition.warnings]
    assert found == [("early", "range", 2), ("late", "range", 2), ("stamp", "range", 1)]
    assert definition.errors == ()


@pytest.mark.parametrize("name", ["_N_", "_all_", "_NULL_", "_Last_", "_ERROR_", "a\nb", "a\tb", "a\rb"])
@pytest.mark.parametrize("rule", ["strict", "literal"])
def test_names_that_sas_reserves_and_line_ends_in_names_are_refused(name: str, rule: str) -> None:
    table = pa.table({name: [1.0]})
    assert [fault.code for fault in defined(whole(table), names=rule).errors] == ["name"]
    assert defined(whole(table), names="rename").errors == ()


@pytest.mark.parametrize("member", ["_NULL_", "_last_", "_DATA_"])
def test_names_that_no_data_set_can_have_are_refused(member: str) -> None:
    assert [fault.code for fault in defined(whole(pa.table({"x": [1.0]})), member=member).errors] == ["member"]


def test_control_characters_in_labels_are_sent_as_blanks() -> None:
    schema = pa.schema([pa.field("x", pa.float64(), metadata={"sas.label": "a\x07b\tc"})], {"sas.label": "d\x00e"})
    definition = defined(whole(pa.table([[1.0]], schema=schema)))
    assert (definition.errors, definition.label, definition.variables[0].label) == ((), "d e", "a b\tc")
    assert [(fault.variable, fault.code) for fault in definition.warnings] == [(None, "label"), ("x", "label")]
    assert (
        sent(definition).schema.metadata[b"sas.label"],
        sent(definition).schema.field("x").metadata[b"sas.label"],
    ) == (
        b"d e",
        b"a b\tc",
    )


def test_a_format_of_characters_without_a_name_is_theirs() -> None:
    said = {"sas.format": "8.", "sas.informat": "200."}
    schema = pa.schema([pa.field("c", pa.string(), metadata=said), pa.field("n", pa.float64(), metadata=said)])
    first, second = defined(whole(pa.table([["x"], [1.0]], schema=schema))).variables
    assert [(each.format, each.informat) for each in (first, second)] == [("$8.", "$200."), ("8.", "200.")]
    given = defined(whole(pa.table({"c": ["x"]})), variables={"c": VariableOverrides(format="8.")})
    assert [fault.code for fault in given.errors] == ["format"]


def test_the_first_row_with_a_zone_is_told() -> None:
    moments = pa.array([None, None, MOMENT], pa.timestamp("us", "UTC"))
    assert [(fault.code, fault.row) for fault in defined(whole(pa.table({"t": moments}))).warnings] == [
        ("conversion", 3)
    ]
