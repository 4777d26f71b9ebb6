"""However long a table is, little of it is in memory."""

import io
import tracemalloc
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.dataset import parquet
from app.tables.write import FORMATS, OutputOptions, TableFormat, outgoing
from app.tables.write.output_pieces import LARGEST_PIECE
from tests.support.tables import long
from tests.tables.out.making import CREATED

MOST = 16 << 20
"""The table has 35 MiB in Arrow and more as text."""


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stored") / "long.parquet"
    pq.write_table(long(), path, row_group_size=20_000)
    return path


@pytest.mark.parametrize("known", FORMATS.values(), ids=lambda known: known.name)
def test_memory_is_flat(stored: Path, known: TableFormat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "ROW_GROUP_BYTES", 4 << 20)
    options = known.settled(OutputOptions())
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        with pq.ParquetFile(stored) as file:
            arrow, largest = 0, 0
            for piece in known.write(outgoing(file, options, known, CREATED), options):
                arrow = max(arrow, pa.total_allocated_bytes() - before)
                largest = max(largest, len(piece))
        python = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert arrow + python < MOST
    assert largest <= LARGEST_PIECE


def test_rows_that_are_not_wanted_are_not_read(stored: Path) -> None:
    known = FORMATS["csv"]
    options = known.settled(OutputOptions(columns=("N",), offset=150_000, limit=2))
    with stored.open("rb") as file:
        watched = _Watched(file)
        with pq.ParquetFile(watched) as reading:
            written = b"".join(known.write(outgoing(reading, options, known, CREATED), options))
    assert written == b"N\r\n150000\r\n150001\r\n"
    assert watched.read_bytes < stored.stat().st_size / 10


class _Watched(io.RawIOBase):
    """A file, counting what is read of it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.read_bytes = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.read_bytes += len(data)
        return data
