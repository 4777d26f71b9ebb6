"""Rows that do not come are never passed over: what a file states is compared with what it has."""

import gzip
import io
import json
import zlib
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.model.errors import InvalidInputError
from app.tables.read import open_quotes
from tests.support.tables import pupils
from tests.tables.out.making import made
from tests.tables.read.reading import opened, table_of

WITHOUT_END = "the last line has no line end"


def written(records: Any, rows: list[list[Any]], form: str) -> bytes:
    columns = [{"itemOID": "x", "name": "N", "label": "", "dataType": "integer"}]
    head = {"datasetJSONVersion": "1.1.0", "records": records, "name": "DM", "label": "", "columns": columns}
    if form == "dataset-json":
        return json.dumps(head | {"rows": rows}).encode()
    lines = "".join(json.dumps(line) + "\n" for line in [head, *rows]).encode()
    return zlib.compress(lines) if form == "dsjc" else lines


@pytest.mark.parametrize("form", ["dataset-json", "dataset-ndjson", "dsjc"])
@pytest.mark.parametrize("records", [2, 4, 0])
def test_other_rows_than_stated_are_refused(form: str, records: int) -> None:
    rows = [[1], [2], [3]]
    assert table_of(opened(written(3, rows, form)))["N"].to_pylist() == [1, 2, 3]
    with pytest.raises(InvalidInputError, match=rf"state {records} rows .`records`., but it has 3"):
        table_of(opened(written(records, rows, form)))


@pytest.mark.parametrize("records", ["3", -1, 1.5, True])
def test_a_stated_number_that_is_no_number_is_refused(records: Any) -> None:
    with pytest.raises(InvalidInputError, match="not a number of rows"):
        opened(written(records, [[1]], "dataset-json"))


def test_rows_of_dataset_json_that_would_be_passed_over_are_refused() -> None:
    one = written(1, [[1]], "dataset-json")
    for damaged in (one[:-1] + b', "rows": [[2]]}', one.replace(b"[[1]]", b'{"1": [1]}')):
        with pytest.raises(InvalidInputError, match=r"not an array of rows|the member 'rows' twice"):
            opened(damaged, "x.json")
    with pytest.raises(InvalidInputError, match=r"state 7 rows .`records`., but it has 0"):
        table_of(opened(written(7, [], "dataset-json").replace(b', "rows": []', b"")))


def test_dataset_ndjson_cut_at_a_line_end_is_refused() -> None:
    data = made(pupils(), "dataset-ndjson")
    cut = data[: data.rindex(b"\n", 0, -1) + 1]
    with pytest.raises(InvalidInputError, match=r"state 3 rows .`records`., but it has 2"):
        table_of(opened(cut))


@pytest.mark.parametrize(("data", "name"), [(b'{"a": 1}\n{"a": 2}\n', "x.ndjson"), (b"a,b\n1,2\n3,4\n", "x.csv")])
def test_a_last_line_without_end_is_told(data: bytes, name: str) -> None:
    assert opened(data, name).remarks == ()
    (remark,) = opened(data[:-1], name).remarks
    assert (remark.row, remark.wrong) == (2, False)
    assert remark.why.startswith(WITHOUT_END)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "cp1252"])
def test_the_end_of_the_last_line_is_found_in_any_character_set(encoding: str) -> None:
    data = "a,b\nä,1\n".encode(encoding)
    assert not [remark for remark in opened(data, "x.csv").remarks if remark.why.startswith(WITHOUT_END)]


# --- quotes of CSV ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b'a,b\n1,"x\n2,y\n3,z\n', "row 1: the quote that opens at byte 6 is never closed"),
        (b'a,b\n1,x\n\n2,"y\n3,z\n', "row 2: the quote that opens at byte 11 is never closed"),
        (b'a,b\n1,"x\n2,"y"\n3,z\n', "row 1: the quote that opens at byte 6 ends in a later line"),
        (
            b'a,b\n"1\n2",x\n2,"y\n3","z"\n4,q\n',
            "row 2: the quote that opens at byte 15 ends in a later line|row 2: it has 3 cells",
        ),
        (b'a,"b\n1,2\n', "the row of names: the quote that opens at byte 2"),
        (b'\xef\xbb\xbfa,b\n1,"x\n', "row 1: the quote that opens at byte 9"),
        ('a,b\n1,"x\n'.encode("utf-16"), "row 1: the quote that opens is never closed"),
        (b'a,b\r1,2\r3,"x\r', "row 2: the quote that opens at byte 10"),
        (b'a,b\n1,5" of 3"\n2,"x\n3,y\n', "row 2: the quote that opens at byte 17 is never closed"),
    ],
)
def test_a_quote_that_would_swallow_rows_is_refused(data: bytes, place: str) -> None:
    with pytest.raises(InvalidInputError, match=place):
        opened(data, "x.csv")


