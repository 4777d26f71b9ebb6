"""Tables: all data sets of one name, collected by the pipeline, and their rows in every format."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from importlib.metadata import version
from typing import Annotated, Any
from urllib.parse import quote

import pyarrow as pa
from fastapi import Header, Request, Response
from fastapi import Path as InPath
from pydantic import BaseModel, Field

from app.dataset import side_columns
from app.model.message import Position
from app.model.times import to_time
from app.ports import BadCursor, OpenTable, Page, TableVersion
from app.service.conversion import Slot
from app.service.conversion.conversion_jobs import TableChanged, write_table
from app.service.tables.table_reader import described, outline, reached
from app.tables.write import OptionError
from app.web.dependencies.caller import resource_router
from app.web.dependencies.known_resources import KnownTables, TablesDep
from app.web.dependencies.request_gateway import BaseDep, PagingDep, add_link_next
from app.web.http.disposition import table_file_name
from app.web.http.negotiation import CODED, DESCRIBED, FormatDep, OptionsDep, chosen_format
from app.web.problems import Problem, responses
from app.web.resources.data_set_schemas import VariableView, variable_view
from app.web.resources.schemas import Links, PageView, page_view, shown
from app.web.responses.content_response import ContentRepresentation, Piece, converted_response


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
    """A table and its columns: the columns of its data sets, and columns for the origin of each row."""

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


JSON_ROWS = 1_000
"""Maximum rows of a JSON array if there is no `limit`, because clients hold an array in memory."""

_MADE_BY = (version("attachment-gateway"), pa.__version__)
_ROWS_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "the rows; `Link` refers to the next rows, if there are more",
        "content": DESCRIBED,
        "headers": CODED,
    },
    304: {"description": "the client already has them"},
    **responses(
        *("table-not-found", "not-acceptable", "precondition-failed", "not-representable"),
        *("damaged", "tables-unavailable"),
    ),
}

router = resource_router(prefix="/tables", tags=["tables"])


Name = Annotated[str, InPath(description="a table's name, in any case; percent-encoded", examples=["WORK.CUSTOMERS"])]


@router.get("", operation_id="list_tables", responses=responses("tables-unavailable"))
def list_tables(tables: TablesDep, base: BaseDep, paging: PagingDep) -> PageView[TableSummary]:
    """List the tables by name. The list is empty if the pipeline has not built any."""
    names = sorted(tables.names())
    first = 0
    if paging.cursor is not None:
        cursors = [_cursor(name) for name in names]
        if paging.cursor not in cursors:
            raise BadCursor(paging.cursor)
        first = cursors.index(paging.cursor) + 1
    listed = names[first : first + paging.limit]
    page = Page(listed, _cursor(listed[-1]) if first + paging.limit < len(names) else None)
    return page_view(paging, page, lambda name: TableSummary.of(*outline(tables.store, name), base))


@router.head("/{name:text}/rows", operation_id="head_table_rows", response_class=Response, responses=_ROWS_RESPONSES)
@router.get("/{name:text}/rows", operation_id="get_table_rows", response_class=Response, responses=_ROWS_RESPONSES)
def table_rows(
    name: Name,
    request: Request,
    tables: TablesDep,
    options: OptionsDep,
    word: FormatDep = None,
    accept: Annotated[str | None, Header()] = None,
) -> Response:
    """Return a table's rows in the format that `format` or Accept asks for, by default as Parquet.

    JSON arrays have at most 1000 rows if no `limit` is given; all other formats have all rows. The order of the rows is
    the same within one version of the table, which the entity tag identifies. Supports If-Match and If-None-Match.
    """
    known = chosen_format(word, accept)
    if options.labels:
        raise OptionError("labels", "a table has no value labels; they belong to a message")
    if known.name == "json" and options.limit is None:
        options = replace(options, limit=JSON_ROWS)
    opened = _opened(tables, name)
    chosen = known.settled(options)
    modified = to_time(opened.version.modified_at).replace(microsecond=0)
    made_of = (opened.version, known.name, *chosen.given().items(), *_MADE_BY)
    what = ContentRepresentation(
        tag=sha256(repr(made_of).encode()).hexdigest(),
        content_type=known.content_type,
        file_name=table_file_name(opened.version.name, known.extension),
        modified=modified,
    )

    def make(slot: Slot) -> Iterator[Piece]:
        version, with_rows = opened.version, request.method != "HEAD"
        try:
            yield from slot.run(
                write_table, tables.store, version.name, version.version, known.name, chosen, modified, with_rows
            )
        except (TableChanged, KeyError):
            raise Problem("busy", "the table has just changed", {"Retry-After": "1"}) from None

    response = converted_response(request, make, what)
    response.headers.add_vary_header("Accept")
    if chosen.limit and (end := (chosen.offset or 0) + chosen.limit) < opened.version.rows:
        add_link_next(request, response, offset=end, limit=chosen.limit)
    return response


@router.get("/{name:text}", operation_id="get_table", responses=responses("table-not-found", "tables-unavailable"))
def get_table(name: Name, tables: TablesDep, base: BaseDep) -> TableView:
    """Return a table's columns, as PROC CONTENTS lists variables, and the facts about the whole table."""
    opened = _opened(tables, name)
    return TableView.of(opened, reached(tables.store, opened.version.name), base)


def _cursor(name: str) -> str:
    """Return the cursor of the page after a name, which may be very long."""
    return sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def _opened(tables: KnownTables, name: str) -> OpenTable:
    try:
        return tables.open(name)
    except KeyError:
        raise Problem("table-not-found", "there is no table of this name; /v1/tables lists all tables") from None
