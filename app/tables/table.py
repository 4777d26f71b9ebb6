"""What reading a file gives."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pyarrow as pa


class Table(NamedTuple):
    """A schema with `sas.*` metadata, and its rows as often as they are asked for."""

    schema: pa.Schema
    batches: Callable[[], Iterator[pa.RecordBatch]]
