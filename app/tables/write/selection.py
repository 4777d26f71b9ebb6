"""Select the columns of a table for output, with their names and types, and show value labels in place of values."""

from collections.abc import Callable, Iterable
from itertools import chain
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from app.dataset import numeric, sas_columns, side_columns, value_labels
from app.dataset.description import character_length
from app.dataset.format_names import SasFormat
from app.dataset.value_labels import Catalog, ValueLabels
from app.model.names import folded
from app.tables.write import text_cells
from app.tables.write.output_table import OptionError, OutputOptions, TableFormat

_DURATION = pa.duration("us")

_OF_VALUES = (
    value_labels.VALUE_LABELS,
    "sas.length",
    "sas.format",
    "sas.informat",
    "sas.kind",
    "sas.inexact",
    "sas.odd_missing",
)
"""The metadata that describes values and not their labels."""


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
    variables = {folded(field.name): field for field in side_columns.without_sides(schema)}
    if options.columns is not None:
        # An item has several names with commas between them, or one name that has a comma.
        split = ([item] if folded(item) in variables else map(str.strip, item.split(",")) for item in options.columns)
        names = list(chain.from_iterable(split))
        if unknown := [name for name in names if folded(name) not in variables]:
            raise OptionError("columns", f"unknown variable {', '.join(unknown)}")
        variables = {folded(name): variables[folded(name)] for name in names}
    following: dict[str, list[pa.Field]] = {}
    for field in filter(side_columns.is_side, schema):
        if known.takes_side(field, options):
            following.setdefault(side_columns.missing_of(field) or side_columns.bytes_of(field) or "", []).append(field)
    kept = tuple(
        _output_column(field, options, known)
        for variable in variables.values()
        for field in (variable, *following.get(variable.name, ()))
    )
    return Selection(pa.schema([column.field for column in kept], schema.metadata), kept)


def _output_column(source: pa.Field, options: OutputOptions, known: TableFormat) -> OutputColumn:
    """Return the column with the type and the name that the options ask for."""
    found = OutputColumn(source.name, source, lambda column: column)
    if options.times == "duration" and pa.types.is_time(source.type):
        since_midnight = source.with_type(_DURATION)
        found = OutputColumn(source.name, since_midnight, lambda times: times.cast(pa.time64("us")).view(_DURATION))
    elif known.as_numbers(source.type) or (options.dates == "sas" and pa.types.is_temporal(source.type)):
        numbers = source.with_type(pa.float64())
        moment = sas_columns.numeric_type(source.type)
        if moment is not None and moment.format != SasFormat() and b"sas.format" not in (source.metadata or {}):
            # Dates and times of order packets have no format, without which nobody could tell what the numbers are.
            numbers = numbers.with_metadata({**(source.metadata or {}), b"sas.format": str(moment.format).encode()})
        found = OutputColumn(source.name, numbers, lambda column: numeric.to_arrow(sas_columns.doubles(column)))
    elif known.as_digits(source.type):
        stated = {b"sas.type": b"character", b"sas.length": str(2 * character_length(source)).encode()}
        digits = source.with_type(pa.string()).with_metadata({**(source.metadata or {}), **stated})
        found = OutputColumn(source.name, digits, text_cells.written)
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


class Labelled(NamedTuple):
    """A variable that is shown by its labels: its column, and the column of its special missing values."""

    name: str
    labels: ValueLabels
    side: str | None


class Labelling(NamedTuple):
    """A table whose variables are shown by their labels.

    They are texts. Their special missing values are among them, so they have no side columns.
    """

    schema: pa.Schema
    labelled: tuple[Labelled, ...]

    def sources(self, names: Iterable[str]) -> list[str]:
        """Return the columns to read for these columns."""
        sides = {each.name: each.side for each in self.labelled}
        wanted = (source for name in names for source in (name, sides.get(name)) if source is not None)
        return list(dict.fromkeys(wanted))

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with labels in place of values."""
        present = set(batch.schema.names)
        arrays = {name: batch.column(name) for name in batch.schema.names}
        for each in self.labelled:
            if each.name in present:
                column = batch.column(each.name)
                texts = column if sas_columns.is_text(column.type) else text_cells.written(column)
                if each.side is not None:
                    texts = pc.coalesce(texts, batch.column(each.side))
                if not sas_columns.is_text(column.type) and "." in each.labels:
                    texts = pc.fill_null(texts, ".")
                arrays[each.name] = value_labels.labelled(texts, each.labels)
                arrays.pop(each.side or "", None)
        fields = [self.schema.field(name) for name in arrays]
        return pa.RecordBatch.from_arrays(list(arrays.values()), schema=pa.schema(fields, self.schema.metadata))


def labelling(schema: pa.Schema, catalog: Catalog) -> Labelling:
    """Return the labelling of a table by a catalog, or else by the value labels in its metadata.

    Raises ValueError for faulty metadata.
    """
    sides = {of: field.name for field in schema if (of := side_columns.missing_of(field)) is not None}
    labelled = {}
    for field in side_columns.without_sides(schema):
        stated = {key.decode(): value.decode("utf-8", "replace") for key, value in (field.metadata or {}).items()}
        labels = catalog.get(value_labels.format_name(stated.get("sas.format", "")))
        if labels is None and value_labels.VALUE_LABELS in stated:
            labels = value_labels.read(stated[value_labels.VALUE_LABELS])
        if labels:
            labelled[field.name] = Labelled(field.name, labels, sides.get(field.name))
    dropped = {each.side for each in labelled.values()}
    metadata = value_labels.as_metadata((name, each.labels) for name, each in labelled.items())
    fields = []
    for field in schema:
        if field.name in labelled:
            kept = {key: value for key, value in (field.metadata or {}).items() if key.decode() not in _OF_VALUES}
            described = {**kept, b"sas.type": b"character", **metadata.get(field.name, {})}
            fields.append(pa.field(field.name, pa.string(), metadata=described))
        elif field.name not in dropped:
            fields.append(field)
    return Labelling(pa.schema(fields, schema.metadata), tuple(labelled.values()))
