"""What the gateway writes of a table, it reads back; and what each format may do."""

import codecs
import json
import zlib
from datetime import date, timedelta
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dataset import side_columns
from app.model.errors import InvalidInputError
from app.tables.read import file_formats, json_document
from app.tables.read.read_request import MOST_COLUMNS, DataSetTarget, ReadOptions, VariableOverrides, VariableType
from tests.support.tables import visits
from tests.tables.out.making import made
from tests.tables.read.reading import defined, opened, sent, table_of

EXTENSIONS = {"csv": "csv", "ndjson": "ndjson", "arrow": "arrows", "parquet": "parquet", "dsjc": "dsjc"}


def values(table: pa.Table) -> dict[str, list[Any]]:
    """Every column but the bytes of damaged texts, spans as seconds."""
    kept = [field.name for field in table.schema if side_columns.bytes_of(field) is None]
    return {name: [_seconds(value) for value in table[name].to_pylist()] for name in kept}


def _seconds(value: Any) -> Any:
    return value.total_seconds() if isinstance(value, timedelta) else value


@pytest.mark.parametrize(
    "name", ["parquet", "arrow", "arrow-file", "csv", "ndjson", "dataset-json", "dataset-ndjson", "dsjc", "xpt"]
)
def test_what_is_written_is_read_back(name: str) -> None:
    table = visits()
    data = made(table, name) if name == "xpt" else made(table, name, missing="column")
    definition = defined(opened(data, f"visits.{EXTENSIONS.get(name, 'json')}"))
    assert values(sent(definition)) == values(table)
    if name != "csv":
        assert definition.member in {"VISITS", "DATA"}
    if name in {"parquet", "arrow", "arrow-file", "xpt"}:
        assert [variable.format for variable in definition.variables][1:4] == ["BEST5.1", "DATE9.", "DATETIME22.3"]
        assert definition.variables[1].label == "Age, in years"


def test_tags_in_the_cells_of_a_csv() -> None:
    table = table_of(opened(made(visits(), "csv", missing="tag"), "x.csv", tags=True))
    assert table["Age__missing"].to_pylist() == [None, ".A", None, None, None]


def test_undecodable_bytes_are_kept_and_warned_of_whatever_the_destination() -> None:
    table = visits()
    moved = table.replace_schema_metadata({**table.schema.metadata, b"sas.encoding": b"cp1252"})
    for source, target in ((table, DataSetTarget()), (moved, DataSetTarget()), (table, DataSetTarget("latin-1"))):
        found = defined(opened(made(source, "parquet")), target)
        assert "City" not in {fault.variable for fault in found.errors}
        assert ("City", "damaged", 2) in [(fault.variable, fault.code, fault.row) for fault in found.warnings]
        if not found.errors:
            assert sent(found)["City__bytes"].equals(table["City__bytes"])


# --- which format -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "name", "media_type", "expected"),
    [
        (b"PAR1....", "x.csv", "text/csv", "parquet"),
        (b"ARROW1\0\0", "", "", "arrow-file"),
        (b"\xff\xff\xff\xff\x10\0", "", "", "arrow"),
        (b"HEADER RECORD*******LIBRARY HEADER RECORD!!!!!!!", "", "", "xpt"),
        (zlib.compress(b'{"datasetJSONVersion": "1.1.0"}'), "", "", "dsjc"),
        (b'{"datasetJSONVersion": "1.1.0", "rows": []}', "x.ndjson", "", "dataset-json"),
        (b'{"datasetJSONVersion": "1.1.0"}\n[1]\n', "x.json", "", "dataset-ndjson"),
        (b'{"a": 1}', "x.csv", "", "ndjson"),
        (b"a,b\n", "", "", "csv"),
        (b"a,b\n", "x.PARQUET", "", "parquet"),
        (b"a,b\n", "x", "application/x-sas-xport; charset=binary", "xpt"),
        (codecs.BOM_UTF16_LE + "a,b\n".encode("utf-16-le"), "", "", "csv"),
    ],
)
def test_content_tells_the_format_and_else_the_name(head: bytes, name: str, media_type: str, expected: str) -> None:
    assert file_formats.format_of(BytesIO(head), name, media_type) == expected


