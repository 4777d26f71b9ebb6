"""A version of a table for scanning, of which a filter excludes files by their statistics.

deltalake's own dataset makes the bounds of all columns of all files when it is opened: seconds for 10,000 files. This
one makes the bounds of the columns that a filter names, when a scan begins.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import reduce
from operator import and_
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
from deltalake.fs import DeltaStorageHandler
from pyarrow.dataset import (
    FileSystemDataset,
    Fragment,
    ParquetFileFormat,
    ParquetFragmentScanOptions,
    ParquetReadOptions,
    Scanner,
)

from adapters.delta_tables.checked_files import checked
from adapters.delta_tables.delta_log import ActiveFile, ColumnBounds


class CheckedStorageHandler(DeltaStorageHandler):
    """The files of a table, which are compared with their checksums while they are read."""

    def __init__(self, location: str, sizes: dict[str, int]) -> None:
        super().__init__(location, None, sizes)
        self._folder = location.rpartition("/")[2]

    def open_input_file(self, path: str) -> pa.PythonFile:
        return pa.PythonFile(checked(self._handler.open_input_file(path), f"{self._folder}/{path}"))


class BoundedDataset(FileSystemDataset):  # type: ignore[misc]
    """The files of a version in the order in which they were added, with the bounds of some columns."""

    @classmethod
    def of(
        cls, location: str, schema: pa.Schema, files: Sequence[ActiveFile], bounds: Mapping[str, ColumnBounds]
    ) -> Self:
        """Return the dataset of a table at this location, whose files have these columns."""
        handler = CheckedStorageHandler(location, {file.path: file.size for file in files})
        source = pyarrow.fs.PyFileSystem(handler)
        known = ParquetFileFormat(
            # Spark writes timestamps as INT96, which in nanoseconds would wrap around outside of 1677 to 2262.
            read_options=ParquetReadOptions(coerce_int96_timestamp_unit="us"),
            default_fragment_scan_options=ParquetFragmentScanOptions(pre_buffer=True, page_checksum_verification=True),
        )
        made = cls([known.make_fragment(file.path, source) for file in files], schema, known, source)
        made._paths = [file.path for file in files]
        made._rows = [file.rows for file in files]
        made._bounds = bounds
        return made

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[Fragment]:  # noqa: A002 - pyarrow's name
        """Return the files that a filter does not exclude."""
        if filter is None:
            return super().get_fragments()  # type: ignore[no-any-return]
        text = str(filter)
        named = [name for name in self._bounds if name in text]
        fragments = [
            self.format.make_fragment(path, self.filesystem, guarantee)
            for path, guarantee in zip(self._paths, self._guarantees(named), strict=True)
        ]
        meant = FileSystemDataset(fragments, self.schema, self.format, self.filesystem)
        return meant.get_fragments(filter)  # type: ignore[no-any-return]

    def scanner(self, **wanted: Any) -> Scanner:
        meant = list(self.get_fragments(wanted.get("filter")))
        return FileSystemDataset(meant, self.schema, self.format, self.filesystem).scanner(**wanted)

    def _guarantees(self, names: Collection[str]) -> Iterator[pc.Expression]:
        """Yield for each file what is true of all its rows, by the bounds of these columns."""
        columns = [
            (pc.field(name), bounds.least, bounds.greatest, bounds.nulls)
            for name, bounds in self._bounds.items()
            if name in names
        ]
        for at, rows in enumerate(self._rows):
            found: list[pc.Expression] = []
            for field, least, greatest, nulls in columns:
                count = nulls[at].as_py()
                if count == rows:
                    found.append(field.is_null())
                elif least[at].is_valid and greatest[at].is_valid:
                    limits = (field >= least[at], field <= greatest[at])
                    found += limits if count == 0 else [limit | field.is_null() for limit in limits]
            yield reduce(and_, found, pc.scalar(True))
