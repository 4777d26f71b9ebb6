"""SQL over tables with DuckDB, which can read the tables and nothing else.

Tables are views over Arrow scans, into which DuckDB pushes columns and filters. The table `WORK.CUSTOMERS` is the view
`"WORK.CUSTOMERS"`. It is also `work.customers`, because its library is a schema. Only tables that a query may refer to
are opened, because opening a table reads its log.

A query is confined: it is one statement, of a kind that reads; there is no access to files, to the network or to
extensions; and the configuration is locked. Data that does not fit in memory goes to a temporary folder.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from app.model.errors import DamagedError
from app.model.names import library_and_member, plain_library
from app.plugins import how_to_install
from app.ports import OpenTable, TableStore
from app.tables.quality import KEY, QUALITY, summed

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation

_NOT_IN_ARROW = re.compile(r"\b(UHUGEINT|BIGNUM|TIME WITH TIME ZONE)\b")
"""Types whose values Arrow does not get whole."""
_NESTED = frozenset({"list", "array", "struct", "map", "union", "tuple"})
_MOMENTS = re.compile(r"TIMESTAMP")
_WRITTEN_BY_ARROW = frozenset(
    {
        *("boolean", "tinyint", "smallint", "integer", "bigint", "hugeint"),
        *("utinyint", "usmallint", "uinteger", "ubigint", "float", "double", "decimal"),
        *("varchar", "blob", "enum", "uuid"),
    }
)


def quoted(name: str) -> str:
    """Return an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def _projected(result: "DuckDBPyRelation", *, as_text: bool) -> "DuckDBPyRelation":
    """Return a result whose values Arrow can hold: the others are text.

    With `as_text`, for formats of text, what is neither a number, text nor bytes is text, as DuckDB writes it. Dates
    and times are in ISO 8601, and nested values are JSON.
    """
    columns = zip(result.columns, result.types, strict=True)
    made = [_expression(f"#{number}", each, as_text) for number, (_, each) in enumerate(columns, 1)]
    return result.project(", ".join(f"{one} AS {quoted(name)}" for one, name in zip(made, result.columns, strict=True)))


def _expression(column: str, data_type: object, as_text: bool) -> str:
    kind, name = str(getattr(data_type, "id", "")), str(data_type)
    if kind in _WRITTEN_BY_ARROW or not (as_text or _NOT_IN_ARROW.search(name)):
        return column
    if kind in _NESTED:
        return f"to_json({column})::VARCHAR"
    text = f"{column}::VARCHAR"
    if not _MOMENTS.match(name):
        return text
    # ISO 8601. A moment outside of the years 1 to 9999 stays as DuckDB writes it.
    iso = f"regexp_replace(replace({text}, ' ', 'T'), '[+]00$', 'Z')"
    return f"CASE WHEN {text} LIKE '____-__-__ __:__:__%' THEN {iso} ELSE {text} END"


if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyarrow.dataset import Dataset, Scanner

ROWS_A_BATCH = 16_384

_CONFINED = {
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    **dict.fromkeys(("home_directory", "extension_directory", "secret_directory"), "/nonexistent"),
}
"""Settings for every query. Queries can read them, so they have no folder of this machine."""
_READING = frozenset({"SELECT", "EXPLAIN"})
"""DuckDB's kinds of statements that read: WITH, FROM, VALUES, DESCRIBE, SHOW and SUMMARIZE are SELECTs to it."""

_EXPLAIN = re.compile(r"EXPLAIN\b(\s+ANALYZE\b|\s*\(\s*(ANALYZE|FORMAT)\b[^)]*\))?", re.IGNORECASE)
_OF_ALL = re.compile(r"\bshow\b|\binformation_schema\b|\bduckdb_\w+|\bpg_\w+|\bsqlite_master\b", re.IGNORECASE)
"""The parts of a query that ask for the names of tables."""

_OWN_SCHEMAS = frozenset({"main", "temp", "system", "information_schema", "pg_catalog"})

_READING_AHEAD = {"batch_size": 32_768, "batch_readahead": 2, "fragment_readahead": 1}

_FROM_LONG = {"time64[us]": "TIME '00:00' + to_microseconds({})", "duration[us]": "to_microseconds({})"}
"""Types that are stored as integers, and SQL that converts the integers to them."""