@pytest.mark.parametrize("name", ["parquet", "arrow", "arrow-file", "ndjson", "dataset-json", "dataset-ndjson", "dsjc"])
def test_a_table_is_recognised_by_its_content(name: str) -> None:
    assert file_formats.table_format(made(visits(), name)) == name
    assert file_formats.table_format(made(visits().slice(0, 2), name)) == name


@pytest.mark.parametrize("name", ["xpt", "xpt-v5"])
def test_transport_files_of_both_versions_are_recognised(name: str) -> None:
    assert file_formats.table_format(made(visits(), name, rename=True)) == "xpt"


@pytest.mark.parametrize(
    "head",
    [
        b"",
        made(visits(), "csv"),
        made(visits(), "json"),
        b"PAR1 is the mark of Parquet",
        b"ARROW1 is the mark of Arrow",
        b"\xff" * 64,
        b"\xff\xff\xff\xff\x10\0\0\0" + bytes(16),
        b'{"a": 1}\n',
        b'{"a": 1}\n{"b": 1}\n',
        b'{"a": [1]}\n{"a": [2]}\n',
        b'{\n  "a": 1\n}\n',
        b'{"a": ' * 20_000,
        zlib.compress(b'{"a": 1}'),
        zlib.compress(b'{"datasetJSONVersion": "1.1.0"}')[:-6] + b"\0" * 6,
    ],
)
def test_other_content_is_not_taken_for_a_table(head: bytes) -> None:
    assert file_formats.table_format(head) is None


@pytest.mark.parametrize("data", [b"PK\3\4\0\0", b"\x89PNG\0", b"\0"])
def test_bytes_of_no_known_format_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidInputError, match="unknown file format"):
        opened(data)


