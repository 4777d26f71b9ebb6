"""Transport files as a data set comes in them. The files themselves are tested with `app.tables.xpt`."""

from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyreadstat
import pytest

from app.tables.xpt.xpt_limits import UnfitTableError
from app.tables.xpt.xpt_reader import read
from tests.support.tables import field, visits
from tests.tables.out.making import made


def came_back(data: bytes, charset: str = "utf-8") -> pa.Table:
    table = read(BytesIO(data), charset=charset)
    return pa.Table.from_batches(table.batches(), table.schema)


@pytest.mark.parametrize("name", ["xpt", "xpt-v5"])
def test_everything_is_in_a_transport_file(name: str) -> None:
    table = visits()
    came = came_back(made(table, name))
    for column in table.schema.names:
        assert came[column if name == "xpt" else _upper(column)].to_pylist() == table[column].to_pylist(), column
    assert came.schema.field(1).metadata[b"sas.label"] == b"Age, in years"
    assert came.schema.metadata[b"sas.member"] == b"VISITS"


def _upper(name: str) -> str:
    variable, mark, side = name.partition("__")
    return variable.upper() + mark + side


def test_special_missing_values_can_be_left_out() -> None:
    assert "Age__missing" not in came_back(made(visits(), "xpt", missing="null")).schema.names


def test_rows_and_columns_of_it(tmp_path: Path) -> None:
    path = tmp_path / "some.xpt"
    path.write_bytes(made(visits(), "xpt", columns=("clock,age",), offset=1, limit=3))
    frame, about = pyreadstat.read_xport(path)
    assert about.column_names == ["Clock", "Age"]
    assert frame["Clock"].to_list()[2].isoformat() == "08:30:00"
    assert len(frame) == 3


def test_texts_of_an_ebcdic_data_set_keep_their_lengths() -> None:
    schema = pa.schema([field("C", pa.string(), length="4")], {"sas.member": "HOST", "sas.encoding": "cp037"})
    table = pa.table([["äöüß", "ÄÖÜ"]], schema=schema)
    assert came_back(made(table, "xpt"), "latin-1")["C"].to_pylist() == ["äöüß", "ÄÖÜ"]


@pytest.mark.parametrize("charset", ["utf-16-be", "utf-16-le", "cp930"])
def test_texts_in_a_set_that_no_file_can_have_become_utf_8_of_the_length_they_need(
    tmp_path: Path, charset: str
) -> None:
    schema = pa.schema(
        [field("C", pa.string(), length="6"), field("D", pa.string(), length="40")], {"sas.encoding": charset}
    )
    texts = ["日本語", "ab"]
    for name in ("xpt", "xpt-v5"):
        data = made(pa.table([texts, texts], schema=schema), name)
        assert came_back(data).to_pydict() == {"C": texts, "D": texts}
        (tmp_path / "some.xpt").write_bytes(data)
        frame, about = pyreadstat.read_xport(tmp_path / "some.xpt", encoding="utf-8")
        assert (frame["C"].to_list(), about.variable_storage_width) == (texts, {"C": 9, "D": 40})


def test_what_does_not_fit_is_told_before_a_byte_is_made() -> None:
    schema = pa.schema([field("MuchTooLong", pa.float64())], {"sas.member": "M"})
    table: Any = pa.table([[1.0]], schema=schema)
    with pytest.raises(UnfitTableError):
        made(table, "xpt-v5")
    assert came_back(made(table, "xpt-v5", rename=True)).schema.names == ["MUCHTOOL"]
