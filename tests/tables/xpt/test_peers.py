"""What other programs read of our transport files and we of theirs, and what they lose."""

import io
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import polars_readstat
import pyarrow as pa
import pyreadstat
import pytest

from app.tables.xpt.xpt_layouts import Version
from tests.tables.xpt.tables import VERSIONS, character, file_of, missing, numeric, table, table_of

versions = pytest.mark.parametrize("version", VERSIONS)

ROWS = 1000
TAGS = [f".{letter}" for letter in "_ABCDEFGHIJKLMNOPQRSTUVWXYZ"]


def sample(version: Version) -> pa.Table:
    """A table that both peers can hold, with numbers of every size."""
    random = np.random.default_rng(version)
    numbers = random.choice([-1.0, 1.0], ROWS) * random.uniform(1, 10, ROWS) * 10.0 ** random.integers(-76, 74, ROWS)
    texts = [f"é {number:x}"[: random.integers(0, 12)].rstrip() for number in random.integers(0, 2**40, ROWS)]
    seconds = random.integers(-5_000_000_000, 5_000_000_000, ROWS)
    long = version == 8
    name, label = ("A_rather_long_name", "l" * 100) if long else ("SHORT", "a label")
    fields = [
        numeric(name, label=label, format="ALONGFORMATNAME12.2" if long else "COMMA12.2"),
        numeric("WHOLE", informat="8."),
        numeric("D", pa.date32(), format="YYMMDD10."),
        numeric("S", pa.timestamp("us"), format="DATETIME20."),
        numeric("T", pa.time64("us"), format="TIME8."),
        character("C", 12, label="of text é", format="$CHAR12."),
    ]
    columns: list[list[Any]] = [
        numbers.tolist(),
        random.integers(-(2**53), 2**53, ROWS).astype(np.float64).tolist(),
        [date.fromordinal(int(day)) for day in random.integers(620_000, 800_000, ROWS)],
        [datetime(1970, 1, 1) + timedelta(seconds=int(second)) for second in seconds],
        [time(int(n) // 3600, int(n) // 60 % 60, int(n) % 60) for n in random.integers(0, 86_400, ROWS)],
        texts,
    ]
    for column in columns[:5]:
        column[7:9] = [None, None]
    columns[1][11] = 0.0
    return table(fields, columns, member="MEMBER", label="the data set's")


def without_trailing_point(schema: pa.Schema) -> dict[str, str]:
    said = {field.name: (field.metadata or {}).get(b"sas.format", b"").decode().removesuffix(".") for field in schema}
    return {name: reference for name, reference in said.items() if reference}


def labels(schema: pa.Schema) -> dict[str, str]:
    said = {field.name: (field.metadata or {}).get(b"sas.label", b"").decode() for field in schema}
    return {name: label for name, label in said.items() if label}


def present(said: dict[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in said.items() if value}


@versions
def test_pyreadstat_reads_what_we_write(version: Version, tmp_path: Path) -> None:
    written = sample(version)
    (tmp_path / "ours.xpt").write_bytes(file_of(written, version))
    frame, said = pyreadstat.read_xport(tmp_path / "ours.xpt")
    for name, values in written.to_pydict().items():
        assert [None if pd.isna(value) else value for value in frame[name]] == values, name
    assert present(said.column_names_to_labels) == labels(written.schema)
    assert present(said.original_variable_types) == without_trailing_point(written.schema)
    assert (said.table_name, said.file_label) == ("MEMBER", "the data set's")


@versions
def test_polars_readstat_reads_what_we_write(version: Version, tmp_path: Path) -> None:
    written = sample(version)
    (tmp_path / "ours.xpt").write_bytes(file_of(written, version))
    scan = polars_readstat.ScanReadstat(str(tmp_path / "ours.xpt"))
    assert scan.df.collect().to_dict(as_series=False) == written.to_pydict()
    columns = scan.metadata["columns"]
    assert present({column["name"]: column["label"] for column in columns}) == labels(written.schema)
    assert present({column["name"]: column["format"] for column in columns}) == without_trailing_point(written.schema)
    assert (scan.metadata["table_name"], scan.metadata["file_label"]) == ("MEMBER", "the data set's")


@versions
def test_we_read_what_pyreadstat_writes(version: Version, tmp_path: Path) -> None:
    expected = sample(version)
    pyreadstat.write_xport(
        expected.to_pandas(date_as_object=True),
        tmp_path / "theirs.xpt",
        file_format_version=version,
        table_name="MEMBER",
        file_label="the data set's",
        column_labels=dict(labels(expected.schema)),
        variable_format=without_trailing_point(expected.schema),
    )
    again = table_of((tmp_path / "theirs.xpt").read_bytes())
    assert again.to_pydict() == expected.to_pydict()
    assert again.schema.types == expected.schema.types
    assert labels(again.schema) == labels(expected.schema)
    assert without_trailing_point(again.schema) == without_trailing_point(expected.schema)
    assert again.schema.metadata[b"sas.member"] == b"MEMBER"
    assert again.schema.metadata[b"sas.label"] == b"the data set's"


@versions
def test_we_read_what_polars_readstat_writes(version: Version, tmp_path: Path) -> None:
    expected = sample(version)
    polars_readstat.write_xpt(
        pl.DataFrame(expected),
        str(tmp_path / "theirs.xpt"),
        version=version,
        table_name="MEMBER",
        file_label="the data set's",
        variable_labels=labels(expected.schema),
        variable_format=without_trailing_point(expected.schema),
    )
    again = table_of((tmp_path / "theirs.xpt").read_bytes())
    assert again.to_pydict() == expected.to_pydict()
    assert labels(again.schema) == labels(expected.schema)
    kept = {
        name: reference
        for name, reference in without_trailing_point(again.schema).items()
        if name != again.column_names[0]
    }
    assert kept.items() <= without_trailing_point(expected.schema).items()


@versions
def test_the_bytes_of_special_missing_values_are_as_specified(version: Version) -> None:
    written = table([numeric("X"), missing("X")], [[None] * 28, [None, *TAGS]])
    data = file_of(written, version)
    cells = np.frombuffer(data[-240:], np.uint8)[: 28 * 8].reshape(28, 8)
    assert cells[:, 0].tobytes() == b"._ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    assert not cells[:, 1:].any()


@versions
def test_others_lose_special_missing_values_and_we_keep_them(version: Version, tmp_path: Path) -> None:
    written = table([numeric("X"), missing("X")], [[None] * 28, [None, *TAGS]])
    path = tmp_path / "ours.xpt"
    path.write_bytes(file_of(written, version))
    assert table_of(path.read_bytes()).to_pydict() == written.to_pydict()
    frame, _ = pyreadstat.read_xport(path)
    assert frame["X"].isna().all()
    assert polars_readstat.read_readstat(str(path)).to_dict(as_series=False) == {"X": [None] * 28}


def test_pandas_loses_rows_and_zeros_and_we_keep_them() -> None:
    written = table([numeric("X"), character("C", 8)], [[0.0, 1.0, 2.0, 3.0, 4.0], ["a", "b", "c", "d", ""]])
    data = file_of(written, 5)
    assert table_of(data).to_pydict() == written.to_pydict()
    theirs = pd.read_sas(io.BytesIO(data), format="xport", encoding="utf-8")
    assert len(theirs) == 4
    assert theirs["X"][0] != 0


def test_pyreadstat_loses_blank_rows_at_the_end_and_we_keep_them(tmp_path: Path) -> None:
    written = table([character("C", 40), character("D", 40)], [["a", "", "", ""], ["", "", "", ""]])
    path = tmp_path / "ours.xpt"
    path.write_bytes(file_of(written, 5))
    assert table_of(path.read_bytes()).to_pydict() == written.to_pydict()
    assert len(pyreadstat.read_xport(path)[0]) == 1


@versions
def test_pyreadstat_loses_the_greatest_numbers_and_we_keep_them(version: Version, tmp_path: Path) -> None:
    path = tmp_path / "theirs.xpt"
    pyreadstat.write_xport(pd.DataFrame({"X": [1e75]}), path, file_format_version=version)
    assert table_of(path.read_bytes())["X"].to_pylist() != [1e75]
    assert table_of(file_of(table([numeric("X")], [[1e75]]), version))["X"].to_pylist() == [1e75]


def test_polars_readstat_cuts_the_names_of_long_formats_and_we_do_not(tmp_path: Path) -> None:
    path = tmp_path / "theirs.xpt"
    polars_readstat.write_xpt(
        pl.DataFrame({"X": [1.0]}), str(path), version=8, variable_format={"X": "ALONGFORMAT12.2"}
    )
    assert table_of(path.read_bytes()).schema.field("X").metadata[b"sas.format"] == b"ALONGFOR12.2"
    ours = file_of(table([numeric("X", format="ALONGFORMAT12.2")], [[1.0]]), 8)
    assert table_of(ours).schema.field("X").metadata[b"sas.format"] == b"ALONGFORMAT12.2"
