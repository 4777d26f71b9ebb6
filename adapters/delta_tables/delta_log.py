"""A table's log: reading the newest version, and the content of the next version.

A version is one file of actions that is created only if it does not exist. So it is written as a whole or not at all.
Of two processes that write the same version, one has to try again. deltalake reads the log. This module writes it,
for two reasons: the rows of a transaction, their columns and the transaction's number must appear together, and files
must be on disk before a version names them.

Source: Delta transaction log protocol, "Delta Log Entries" and "Actions".
"""

import json
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Lock
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, unquote
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from adapters.delta_tables import delta_schema
from adapters.delta_tables.table_storage import LOG
from app.model.data_formats import TABLES
from app.model.errors import GatewayError
from app.ports import TableFile

Action = Mapping[str, Mapping[str, Any]]

_METADATA, _LABEL = "attachment_gateway.metadata", "sas.label"
_RETAINED = "attachment_gateway.retained_from"
_APPLICATIONS = "attachment_gateway.applications"
_RETENTION = "delta.logRetentionDuration"
_FORMAT = "attachment_gateway.format"
_CONFIGURATION = {_RETENTION: "interval 1 hours", _FORMAT: str(TABLES.number)}
"""The properties of a new table: the time after which versions that a checkpoint includes are deleted from the log, and
the format. A stream adds a version every few seconds, and everyone who opens the table lists them all."""
_FEATURES = frozenset(delta_schema.PROTOCOL["writerFeatures"])
_ENGINE = "attachment-gateway"
_TIME = pa.timestamp("us", "UTC")

READING_ATTEMPTS = 3
"""Reads are repeated: after a reader has listed the log's files, another process may write a checkpoint and delete
them."""

T = TypeVar("T")


class ActiveFile(NamedTuple):
    """A file of a version. `modified_at` is in milliseconds. `least_received` is the least `received_at` in it (µs),
    `sources` are bounds of its sources, None if unknown."""

    path: str
    size: int
    rows: int
    modified_at: int
    least_received: int | None
    sources: tuple[str, str] | None = None


class ColumnBounds(NamedTuple):
    """The least and the greatest value of a column in each file, and its number of nulls; null if unknown."""

    least: pa.Array
    greatest: pa.Array
    nulls: pa.Array


