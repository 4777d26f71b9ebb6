"""A `TableStore` of Delta tables."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import islice
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import structlog
from deltalake.exceptions import DeltaError

from adapters.delta_tables import delta_log, delta_schema, source_division, table_folders
from adapters.delta_tables.bounded_dataset import BoundedDataset
from adapters.delta_tables.checked_files import checked
from adapters.delta_tables.delta_log import ActiveFile, Snapshot, SnapshotCache
from adapters.delta_tables.row_files import ROW_GROUP_BYTES, writing
from adapters.delta_tables.table_storage import BucketStorage, LocalStorage, TableStorage
from app.model.errors import GatewayError
from app.ports import FILES_BY_SOURCE, CheckedTableFile, OpenTable, TableFile, TableVersion

ROWS_A_BATCH = 16_384
CELLS_A_BATCH = 4 << 20
"""The limit of cells in a batch: batches of wide tables have fewer rows."""
SMALL_FILE = 64 << 20
"""`compact` joins smaller files, to files of about twice this size."""
ATTEMPTS = 100
"""How often a commit is tried again after another process has committed first."""
CHECKPOINT_EVERY = 20
"""Versions between two checkpoints of the log, so that a reader reads few of its files."""
JOIN_EVERY = 32
"""Versions between two looks for small files at the end of a table, which are joined."""
KEPT_SNAPSHOTS = 1024
"""The number of tables whose newest version stays in memory between two commits."""
RECEIVED_AT = "received_at"
SOURCE = "source"

_REMOTE_SCHEMES = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "adl")


_log = structlog.stdlib.get_logger(__name__)


class DeltaTables:
    """Delta tables by name.

    A path or `file://` is a local folder, created with the first table. `s3://`, `gs://` and `az://` are buckets; their
    credentials come from the environment variables of the providers' own tools. Any number of processes may use one
    store.

    Raises ValueError for another URL. Methods raise GatewayError, or StoreFull when there is no space left.
    """

    def __init__(self, url: str | Path) -> None:
        self._storage = _storage(url)
        self._kept = SnapshotCache(KEPT_SNAPSHOTS)

    def names(self) -> list[str]:
        found: list[str] = []
        for folder in self._storage.folders():
            name = table_folders.name(folder)
            if table_folders.is_cut(folder):
                with suppress(KeyError, GatewayError):  # then its name is unknown
                    name = Snapshot(self._storage.location(folder), folder).name
            if name is not None and table_folders.folder(name) == folder:
                found.append(name)
        return sorted(found)

    def schema(self, name: str) -> pa.Schema:
        known = self._newest(name)
        if known is None:
            raise KeyError(name)
        schema = known.schema()
        self._kept.put(name, known)
        return schema

    def describe(self, name: str) -> TableVersion:
        version, _ = _described(name, self._snapshot(name))
        return version

    def reached(self, name: str, application: str) -> int | None:
        known = self._newest(name)
        reached = None if known is None else self._reached(name, known, application)
        self._kept.put(name, known)
        return reached

    def version_with(self, name: str, application: str, transaction: int) -> int | None:
        folder, known = table_folders.folder(name), self._newest(name)
        newest = -1 if known is None else known.version
        self._kept.put(name, known)
        for version in range(newest, -1, -1):
            path = delta_log.version_path(folder, version)
            if not self._storage.has(path):
                return None
            with self._storage.open(path) as file:
                if (application, transaction) in delta_log.transactions(file.read()):
                    return version
        return None

    def applications(self, name: str) -> list[str]:
        known = self._newest(name)
        noted = [] if known is None else known.applications()
        self._kept.put(name, known)
        return noted

    def location(self, name: str) -> str:
        self._snapshot(name)
        return self._storage.location(table_folders.folder(name))

    def write(self, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> TableFile:
        with writing(self._storage, table_folders.folder(name), schema) as written:
            for batch in batches:
                written.rows.add(batch)
        return written.file

    def commit(
        self, name: str, schema: pa.Schema, files: Sequence[TableFile], application: str, transaction: int
    ) -> int | None:
        for _ in range(ATTEMPTS):
            known = self._newest(name)
            reached = None if known is None else self._reached(name, known, application)
            if reached is not None and reached >= transaction:
                return None
            described = delta_log.metadata(name, schema, known, delta_log.committed_by(application, known))
            actions = [
                *([delta_log.protocol()] if known is None else []),
                *([described] if described is not None else []),
                delta_log.transaction(application, transaction),
                *delta_log.added(files, known),
            ]
            data = delta_log.entry("WRITE", {"mode": "Append", "partitionBy": "[]"}, actions, appends=True)
            if (version := self._put(name, known, data)) is not None:
                if version and version % JOIN_EVERY == 0:
                    self._join_last(name)
                self._kept.put(name, known)
                return version
        raise _busy(name)

    def replace(self, name: str, schema: pa.Schema, files: Sequence[TableFile], gone: pc.Expression) -> int:
        stays = ~pc.coalesce(gone, pc.scalar(False))
        for _ in range(ATTEMPTS):
            known = self._newest(name)
            went, kept = ([], []) if known is None else self._without(name, known, stays)
            described = delta_log.metadata(name, schema, known)
            actions = [
                *([delta_log.protocol()] if known is None else []),
                *([described] if described is not None else []),
                *(delta_log.removed(file, is_change=True) for file in went),
                *delta_log.added([file for file in (*kept, *files) if file.rows], known),
            ]
            if (version := self._put(name, known, delta_log.entry("MERGE", {}, actions, appends=False))) is not None:
                self._kept.put(name, known)
                return version
        raise _busy(name)

    def _without(self, name: str, known: Snapshot, stays: pc.Expression) -> tuple[list[ActiveFile], list[TableFile]]:
        """Return the files of a version with rows that do not stay, and new files with the others of their rows."""
        schema = known.schema()
        went, kept = [], []
        for file in known.files():
            rows = pa.Table.from_batches(self._read(name, schema, [file]), schema).filter(stays)
            if rows.num_rows < file.rows:
                went.append(file)
                kept.append(self.write(name, schema, rows.to_batches()))
        return went, kept

    def rows(self, name: str, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        snapshot = self._snapshot(name)
        schema = snapshot.schema()
        if columns is not None:
            if missing := [column for column in columns if schema.get_field_index(column) < 0]:
                raise KeyError(f"{name}: {missing[0]}")
            schema = pa.schema([schema.field(column) for column in columns], schema.metadata)
        return self._read(name, schema, snapshot.files())

    def verify(self, name: str) -> Iterator[CheckedTableFile]:
        snapshot = self._snapshot(name)
        schema, files = snapshot.schema(), snapshot.files()
        for file in files:
            rows, damage = 0, None
            try:
                for batch in self._read(name, schema, [file]):
                    rows += batch.num_rows
                if rows != file.rows:
                    damage = f"{file.path}: {rows:,} rows are there, {file.rows:,} expected"
            except Exception as error:  # noqa: BLE001 - of whichever library meets the damage
                damage = str(error).partition("\n")[0]
                damage = damage if file.path in damage else f"{file.path}: {damage}"
            if damage is not None and file.path not in {each.path for each in self._snapshot(name).files()}:
                damage = None  # it was replaced meanwhile, and perhaps deleted
            yield CheckedTableFile(file.path, file.rows, damage)

    def open(self, name: str, excluding: Collection[str] | None = None) -> OpenTable:
        """Return the newest version, with its files in the order in which they were added."""
        known = self._snapshot(name)
        version, files = _described(name, known)
        location = self._storage.location(table_folders.folder(name))
        dataset = BoundedDataset.of(location, known.stored_schema(), files, known.bounds(excluding))
        return OpenTable(version, known.schema(), dataset)

    def compact(self, name: str, most: int | None = None) -> int:
        joined = self._join_small(name, most)
        return joined if joined and most is not None else joined + self._divide_large(name, most)

    def _join_small(self, name: str, most: int | None) -> int:
        for _ in range(ATTEMPTS):
            snapshot = self._snapshot(name)
            schema = snapshot.schema()
            small = [file for file in snapshot.files() if file.size < SMALL_FILE]
            joined = list(islice(neighbours(small, 2 * SMALL_FILE), most))
            if not joined:
                return 0
            if self._join(name, schema, joined):
                return sum(map(len, joined))
        raise _busy(name)

    def _divide_large(self, name: str, most: int | None) -> int:
        """Divide files that are not small among sources, at most `most` windows of them. Return how many were replaced.
        A later call goes on where another process has replaced one of the files meanwhile."""
        snapshot = self._snapshot(name)
        schema = snapshot.schema()
        if SOURCE not in schema.names or schema.field(SOURCE).type != pa.string():
            return 0
        large = [file for file in snapshot.files() if file.size >= SMALL_FILE]
        divided = (self._divide(name, schema, window) for window in source_division.windows(large, FILES_BY_SOURCE))
        return sum(islice(filter(None, divided), most))

    def _divide(self, name: str, schema: pa.Schema, files: Sequence[ActiveFile]) -> int:
        """Replace neighbouring files by others with fewer sources each. Return their number, 0 if they stay."""
        most = max(1, min(len(files), sum(file.size for file in files) // (2 * SMALL_FILE)))
        places = source_division.division([self._sources(name, schema, file) for file in files], most)
        if not places:
            return 0
        numbers = range(1 + max(number for place in places for number in place.values()))
        with ExitStack() as stack:
            folder, group_bytes = table_folders.folder(name), ROW_GROUP_BYTES // 2
            opened = [stack.enter_context(writing(self._storage, folder, schema, group_bytes)) for _ in numbers]
            for file, place in zip(files, places, strict=True):
                sources, goes_to = pa.array([*place], pa.string()), pa.array([*place.values()], pa.int64())
                for batch in self._read(name, schema, [file]):
                    goes = goes_to.take(pc.index_in(batch.column(SOURCE), sources))
                    for number in pc.unique(goes).to_pylist():
                        opened[number].rows.add(batch.filter(pc.equal(goes, number)))
        actions = [
            *(delta_log.removed(file, is_change=False) for file in files),
            *(delta_log.moved(each.file, files[at - len(opened)]) for at, each in enumerate(opened)),
        ]
        return len(files) if self._replaced(name, files, "OPTIMIZE", actions) else 0

    def _sources(self, name: str, schema: pa.Schema, file: ActiveFile) -> dict[str | None, int]:
        """Return the number of rows of each source in a file."""
        found: Counter[str | None] = Counter()
        for batch in self._read(name, pa.schema([schema.field(SOURCE)]), [file]):
            for each in pc.value_counts(batch.column(SOURCE)).to_pylist():
                found[each["values"]] += each["counts"]
        return found

    def _join(self, name: str, schema: pa.Schema, joined: Sequence[Sequence[ActiveFile]]) -> bool:
        """Replace each of these groups of files by one file in its place. Return False when another process has
        replaced one of them before."""
        went = [file for files in joined for file in files]
        written = [self.write(name, schema, self._read(name, schema, files)) for files in joined]
        actions = [
            *(delta_log.removed(file, is_change=False) for file in went),
            *(delta_log.moved(file, files[-1]) for file, files in zip(written, joined, strict=True)),
        ]
        return self._replaced(name, went, "OPTIMIZE", actions)

    def _join_last(self, name: str) -> None:
        """Join the small files at the end of a table. A later call tries again if another process is at it too, or if
        it fails: the table is whole without it."""
        try:
            snapshot = self._snapshot(name)
            if len(last := last_files(snapshot.files(), SMALL_FILE)) > 1:
                self._join(name, snapshot.schema(), [last])
        except (GatewayError, KeyError) as error:
            _log.warning("files_not_joined", table=name, reason=str(error))

    def retain(self, name: str, received_from: int) -> int:
        """Remove rows received before a time (µs) and return their number. A table without the column `received_at`
        keeps all."""
        for _ in range(ATTEMPTS):
            snapshot = self._snapshot(name)
            schema = snapshot.schema()
            if RECEIVED_AT not in schema.names:
                return 0
            went = [
                file for file in snapshot.files() if file.least_received is None or file.least_received < received_from
            ]
            kept = [
                self.write(name, schema, _received_from(self._read(name, schema, [file]), received_from))
                for file in went
            ]
            if not went:
                return 0
            actions = [
                *(delta_log.removed(file, is_change=True) for file in went),
                *delta_log.added([file for file in kept if file.rows], snapshot),
            ]
            if self._replaced(name, went, "DELETE", actions, received_from):
                return sum(file.rows for file in went) - sum(file.rows for file in kept)
        raise _busy(name)

    def vacuum(self, name: str, older_than: float) -> int:
        """Delete files that no version of the last `older_than` seconds has, rounded up to hours. Return their number.

        A file that a process has written and not yet committed is deleted too. So `older_than` must be longer than any
        transaction takes, or no process may be writing.
        """
        snapshot = self._snapshot(name)
        folder = table_folders.folder(name)
        try:  # dry run: deltalake's own vacuum writes its deletions to the log, and does not flush it to disk
            gone = snapshot.delta.vacuum(
                math.ceil(older_than / 3600), dry_run=True, enforce_retention_duration=False, full=True
            )
        except (DeltaError, OSError) as error:
            raise GatewayError(f"the table {name!r} cannot be vacuumed: {error}") from error
        there = sorted({*gone} & {*self._storage.files(folder)})
        for path in there:
            self._storage.delete(f"{folder}/{path}")
        self._storage.sweep(folder, older_than)
        return len(there)

    def shorten_log(self, name: str) -> None:
        known = self._snapshot(name)
        try:
            self._shorten(name, known)
        except (DeltaError, OSError) as error:
            raise GatewayError(f"the log of the table {name!r} cannot be shortened: {error}") from error

    def _shorten(self, name: str, known: Snapshot) -> None:
        """Write a checkpoint of a version. When it is on disk, delete what it replaces and is old enough."""
        paths = delta_log.checkpoint_paths(table_folders.folder(name), known.version)
        if not self._storage.has(paths[0]):
            known.delta.create_checkpoint()
        self._storage.flush(paths)
        known.delta.cleanup_metadata()

    def _newest(self, name: str) -> Snapshot | None:
        """Return the newest version; None if there is no such table.

        One that was kept reads only the versions after it. It is kept again by the caller, so that no two threads use
        the same one.
        """
        kept = self._kept.take(name)
        with suppress(GatewayError, KeyError):
            if kept is not None and self._storage.has(delta_log.version_path(table_folders.folder(name), kept.version)):
                kept.update()
                return kept
        with suppress(KeyError):
            return self._snapshot(name)
        return None

    def _snapshot(self, name: str) -> Snapshot:
        folder = table_folders.folder(name)
        if not self._storage.may_have_log(folder):  # opening takes ten times as long, also of a missing table
            raise KeyError(name)
        return Snapshot(self._storage.location(folder), name)

    def _reached(self, name: str, known: Snapshot, application: str) -> int | None:
        """Return the last transaction. Flush its version first: its writer may have been killed before it was on
        disk."""
        reached = known.reached(application)
        if reached is not None:
            self._storage.flush([delta_log.version_path(table_folders.folder(name), known.version)])
        return reached

    def retained_from(self, name: str) -> int | None:
        return self._snapshot(name).retained_from()

    def _replaced(
        self,
        name: str,
        went: Sequence[ActiveFile],
        operation: str,
        actions: Sequence[delta_log.Action],
        received_from: int | None = None,
    ) -> bool:
        """Replace files in a new version, which notes `received_from` if it is given. Return False when another process
        has replaced one of them before."""
        for _ in range(ATTEMPTS):
            snapshot = self._snapshot(name)
            if not {file.path for file in went} <= {file.path for file in snapshot.files()}:
                return False
            noted = None if received_from is None else delta_log.retained(name, snapshot, received_from)
            all_actions = [*([] if noted is None else [noted]), *actions]
            if self._put(name, snapshot, delta_log.entry(operation, {}, all_actions, appends=False)) is not None:
                return True
        raise _busy(name)

    def _put(self, name: str, known: Snapshot | None, entry: bytes) -> int | None:
        """Write the version after the known one, and return it. Return None when another process has written it
        first."""
        version = 0 if known is None else known.version + 1
        if known is not None and version % CHECKPOINT_EVERY == 0:
            with suppress(
                DeltaError, OSError, GatewayError
            ):  # another process may be at it, and a version does not need it
                self._shorten(name, known)
        is_ours = self._storage.put_new(delta_log.version_path(table_folders.folder(name), version), entry)
        return version if is_ours else None

    def _read(self, name: str, schema: pa.Schema, files: Sequence[ActiveFile]) -> Iterator[pa.RecordBatch]:
        rows_a_batch = max(1, min(ROWS_A_BATCH, CELLS_A_BATCH // max(1, len(schema))))
        for file in files:
            path = f"{table_folders.folder(name)}/{file.path}"
            with self._storage.open(path) as source:
                # Spark writes timestamps as INT96, which in nanoseconds would wrap around outside of 1677 to 2262.
                parquet = pq.ParquetFile(
                    checked(source, path), coerce_int96_timestamp_unit="us", page_checksum_verification=True
                )
                there = set(parquet.schema_arrow.names)
                wanted = [column for column in schema.names if column in there]
                for group in range(
                    parquet.num_row_groups
                ):  # otherwise a batch of long rows would hold any number of groups
                    for batch in parquet.iter_batches(rows_a_batch, [group], wanted):
                        yield delta_schema.with_types(batch, schema)


def _described(name: str, known: Snapshot) -> tuple[TableVersion, list[ActiveFile]]:
    modified, files = known.modified_at(), known.files()  # the time may switch to a newer version
    rows, size = sum(file.rows for file in files), sum(file.size for file in files)
    return TableVersion(name, known.version, rows, len(files), size, modified), files


def _storage(url: str | Path) -> TableStorage:
    parts = urlsplit(str(url))
    if isinstance(url, Path) or "://" not in url:
        return LocalStorage(Path(url))
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return LocalStorage(Path(unquote(parts.path)))
    if parts.scheme in _REMOTE_SCHEMES:
        return BucketStorage(url)
    raise ValueError(f"unknown table store URL {url}; give a path, or a URL with file, s3, gs or az")


def _received_from(batches: Iterable[pa.RecordBatch], time: int) -> Iterator[pa.RecordBatch]:
    bound = pa.scalar(time, pa.timestamp("us", "UTC"))
    for batch in batches:
        yield batch.filter(pc.fill_null(pc.greater_equal(batch.column(RECEIVED_AT), bound), fill_value=True))


def _busy(name: str) -> GatewayError:
    return GatewayError(f"other processes changed the table {name!r} during {ATTEMPTS} attempts; try again later")


def neighbours(files: Sequence[ActiveFile], size: int) -> Iterator[list[ActiveFile]]:
    """Yield groups of neighbouring files of at least `size` bytes together; the last group may be smaller."""
    gathered: list[ActiveFile] = []
    for file in files:
        gathered.append(file)
        if sum(each.size for each in gathered) >= size:
            yield gathered
            gathered = []
    if len(gathered) > 1:
        yield gathered


def last_files(files: Sequence[ActiveFile], small: int) -> list[ActiveFile]:
    """Return the files at the end of a table to be joined to one. All are smaller than `small` bytes.

    Each has at most as many rows as the files after it together, and the last one always belongs to them. So a table to
    which small files are added one by one has few files, their number grows with the logarithm of its rows, and a row
    is written as often as that at most.
    """
    found: list[ActiveFile] = []
    rows = 0
    for file in reversed(files):
        if file.size >= small or (found and file.rows > rows):
            break
        found.append(file)
        rows += file.rows
    return found[::-1]
