"""Tables, and transport files of them."""

import io
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from app.dataset import decode
from app.dataset.decode import DecodingPlan, Unforeseen
from app.tables.xpt import xpt_reader
from app.tables.xpt.xpt_layouts import Version
from app.tables.xpt.xpt_reader import BATCH_ROWS, read
from app.tables.xpt.xpt_writer import write

VERSIONS: tuple[Version, ...] = (5, 8)


def numeric(name: str, data_type: pa.DataType | None = None, **said: str) -> pa.Field:
    """A numeric variable's field; `said` is its `sas.*` metadata."""
    return pa.field(name, data_type or pa.float64(), metadata=_said({"type": "numeric", "length": "8"} | said))


def character(name: str, length: int, **said: str) -> pa.Field:
    """A character variable's field."""
    kept = {"type": "character", "length": str(length)} | said
    return pa.field(name, pa.string(), metadata=_said(kept))


def missing(of: str) -> pa.Field:
    """The side column of a numeric variable's special missing values."""
    return pa.field(f"{of}__missing", pa.string(), metadata={"sas.missing_of": of})


def table(fields: Sequence[pa.Field], columns: Sequence[Sequence[Any]], **said: str) -> pa.Table:
    schema = pa.schema(fields, _said(said))
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, fields, strict=True)], schema=schema)


def file_of(table: pa.Table, version: Version, **options: Any) -> bytes:
    """The table's transport file; it says how many rows it has, where its version can."""
    options = {"rows": table.num_rows} | options
    return b"".join(write(table.schema, table.to_batches(), version, **options))


def table_of(data: bytes, **options: Any) -> pa.Table:
    """The table in a transport file, which is the same when its columns are determined as those of messages are."""
    found = _read(data, options)
    found.validate(full=True)
    with patch.object(xpt_reader, "surveyed", _suited):
        assert found.equals(_read(data, options), check_metadata=True)
    return found


def _read(data: bytes, options: dict[str, Any]) -> pa.Table:
    found = read(io.BytesIO(data), **options)
    return pa.Table.from_batches(found.batches(), found.schema)


def _suited(plan: DecodingPlan, blocks: Callable[[], Iterable[bytes]]) -> DecodingPlan:
    """Return the plan itself, or the one that is made when observations do not fit it."""
    try:
        list(decode.batches(plan, blocks(), BATCH_ROWS))
    except Unforeseen as found:
        return found.plan
    return plan


def _said(said: dict[str, str]) -> dict[str, str]:
    return {f"sas.{key}": value for key, value in said.items()}