class Snapshot:
    """A table's newest version. Raises KeyError when there is no such table, and NewerFormat."""

    def __init__(self, location: str, name: str) -> None:
        self._location, self._name = location, name
        self.delta = _opened(location, name)
        TABLES.require_known(self.delta.metadata().configuration.get(_FORMAT), f"the table {name!r}")
        features = set(self.delta.protocol().writer_features or ())
        if not features <= _FEATURES:
            raise GatewayError(
                f"the table {name!r} has unsupported features: {', '.join(sorted(features - _FEATURES))}"
            )

    def update(self) -> None:
        """Read the versions that were added since."""
        with _explained(self._name):
            self.delta.update_incremental()

    @property
    def version(self) -> int:
        return self.delta.version()

    @property
    def name(self) -> str:
        return self.delta.metadata().name or ""

    def schema(self) -> pa.Schema:
        metadata = json.loads(self.delta.metadata().configuration.get(_METADATA, "{}"))
        return delta_schema.arrow_schema(self.delta_schema(), metadata)

    def retained_from(self) -> int | None:
        """Return the time (µs) that `retained` has noted."""
        noted: str | None = self.delta.metadata().configuration.get(_RETAINED)
        return None if noted is None else int(noted)

    def applications(self) -> list[str]:
        """Return the applications that have committed transactions."""
        noted: list[str] = json.loads(self.delta.metadata().configuration.get(_APPLICATIONS, "[]"))
        return noted

    def delta_schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = json.loads(self.delta.schema().to_json())
        return schema

    def reached(self, application: str) -> int | None:
        """Return the last transaction of an application. May switch to a newer version."""
        return self._queried(lambda: self.delta.transaction_version(application))

    def modified_at(self) -> int:
        """Return the time of the version in µs. May switch to a newer version."""
        milliseconds: int = self._queried(lambda: self.delta.history(1)[0]["timestamp"])
        return milliseconds * 1000

    def files(self) -> list[ActiveFile]:
        """Return the files in the order in which they were added."""
        found = self._added()
        columns = [found[name].to_pylist() for name in ("path", "size_bytes", "num_records", "modification_time")]
        received: list[int | None] = [None] * found.num_rows
        if "min.received_at" in found.column_names:
            received = found["min.received_at"].cast(_TIME).cast(pa.int64()).to_pylist()
        sources: list[tuple[str, str] | None] = [None] * found.num_rows
        if {"min.source", "max.source"} <= {*found.column_names}:
            limits = zip(found["min.source"].to_pylist(), found["max.source"].to_pylist(), strict=True)
            sources = [None if None in pair else pair for pair in limits]
        return [ActiveFile(unquote(path), *others) for path, *others in zip(*columns, received, sources, strict=True)]

    def bounds(self, names: Collection[str] | None = None) -> dict[str, ColumnBounds]:
        """Return what the log says of the columns of these names, of all if None, in the order of `files`."""
        found = self._added()
        there = {name.partition(".")[2] for name in found.column_names if name.startswith(("min.", "null_count."))}

        def column(name: str) -> pa.Array:
            is_known = name in found.column_names
            return found[name].combine_chunks() if is_known else pa.nulls(found.num_rows)

        return {
            name: ColumnBounds(column(f"min.{name}"), column(f"max.{name}"), column(f"null_count.{name}"))
            for name in self.stored_schema().names
            if name in there and (names is None or name in names)
        }

    def stored_schema(self) -> pa.Schema:
        """Return the columns as they are in the files."""
        return pa.schema(self.delta.schema().to_arrow())

    def last_time(self) -> int:
        """Return the latest time of a file in milliseconds; 0 without files."""
        times = pa.table(self.delta.get_add_actions(flatten=True))["modification_time"]
        return int(pc.max(times).as_py() or 0)

    def _added(self) -> pa.Table:
        """Return the log's entries of the files, in the order in which they were added."""
        found = pa.table(self.delta.get_add_actions(flatten=True))
        return found.sort_by([("modification_time", "ascending"), ("path", "ascending")])

    def _queried(self, query: Callable[[], T]) -> T:
        """Return the result of a query that reads the log, while another process may write a checkpoint."""
        with suppress(DeltaError, OSError):
            return query()
        self.delta = _opened(self._location, self._name)
        with _explained(self._name):
            return query()


class SnapshotCache:
    """The newest versions of tables as they were last read, at most `limit`; the least recently used are dropped.

    `_lock` guards `_kept`.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept: OrderedDict[str, Snapshot] = OrderedDict()
        self._lock = Lock()

    def __reduce__(self) -> tuple[type["SnapshotCache"], tuple[int]]:
        return SnapshotCache, (self._limit,)

    def take(self, name: str) -> Snapshot | None:
        """Return the version of a table, which is no longer kept then."""
        with self._lock:
            return self._kept.pop(name, None)

    def put(self, name: str, snapshot: Snapshot | None) -> None:
        with self._lock:
            if snapshot is not None:
                self._kept[name] = snapshot
            if len(self._kept) > self._limit:
                self._kept.popitem(last=False)


def _opened(location: str, name: str) -> DeltaTable:
    with _explained(name):
        for _ in range(READING_ATTEMPTS - 1):
            try:
                return DeltaTable(location)
            except TableNotFoundError:
                raise
            except (DeltaError, OSError):
                continue
        return DeltaTable(location)


@contextmanager
def _explained(name: str) -> Iterator[None]:
    try:
        yield
    except TableNotFoundError:
        raise KeyError(name) from None
    except (DeltaError, OSError, ValueError) as error:
        raise GatewayError(f"the log of the table {name!r} cannot be read: {error}") from error


def version_path(folder: str, version: int) -> str:
    return f"{folder}/{LOG}/{version:020}.json"


def checkpoint_paths(folder: str, version: int) -> tuple[str, str]:
    """Return the path of a checkpoint, and of the file that names it."""
    return f"{folder}/{LOG}/{version:020}.checkpoint.parquet", f"{folder}/{LOG}/_last_checkpoint"


def entry(operation: str, parameters: Mapping[str, Any], actions: Iterable[Action], *, appends: bool) -> bytes:
    """Return the content of a version's file."""
    info = {
        "timestamp": _now(),
        "operation": operation,
        "operationParameters": dict(parameters),
        "engineInfo": _ENGINE,
        "isBlindAppend": appends,
    }
    lines = [{"commitInfo": info}, *actions]
    return "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines).encode()


