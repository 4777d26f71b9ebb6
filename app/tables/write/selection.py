"""Select the columns of a table for output, with their names and types."""

from collections.abc import Callable, Container, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from app.dataset import numeric, sas_columns, side_columns
from app.model.names import folded
from app.tables.write.output_table import OptionError, OutputOptions, TableFormat

_DURATION = pa.duration("us")

Conversion = Callable[[pa.Array], pa.Array]


class OutputColumn(NamedTuple):
    """An output column: its source, its field, and the conversion between them."""

    source: str
    field: pa.Field
    convert: Conversion


class Selection(NamedTuple):
    """The output columns."""

    schema: pa.Schema
    columns: tuple[OutputColumn, ...]

    @property
    def sources(self) -> list[str]:
        """The names of the columns to read, each once."""
        return list(dict.fromkeys(column.source for column in self.columns))

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the output columns of a batch that has all sources."""
        if not self.columns:
            return batch.select([])
        arrays = [column.convert(batch.column(column.source)) for column in self.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def select(schema: pa.Schema, options: OutputOptions, known: TableFormat) -> Selection:
    """Return the columns that settled options choose for a format.

    A variable's side columns follow it if the format has them.

    Raises OptionError for an unknown column.
    """
    following: dict[str, list[pa.Field]] = {}
    for field in filter(side_columns.is_side, schema):
        if known.takes_side(field, options):
            following.setdefault(side_columns.missing_of(field) or side_columns.bytes_of(field) or "", []).append(field)
    kept = tuple(
        _named(_typed(OutputColumn(field.name, field, _same), options, known), options)
        for variable in _variables(schema, options.columns)
        for field in (variable, *following.get(variable.name, ()))
    )
    return Selection(pa.schema([column.field for column in kept], schema.metadata), kept)


def _variables(schema: pa.Schema, wanted: Sequence[str] | None) -> list[pa.Field]:
    variables = {folded(field.name): field for field in side_columns.without_sides(schema)}
    if wanted is None:
        return list(variables.values())
    names = list(_split(wanted, variables))
    unknown = [name for name in names if folded(name) not in variables]
    if unknown:
        raise OptionError("columns", f"unknown variable {', '.join(unknown)}")
    return list({folded(name): variables[folded(name)] for name in names}.values())


def _split(wanted: Sequence[str], known: Container[str]) -> Iterator[str]:
    """Yield the names in items: an item has several names with commas between them, or one name that has a comma."""
    for item in wanted:
        yield from [item] if folded(item) in known else (name.strip() for name in item.split(","))


def _same(column: pa.Array) -> pa.Array:
    return column


def _numbers(column: pa.Array) -> pa.Array:
    return numeric.to_arrow(sas_columns.doubles(column))


def _durations(column: pa.Array) -> pa.Array:
    """Return times of day as the durations since midnight."""
    return column.cast(pa.time64("us")).view(_DURATION)


def _typed(column: OutputColumn, options: OutputOptions, known: TableFormat) -> OutputColumn:
    """Return the column as numbers or as durations if the options ask for it."""
    data_type = column.field.type
    if options.times == "duration" and pa.types.is_time(data_type):
        return column._replace(field=column.field.with_type(_DURATION), convert=_durations)
    if not known.as_numbers(data_type) and not (options.dates == "sas" and pa.types.is_temporal(data_type)):
        return column
    return column._replace(field=column.field.with_type(pa.float64()), convert=_numbers)


def _named(column: OutputColumn, options: OutputOptions) -> OutputColumn:
    """Return the column, with a lower-case name if the options ask for it; the metadata keeps the original name."""
    if options.names != "lower":
        return column
    field = column.field
    metadata = dict(field.metadata or {})
    for key in (side_columns.MISSING_OF, side_columns.BYTES_OF):
        if key in metadata:
            metadata[key] = metadata[key].decode().lower().encode()
    if not side_columns.is_side(field):
        metadata.setdefault(b"sas.name", field.name.encode())
    return column._replace(field=field.with_name(field.name.lower()).with_metadata(metadata))
