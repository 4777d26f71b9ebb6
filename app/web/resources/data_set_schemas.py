"""The JSON of data sets and their variables, made from a stored data set."""

from typing import Literal

import pyarrow.parquet as pq
from pydantic import BaseModel, Field

from app.dataset.description import DataSetDescription, VariableContents, contents
from app.service.content.stored_content import Content, ContentFile
from app.web.resources.schemas import shown


class VariableView(BaseModel):
    """One variable of a data set, with the attributes that PROC CONTENTS lists.

    `column` is its name in the Parquet file.
    """

    number: int = Field(description="its number among the variables of an observation, from 1", examples=[1])
    name: str = Field(examples=["Sex"])
    column: str = Field(examples=["Sex"])
    type: Literal["numeric", "character"] = Field(examples=["character"])
    length: int = Field(description="bytes in an observation", examples=[1])
    label: str = Field(examples=[""])
    format: str = Field(examples=["$1."])
    informat: str = Field(examples=[""])
    kind: str | None = Field(description="date, datetime, time or time-of-day, by its format", examples=[None])
    arrow_type: str = Field(examples=["string"])
    missing_column: str | None = Field(description="the column of its special missing values, if any", examples=[None])
    bytes_column: str | None = Field(description="the column of its undecodable values, if any", examples=[None])
    notes: list[str] = Field(examples=[[]])


class KeyView(BaseModel):
    """A variable of the sort key."""

    variable: str
    descending: bool


class IndexView(BaseModel):
    """An index of a data set, with `flags` and `upercmx` as sent."""

    name: str
    variables: list[str]
    flags: int
    upercmx: int


class SchemaView(BaseModel):
    """A data set's variables; `attributes` has the other values of its definition."""

    library: str
    member: str
    label: str
    observations: int
    observation_length: int
    variables: list[VariableView]
    sort_key: list[KeyView]
    indexes: list[IndexView]
    protection: list[str] = Field(
        description="operations that need a password in SAS: read, write, alter", examples=[[]]
    )
    warnings: list[str] = Field(description="doubts that arose when the data set was read", examples=[[]])
    attributes: dict[str, str] = Field(examples=[{"compress": "NO", "encoding": "utf-8"}])


def found_contents(content: Content) -> DataSetDescription:
    """Return the contents of a stored data set. Raises pa.ArrowInvalid for content that is not Parquet."""
    with pq.ParquetFile(ContentFile(content)) as file:
        return contents(file.schema_arrow, file.metadata.num_rows)


def describe(found: DataSetDescription) -> SchemaView:
    """Return the contents of a data set as JSON."""
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
    """Return a variable as JSON."""
    return VariableView(
        number=found.position,
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
