"""Select the columns of a table for output, with their names and types."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pyarrow as pa

from app.dataset import numeric, sas_columns, side_columns
from app.model.names import folded
from app.tables.write.output_table import OptionError, OutputOptions, TableFormat

_DURATION = pa.duration("us")


class OutputColumn(NamedTuple):
    """An output column: its source, its field, and the conversion between them."""

    source: str
    field: pa.Field
    convert: Callable[[pa.Array], pa.Array]


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
        _output_column(field, options, known)
        for variable in _variables(schema, options.columns)
        for field in (variable, *following.get(variable.name, ()))
    )
    return Selection(pa.schema([column.field for column in kept], schema.metadata), kept)


def _variables(schema: pa.Schema, wanted: Sequence[str] | None) -> list[pa.Field]:
    variables = {folded(field.name): field for field in side_columns.without_sides(schema)}
    if wanted is None:
        return list(variables.values())
    # An item has several names with commas between them, or one name that has a comma.
    names = [
        name for item in wanted for name in ([item] if folded(item) in variables else map(str.strip, item.split(",")))
    ]
    unknown = [name for name in names if folded(name) not in variables]
    if unknown:
        raise OptionError("columns", f"unknown variable {', '.join(unknown)}")
    return list({folded(name): variables[folded(name)] for name in names}.values())


def _output_column(source: pa.Field, options: OutputOptions, known: TableFormat) -> OutputColumn:
    """Return the column with the type and the name that the options ask for."""
    found = OutputColumn(source.name, source, lambda column: column)
    if options.times == "duration" and pa.types.is_time(source.type):
        since_midnight = source.with_type(_DURATION)
        found = OutputColumn(source.name, since_midnight, lambda times: times.cast(pa.time64("us")).view(_DURATION))
    elif known.as_numbers(source.type) or (options.dates == "sas" and pa.types.is_temporal(source.type)):
        numbers = source.with_type(pa.float64())
        found = OutputColumn(source.name, numbers, lambda column: numeric.to_arrow(sas_columns.doubles(column)))
    if options.names != "lower":
        return found

    field = found.field
    metadata = dict(field.metadata or {})
    for key in (side_columns.MISSING_OF, side_columns.BYTES_OF):
        if key in metadata:
            metadata[key] = metadata[key].decode().lower().encode()
    if not side_columns.is_side(field):
        metadata.setdefault(b"sas.name", field.name.encode())
    return found._replace(field=field.with_name(field.name.lower()).with_metadata(metadata))
