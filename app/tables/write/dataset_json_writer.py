"""Write CDISC Dataset-JSON 1.1: the JSON file, its NDJSON form and the compressed NDJSON form.

Source: CDISC, "Dataset-JSON v1.1" (2024-12-05). Numbers are numbers. Dates are ISO 8601 texts whose `targetDataType`
states that SAS keeps them as numbers. Decimals with a fraction, or beyond 18 digits, are texts, so that no reader
rounds them. Missing is null, blank is the empty string. The format has no special missing values: with
`missing=column` they become additional columns.
"""

import zlib
from collections.abc import Iterator
from typing import Any

import orjson
import pyarrow as pa

from app.dataset import side_columns
from app.dataset.description import sas_metadata
from app.tables.write.json_rows import row_arrays, separated
from app.tables.write.output_pieces import COMPRESSION_LEVEL, PIECE_BYTES, Piece, split
from app.tables.write.output_table import OutputOptions, OutputTable
from app.tables.write.text_cells import is_bare

VERSION = "1.1.0"

_INTEGER_DIGITS = 18
"""Decimal digits that any reader's integers of 64 bits have room for."""

_DATE_TYPES = {"date": pa.types.is_date, "datetime": pa.types.is_timestamp, "time": pa.types.is_time}


def write_dataset_json(table: OutputTable, options: OutputOptions) -> Iterator[Piece]:
    """Yield one JSON object whose last member is `rows`."""
    yield orjson.dumps(metadata(table)).removesuffix(b"}") + b',"rows":['
    yield from separated(row_arrays(table, options, ",\n", "", _is_bare))
    yield b"\n]}\n"


def write_dataset_ndjson(table: OutputTable, options: OutputOptions) -> Iterator[Piece]:
    """Yield the metadata in the first line, then one row per line."""
    yield orjson.dumps(metadata(table)) + b"\n"
    for block in row_arrays(table, options, "", "\n", _is_bare):
        yield from split(block)


def write_dsjc(table: OutputTable, options: OutputOptions) -> Iterator[Piece]:
    """Yield the NDJSON form as one zlib stream."""
    compressor = zlib.compressobj(COMPRESSION_LEVEL)
    held = b""
    for piece in write_dataset_ndjson(table, options):
        held += compressor.compress(piece)
        if len(held) >= PIECE_BYTES:
            yield held
            held = b""
    yield held + compressor.flush()


def metadata(table: OutputTable) -> dict[str, Any]:
    """Return the content of a Dataset-JSON file without its rows, in the order of the standard."""
    # The places in the sort key, from 1; 0 for other variables, and for all if the places are not 1 to n.
    keys = [abs(int(sas_metadata(field.metadata).get("nsort", "0"))) for field in table.schema]
    if sorted(filter(None, keys)) != list(range(1, len(keys) - keys.count(0) + 1)):
        keys = [0] * len(keys)
    columns = []
    for field, key in zip(table.schema, keys, strict=True):
        attributes = sas_metadata(field.metadata)
        column: dict[str, Any] = {
            "itemOID": f"IT.{table.member}.{field.name}",
            "name": field.name,
            "label": attributes.get("label") or field.name,
            **_data_type(field.type),
        }
        if column["dataType"] == "string":
            column["length"] = 2 if side_columns.is_side(field) else max(1, int(attributes.get("length", "1")))
        if attributes.get("format"):
            column["displayFormat"] = attributes["format"]
        if key:
            column["keySequence"] = key
        columns.append(column)
    return {
        "datasetJSONCreationDateTime": table.created.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "datasetJSONVersion": VERSION,
        "itemGroupOID": f"IG.{table.member}",
        "records": table.rows,
        "name": table.member,
        "label": sas_metadata(table.schema.metadata).get("label") or table.member,
        "columns": columns,
    }


def _data_type(data_type: pa.DataType) -> dict[str, str]:
    dated = next((word for word, includes in _DATE_TYPES.items() if includes(data_type)), None)
    if dated:
        return {"dataType": dated, "targetDataType": "integer"}
    if pa.types.is_boolean(data_type):
        return {"dataType": "boolean"}
    if pa.types.is_integer(data_type) or _is_whole(data_type):
        return {"dataType": "integer"}
    if pa.types.is_decimal(data_type):
        return {"dataType": "decimal", "targetDataType": "decimal"}
    return {"dataType": "double" if pa.types.is_floating(data_type) else "string"}


def _is_whole(data_type: pa.DataType) -> bool:
    """Tell whether values are decimals that an integer of 64 bits holds."""
    return bool(pa.types.is_decimal(data_type) and data_type.scale == 0 and data_type.precision <= _INTEGER_DIGITS)


def _is_bare(data_type: pa.DataType) -> bool:
    return is_bare(data_type) and (_is_whole(data_type) or not pa.types.is_decimal(data_type))
