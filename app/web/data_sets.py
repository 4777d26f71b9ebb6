"""Stored data sets: their Parquet file, and what variables they have."""

import pyarrow as pa
import pyarrow.parquet as pq

from app.dataset.contents import Contents, VariableContents, contents
from app.service.content.access import Content, ContentFile
from app.web.schemas import IndexView, KeyView, SchemaView, VariableView, shown


def parquet_file(content: Content) -> pq.ParquetFile:
    """Content as Parquet, for one thread at a time. Raises pa.ArrowInvalid when it is not."""
    return pq.ParquetFile(ContentFile(content))


def parquet_schema(content: Content) -> tuple[pa.Schema, int]:
    """The Arrow schema and the number of rows that a Parquet footer tells. Raises pa.ArrowInvalid for anything else."""
    with parquet_file(content) as file:
        return file.schema_arrow, file.metadata.num_rows


def found_contents(content: Content) -> Contents:
    """What a stored data set says of itself. Raises pa.ArrowInvalid for content that is not Parquet."""
    return contents(*parquet_schema(content))


def describe(found: Contents) -> SchemaView:
    """The contents of a data set as JSON has them."""
    return SchemaView(
        library=shown(found.library),
        member=shown(found.member),
        label=shown(found.label),
        observations=found.observations,
        observation_length=found.observation_length,
        variables=[variable_view(variable) for variable in found.variables],
        sort_key=[KeyView(variable=shown(each.variable), descending=each.descending) for each in found.sort_key],
        indexes=[
            IndexView(
                name=shown(each.name),
                variables=[shown(name) for name in each.variables],
                flags=each.flags,
                upercmx=each.upercmx,
            )
            for each in found.indexes
        ],
        protection=list(found.protection),
        warnings=[shown(warning) for warning in found.warnings],
        attributes={shown(key): shown(value) for key, value in found.attributes.items()},
    )


def variable_view(found: VariableContents) -> VariableView:
    """A variable as JSON has it."""
    return VariableView(
        position=found.position,
        name=shown(found.name),
        column=shown(found.column),
        type="numeric" if found.is_numeric else "character",
        length=found.length,
        label=shown(found.label),
        format=shown(found.format),
        informat=shown(found.informat),
        kind=found.kind or None,
        arrow_type=found.arrow_type,
        missing_column=found.missing_column,
        bytes_column=found.bytes_column,
        notes=list(found.notes),
    )
