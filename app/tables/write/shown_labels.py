"""Show value labels in place of values, in the rows of a table before they are written."""

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from app.dataset import sas_columns, side_columns, value_labels
from app.dataset.value_labels import Catalog, ValueLabels
from app.tables.write import text_cells

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
    """Return the labelling of a table by a catalog, or else by the value labels in its metadata."""
    sides = {of: field.name for field in schema if (of := side_columns.missing_of(field)) is not None}
    labelled = {
        field.name: Labelled(field.name, labels, sides.get(field.name))
        for field in schema
        if (labels := _labels(field, catalog))
    }
    dropped = {each.side for each in labelled.values()}
    metadata = value_labels.as_metadata((name, each.labels) for name, each in labelled.items())
    fields = []
    for field in schema:
        if field.name in labelled:
            kept = {key: value for key, value in (field.metadata or {}).items() if key.decode() not in _OF_VALUES}
            stated = {**kept, b"sas.type": b"character", **metadata.get(field.name, {})}
            fields.append(pa.field(field.name, pa.string(), metadata=stated))
        elif field.name not in dropped:
            fields.append(field)
    return Labelling(pa.schema(fields, schema.metadata), tuple(labelled.values()))


def _labels(field: pa.Field, catalog: Catalog) -> ValueLabels | None:
    """Return the value labels of a column. Raises ValueError for faulty metadata."""
    metadata = {key.decode(): value.decode("utf-8", "replace") for key, value in (field.metadata or {}).items()}
    if side_columns.is_side(field):
        return None
    found = catalog.get(value_labels.format_name(metadata.get("sas.format", "")))
    if found is None and value_labels.VALUE_LABELS in metadata:
        return value_labels.read(metadata[value_labels.VALUE_LABELS])
    return found
