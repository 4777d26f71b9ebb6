from datetime import UTC, datetime
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from app.tables.write import FORMATS, OutputOptions, outgoing
from tests.support.tables import parquet

CREATED = datetime(2026, 11, 21, 8, 30, tzinfo=UTC)


def made(table: pa.Table, name: str, rows_a_group: int = 2, **options: Any) -> bytes:
    """A table in a format, under options, from the Parquet file that is stored of it."""
    known = FORMATS[name]
    chosen = known.settled(OutputOptions(**options))
    file = pq.ParquetFile(BytesIO(parquet(table, rows_a_group)))
    return b"".join(known.write(outgoing(file, chosen, known, CREATED), chosen))
