"""Convert Arrow tables to SAS definitions and observations.

`sas.*` metadata, as `app.dataset.schema` writes it, applies where a column has it. The rest is inferred from the types:
numbers and booleans become numerics of length 8, dates days and times seconds since 1960, text characters. Side columns
are not variables: their contents become values of the columns that they belong to.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from app.codecs.sas.constants import MessageKind
from app.codecs.sas.data_set_messages import DataSetDefinition, Variable
from app.dataset import character_columns, format_names, numeric, sas_columns, side_columns
from app.dataset.checks import LONGEST_NAME
from app.dataset.conversion_error import located
from app.dataset.format_names import SasFormat
from app.dataset.numeric import ByteOrder, FloatFormat
from app.dataset.observation_layout import Representation
from app.dataset.schema import LONGEST_CHARACTER
from app.model.errors import InvalidInputError
from app.model.names import folded

BLOCK_BYTES = 1 << 20

_NUMERIC, _CHARACTER = b"\1", b"\2"


def describe(
    schema: pa.Schema,
    *,
    charset: str,
    observations: int,
    character_lengths: Mapping[str, int] | None = None,
    float_format: FloatFormat = "ieee",
) -> tuple[DataSetDefinition, list[Variable]]:
    """Return the content of the definition messages for a table with this number of rows.

    A character variable's length is the larger of `sas.length` and its column's value in `character_lengths` (see
    there); at least one of the two is required. Passwords are never sent: a table has only their flags.

    Raises InvalidInputError that names the column, for types, names and lengths that SAS does not have.
    """
    schema = side_columns.without_sides(schema)
    _check_names(schema, charset)
    lengths = character_lengths or {}
    entries = _text(schema.metadata)
    into = (entries.get("sas.float", "ieee"), float_format)
    variables = [_variable(field, lengths.get(field.name), into) for field in schema]
    definition = DataSetDefinition(
        MessageKind.DEFINITION,
        version=integer(entries, "sas.version", 0),
        data_set_type=entries.get("sas.dataset_type", ""),
        label=entries.get("sas.label", ""),
        observations=observations,
        variables=len(variables),
        obs_length=sum(variable.length for variable in variables),
        compress=entries.get("sas.compress", "NO"),
        reuse=(entries.get("sas.reuse") or "E").encode(charset, "replace")[:1],
        encrypt=entries.get("sas.encrypt", "NO"),
        sort_variables=integer(entries, "sas.sort_variables", 0),
        collating=entries.get("sas.sort_collating", ""),
        sort_flags=integer(entries, "sas.sort_flags", 0),
    )
    return definition, variables


def entries_of_data_set(schema: pa.Schema) -> dict[str, str]:
    """Return the data set's own entries of a schema's metadata."""
    return _text(schema.metadata)


def character_lengths(batches: Iterable[pa.RecordBatch], charset: str) -> dict[str, int]:
    """Return the bytes that each text column's longest value needs in a character set (at least 1). Reads every batch.

    Raises InvalidInputError for a value with a character that the character set does not have.
    """
    lengths: dict[str, int] = {}
    rows = 0
    for batch in batches:
        for field, column, side in _with_sides(batch):
            if sas_columns.is_text(field.type):
                with located(field.name, rows, "observation"):
                    needed = character_columns.longest(
                        sas_columns.strings(column), charset, _damaged(batch, side, charset)
                    )
                lengths[field.name] = max(lengths.get(field.name, 1), needed)
        rows += batch.num_rows
    return lengths


def rows(
    batches: Iterable[pa.RecordBatch],
    variables: Sequence[Variable],
    *,
    order: ByteOrder,
    charset: str,
    float_format: FloatFormat = "ieee",
) -> Iterator[memoryview]:
    """Yield the observations of a table whose columns are these variables.

    Each piece has whole rows, at most 1 MiB (at least one row).

    Raises InvalidInputError that names column and row, for a value that its variable cannot hold.
    """
    how = Representation(order, float_format, charset)
    length = sum(variable.length for variable in variables)
    step = max(1, BLOCK_BYTES // max(length, 1))
    first = 0
    for batch in batches:
        for at in range(0, batch.num_rows if length else 0, step):
            yield _block(batch.slice(at, step), variables, how, first + at)
        first += batch.num_rows


def _block(batch: pa.RecordBatch, variables: Sequence[Variable], how: Representation, first: int) -> memoryview:
    cells = np.empty((batch.num_rows, sum(variable.length for variable in variables)), np.uint8)
    at = 0
    for variable, (field, column, side) in zip(variables, _with_sides(batch), strict=True):
        with located(field.name, first, "observation"):
            if variable.is_numeric:
                values, tags = sas_columns.doubles_and_tags(column, side)
                made = numeric.encode(values, variable.length, how.order, how.float_format, tags, how.charset)
            else:
                damaged = _damaged(batch, side, how.charset)
                made = character_columns.encode(sas_columns.strings(column), variable.length, how.charset, damaged)
        place = cells[:, at : at + variable.length]
        cell = f"V{place.shape[1]}"
        place.view(cell)[:] = np.ascontiguousarray(made).view(cell)
        at += variable.length
    return cells.reshape(-1).data


def _with_sides(batch: pa.RecordBatch) -> list[tuple[pa.Field, pa.Array, pa.Array | None]]:
    """Return the columns of variables, each with its side column."""
    sides = {
        of: column
        for field, column in zip(batch.schema, batch.columns, strict=True)
        if (of := side_columns.missing_of(field) or side_columns.bytes_of(field)) is not None
    }
    return [
        (field, column, sides.get(field.name))
        for field, column in zip(batch.schema, batch.columns, strict=True)
        if not side_columns.is_side(field)
    ]


def _damaged(batch: pa.RecordBatch, side: pa.Array | None, charset: str) -> pa.BinaryArray | None:
    """Return the undecodable bytes if they have the same meaning in this character set as in their own, else None."""
    own = _text(batch.schema.metadata).get("sas.encoding")
    return side.cast(pa.binary()) if side is not None and own == charset else None


def _check_names(schema: pa.Schema, charset: str) -> None:
    seen: set[str] = set()
    for field in schema:
        name = _name(field)
        try:
            size = len(name.encode(charset))
        except UnicodeEncodeError:
            raise InvalidInputError("variable-name", name, -1, f"the name is not in character set {charset}") from None
        if not name.strip() or size > LONGEST_NAME:
            raise InvalidInputError("variable-name", name, -1, f"a name has 1 to {LONGEST_NAME} bytes, this one {size}")
        if folded(name) in seen:
            raise InvalidInputError("variable-name", name, -1, "another column has this name; case is ignored")
        seen.add(folded(name))


def _name(field: pa.Field) -> str:
    return _text(field.metadata).get("sas.name") or str(field.name)


def _variable(field: pa.Field, needed: int | None, into: tuple[str, FloatFormat]) -> Variable:
    entries = _text(field.metadata)
    numeric_type = sas_columns.numeric_type(field.type)
    if numeric_type is None and not sas_columns.is_text(field.type):
        raise InvalidInputError("column-type", field.name, -1, f"type {field.type} has no counterpart in SAS")
    if numeric_type is not None:
        length = _numeric_length(field.name, entries, *into)
    else:
        kept = integer(entries, "sas.length", 0) if entries.get("sas.type") == "character" else 0
        length = max(kept, needed or 0)
        if not 1 <= length <= LONGEST_CHARACTER:
            why = f"a character variable cannot have length {length}"
            raise InvalidInputError("variable-length", field.name, -1, why)
    inferred = numeric_type.format if numeric_type else SasFormat()
    output = format_names.parse(entries["sas.format"]) if "sas.format" in entries else inferred
    read = format_names.parse(entries.get("sas.informat", ""))
    return Variable(
        name=_name(field),
        format=output.name,
        informat=read.name,
        label=entries.get("sas.label", ""),
        type=_NUMERIC if numeric_type else _CHARACTER,
        length=length,
        format_length=output.width,
        format_decimal=output.decimals,
        informat_length=read.width,
        informat_decimal=read.decimals,
        nsort=_signed_byte(entries, "sas.nsort"),
    )


def _numeric_length(column: str, entries: Mapping[str, str], source: str, target: FloatFormat) -> int:
    if entries.get("sas.type", "numeric") != "numeric":
        return 8
    length = integer(entries, "sas.length", 8)
    if not 2 <= length <= 8:
        raise InvalidInputError("variable-length", column, -1, f"a numeric cannot have length {length}")
    if target == "ibm":
        return length
    # An IBM float has up to 4 bits more fraction than an IEEE one of the same length, and may have length 2.
    return min(8, length + 1) if source == "ibm" else max(3, length)


def _text(metadata: Mapping[bytes, bytes] | None) -> dict[str, str]:
    return {key.decode("utf-8", "replace"): value.decode("utf-8", "replace") for key, value in (metadata or {}).items()}


def integer(entries: Mapping[str, str], key: str, default: int) -> int:
    """Return the number that an entry of metadata says. Raises InvalidInputError."""
    try:
        return int(entries.get(key, default))
    except ValueError:
        raise InvalidInputError("metadata", key, -1, f"{entries[key]!r} is not an integer") from None


def _signed_byte(entries: Mapping[str, str], key: str) -> bytes:
    try:
        return integer(entries, key, 0).to_bytes(1, "big", signed=True)
    except OverflowError:
        raise InvalidInputError("metadata", key, -1, f"{entries[key]} does not fit a byte") from None
