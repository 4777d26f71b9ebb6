"""The table store: tables of many files, with versions."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset  # takes a quarter of a second to load


FILES_BY_SOURCE = 16
"""The number of neighbouring files of a table, in the order of reception, that are divided among sources.

A query of one source reads about one of so many files. A query of a time reads at most so many files more than if no
file was divided, and at most one more for each source.
"""


class TableFile(NamedTuple):
    """A file of rows that becomes part of a table when it is committed. `path` is within the table, `size` in bytes;
    `statistics` are in the table format's JSON."""

    path: str
    size: int
    rows: int
    statistics: str


class TableVersion(NamedTuple):
    """The newest version of a table. `version` grows by one with every commit; `size` in bytes, `modified_at` in µs."""

    name: str
    version: int
    rows: int
    files: int
    size: int
    modified_at: int


class OpenTable(NamedTuple):
    """One version of a table: its columns with their metadata, and its rows."""

    version: TableVersion
    schema: pa.Schema
    dataset: "Dataset"


class CheckedTableFile(NamedTuple):
    """A file of a table that was read to its end: its path within the table, the number of its rows in the table's log,
    and how it differs from what was written; None if it does not."""

    path: str
    rows: int
    damage: str | None


class TableStore(Protocol):
    """Tables by name, in a folder or an object store. Each version of a table becomes visible as a whole.

    A name is any text; the store derives a safe path from it. Whatever reads rows raises DamagedError for a file that
    is not as it was written, and gives no row of the damaged part.
    """

    def names(self) -> list[str]:
        """Return the names of all tables."""

    def schema(self, name: str) -> pa.Schema:
        """Return the columns with their metadata as committed. Raises KeyError if there is no such table."""

    def describe(self, name: str) -> TableVersion:
        """Return the newest version of a table. Raises KeyError if there is no such table."""

    def reached(self, name: str, application: str) -> int | None:
        """Return the transaction number that `application` last committed to a table; None if it committed none, or
        if there is no such table."""

    def version_with(self, name: str, application: str, transaction: int) -> int | None:
        """Return the version that a transaction of `application` has made; None if there is none, or if the log no
        longer has it."""

    def applications(self, name: str) -> list[str]:
        """Return the applications that have committed transactions to a table; [] if there is no such table."""

    def write(self, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> TableFile:
        """Write a file that readers see only after it is committed. May be called in any process."""

    def commit(
        self, name: str, schema: pa.Schema, files: Sequence[TableFile], application: str, transaction: int
    ) -> int | None:
        """Add files to a table; create it if necessary, and widen it to `schema`, which has all its columns. Return the
        new version.

        Return None and do nothing if `application` has reached this transaction before.
        """

    def replace(self, name: str, schema: pa.Schema, files: Sequence[TableFile], gone: pc.Expression) -> int:
        """Remove the rows for which `gone` is true and add files, in one version; create or widen the table as `commit`
        does. Return the new version.

        A call that is repeated with the same rows changes nothing but the version. The transactions of applications
        stay as they are.
        """

    def rows(self, name: str, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Return the rows of the newest version. Raises KeyError if there is no such table or column."""

    def verify(self, name: str) -> Iterator[CheckedTableFile]:
        """Read each file of the newest version to its end. Raises KeyError if there is no such table."""

    def open(self, name: str, excluding: Collection[str] | None = None) -> OpenTable:
        """Return the newest version for scanning, with the columns and filters that a reader pushes down.

        A filter excludes files by what is known of the columns `excluding`, of all columns if that is None. The dataset
        stays at its version until that is vacuumed. Types that the table format lacks come as it stores
        them: times of day and durations as int64, in microseconds. Raises KeyError if there is no such table.
        """

    def location(self, name: str) -> str:
        """Return where a table lies, for programs that read the table format themselves. Raises KeyError if there is no
        such table."""

    def compact(self, name: str, most: int | None = None) -> int:
        """Join small files, and divide neighbouring large ones among the values of the column `source`; return how many
        were replaced. With `most`, join or divide at most so many groups: a further call continues."""

    def retain(self, name: str, received_from: int) -> int:
        """Remove rows received before a time (µs); return how many. The table remembers the time if there were any."""

    def retained_from(self, name: str) -> int | None:
        """Return the latest time (µs) before which `retain` has removed rows; None if it has removed none. Raises
        KeyError if there is no such table."""

    def vacuum(self, name: str, older_than: float) -> int:
        """Delete files that no version of the last `older_than` seconds uses; return how many.

        A table remembers for a week that a file was replaced. So files are kept for a week at most, also with a longer
        time.
        """

    def shorten_log(self, name: str) -> None:
        """Remove what the log has of versions that are older than the table's time for that. The rows, the transactions
        of applications and what `retain` noted stay as they are. Raises KeyError if there is no such table."""


class TableStorePlugin(Protocol):
    """The object that an entry point of the group `attachment_gateway.table_stores` refers to."""

    def __call__(self, url: str | Path, /) -> TableStore:
        """Open the tables in a folder or at a URL."""


class IcebergTables(Protocol):
    """The tables of a store as Iceberg tables, for readers. Their metadata follow the newest version."""

    def load(self, name: str) -> tuple[str, dict[str, Any]]:
        """Return where a table's metadata file lies, and its content. Raises KeyError if there is no such table."""


class IcebergPlugin(Protocol):
    """The object that an entry point of the group `attachment_gateway.iceberg_catalogs` refers to."""

    def __call__(self, tables: str, folder: Path, /) -> IcebergTables:
        """Open the tables in a folder or at a URL. `folder` is for what this process keeps about them."""
