"""Write tables in the formats that people use, streaming.

A format's `write` takes an `OutputTable` and settled `OutputOptions`, and yields its bytes piece by piece. `FORMATS`
has the formats by name.
"""

from collections.abc import Mapping

import pyarrow as pa

from app.tables.write.binary import write_arrow, write_arrow_file, write_parquet, write_xpt, write_xpt_5
from app.tables.write.csv_writer import write_csv
from app.tables.write.dataset_json_writer import write_dataset_json, write_dataset_ndjson, write_dsjc
from app.tables.write.json_rows import write_json, write_ndjson
from app.tables.write.output_pieces import Piece
from app.tables.write.output_table import OptionError, OutputOptions, OutputTable, TableFormat
from app.tables.write.sas_program import write_program
from app.tables.write.stored_table import outgoing

__all__ = ["FORMATS", "OptionError", "OutputOptions", "OutputTable", "Piece", "TableFormat", "outgoing"]

_TYPED = frozenset({"dates", "names"})
_COLUMNAR = _TYPED | {"times"}
_TEXT = frozenset({"dates", "names", "blank"})
_TRANSPORT = frozenset({"rename"})
_XPT = "application/x-sas-xport"
_JSON, _NDJSON = "application/json", "application/x-ndjson"

_ALL = (
    TableFormat(
        "parquet",
        "application/vnd.apache.parquet",
        ".parquet",
        "Apache Parquet",
        write_parquet,
        missing=("column", "null"),
        options=_COLUMNAR | {"attrs"},
        keeps_bytes=True,
    ),
    TableFormat(
        "arrow",
        "application/vnd.apache.arrow.stream",
        ".arrows",
        "Arrow IPC stream",
        write_arrow,
        missing=("column", "null"),
        options=_COLUMNAR,
        keeps_bytes=True,
    ),
    TableFormat(
        "arrow-file",
        "application/vnd.apache.arrow.file",
        ".arrow",
        "Arrow IPC file (Feather version 2)",
        write_arrow_file,
        missing=("column", "null"),
        options=_COLUMNAR,
        keeps_bytes=True,
    ),
    TableFormat("csv", "text/csv", ".csv", "CSV", write_csv, options=_TEXT | {"formulas"}),
    TableFormat("json", _JSON, ".json", "JSON, an array of objects", write_json, options=_TEXT),
    TableFormat("ndjson", _NDJSON, ".ndjson", "JSON, one object per line", write_ndjson, options=_TEXT),
    TableFormat(
        "dataset-json",
        _JSON,
        ".json",
        "CDISC Dataset-JSON 1.1",
        write_dataset_json,
        missing=("null", "column"),
        options=_TYPED,
        as_numbers=pa.types.is_duration,
        as_digits=pa.types.is_binary,
        needs_lengths=True,
    ),
    TableFormat(
        "dataset-ndjson",
        _NDJSON,
        ".ndjson",
        "CDISC Dataset-JSON 1.1, NDJSON",
        write_dataset_ndjson,
        missing=("null", "column"),
        options=_TYPED,
        as_numbers=pa.types.is_duration,
        as_digits=pa.types.is_binary,
        needs_lengths=True,
    ),
    TableFormat(
        "dsjc",
        "application/vnd.cdisc.dataset-json.compressed",
        ".dsjc",
        "CDISC Dataset-JSON 1.1, compressed",
        write_dsjc,
        missing=("null", "column"),
        options=_TYPED,
        as_numbers=pa.types.is_duration,
        as_digits=pa.types.is_binary,
        needs_lengths=True,
    ),
    TableFormat(
        "xpt",
        _XPT,
        ".xpt",
        "SAS transport file, version 8",
        write_xpt,
        missing=("tag", "null"),
        options=_TRANSPORT,
        keeps_bytes=True,
        needs_lengths=True,
    ),
    TableFormat(
        "xpt-v5",
        _XPT,
        ".xpt",
        "SAS transport file, version 5",
        write_xpt_5,
        missing=("tag", "null"),
        options=_TRANSPORT,
        keeps_bytes=True,
        needs_lengths=True,
    ),
    TableFormat(
        "sas",
        "application/zip",
        ".zip",
        "CSV and the SAS program that reads it",
        write_program,
        missing=("tag", "null"),
        options=_TRANSPORT | {"names"},
        as_numbers=lambda kind: any(
            includes(kind) for includes in (pa.types.is_temporal, pa.types.is_boolean, pa.types.is_decimal)
        ),
        as_digits=pa.types.is_binary,
    ),
)

FORMATS: Mapping[str, TableFormat] = {known.name: known for known in _ALL}
"""The formats by name.

The first is for a client without a preference; a media type stands for the first format with it.
"""