def test_quotes_within_cells_are_text() -> None:
    data = b'a,b\n5" pipe,"say ""no"""\n"x"y,"line\nfeed"\n"",""\n'
    assert table_of(opened(data, "x.csv")).to_pydict() == {
        "a": ['5" pipe', "xy", ""],
        "b": ['say "no"', "line\nfeed", ""],
    }


CELL = st.text(st.sampled_from('",\n\rx'), max_size=5)


@given(st.lists(st.lists(CELL, min_size=2, max_size=2), min_size=1, max_size=8), st.integers(1, 30), st.booleans())
def test_no_well_formed_file_is_refused(rows: list[list[str]], piece: int, ends: bool) -> None:
    lines = [",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in [["p", "q"], *rows]]
    data = ("\n".join(lines) + "\n" * ends).encode()
    before, open_quotes.PIECE_BYTES = open_quotes.PIECE_BYTES, piece  # type: ignore[misc]
    try:
        open_quotes.check_quotes(io.BytesIO(data), "utf-8", ",", 1, blank_rows=False)
        with pytest.raises(InvalidInputError, match=f"row {len(rows) + 1}: the quote that opens at byte "):
            open_quotes.check_quotes(
                io.BytesIO("\n".join([*lines, 'x,"y']).encode()), "utf-8", ",", 1, blank_rows=False
            )
    finally:
        open_quotes.PIECE_BYTES = before  # type: ignore[misc]


# --- Arrow, Parquet, gzip -----------------------------------------------------------------------------------------


def test_what_follows_the_end_of_an_arrow_stream_is_not_passed_over() -> None:
    data = made(pupils(), "arrow")
    with pytest.raises(InvalidInputError, match=r"bytes from byte .* are not a message"):
        opened(data + data)
    (remark,) = opened(data[:-8]).remarks
    assert "no end-of-stream marker" in remark.why
    assert opened(data).remarks == ()


def test_an_arrow_file_whose_footer_lists_fewer_batches_is_refused() -> None:
    sink = io.BytesIO()
    table = pa.table({"n": list(range(4))})
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    data = sink.getvalue()
    assert table_of(opened(data)).num_rows == 4
    footer = len(data) - 10 - int.from_bytes(data[-10:-6], "little")
    two, one = ((number).to_bytes(4, "little") for number in (2, 1))
    found = [
        opening(data[:at] + one + data[at + 4 :]) for at in range(footer, len(data) - 14) if data[at : at + 4] == two
    ]
    assert any("its footer lists 1 batches, but it has 2" in why for why in found)


def opening(data: bytes) -> str:
    """Return the reason for which a file is refused, or else nothing."""
    try:
        table_of(opened(data))
    except InvalidInputError as error:
        return error.why
    return ""


def test_an_arrow_message_that_is_longer_than_the_file_is_refused_before_it_is_read() -> None:
    data = bytearray(made(pupils(), "arrow"))
    data[4:8] = (0x7FFFFFF0).to_bytes(4, "little")
    with pytest.raises(InvalidInputError, match="the message at byte 0 is cut off"):
        opened(bytes(data))


def test_gzip_is_read_where_zlib_is() -> None:
    lines = made(pupils(), "dataset-ndjson")
    whole = gzip.compress(lines)
    expected = table_of(opened(made(pupils(), "dsjc"))).to_pydict()
    assert table_of(opened(whole)).to_pydict() == expected
    assert table_of(opened(gzip.compress(lines[:900]) + gzip.compress(lines[900:]))).to_pydict() == expected
    with pytest.raises(InvalidInputError, match="the gzip file is cut off"):
        table_of(opened(whole[:-4]))
    with pytest.raises(InvalidInputError, match="bytes follow the zlib stream"):
        table_of(opened(zlib.compress(lines) + b"x"))
    with pytest.raises(InvalidInputError, match="not a gzip file"):
        table_of(opened(whole + b"xxxxxxxxxx"))


def test_parquet_that_announces_other_rows_is_refused() -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"n": pa.array([1.5] * 77)}), sink, compression="none", use_dictionary=False)
    data = sink.getvalue()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    rows = bytes([154])  # 77 as a zigzag varint begins so; 152 is 76
    found = [
        data[:at] + bytes([152]) + data[at + 1 :] for at in range(footer, len(data) - 8) if data[at : at + 1] == rows
    ]
    refused = [why for why in map(opening, found) if why]
    assert len(refused) >= 2
    assert any("it announces 76 rows, but" in why for why in refused)
    assert all(opening(file) or table_of(opened(file)).num_rows == 77 for file in found)
