"""Tables: all data sets of one name, collected by the pipeline, and their rows in every format."""

from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from importlib.metadata import version
from typing import Annotated, Any

import pyarrow as pa
from fastapi import APIRouter, Header, Request, Response
from fastapi import Path as InPath

from app.model.times import to_time
from app.ports import BadCursor, Page, TableStore
from app.service.conversion import Slot
from app.service.conversion.conversion_jobs import TableChanged, write_table
from app.service.tables.table_reader import OpenTable, outline, reached
from app.tables.write import OptionError, OutputOptions, TableFormat
from app.web.dependencies.known_tables import KnownTables, TablesDep
from app.web.dependencies.request_gateway import BaseDep, PagingDep, add_link_next, link_next
from app.web.http import path_text  # noqa: F401 - the paths below use it
from app.web.http.content_codings import CODED
from app.web.http.download_names import table_file_name
from app.web.http.negotiation import DESCRIBED, FormatDep, OptionsDep, chosen_format, invalid
from app.web.problems import Problem, responses
from app.web.resources.schemas import PageView, page_view
from app.web.resources.tables.schemas import TableSummary, TableView
from app.web.responses.content_response import Piece, Representation, respond_made

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
        "table-not-found", "not-acceptable", "precondition-failed", "invalid", "not-representable", "tables-unavailable"
    ),
}

router = APIRouter(prefix="/tables", tags=["tables"])


Name = Annotated[str, InPath(description="a table's name, in any case; percent-encoded", examples=["WORK.CUSTOMERS"])]


@router.get("", operation_id="list_tables", responses=responses("invalid", "tables-unavailable"))
def list_tables(
    request: Request, response: Response, tables: TablesDep, base: BaseDep, paging: PagingDep
) -> PageView[TableSummary]:
    """List the tables by name. The list is empty if the pipeline has not built any."""
    names = sorted(tables.names())
    first = 0 if paging.cursor is None else _behind(paging.cursor, names)
    listed = names[first : first + paging.limit]
    page = Page(listed, _cursor(listed[-1]) if first + paging.limit < len(names) else None)
    link_next(request, response, page)
    return page_view(page, lambda name: TableSummary.of(*outline(tables.store, name), base))


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
        raise invalid(OptionError("labels", "a table has no value labels; they belong to a message"))
    if known.name == "json" and options.limit is None:
        options = replace(options, limit=JSON_ROWS)
    opened = _opened(tables, name)
    try:
        chosen = known.settled(options)
        response = _rows(request, tables.store, opened, known, chosen)
    except OptionError as error:
        raise invalid(error) from None
    response.headers.add_vary_header("Accept")
    _link_further(request, response, opened.version.rows, chosen)
    return response


@router.get("/{name:text}", operation_id="get_table", responses=responses("table-not-found", "tables-unavailable"))
def get_table(name: Name, tables: TablesDep, base: BaseDep) -> TableView:
    """Return a table's columns, as PROC CONTENTS lists those of a data set, and the facts about the whole table."""
    opened = _opened(tables, name)
    return TableView.of(opened, reached(tables.store, opened.version.name), base)


def _cursor(name: str) -> str:
    """Return the cursor of the page after a name, which may be very long."""
    return sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def _behind(cursor: str, names: list[str]) -> int:
    try:
        return [_cursor(name) for name in names].index(cursor) + 1
    except ValueError:
        raise BadCursor(cursor) from None


def _opened(tables: KnownTables, name: str) -> OpenTable:
    try:
        return tables.open(name)
    except KeyError:
        raise Problem("table-not-found", "there is no table of this name; /v1/tables lists all tables") from None


def _rows(
    request: Request, store: TableStore, opened: OpenTable, known: TableFormat, chosen: OutputOptions
) -> Response:
    modified = to_time(opened.version.modified_at).replace(microsecond=0)
    made_of = (opened.version, known.name, *chosen.given().items(), *_MADE_BY)
    what = Representation(
        tag=sha256(repr(made_of).encode()).hexdigest(),
        content_type=known.content_type,
        file_name=table_file_name(opened.version.name, known.extension),
        modified=modified,
    )

    def make(slot: Slot) -> Iterator[Piece]:
        version, with_rows = opened.version, request.method != "HEAD"
        try:
            yield from slot.run(
                write_table, store, version.name, version.version, known.name, chosen, modified, with_rows
            )
        except (TableChanged, KeyError):
            raise Problem("busy", "the table has just changed", {"Retry-After": "1"}) from None

    return respond_made(request, make, what)


def _link_further(request: Request, response: Response, rows: int, chosen: OutputOptions) -> None:
    """Link to the rows after the last returned one (RFC 8288)."""
    if not chosen.limit or (end := (chosen.offset or 0) + chosen.limit) >= rows:
        return
    add_link_next(request, response, offset=end, limit=chosen.limit)