LIST_TABLES, MORE_MEMORY = "attachment-gateway tables ls   lists the tables", "give it more with --memory"
"""The hints that are about the command line."""
_HINTS = {
    "PermissionException": "SQL can read the tables and nothing else",
    "CatalogException": LIST_TABLES,
    "OutOfMemoryException": MORE_MEMORY,
}


class QueryFailed(Exception):
    """A query that cannot be run, or failed: a sentence for people, and perhaps a hint. `is_missing` tells that the
    library for queries is missing."""

    def __init__(self, why: str, hint: str = "", *, is_missing: bool = False) -> None:
        super().__init__(why)
        self.hint, self.is_missing = hint, is_missing


class FilesScanned(NamedTuple):
    """How many files of a table a scan reads, and how many there are. It skips those whose bounds in the table's log
    exclude its filter. A scan that ends early, as with LIMIT, reads fewer than it says."""

    read: int
    there: int


class QueryResult(NamedTuple):
    """The result of a query; its batches can be iterated once, and are computed during the iteration.

    `schema` has the types of the result, and `written` the types of the batches, which may be text instead. `scans` has
    each scan of a table that has begun.
    """

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    written: pa.Schema
    scans: list[FilesScanned]

    def scanned(self) -> FilesScanned:
        """Return the files of all scans together, when all batches have been iterated."""
        return FilesScanned(sum(scan.read for scan in self.scans), sum(scan.there for scan in self.scans))


@contextmanager
def answered(store: TableStore, sql: str, memory: str) -> Iterator[QueryResult]:
    """Run a query with at most `memory` for DuckDB, such as `1GB`. Raises QueryFailed, also during the iteration."""
    with (
        TemporaryDirectory(prefix="attachment-gateway-sql-") as folder,
        confined(store, store.names(), sql, {"temp_directory": folder, "memory_limit": memory}) as answer,
    ):
        yield answer


@contextmanager
def confined(
    store: TableStore, names: Sequence[str], sql: str, settings: Mapping[str, str], *, as_text: bool = False
) -> Iterator[QueryResult]:
    """Run a query that knows the tables of these names, with more settings of DuckDB. Raises QueryFailed, and
    DamagedError for a file of a table, also during the iteration. With `as_text`, the batches have text where Arrow or
    Python could not show a value."""
    duckdb = _duckdb()
    damage: list[str] = []
    try:
        with duckdb.connect(":memory:", config=_CONFINED | dict(settings)) as database:
            # Among the settings of `connect`, this one would allow, and show, a path in the working folder.
            database.execute("SET enable_external_access = false")
            _require_reading(database, sql)
            database.execute("SET TimeZone = 'UTC'")
            scans: list[FilesScanned] = []
            # It may refer to the tables whose name, or member, occurs anywhere in it.
            text, is_of_all = sql.casefold().replace('""', '"'), _OF_ALL.search(sql)
            meant = [name for name in names if is_of_all or library_and_member(name)[1].casefold() in text]
            # A filter excludes files of increments only by the columns that increments are not summed over: the sum of
            # what each file excludes may be in the result.
            tables = [store.open(name, KEY if name == QUALITY else None) for name in meant]
            _make_views(database, tables, scans, damage)
            database.execute("SET lock_configuration = true")
            result = database.sql(sql)
            shown = _projected(result, as_text=False)
            schema = shown.limit(0).to_arrow_reader(1).schema
            reader = (_projected(result, as_text=True) if as_text else shown).to_arrow_reader(ROWS_A_BATCH)
            yield QueryResult(schema, _read(reader, damage), reader.schema, scans)
    except duckdb.Error as error:
        raise _failure(error, damage) from error


def _duckdb() -> Any:
    try:
        import duckdb  # noqa: PLC0415 - nothing else needs it
    except ModuleNotFoundError:
        raise QueryFailed("SQL needs the library 'duckdb'", how_to_install("duckdb"), is_missing=True) from None
    return duckdb


