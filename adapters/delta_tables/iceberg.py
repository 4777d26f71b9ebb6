"""Delta tables as Iceberg tables: Iceberg metadata that name the same Parquet files.

Nothing is copied, and Delta stays the truth. Each version of a Delta table becomes one snapshot, with the version in
its property `delta.version`. The metadata follow when a table is asked for. They can be deleted at any time: they are
then made again, from the versions that Delta's log still has.

Files have no field identifiers, so a table has a name mapping.

Source: Iceberg table specification, "Table Metadata", "Snapshots" and "Column Projection".
"""

import json
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyarrow as pa
import structlog
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io.pyarrow import parquet_files_to_data_files

from adapters.delta_tables import delta_schema, table_folders
from adapters.delta_tables.checked_files import checked
from adapters.delta_tables.delta_log import Snapshot
from adapters.delta_tables.delta_store import DeltaTables
from app.model.errors import GatewayError

if TYPE_CHECKING:
    from pyiceberg.table import Table

FOLDER = "_iceberg"
"""The folder of all metadata, in the folder of the tables; no table has this name."""
CATALOG = "iceberg.sqlite"
NAMESPACE = "tables"
VERSION = "delta.version"
TIMESTAMP = "delta.timestamp"
IDENTITY = "delta.id"
"""The property of a table that says which Delta table it is: a table that is created again has the same name and
another identifier."""
SNAPSHOTS = 100
"""The most snapshots of a table: its newest versions."""

_LABEL = b"sas.label"
_PROPERTIES = {
    "format-version": "2",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "10",
}

log = structlog.stdlib.get_logger(__name__)


class IcebergOverDelta:
    """The Delta tables at a URL as Iceberg tables. `folder` gets a small database that names the newest metadata. The
    lock guards `_catalog`.

    One process may use a folder; its threads may use this object at once: `_lock` guards `_catalog`. Methods raise
    GatewayError, and KeyError if there is no such table.
    """

    def __init__(self, tables: str, folder: Path) -> None:
        self._tables = DeltaTables(tables)
        self._metadata = f"{_uri(tables)}/{FOLDER}"
        folder.mkdir(parents=True, exist_ok=True)
        self._catalog = SqlCatalog(NAMESPACE, uri=f"sqlite:///{folder.absolute() / CATALOG}", warehouse=self._metadata)
        self._catalog.create_namespace_if_not_exists(NAMESPACE)
        self._lock = Lock()

    def load(self, name: str) -> tuple[str, dict[str, Any]]:
        """Return the place and the content of a table's metadata, at the newest version of the Delta table."""
        newest = self._newest(name)
        try:
            with self._lock:
                table = self._updated(name, newest)
        except (DeltaError, OSError, ValueError) as error:
            raise GatewayError(f"the table {name!r} cannot be offered to Iceberg: {error}") from error
        metadata: dict[str, Any] = json.loads(table.metadata.model_dump_json())
        return table.metadata_location, metadata

    def close(self) -> None:
        self._catalog.engine.dispose()

    def _newest(self, name: str) -> Snapshot:
        return Snapshot(self._tables.location(name), name)

    def _updated(self, name: str, newest: Snapshot) -> "Table":
        folder, location = table_folders.folder(name), self._tables.location(name)
        table, reached = self._found(folder)
        if reached > newest.version:  # another thread may have followed a version that was written meanwhile
            newest = self._newest(name)
        if table is not None and (reached > newest.version or not self._continues(table, reached, newest)):
            self._catalog.drop_table((NAMESPACE, folder))
            table, reached = None, -1
        for version in range(max(reached + 1, newest.version - SNAPSHOTS + 1), newest.version + 1):
            delta = newest.delta if version == newest.version else _at(location, version)
            if delta is None:
                continue
            if table is None:
                place = f"{self._metadata}/{folder}"
                properties = {**_PROPERTIES, IDENTITY: str(delta.metadata().id)}
                schema = _schema(delta)
                table = self._catalog.create_table((NAMESPACE, folder), schema, location=place, properties=properties)
            try:
                _add_snapshot(table, delta)
            except FileNotFoundError:
                if version == newest.version:
                    raise
                log.info("version_left_out", table=name, version=version, reason="vacuum has deleted files of it")
        assert table is not None
        return table

    def _continues(self, table: "Table", reached: int, newest: Snapshot) -> bool:
        """Tell whether the Iceberg table has been made of this Delta table, up to this version of it.

        A Delta table that is created again has another identifier. One that was restored from an older copy has other
        versions with the same numbers. They have other times, as far as the log still has them.
        """
        if table.properties.get(IDENTITY) != str(newest.delta.metadata().id):
            return False
        snapshot = table.current_snapshot()
        if snapshot is None or snapshot.summary is None:
            return True
        same = newest.delta if reached == newest.version else _at(self._tables.location(newest.name), reached)
        time = snapshot.summary.additional_properties.get(TIMESTAMP)
        return same is None or time == str(same.history(1)[0]["timestamp"])

    def _found(self, folder: str) -> tuple["Table | None", int]:
        """Return the Iceberg table, and the version that it has reached; -1 for none."""
        try:
            table = self._catalog.load_table((NAMESPACE, folder))
        except NoSuchTableError:
            return None, -1
        snapshot = table.current_snapshot()
        if snapshot is None or snapshot.summary is None:
            return table, -1
        return table, int(snapshot.summary.additional_properties.get(VERSION, "-1"))


