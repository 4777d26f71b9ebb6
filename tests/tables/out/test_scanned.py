"""Tables of many files: which rows come, of which types, and how much of them is in memory."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pyreadstat
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.pipeline.commit.tables.schema_evolution import evolve
from app.tables.write import FORMATS, OptionError, OutputOptions, OutputTable, stored_table
from app.tables.write.stored_table import head, outgoing_of_files
from tests.support.tables import field, long, visits
from tests.tables.out.making import CREATED, made

FILES = (5, 0, 3, 4)
ROWS = sum(FILES)


@pytest.fixture(scope="module")
def numbered(tmp_path_factory: pytest.TempPathFactory) -> ds.Dataset:
    """Numbers from 0 on in several files, which have row groups of two rows."""
    folder = tmp_path_factory.mktemp("numbered")
    first = 0
    for at, rows in enumerate(FILES):
        table = pa.table({"N": list(range(first, first + rows)), "Half": [n / 2 for n in range(first, first + rows)]})
        schema = pa.schema([("N", pa.int64()), ("Half", pa.float64())])
        pq.write_table(table.cast(schema), folder / f"{at}.parquet", row_group_size=2)
        first += rows
    return ds.dataset(folder)


def of(table: ds.Dataset, schema: pa.Schema, rows: int, name: str, **options: Any) -> OutputTable:
    known = FORMATS[name]
    return outgoing_of_files(table, schema, rows, known.settled(OutputOptions(**options)), known, CREATED)


@given(offset=st.none() | st.integers(0, ROWS + 2), limit=st.none() | st.integers(0, ROWS + 2))
def test_rows_from_any_to_any(numbered: ds.Dataset, offset: int | None, limit: int | None) -> None:
    found = of(numbered, numbered.schema, ROWS, "csv", columns=("n",), offset=offset, limit=limit)
    expected = list(range(ROWS))[offset or 0 :][:limit]
    assert [n for batch in found.batches for n in batch["N"].to_pylist()] == expected
    assert (found.rows, found.schema.names) == (len(expected), ["N"])


def test_only_what_is_asked_for_is_read(numbered: ds.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    groups: list[tuple[str, int]] = []

    class Seen:
        """A dataset that tells which row groups are read."""

        schema = numbered.schema

        def get_fragments(self) -> Iterator[ds.Fragment]:
            yield from numbered.get_fragments()

    def reading(piece: ds.ParquetFileFragment, *given: Any) -> Iterator[pa.RecordBatch]:
        groups.append((Path(piece.path).name, piece.row_groups[0].id))
        return read(piece, *given)

    read = stored_table._batches
    monkeypatch.setattr(stored_table, "_batches", reading)
    batches = list(head(Seen(), numbered.schema, ["Half"], 6, 3))
    assert [value for batch in batches for value in batch["Half"].to_pylist()] == [3.0, 3.5, 4.0]
    assert groups == [("2.parquet", 0), ("2.parquet", 1), ("3.parquet", 0)]


def test_integers_that_stand_for_times(tmp_path: Path) -> None:
    table = visits()
    stored = table
    for name in ("Clock", "Stay"):
        at = table.schema.get_field_index(name)
        stored = stored.set_column(at, name, stored[name].cast(pa.int64()))
    pq.write_table(stored, tmp_path / "one.parquet", row_group_size=2)
    for name in ("csv", "ndjson", "dataset-ndjson", "xpt", "sas"):
        known = FORMATS[name]
        options = known.settled(OutputOptions(limit=2))  # XPT has no room for the times of all rows
        found = outgoing_of_files(ds.dataset(tmp_path), table.schema, len(table), options, known, CREATED)
        assert b"".join(known.write(found, options)) == made(table, name, limit=2)


def test_a_transport_file_of_texts_whose_lengths_nobody_told(tmp_path: Path) -> None:
    table = pa.table({"source": ["orders", None, "Malmö"], "row": [1, 2, 3]})
    pq.write_table(table, tmp_path / "one.parquet")
    known = FORMATS["xpt"]
    options = known.settled(OutputOptions())
    found = outgoing_of_files(ds.dataset(tmp_path), table.schema, 3, options, known, CREATED)
    (tmp_path / "made.xpt").write_bytes(b"".join(known.write(found, options)))
    frame, _ = pyreadstat.read_xport(str(tmp_path / "made.xpt"))
    assert frame["source"].to_list() == ["orders", "", "Malmö"]
    assert frame["row"].to_list() == [1, 2, 3]


def test_an_unknown_column(numbered: ds.Dataset) -> None:
    with pytest.raises(OptionError, match="unknown variable Whole"):
        of(numbered, numbered.schema, ROWS, "csv", columns=("Whole",))


def test_memory_does_not_grow_with_the_table(tmp_path: Path) -> None:
    piece = long(50_000)
    for at in range(6):
        pq.write_table(piece, tmp_path / f"{at}.parquet", row_group_size=5_000)
    table = ds.dataset(tmp_path)
    before, most = pa.total_allocated_bytes(), 0
    known = FORMATS["ndjson"]
    options = known.settled(OutputOptions())
    found = outgoing_of_files(table, piece.schema, 300_000, options, known, CREATED)
    size = 0
    for written in known.write(found, options):
        size += len(written)
        most = max(most, pa.total_allocated_bytes() - before)
    assert size > 60_000_000
    assert most < 20_000_000


def test_moments_of_utc_and_truths() -> None:
    schema = pa.schema([("at", pa.timestamp("us", "UTC")), ("ok", pa.bool_())])
    table = pa.table([[0, 1_500_000, None], [True, False, None]], schema=schema)
    assert made(table, "csv") == b"at,ok\r\n1970-01-01T00:00:00Z,true\r\n1970-01-01T00:00:01.5Z,false\r\n,\r\n"
    assert made(table, "ndjson").splitlines()[0] == b'{"at":"1970-01-01T00:00:00Z","ok":true}'


def test_columns_of_one_variable_have_their_own_names_in_transport_files(tmp_path: Path) -> None:
    number, text = field("AMT", pa.float64()), field("AMT", pa.string(), type="character", length="3")
    others = [field("AMT__text", pa.float64()), field("a b", pa.float64())]
    table = evolve(None, [pa.schema(each) for each in ([number], [text], others)]).schema
    columns = table.names[5:]
    assert columns == ["AMT", "AMT__text", "AMT__text_", "a_b"]
    rows = pa.table([pa.nulls(1, each.type) for each in table], schema=table)
    pq.write_table(rows, tmp_path / "rows.parquet")
    known = FORMATS["xpt"]
    options = known.settled(OutputOptions(columns=tuple(columns)))
    found = outgoing_of_files(ds.dataset(tmp_path), table, 1, options, known, CREATED)
    (tmp_path / "rows.xpt").write_bytes(b"".join(known.write(found, options)))
    _, read = pyreadstat.read_xport(tmp_path / "rows.xpt")
    assert read.column_names == ["AMT", "AMT__text", "AMT__text_", "a b"]