@pytest.mark.parametrize(
    ("data", "name", "why"),
    [
        (b"", "x.csv", "the file is empty"),
        (b"a,b\n1\n", "x.csv", "row 1: it has 1 cell, but the row of names has 2"),
        (b"a\n\xff\n", "x.csv", "not in character set"),
        (b'a,b\n1,"' + b"x\n" * (2 << 20), "x.csv", "row 1: the quote that opens at byte 6 is never closed"),
        (b"no", "x.parquet", "not a Parquet file"),
        (b"PAR1 and no footer", "", "the Parquet file is damaged: its last four bytes are not PAR1"),
        (b"ARROW1 and nothing", "", "the Arrow file or stream is damaged: its footer"),
        (b"HEADER RECORD*******LIBRARY HEADER RECORD!!!!!!!", "", "."),
        (b'{"a": 1}\n{"a": \n', "", "row 2: not JSON"),
        (b'{"a": 1}\n[1]\n', "", "row 2: it is not a JSON object"),
        (b"[1]", "x.json", "no columns|JSON array"),
        (zlib.compress(b'{"columns": [{"name": "a", "dataType": "string"}]}\n["x"]')[:-6], "x.dsjc", "cut off"),
        (b"x\x9cno zlib", "x.dsjc", "not a zlib stream"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(data: bytes, name: str, why: str) -> None:
    options = {"encoding": "utf-8"} if "character set" in why else {}
    with pytest.raises(InvalidInputError, match=why):
        table_of(opened(data, name, **options))


# --- CSV ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_delimiter_and_encoding_are_found(delimiter: str, encoding: str) -> None:
    rows = [["Größe", "a,b;c"], ["é|\t", "2"], ["line\nfeed", '"3"']]
    text = "".join(delimiter.join('"' + cell.replace('"', '""') + '"' for cell in row) + "\r\n" for row in rows)
    reading = opened(text.encode(encoding), "x.csv")
    assert table_of(reading).to_pydict() == {"Größe": ["é|\t", "line\nfeed"], "a,b;c": ["2", '"3"']}
    assert [remark.why.split(";")[0] for remark in reading.remarks] == (
        ["it is not UTF-8 and was read as cp1252"] if encoding == "cp1252" else []
    )


def test_what_is_said_of_a_csv_is_followed() -> None:
    data = "1,5;01\n2,25;ä\n".encode("cp437")
    reading = opened(data, "x.csv", encoding="ibm437", delimiter=";", decimal=",", header=False)
    assert table_of(reading).to_pydict() == {"VAR1": [1.5, 2.25], "VAR2": ["01", "ä"]}
    kept = opened(b"zip,n\n1,2\n", "x.csv", types={"zip": "character"})
    assert table_of(kept).to_pydict() == {"zip": ["1"], "n": [2.0]}
    with pytest.raises(InvalidInputError, match="unknown character set 'klingon'"):
        opened(b"a\n", "x.csv", encoding="klingon")


@pytest.mark.parametrize("data", [b"a,b", b"a,b\n", b"a,b\r\n"])
def test_a_csv_may_have_no_rows(data: bytes) -> None:
    assert table_of(opened(data, "x.csv")).to_pydict() == {"a": [], "b": []}


def test_a_blank_line_of_a_single_column_is_a_row() -> None:
    assert table_of(opened(b"a\n1\n\n3\n", "x.csv"))["a"].to_pylist() == [1.0, None, 3.0]


# --- Arrow, NDJSON, Dataset-JSON ----------------------------------------------------------------------------------


def test_arrow_files_and_feather_are_read() -> None:
    table = pa.table({"a": [1, 2], "d": pa.array(["x", None]).dictionary_encode()})
    sink = BytesIO()
    feather.write_feather(table, sink, compression="zstd")
    assert table_of(opened(sink.getvalue())).to_pydict() == {"a": [1, 2], "d": ["x", None]}


@pytest.mark.parametrize("count", [0, 1, 5_000])
def test_extension_types_become_plain_ones(count: int, tmp_path: Path) -> None:
    """In a file of DuckDB, and in one of Arrow that has further types."""
    uuids = [None if number % 7 == 3 else UUID(int=number * 0x1234567890ABCDEF0123456789) for number in range(count)]
    texts = pa.array([each and str(each) for each in uuids], pa.string())
    documents = pa.array([f'{{"n":{number}}}' for number in range(count)], pa.string())
    given = pa.table({"u": texts, "j": documents})
    with duckdb.connect() as connection:
        connection.register("given", given)
        connection.sql("SELECT u::UUID u, j::JSON j FROM given").write_parquet(str(tmp_path / "x.parquet"))
    data = (tmp_path / "x.parquet").read_bytes()
    assert {str(each) for each in pq.read_schema(BytesIO(data)).types} == {
        "extension<arrow.uuid>",
        "extension<arrow.json>",
    }
    assert table_of(opened(data, "x.parquet")).equals(given)

    flags = pa.array([number % 3 for number in range(count)], pa.int8())
    stored = [
        pa.ExtensionArray.from_storage(pa.uuid(), pa.array([each and each.bytes for each in uuids], pa.binary(16))),
        pa.ExtensionArray.from_storage(pa.bool8(), flags),
        pa.ExtensionArray.from_storage(pa.opaque(pa.int8(), "thing", "vendor"), flags),
    ]
    sink = BytesIO()
    whole = pa.table(stored, ["u", "b", "o"])
    with pa.ipc.new_stream(sink, whole.schema) as writer:
        writer.write_table(whole.slice(count // 3))
    found = table_of(opened(sink.getvalue(), "x.arrow"))
    expected = pa.table([texts, flags.cast(pa.bool_()), flags], ["u", "b", "o"])
    assert found.equals(expected.slice(count // 3))


def test_parquet_with_a_damaged_page_is_refused() -> None:
    sink = BytesIO()
    pq.write_table(pa.table({"a": list(range(5000))}), sink, write_page_checksum=True, compression="none")
    data = bytearray(sink.getvalue())
    data[2000] ^= 0xFF
    why = r"the checksum of a page does not fit its bytes, in column a of row group 1 of 1 \(from byte 4 on\)"
    with pytest.raises(InvalidInputError, match=why):
        table_of(opened(bytes(data)))


def test_objects_with_different_members_make_one_table() -> None:
    lines = [{"a": 1, "b": "2024-01-31"}, {"c": True, "a": 2.5}, {"b": None, "d": "x", "é": "7"}]
    reading = opened("".join(json.dumps(line, ensure_ascii=False) + "\n\n" for line in lines).encode())
    table = table_of(reading)
    assert [str(field.type) for field in table.schema] == ["double", "date32[day]", "bool", "string", "string"]
    assert table["a"].to_pylist() == [1.0, 2.5, None]
    assert table["é"].to_pylist() == [None, None, "7"]
    assert reading.remarks == ()


def test_values_of_several_types_become_text() -> None:
    mixed = b'{"a": 1, "b": 9007199254740993}\n{"a": "one", "b": 0.5}\n{"a": true}\n'
    reading = opened(mixed)
    table = table_of(reading)
    assert table.to_pydict() == {"a": ["1", "one", "true"], "b": ["9007199254740993", "0.5", None]}
    assert [(remark.column, remark.wrong) for remark in reading.remarks] == [("a", False), ("b", False)]


def test_integers_keep_every_digit() -> None:
    table = table_of(opened(b'{"a": 18446744073709551615, "b": -9223372036854775808}\n{"a": -1}'))
    assert [int(value) for value in table["a"].to_pylist()] == [18446744073709551615, -1]
    assert table["b"].to_pylist() == [-9223372036854775808, None]
    (remark,) = opened(b'{"a": 1.0}\n{"a": 36893488147419103232}\n').remarks
    assert (remark.column, remark.row) == ("a", 2)


@given(
    st.lists(st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 9) | st.just("x"), max_size=2), max_size=60)
)
def test_sparse_objects_are_what_they_are(objects: list[dict[str, int | str]]) -> None:
    names = list(dict.fromkeys(chain.from_iterable(objects)))
    data = b"".join(json.dumps(each).encode() + b"\n" for each in [{"z": 0}, *objects])
    reading = opened(data, types=dict.fromkeys(names, "character"))
    expected = {name: [None, *(None if name not in each else str(each[name]) for each in objects)] for name in names}
    assert table_of(reading).to_pydict() == {"z": [0, *[None] * len(objects)], **expected}


def test_the_row_of_a_rare_value_is_told() -> None:
    rare: dict[int, dict[str, Any]] = {41: {"b": "2024-01-31"}, 78: {"b": "x"}, 90: {"c": []}, 95: {"d": 10**30 + 1}}
    data = b"".join(json.dumps(rare.get(number, {"a": 1})).encode() + b"\n" for number in range(1, 101))
    remarks = opened(data, types={"b": "numeric"}).remarks
    assert [(remark.column, remark.row) for remark in remarks] == [("b", 78), ("c", 90), ("d", 95)]


def test_every_line_may_have_a_column_of_its_own() -> None:
    data = b"".join(b'{"v%d":1}\n' % number for number in range(MOST_COLUMNS))
    assert len(opened(data).schema) == MOST_COLUMNS
    with pytest.raises(InvalidInputError, match="65,535 columns"):
        opened(data + b'{"x":1}\n')


def test_a_wide_and_sparse_table_is_defined() -> None:
    definition = defined(b"".join(b'{"v%d":1}\n' % number for number in range(5_000)))
    assert (definition.errors, definition.observations, len(definition.variables)) == ((), 5_000, 5_000)


def test_nested_values_are_wrong() -> None:
    (remark,) = opened(b'{"a": 1}\n{"a": [1]}\n').remarks
    assert (remark.column, remark.row, remark.wrong) == ("a", 2, True)


def dataset_json(rows: list[list[Any]], *columns: dict[str, Any]) -> dict[str, Any]:
    return {
        "datasetJSONVersion": "1.1.0",
        "name": "DM",
        "label": "Demographics",
        "columns": [{"itemOID": "x", "label": "", **column} for column in columns],
        "rows": rows,
    }


def test_whole_numbers_of_dataset_json_may_be_written_with_a_point() -> None:
    document = dataset_json([[2.0], [(1 << 53) + 1], [None], [-1e3]], {"name": "N", "dataType": "integer"})
    assert table_of(opened(json.dumps(document).encode()))["N"].to_pylist() == [2, (1 << 53) + 1, None, -1000]


def test_types_of_dataset_json() -> None:
    document = dataset_json(
        [["a", "2024-01-31", "2024-01", "1.10", 7, True, "10:00:00"], [None] * 7],
        {"name": "S", "dataType": "string", "length": 20, "label": "Text", "keySequence": 1},
        {"name": "D", "dataType": "date", "targetDataType": "integer", "displayFormat": "E8601DA10."},
        {"name": "DTC", "dataType": "date"},
        {"name": "DEC", "dataType": "decimal", "targetDataType": "decimal"},
        {"name": "I", "dataType": "integer"},
        {"name": "B", "dataType": "boolean"},
        {"name": "T", "dataType": "time", "targetDataType": "integer"},
    )
    definition = defined(opened(json.dumps(document).encode()))
    seen = {v.name: (v.type, v.length, v.format) for v in definition.variables}
    assert seen == {
        "S": ("character", 20, ""),
        "D": ("numeric", 8, "E8601DA10."),
        "DTC": ("character", 7, ""),
        "DEC": ("numeric", 8, ""),
        "I": ("numeric", 8, ""),
        "B": ("numeric", 8, ""),
        "T": ("numeric", 8, "TIME8."),
    }
    assert (definition.member, definition.label, definition.variables[0].label) == ("DM", "Demographics", "Text")
    assert sent(definition)["DEC"].to_pylist() == [1.1, None]


@pytest.mark.parametrize(
    ("data_type", "rows", "why"),
    [
        ("double", [[1.0], [1, 2]], "row 2: it has 2 values, but there are 1 columns"),
        ("double", [[1.0], []], "row 2: it has 0 values"),
        ("double", [[1.0], ["x"]], "row 2: 'x' is not a value of column N"),
        (
            "integer",
            [[1], [2.0], [2.7], [-0.9]],
            "row 3: 2 values of the integer column N have a fraction",
        ),
        ("integer", [[None], [1e19]], "row 2: 1e[+]19 is not a value of column N"),
    ],
)
def test_rows_that_do_not_fit_their_columns(data_type: str, rows: list[list[Any]], why: str) -> None:
    document = dataset_json(rows, {"name": "N", "dataType": data_type})
    with pytest.raises(InvalidInputError, match=why):
        table_of(opened(json.dumps(document).encode()))


@pytest.mark.parametrize(
    ("given", "expected"), [("numeric", [1.0, 2.0, None, 2.7]), ("character", ["1", "2", None, "2.7"])]
)
def test_the_type_that_is_given_decides_on_integers_with_fractions(given: VariableType, expected: list[Any]) -> None:
    document = dataset_json([[1], [2.0], [None], [2.7]], {"name": "N", "dataType": "integer"})
    reading = opened(json.dumps(document).encode(), types={"n": given})
    assert table_of(reading)["N"].to_pylist() == expected


@pytest.mark.parametrize("charset", ["utf-16", "utf-16-le", "latin-1"])
@pytest.mark.parametrize("name", ["x.json", "x.ndjson", "x"])
def test_json_in_another_character_set_is_refused_with_that_reason(charset: str, name: str) -> None:
    document = dataset_json([["ä"]], {"name": "A", "label": "é", "dataType": "string"})
    data = json.dumps(document, ensure_ascii=False).encode(charset)
    why = "UTF-8" if charset == "latin-1" else "it is in UTF-16 or UTF-32, but JSON is exchanged in UTF-8"
    with pytest.raises(InvalidInputError, match=why):
        table_of(opened(data, name))


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("version", [{}, {"datasetJSONVersion": "1.0.0"}])
@pytest.mark.parametrize("data", ["clinicalData", "referenceData"])
def test_dataset_json_of_version_1_0_is_named(data: str, version: dict[str, str], indent: int | None) -> None:
    group = {"records": 1, "name": "DM", "items": [{"OID": "A", "name": "A", "type": "string"}], "itemData": [["x"]]}
    document = {"creationDateTime": "2023-03-22T11:53:27", **version, data: {"itemGroupData": {"IG.DM": group}}}
    with pytest.raises(InvalidInputError, match=r"Dataset-JSON of version 1\.0, which is not supported"):
        table_of(opened(json.dumps(document, indent=indent).encode(), "dm.json"))


# --- CSV files that are not as they should be ---------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"\na\n1\n", b"\r\n\r\na\r\n1\r\n", b"\n\n\na\n1\n\n"])
def test_blank_lines_before_the_names_are_passed_over(data: bytes) -> None:
    assert table_of(opened(data, "x.csv"))["a"].to_pylist()[0] == 1.0


@pytest.mark.parametrize("encoding", ["utf-16", "punycode", "x\0y", "undefined", "idna", "nonsense"])
def test_an_encoding_that_it_cannot_be_in_is_said(encoding: str) -> None:
    with pytest.raises(InvalidInputError, match="character set"):
        table_of(opened("a,b\nä,ö\n".encode(), "x.csv", encoding=encoding))


# --- a JSON array, and what is nested -----------------------------------------------------------------------------


def test_a_json_array_of_objects_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    objects = [{"a": 1, "b": "]}"}, {"a": None, "b": "{["}, {"c": 2.5}]
    for indent, piece in ((None, 1), (1, 3), (None, 1 << 20)):
        monkeypatch.setattr(json_document, "BLOCK_BYTES", max(piece, 2))
        table = table_of(file_formats.read(BytesIO(json.dumps(objects, indent=indent).encode()), "json", ReadOptions()))
        assert table.to_pydict() == {"a": [1, None, None], "b": ["]}", "{[", None], "c": [None, None, 2.5]}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b'[{"a": 1}', "cut off in its rows"),
        (b'[{"a": 1}] [', "something after the end"),
        (b'[{"a": 1}, 2]', "row 2: it is not a JSON object"),
        (b'[{"a": 1},]', "not a JSON object"),
    ],
)
def test_a_json_array_that_is_damaged_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(InvalidInputError, match=why):
        opened(data)


def test_tags_in_json_are_special_missing_values() -> None:
    data = b'[{"n": 1, "d": "2024-01-31", "t": "x"}, {"n": ".a", "d": "._", "t": ".A"}, {"n": null}]'
    assert table_of(opened(data, tags=True)).to_pydict() == {
        "n": [1, None, None],
        "n__missing": [None, ".A", None],
        "d": [date(2024, 1, 31), None, None],
        "d__missing": [None, "._", None],
        "t": ["x", ".A", None],
    }


def test_values_that_are_nested_deeply_are_refused() -> None:
    for depth in (3, 300, 3_000):
        data = b'{"a": 1}\n{"a": ' + b"[" * depth + b"]" * depth + b"}\n"
        if depth < 1_000:
            assert [(fault.variable, fault.row) for fault in defined(data).errors] == [("a", 2)]
        else:
            with pytest.raises(InvalidInputError, match="row 2: not JSON"):
                defined(data)


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([["1.5"], [1.5]], "row 2: 1.5 is not a value of column N"),
        ([["1.5"], ["x"]], "row 2: 'x' is not a value of column N"),
        ([["1.5"], []], "row 2: it has 0 values"),
        ([["1.5"], ["1", "2"]], "row 2: it has 2 values"),
    ],
)
def test_decimals_that_are_not_as_they_should_be(rows: list[list[Any]], why: str) -> None:
    document = dataset_json(rows, {"name": "N", "dataType": "decimal", "targetDataType": "decimal"})
    with pytest.raises(InvalidInputError, match=why):
        table_of(opened(json.dumps(document).encode()))


