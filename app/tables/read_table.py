"""The table that results from reading a file."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pyarrow as pa


class TableToRead(NamedTuple):
    """A schema with `sas.*` metadata, and a function that yields its rows anew at each call."""

    schema: pa.Schema
    batches: Callable[[], Iterator[pa.RecordBatch]]
