"""The columns that make up the cells of a row of text."""

from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from app.dataset import side_columns
from app.tables.write import text_cells
from app.tables.write.output_options import OutputOptions


class RowCell(NamedTuple):
    """One cell of every row: its column, and that of the tags that replace nulls in it."""

    name: str
    type: pa.DataType
    at: int
    tags_at: int | None = None

    @property
    def is_text(self) -> bool:
        """Tell whether its values are text, and not numbers or dates."""
        return text_cells.is_text(self.type)

    def column(self, batch: pa.RecordBatch) -> pa.Array:
        return batch.column(self.at)

    def written(self, batch: pa.RecordBatch) -> pa.StringArray:
        """Return its values as text, without tags."""
        return text_cells.written(self.column(batch))

    def tags(self, batch: pa.RecordBatch) -> pa.StringArray | None:
        """Return the special missing values in it, or None without any."""
        tags = None if self.tags_at is None else batch.column(self.tags_at)
        return None if tags is None or tags.null_count == len(tags) else tags


def cells(schema: pa.Schema, options: OutputOptions) -> list[RowCell]:
    """Return the cells of a row. With `missing=tag`, side columns are not cells of their own."""
    tags: dict[str, int] = {}
    if options.missing == "tag":
        tags = {of: at for at, field in enumerate(schema) if (of := side_columns.missing_of(field)) is not None}
    folded = set(tags.values())
    return [
        RowCell(field.name, field.type, at, tags.get(field.name)) for at, field in enumerate(schema) if at not in folded
    ]


def blank_as_null(strings: pa.StringArray) -> pa.StringArray:
    """Return text with null for the empty text."""
    return pc.if_else(pc.equal(strings, ""), None, strings)
