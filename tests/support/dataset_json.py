"""A validator for the rules of CDISC's JSON schema of Dataset-JSON 1.1.

Source: CDISC, "Dataset-JSON v1.1" (2024-12-05), its schema and its rules for rows, NDJSON and compressed files.
"""

import json
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

_TIME = r"([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d+)?)?"
_DATE = r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
_ZONE = r"([+-]([01]\d|2[0-3]):[0-5]\d|Z)?"
_DATETIME = f"{_DATE}T{_TIME}{_ZONE}"
_REQUIRED = {
    "datasetJSONCreationDateTime": str,
    "datasetJSONVersion": str,
    "itemGroupOID": str,
    "records": int,
    "name": str,
    "label": str,
    "columns": list,
}
_OPTIONAL = {
    "fileOID": str,
    "dbLastModifiedDateTime": str,
    "originator": str,
    "sourceSystem": dict,
    "studyOID": str,
    "metaDataVersionOID": str,
    "metaDataRef": str,
    "rows": list,
}
_COLUMN_REQUIRED = {"itemOID": str, "name": str, "label": str, "dataType": str}
_COLUMN_OPTIONAL = {"targetDataType": str, "length": int, "displayFormat": str, "keySequence": int}
_TEXTS = {
    "string": ".*",
    "URI": ".+",
    "decimal": r"[+-]?\d+(\.\d+)?",
    "date": _DATE,
    "time": _TIME,
    "datetime": _DATETIME,
}
_OTHERS: dict[str, tuple[type, ...]] = {
    "integer": (int,),
    "float": (int, float),
    "double": (int, float),
    "boolean": (bool,),
}
DATA_TYPES = {*_TEXTS, *_OTHERS}


def check(document: dict[str, Any]) -> None:
    """Check a whole Dataset-JSON object. Raises AssertionError with the violated rule."""
    _check_members(document, _REQUIRED, _OPTIONAL)
    assert re.fullmatch(_DATETIME, document["datasetJSONCreationDateTime"])
    assert re.fullmatch(r"1\.1(\.\d+)?", document["datasetJSONVersion"])
    assert document["records"] >= 0
    columns = document["columns"]
    for column in columns:
        _check_column(column)
    oids = [column["itemOID"] for column in columns]
    assert len(set(oids)) == len(oids), "two columns have one itemOID"
    keys = sorted(column["keySequence"] for column in columns if "keySequence" in column)
    assert keys == list(range(1, len(keys) + 1))
    if "rows" in document:
        assert len(document["rows"]) == document["records"]
        _check_rows(document["rows"], columns)


def read_ndjson(data: bytes) -> dict[str, Any]:
    """Return the object that an NDJSON form stands for."""
    text = data.decode()
    assert text.endswith("\n")
    first, *rows = text.removesuffix("\n").split("\n")
    document: dict[str, Any] = json.loads(first)
    assert "rows" not in document
    return document | {"rows": [json.loads(row) for row in rows]}


def read_dsjc(data: bytes) -> dict[str, Any]:
    """Return the object of a compressed form: one zlib stream of the NDJSON form, with nothing after it."""
    stream = zlib.decompressobj()
    text = stream.decompress(data)
    assert stream.eof
    assert not stream.unused_data
    return read_ndjson(text)


def _check_members(found: dict[str, Any], required: Mapping[str, type], optional: Mapping[str, type]) -> None:
    assert not required.keys() - found.keys(), "something is missing"
    assert not found.keys() - required.keys() - optional.keys(), "there is something else"
    for name, value in found.items():
        assert isinstance(value, {**required, **optional}[name]), f"{name} is {value!r}"
        assert not isinstance(value, bool)
    order = [name for name in (*required, *optional) if name in found]
    assert set(order) == set(found)


def _check_column(column: dict[str, Any]) -> None:
    _check_members(column, _COLUMN_REQUIRED, _COLUMN_OPTIONAL)
    assert column["dataType"] in DATA_TYPES
    assert column.get("targetDataType", "integer") in {"integer", "decimal"}
    assert column.get("length", 1) >= 1
    assert column.get("keySequence", 1) >= 1
    if column.get("targetDataType") == "integer":
        assert column["dataType"] in {"date", "datetime", "time"}
    if column.get("targetDataType") == "decimal":
        assert column["dataType"] == "decimal"


def _check_rows(rows: Sequence[Any], columns: Sequence[dict[str, Any]]) -> None:
    for row in rows:
        assert isinstance(row, list)
        assert len(row) == len(columns)
        for value, column in zip(row, columns, strict=True):
            assert value is None or _is_valid(value, column["dataType"]), f"{column['name']}: {value!r}"
            if isinstance(value, str) and "length" in column:
                assert len(value) <= column["length"], f"{column['name']}: {value!r} is longer than stated"


def _is_valid(value: Any, data_type: str) -> bool:
    if data_type in _TEXTS:
        return isinstance(value, str) and bool(re.fullmatch(_TEXTS[data_type], value, re.DOTALL))
    return isinstance(value, _OTHERS[data_type]) and (data_type == "boolean" or not isinstance(value, bool))