def _add_snapshot(table: "Table", delta: DeltaTable) -> None:
    """Add a snapshot of this version to the table, and forget the oldest."""
    newest = table.current_snapshot()
    manifests = [] if newest is None else newest.manifests(table.io)
    entries = (entry for each in manifests for entry in each.fetch_manifest_entry(table.io, discard_deleted=True))
    there = {entry.data_file.file_path: entry.data_file for entry in entries}
    named = [_uri(place) for place in delta.file_uris()]
    gone = [entry for path, entry in there.items() if path not in set(named)]
    properties = {VERSION: str(delta.version()), TIMESTAMP: str(delta.history(1)[0]["timestamp"])}
    with table.transaction() as transaction:
        with transaction.update_schema() as update:
            update.union_by_name(_schema(delta))
        mapping = transaction.table_metadata.schema().name_mapping.model_dump_json()
        transaction.set_properties({"schema.name-mapping.default": mapping})
        snapshot = transaction.update_snapshot(snapshot_properties=dict(properties))
        new = [path for path in named if path not in there]
        for path in new:
            with table.io.new_input(path).open() as opened:
                checked(opened, path)  # the bounds of columns, by which readers leave files out, are of the footer
        files = parquet_files_to_data_files(transaction._table.io, transaction.table_metadata, iter(new))
        with snapshot.overwrite() if gone else snapshot.fast_append() as producer:
            for file in gone:
                producer.delete_data_file(file)
            for file in files:
                producer.append_data_file(file)
    known = sorted(table.metadata.snapshots, key=lambda snapshot: snapshot.sequence_number or 0)
    if oldest := [snapshot.snapshot_id for snapshot in known[:-SNAPSHOTS]]:
        table.maintenance.expire_snapshots().by_ids(oldest).commit()


def _at(location: str, version: int) -> DeltaTable | None:
    """Return a version of a Delta table; None if its log is deleted."""
    try:
        return DeltaTable(location, version=version)
    except DeltaError:
        return None


def _schema(delta: DeltaTable) -> pa.Schema:
    """Return the columns as they are in the files, with labels as Iceberg's documentation of columns."""
    schema = delta_schema.arrow_schema(json.loads(delta.schema().to_json()), {})
    fields = []
    for field in schema:
        label = (field.metadata or {}).get(_LABEL)
        metadata = {b"doc": label} if label else None
        fields.append(pa.field(field.name, delta_schema.stored_type(field.type), metadata=metadata))
    return pa.schema(fields)


def _uri(place: str) -> str:
    """Return the URI of a local path; any other place as it is."""
    return place.rstrip("/") if urlsplit(place).scheme else f"file://{Path(place).absolute()}"
