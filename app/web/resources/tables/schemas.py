"""The JSON of tables, in a listing and alone."""

from datetime import datetime
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from pydantic import BaseModel, Field

from app.dataset import side_columns
from app.model.message import Position
from app.model.times import to_time
from app.ports import TableVersion
from app.service.tables.table_reader import OpenTable, described
from app.web.resources.data_set_schemas import VariableView, variable_view
from app.web.resources.schemas import Links, shown


class TableFields(BaseModel):
    """The common fields of a table in a listing and a table alone."""

    name: str = Field(examples=["WORK.CUSTOMERS"])
    row_count: int = Field(examples=[12045])
    files: int = Field(examples=[3])
    size: int = Field(description="bytes of its files", examples=[884736])
    version: int = Field(description="increases with every commit", examples=[17])
    modified_at: datetime
    links: Links = Field(
        examples=[{"self": "/v1/tables/WORK.CUSTOMERS", "rows": "/v1/tables/WORK.CUSTOMERS/rows"}],
    )


class TableSummary(TableFields):
    """A table in a listing."""

    column_count: int = Field(examples=[9])

    @classmethod
    def of(cls, version: TableVersion, schema: pa.Schema, base: str) -> "TableSummary":
        return cls(**_fields(version, base), column_count=len(side_columns.without_sides(schema)))


class PositionView(BaseModel):
    """A position in the journal."""

    segment: int = Field(examples=[42])
    batch: int = Field(examples=[118])
    row: int = Field(examples=[3])


class TableView(TableFields):
    """A table and its columns: those of its data sets, and those for the origin of each row."""

    library: str = Field(examples=["WORK"])
    member: str = Field(examples=["CUSTOMERS"])
    label: str = Field(description="label of the newest data set", examples=["Customers of the shop"])
    columns: list[VariableView] = Field(description="`notes` list where data sets differ")
    attributes: dict[str, str] = Field(description="other metadata of the table", examples=[{}])
    reached: PositionView | None = Field(description="the pipeline's position in the journal when it last added rows")

    @classmethod
    def of(cls, table: OpenTable, position: Position | None, base: str) -> "TableView":
        found = described(table)
        return cls(
            **_fields(table.version, base),
            library=shown(found.library),
            member=shown(found.member),
            label=shown(found.label),
            columns=[variable_view(variable) for variable in found.variables],
            attributes={shown(key): shown(value) for key, value in found.attributes.items()},
            reached=None if position is None else PositionView(**position._asdict()),
        )


def _fields(version: TableVersion, base: str) -> dict[str, Any]:
    address = f"{base}/tables/{quote(version.name.encode('utf-8', 'replace'), safe='')}"
    return {
        "name": shown(version.name),
        "row_count": version.rows,
        "files": version.files,
        "size": version.size,
        "version": version.version,
        "modified_at": to_time(version.modified_at),
        "links": {"self": address, "rows": f"{address}/rows"},
    }