def _require_reading(database: "DuckDBPyConnection", sql: str) -> None:
    statements = database.extract_statements(sql)
    if len(statements) != 1:
        raise QueryFailed(f"write exactly one query; found {len(statements) or 'none'}")
    (statement,) = statements
    kind, text = statement.type.name, statement.query
    if kind not in _READING:
        why = f"{text.split()[0].upper()} is not a query; tables can only be read"
        raise QueryFailed(why, "write one SELECT, WITH, FROM, VALUES, DESCRIBE, SHOW, SUMMARIZE or EXPLAIN")
    if kind == "EXPLAIN":
        _require_reading(database, _EXPLAIN.sub("", text, count=1))


def _make_views(
    database: "DuckDBPyConnection", tables: Sequence[OpenTable], scans: list[FilesScanned], damage: list[str]
) -> None:
    """Create a view for each table. Each scan of one is added to `scans`, and what it finds damaged to `damage`.

    A library that has the name of one of DuckDB's own schemas gets no schema: its members could take the place of the
    views that list tables, for every query.
    """
    for table in tables:
        relation = database.from_arrow(_scanned(table, scans, damage))
        relation.project(", ".join(map(_view_column, table.schema))).create_view(table.version.name, replace=False)
    for table in tables:
        name = table.version.name
        library, member = library_and_member(name)
        library = plain_library(library)
        if library and library.casefold() not in _OWN_SCHEMAS:
            with suppress(_duckdb().CatalogException, _duckdb().BinderException):  # DuckDB has something of that name
                database.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(library)}")
                database.execute(f"CREATE VIEW {quoted(library)}.{quoted(member)} AS FROM {quoted(name)}")


class _Scan:
    """A scan that DuckDB reads. Its errors are added to `damage` if a file is damaged.

    pyarrow's own `Scanner.to_reader` holds the interpreter's lock while it waits for threads that read files. It never
    ends when one of these needs the lock to raise an error.
    """

    def __init__(self, scanner: "Scanner", damage: list[str]) -> None:
        self._scanner, self._damage = scanner, damage

    def to_reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self._scanner.projected_schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._scanner.to_batches()
        except DamagedError as error:
            self._damage.append(str(error))
            raise


def _scanned(table: OpenTable, scans: list[FilesScanned], damage: list[str]) -> "Dataset":
    """Return the rows of a table for DuckDB, with little read-ahead: DuckDB's memory limit does not cover Arrow's
    memory. Each scan is added to `scans`.

    The table of quality is stored as increments, which are summed when it is scanned.
    """
    from pyarrow.dataset import FileSystemDataset, InMemoryDataset  # noqa: PLC0415 - takes a quarter of a second to load

    class Scanned(FileSystemDataset):  # type: ignore[misc]
        def scanner(self, **wanted: Any) -> Any:
            meant = list(stored.get_fragments(wanted.get("filter")))
            scans.append(FilesScanned(len(meant), len(self.files)))
            read = FileSystemDataset(meant, self.schema, self.format, self.filesystem)
            if table.version.name == QUALITY:
                return _Scan(InMemoryDataset(summed(read.to_batches(**_READING_AHEAD))).scanner(**wanted), damage)
            return _Scan(read.scanner(**{**_READING_AHEAD, **wanted}), damage)

    stored = table.dataset
    return Scanned(list(stored.get_fragments()), stored.schema, stored.format, stored.filesystem)


def _view_column(field: pa.Field) -> str:
    column = quoted(field.name)
    made = _FROM_LONG.get(str(field.type))
    return f"{made.format(column)} AS {column}" if made else column


def _read(reader: pa.RecordBatchReader, damage: Sequence[str]) -> Iterator[pa.RecordBatch]:
    try:
        yield from reader
    except (pa.ArrowException, OSError) as error:
        raise _failure(error, damage) from error


def _failure(error: Exception, damage: Sequence[str]) -> Exception:
    """Return the error of the damage that stopped the query, which DuckDB's error only quotes; else QueryFailed."""
    return DamagedError(damage[0]) if damage else QueryFailed(*_explained(error))


def _explained(error: Exception) -> tuple[str, str]:
    """Return DuckDB's message in one sentence, and a hint."""
    said = str(error).partition("\n\nPossible solutions:")[0].strip()
    kind = next((kind for kind in _HINTS if kind in type(error).__name__), "")
    if not kind and "Out of Memory" in said:
        kind = "OutOfMemoryException"
    return re.sub(r"^[\w ]+ Error: |\nDid you mean .*", "", said), _HINTS.get(kind, "")