def protocol() -> Action:
    return {"protocol": delta_schema.PROTOCOL}


def retained(name: str, known: Snapshot, received_from: int) -> Action | None:
    """Return the metadata action that notes that rows received before a time (µs) are removed; None when the newest
    version says so."""
    return metadata(
        name, known.schema(), known, {_RETAINED: str(max(received_from, known.retained_from() or received_from))}
    )


def committed_by(application: str, known: Snapshot | None) -> dict[str, str]:
    """Return what the metadata note of applications when one commits a transaction: Delta's log cannot list them."""
    return {_APPLICATIONS: json.dumps(sorted({application, *(() if known is None else known.applications())}))}


def metadata(
    name: str, schema: pa.Schema, known: Snapshot | None, noted: Mapping[str, str] = MappingProxyType({})
) -> Action | None:
    """Return the table's metadata action, with what is `noted`; None when the newest version has the same metadata."""
    stored = {key.decode(): value.decode() for key, value in (schema.metadata or {}).items()}
    ours = {_METADATA: json.dumps(stored, ensure_ascii=False, sort_keys=True)} if stored else {}
    ours |= noted
    fields = delta_schema.delta_schema(schema)
    before = None if known is None else known.delta.metadata()
    configuration = _CONFIGURATION | ours if before is None else {**before.configuration, **ours}
    description = stored.get(_LABEL) or (None if before is None else before.description)
    if known is not None and before is not None:
        written = known.delta_schema()
        types = {field["name"]: field["type"] for field in fields["fields"]}
        for field in written["fields"]:
            if types.get(field["name"]) != field["type"]:
                column = f"the column {field['name']!r} ({field['type']}) of table {name!r}"
                raise GatewayError(f"{column} cannot be removed or change its type")
        if (fields, configuration, description) == (written, before.configuration, before.description):
            return None
    return {
        "metaData": {
            "id": str(uuid4()) if before is None else str(before.id),
            "name": name,
            **({"description": description} if description else {}),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps(fields, ensure_ascii=False),
            "partitionColumns": [],
            "configuration": configuration,
            "createdTime": _now() if before is None else before.created_time,
        }
    }


def added(files: Iterable[TableFile], known: Snapshot | None) -> Iterator[Action]:
    """Yield the actions that add files with new rows to the version behind a known one.

    Actions have no order, so the files' times tell it. Each is later by a millisecond than the one before, and than
    all in the table, also where the clock was set back.
    """
    first = _now() if known is None else max(_now(), known.last_time() + 1)
    for at, file in enumerate(files, first):
        yield _add(file, at, is_new=True)


def moved(file: TableFile, last: ActiveFile) -> Action:
    """Return the action that adds a file with the rows of other files, `last` being the last of them. It takes the
    place of that one."""
    return _add(file, last.modified_at, is_new=False)


def _add(file: TableFile, modified_at: int, *, is_new: bool) -> Action:
    return {
        "add": {
            "path": quote(file.path),
            "partitionValues": {},
            "size": file.size,
            "modificationTime": modified_at,
            "dataChange": is_new,
            "stats": file.statistics,
        }
    }


def removed(file: ActiveFile, *, is_change: bool) -> Action:
    return {
        "remove": {
            "path": quote(file.path),
            "deletionTimestamp": _now(),
            "dataChange": is_change,
            "extendedFileMetadata": True,
            "partitionValues": {},
            "size": file.size,
        }
    }


def transaction(application: str, number: int) -> Action:
    return {"txn": {"appId": application, "version": number, "lastUpdated": _now()}}


def transactions(entry: bytes) -> set[tuple[str, int]]:
    """Return the applications and the numbers of the transactions in a version's file."""
    actions = (json.loads(line).get("txn") for line in entry.splitlines())
    return {(action["appId"], action["version"]) for action in actions if action}


def _now() -> int:
    """Return the time in milliseconds, Delta's unit."""
    return time.time_ns() // 1_000_000