def test_zones_in_dataset_json_are_converted_and_told() -> None:
    columns: list[dict[str, Any]] = [
        {"name": "DTM", "dataType": "datetime", "targetDataType": "integer"},
        {"name": "TM", "dataType": "time", "targetDataType": "integer"},
    ]
    rows: list[list[Any]] = [
        ["2024-01-31T10:30:00", None],
        [None, "10:30"],
        ["2024-01-31T00:30:00+01:00", "00:30:00+01:00"],
    ]
    reading = opened(json.dumps(dataset_json(rows, *columns)).encode())
    table = table_of(reading)
    assert list(map(str, table["DTM"].to_pylist())) == ["2024-01-31 10:30:00", "None", "2024-01-30 23:30:00"]
    assert list(map(str, table["TM"].to_pylist())) == ["None", "10:30:00", "23:30:00"]
    assert [(remark.column, remark.row) for remark in reading.remarks] == [("DTM", 3), ("TM", 3)]


@pytest.mark.parametrize("name", ["json", "ndjson", "dataset-json", "dataset-ndjson"])
def test_json_may_have_a_byte_order_mark(name: str) -> None:
    data = made(visits(), name, missing="column")
    marked = codecs.BOM_UTF8 + data
    assert file_formats.format_of(BytesIO(marked), "", "") == name
    assert file_formats.table_format(marked) == file_formats.table_format(data)
    assert table_of(opened(marked)).equals(table_of(opened(data)))


@pytest.mark.parametrize("data", [b"N,A\r\n,1\r\n,2\r\n", b"N,A\r\n.,1\r\nNA,2\r\n", b"N,A\r\n"])
def test_a_column_of_a_csv_without_a_value_is_numeric_on_request(data: bytes) -> None:
    table = sent(defined(opened(data, "x.csv", types={"n": "numeric"}), None, {"n": VariableOverrides(type="numeric")}))
    assert table.schema.field("N").type == pa.float64()
    assert table["N"].null_count == table.num_rows
