"""SQL over the tables, read only and bounded."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Final

from fastapi import Header, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from app.observe import logger
from app.service.conversion import Slot, SlotUse
from app.service.conversion.conversion_jobs import query_tables
from app.service.tables.sql_queries import LIST_TABLES, MORE_MEMORY, FilesScanned, QueryFailed
from app.tables.write.query_result import QueryFormat
from app.web.dependencies.caller import Caller, CallerDep, resource_router
from app.web.dependencies.known_resources import KnownTables, TablesDep
from app.web.dependencies.request_gateway import GatewayDep
from app.web.http.json_body import read_json, request_body
from app.web.http.negotiation import quality
from app.web.problems import Problem, responses
from app.web.responses.disconnection import convert

MOST_ROWS: Final = 100_000
LONGEST_SQL: Final = 10_000
TRUNCATED: Final = "Truncated"
TABLE_FILES: Final = "Table-Files"
_MEDIA_TYPES: Final[dict[QueryFormat, str]] = {
    "json": "application/json",
    "csv": "text/csv",
    "arrow": "application/vnd.apache.arrow.stream",
}
_HINTS: Final = {LIST_TABLES: "GET /v1/tables lists the tables", MORE_MEMORY: "select fewer rows or columns"}
_PATH: Final = re.compile(r"""(["'])((?:[a-z]+:/)?/[^"']+)\1""")
"""A path of this machine or of a store within a message. Clients get only the paths that they wrote."""

log = logger(__name__)
router = resource_router(prefix="/tables", tags=["tables"])


class Query(BaseModel):
    """A query in DuckDB's SQL: one SELECT, WITH, FROM, VALUES, DESCRIBE, SHOW, SUMMARIZE or EXPLAIN.

    The table `WORK.CUSTOMERS` is the view `"WORK.CUSTOMERS"`, and also `work.customers`.
    """

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"sql": "FROM work.customers"}]})

    sql: str = Field(min_length=1, max_length=LONGEST_SQL, examples=["SELECT count(*) AS n FROM work.customers"])
    limit: int = Field(default=1_000, ge=1, le=MOST_ROWS, description="maximum number of rows")


class QueryColumnView(BaseModel):
    """A column of a result, with its Arrow type."""

    name: str = Field(examples=["n"])
    type: str = Field(examples=["int64"])


class QueryView(BaseModel):
    """The result of a query: each row has a value for each column. `truncated` says that there are more rows."""

    columns: list[QueryColumnView]
    rows: list[list[Any]] = Field(examples=[[[12045]]])
    truncated: bool = Field(examples=[False])


@router.post(
    "/query",
    operation_id="query_tables",
    openapi_extra=request_body(Query),
    response_model=QueryView,
    responses={
        200: {
            "description": "the result",
            "headers": {
                TRUNCATED: {"description": "`true` if there are more rows", "schema": {"type": "string"}},
                TABLE_FILES: {
                    "description": "the files of tables that the query read, and all that these tables have",
                    "schema": {"type": "string"},
                    "example": "read=3, all=10000",
                },
            },
            "content": {_MEDIA_TYPES[word]: {"schema": {"type": "string"}} for word in ("csv", "arrow")},
        },
        **responses(
            *("malformed", "too-large", "not-acceptable", "query-failed", "conversion-limit", "busy"),
            *("damaged", "tables-unavailable"),
        ),
    },
)
async def query(
    request: Request,
    gateway: GatewayDep,
    caller: CallerDep,
    tables: TablesDep,
    accept: Annotated[str | None, Header()] = None,
) -> Response:
    """Run a query over the tables, in a process with limits of memory and time (`limits.conversion_memory` and
    `limits.conversion_time`). It can read tables and nothing else.

    Accept chooses JSON (the default), CSV or Arrow. A caller limited to sources knows only the tables whose rows are
    all of these.
    """
    word = _chosen(accept)
    asked = await read_json(request, Query)
    caller.trail.details = {"sql": asked.sql}
    names = await run_in_threadpool(tables.names)
    memory = int(gateway.settings.limits.conversion_memory) // 2

    def run(slot: Slot) -> tuple[bytes, tuple[bool, FilesScanned]]:
        pieces = slot.run(query_tables, tables.store, names, asked.sql, asked.limit, word, memory)
        held: list[bytes] = []
        while True:
            try:
                held.append(next(pieces))
            except StopIteration as end:
                return b"".join(held), end.value

    try:
        found, (is_cut, scanned) = await convert(request, SlotUse.QUERY, run)
    except QueryFailed as error:
        await _require_known(caller, tables, names)
        raise _problem(error, asked.sql) from None
    await _require_known(caller, tables, names)
    headers = {
        "Vary": "Accept",
        TRUNCATED: "true" if is_cut else "false",
        TABLE_FILES: f"read={scanned.read}, all={scanned.there}",
        "Cache-Control": "no-store",
    }
    return Response(found, 200, headers, _MEDIA_TYPES[word])


async def _require_known(caller: Caller, tables: KnownTables, names: Sequence[str]) -> None:
    """Raise Problem unless the caller still knows all tables that its query could read. While the query waited, rows of
    other sources may have come, which its result and its error may show."""
    if caller.sources is not None and not set(names) <= set(await run_in_threadpool(tables.names)):
        raise Problem("busy", "a table has just changed", {"Retry-After": "1"})


def _chosen(accept: str | None) -> QueryFormat:
    """Return the format that Accept asks for. Raises Problem if it asks for another."""
    words = list(_MEDIA_TYPES)
    qualities = [quality(accept, _MEDIA_TYPES[word]) for word in words]
    if max(qualities) <= 0:
        names = list(_MEDIA_TYPES.values())
        raise Problem("not-acceptable", f"results come as {', '.join(names)}", {"Vary": "Accept"}, available=names)
    return words[qualities.index(max(qualities))]


def _problem(error: QueryFailed, sql: str) -> Problem:
    why, hint = str(error), _HINTS.get(error.hint, error.hint)
    shown = _PATH.sub(lambda path: path[0] if path[2] in sql else f"{path[1]}…{path[1]}", why)
    if shown != why:
        log.warning("query_failed", reason=why)
    detail = f"{shown}: {hint}" if hint else shown
    return Problem("tables-unavailable" if error.is_missing else "query-failed", detail)
