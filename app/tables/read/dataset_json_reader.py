"""Read CDISC Dataset-JSON 1.1: one JSON document, NDJSON (metadata, then a row per line), or that compressed (DSJC).

The metadata state a number of rows, `records`. A file with another number of rows is refused.

Source: CDISC, "Dataset-JSON v1.1": columns have a dataType. A date, datetime or time that is a number in SAS has the
targetDataType `integer`. Decimals are strings with the targetDataType `decimal`. Null is a missing value.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from app.tables.read import json_lines, typed_texts
from app.tables.read.json_document import Document
from app.tables.read.json_lines import check_metadata
from app.tables.read.json_numbers import Place, RoundedNumbers
from app.tables.read.read_request import FileTable, ReadOptions, Remark, VariableType, check_columns, unreadable

Rows = list[list[Any]]

_NO_TEXT = pa.nulls(1, pa.string())[0]
_WRONG_VALUES = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError)


def read(file: BinaryIO, options: ReadOptions) -> FileTable:
    """Read one JSON document. Its rows are read piece by piece, at any position in the document."""
    rounded = RoundedNumbers()
    document = Document(file, rounded.see)
    return _reading(document.metadata, document.rows, options, rounded.rows)


def read_lines(file: BinaryIO, options: ReadOptions) -> FileTable:
    """Read NDJSON: a line of metadata, then a line for each row."""
    return _of_lines(lambda: json_lines.pieces(file), options)


def read_compressed(file: BinaryIO, options: ReadOptions) -> FileTable:
    """Read DSJC: NDJSON as a zlib stream, or as a gzip file."""
    return _of_lines(lambda: json_lines.inflated(file), options)


def _of_lines(stream: Callable[[], Iterator[bytes]], options: ReadOptions) -> FileTable:
    def rows() -> Iterator[Rows]:
        number, head = 1, 1
        for block in json_lines.blocks(stream()):
            if found := json_lines.parsed(block[head:], list, number):
                yield found
            number, head = number + len(block) - head, 0

    first = next(json_lines.blocks(stream()), [b""])[0]
    try:
        metadata = orjson.loads(first)
    except orjson.JSONDecodeError as error:
        raise unreadable(f"its first line: {json_lines.fault(first, error)}") from None
    check_metadata(first)
    if isinstance(metadata, dict) and "rows" in metadata:
        raise unreadable("its first line has rows; in NDJSON each row is a line of its own")
    rounded = RoundedNumbers()
    number, head = 1, 1
    for block in json_lines.blocks(stream()):
        rounded.see(b",".join(block[head:]), number)
        number, head = number + len(block) - head, 0
    return _reading(metadata, rows, options, rounded.rows)


# --- columns ------------------------------------------------------------------------------------------------------


class _Type(NamedTuple):
    """The Arrow type of a dataType, and the conversion of its values."""

    data_type: pa.DataType
    array: Callable[[list[Any]], pa.Array]


def _plain(data_type: pa.DataType) -> _Type:
    return _Type(data_type, lambda values: pa.array(values, data_type))


def _integers(values: list[Any]) -> pa.Array:
    """Return whole numbers, including `2.0`. Arrow itself would silently drop a fraction."""
    if float in set(map(type, values)):
        if any(type(value) is float and not value.is_integer() for value in values):
            raise pa.ArrowInvalid("a number is not whole")
        values = [int(value) if type(value) is float else value for value in values]
    return pa.array(values, pa.int64())


def _digits(values: list[Any]) -> pa.Array:
    """Return numbers as texts: whole ones without a point."""
    if not set(map(type, values)) <= {int, float, type(None)}:
        raise pa.ArrowInvalid("a value is not a number")
    whole = [int(value) if type(value) is float and value.is_integer() else value for value in values]
    return pa.array([None if value is None else str(value) for value in whole], pa.string())


def _moments(local: typed_texts.TextType, zoned: typed_texts.TextType) -> _Type:
    """Return the type of ISO 8601 datetimes or times of day, which are in UTC if they state a zone."""

    def array(values: list[Any]) -> pa.Array:
        written = pa.array(values, pa.string())
        has_zone = typed_texts.are_zoned(written)
        if not pc.any(has_zone).as_py():
            return local.convert(written)
        found = local.convert(pc.if_else(has_zone, _NO_TEXT, written))
        in_utc = zoned.convert(pc.if_else(has_zone, written, _NO_TEXT))
        return pc.coalesce(found, in_utc.cast(found.type))

    return _Type(local.data_type, array)


_TEXT = _plain(pa.string())
_TYPES: Mapping[str, _Type] = {
    "string": _TEXT,
    "URI": _TEXT,
    "integer": _Type(pa.int64(), _integers),
    "float": _plain(pa.float64()),
    "double": _plain(pa.float64()),
    "boolean": _plain(pa.bool_()),
    "decimal": _Type(
        pa.float64(),
        lambda values: typed_texts.NUMBER.convert(pc.utf8_trim_whitespace(pa.array(values, pa.string()))),
    ),
    "date": _TEXT,
    "datetime": _TEXT,
    "time": _TEXT,
}
_NUMBERS_IN_SAS: Mapping[str, _Type] = {
    "date": _Type(pa.date32(), lambda values: typed_texts.DATES.convert(pa.array(values, pa.string()))),
    "datetime": _moments(typed_texts.DATETIMES, typed_texts.ZONED_DATETIMES),
    "time": _moments(typed_texts.TIMES, typed_texts.ZONED_TIMES),
}
_INTEGERS_AS: Mapping[VariableType, _Type] = {"numeric": _TYPES["double"], "character": _Type(pa.string(), _digits)}
"""How integers are read if the sender gives the type of the variable: then they may have fractions."""


class _Column(NamedTuple):
    name: str
    type: _Type
    field: pa.Field
    is_decimal: bool

    @property
    def may_have_zones(self) -> bool:
        """Tell whether its texts are times that may state a zone, which SAS does not have."""
        data_type = self.type.data_type
        return bool(pa.types.is_timestamp(data_type) or pa.types.is_time(data_type))


def _reading(
    metadata: Any, rows: Callable[[], Iterator[Rows]], options: ReadOptions, rounded: Mapping[Place, int]
) -> FileTable:
    columns = _columns(metadata, options)
    stated = metadata.get("records")
    keys = sum(1 for column in metadata["columns"] if column.get("keySequence"))
    name, label = metadata.get("name"), metadata.get("label")
    # CDISC requires a label, so a data set or a variable without one is written with its name.
    attributes = {"sas.member": name, "sas.label": None if label == name else label, "sas.sort_variables": keys}
    schema = pa.schema(
        [column.field for column in columns], {key: str(value) for key, value in attributes.items() if value}
    )

    def numbered() -> Iterator[tuple[int, Rows]]:
        """Yield the rows, many at a time, and the number of the first; raise for rows that are not as stated."""
        count = 0
        for block in rows():
            if set(map(len, block)) != {len(columns)}:
                at, width = next((at, len(row)) for at, row in enumerate(block, 1) if len(row) != len(columns))
                raise unreadable(f"it has {width} values, but there are {len(columns)} columns", count + at)
            yield count + 1, block
            count += len(block)
        if stated is not None and count != stated:
            raise unreadable(f"its metadata state {stated:,} rows (`records`), but it has {count:,}")

    def batches() -> Iterator[pa.RecordBatch]:
        for first, block in numbered():
            try:
                arrays = [_array(column, [row[at] for row in block], first) for at, column in enumerate(columns)]
            except _FractionError as error:
                at = columns.index(error.column)
                number = sum(_is_fraction(row[at]) for _, rows in numbered() for row in rows)
                raise unreadable(
                    f"{number:,} values of the integer column {error.column.name} have a fraction, the first is "
                    f"{error.value}; give the variable the type numeric, or character, to send them",
                    error.row,
                ) from None
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return FileTable(schema, batches, tuple(_remarks(columns, numbered, rounded)))


def _columns(metadata: Any, options: ReadOptions) -> list[_Column]:
    """Return the columns that the metadata describe. Raises InvalidInputError for metadata of anything else."""
    if isinstance(metadata, list):
        raise unreadable("a JSON array of anything but objects is not supported")
    if isinstance(metadata, dict) and metadata.keys() & {"clinicalData", "referenceData"}:
        raise unreadable("it is Dataset-JSON of version 1.0, which is not supported; write it in version 1.1")
    described = metadata.get("columns") if isinstance(metadata, dict) else None
    if not isinstance(described, list) or not described:
        raise unreadable("it is not Dataset-JSON: it has no columns")
    check_columns(len(described))
    columns = [_column(number, column, options) for number, column in enumerate(described, 1)]
    records = metadata.get("records")
    if records is not None and (type(records) is not int or records < 0):
        raise unreadable(f"`records` is {records!r:.40}, not a number of rows")
    if metadata.get("rows"):
        raise unreadable("its member `rows` is not an array of rows, or there are two of them")
    return columns


def _column(number: int, described: Any, options: ReadOptions) -> _Column:
    name = described.get("name") if isinstance(described, dict) else None
    word = described.get("dataType") if isinstance(described, dict) else None
    if not isinstance(name, str) or not isinstance(word, str) or word not in _TYPES:
        raise unreadable(f"column {number} has no name, or a dataType other than {', '.join(_TYPES)}")
    is_number = described.get("targetDataType") == "integer"
    found = _NUMBERS_IN_SAS[word] if is_number and word in _NUMBERS_IN_SAS else _TYPES[word]
    if word == "integer" and (given := options.type_of(name)) is not None:
        found = _INTEGERS_AS[given]
    label = described.get("label")
    kept = {"sas.label": None if label == name else label, "sas.format": described.get("displayFormat")}
    if found is _TEXT and described.get("length"):
        kept |= {"sas.type": "character", "sas.length": str(described["length"])}
    if described.get("keySequence"):
        kept["sas.nsort"] = str(described["keySequence"])
    field = pa.field(name, found.data_type, metadata={key: str(value) for key, value in kept.items() if value})
    return _Column(name, found, field, word == "decimal")


def _array(column: _Column, values: list[Any], first: int) -> pa.Array:
    try:
        return column.type.array(values)
    except _WRONG_VALUES as error:
        for row, value in enumerate(values, first):
            try:
                column.type.array([value])
            except _WRONG_VALUES:
                if _is_fraction(value) and pa.types.is_integer(column.type.data_type):
                    raise _FractionError(column, value, row) from None
                raise unreadable(f"{value!r:.60} is not a value of column {column.name}", row) from None
        raise unreadable(f"its values of column {column.name} cannot be read together: {error}", first) from None


class _FractionError(Exception):
    """A number with a fraction among integers, in this row from 1."""

    def __init__(self, column: _Column, value: float, row: int) -> None:
        super().__init__(f"{value} in row {row}")
        self.column, self.value, self.row = column, value, row


def _is_fraction(value: Any) -> bool:
    return type(value) is float and not value.is_integer()


def _remarks(
    columns: list[_Column], numbered: Callable[[], Iterator[tuple[int, Rows]]], rounded: Mapping[Place, int]
) -> Iterator[Remark]:
    """Yield remarks on columns of values that SAS does not have: a number that a double cannot hold, and a zone."""
    decimals = [(at, column) for at, column in enumerate(columns) if column.is_decimal]
    moments = [(at, column) for at, column in enumerate(columns) if column.may_have_zones]
    found = dict(rounded)
    zoned: dict[int, int] = {}
    for first, block in numbered() if decimals or moments else ():
        for at, column in decimals:
            texts = pc.utf8_trim_whitespace(_strings(column, block, at, first))
            if at not in found and (row := typed_texts.first_rounded(texts, texts.is_valid())) is not None:
                found[at] = first + row
        for at, column in moments:
            if (
                at not in zoned
                and (row := typed_texts.first(typed_texts.are_zoned(_strings(column, block, at, first)))) is not None
            ):
                zoned[at] = first + row
    for at, column in enumerate(columns):
        if at in found:
            yield Remark(column.name, typed_texts.ROUNDED, found[at])
    for at, column in moments:
        if at in zoned:
            yield Remark(column.name, typed_texts.IN_UTC, zoned[at])


def _strings(column: _Column, block: Rows, at: int, first: int) -> pa.StringArray:
    """Return a block's values of a column of texts. Raises InvalidInputError for one that is not of its type."""
    values = [row[at] for row in block]
    _array(column, values, first)
    return pa.array(values, pa.string())
