"""Observations -> Arrow record batches, a column at a time."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from app.codecs.sas.dataset import DataSetDefinition, Variable
from app.dataset import numeric, text
from app.dataset.numeric import ByteOrder, FloatFormat
from app.dataset.schema import arrow_schema
from app.model.errors import TheirError

BATCH_BYTES = 8 << 20
"""No batch holds more observation bytes than this, however many rows were asked for (one row at least)."""


def batches(
    definition: DataSetDefinition,
    variables: Sequence[Variable],
    blocks: Iterable[bytes | bytearray | memoryview],
    *,
    order: ByteOrder,
    float_format: FloatFormat = "ieee",
    charset: str = "utf-8",
    schema: pa.Schema | None = None,
    rows_a_batch: int = 16_384,
) -> Iterator[pa.RecordBatch]:
    """Reads a data set's observations from pieces of any size, which need not end where a row ends.

    Variables lie in the order of their definition, without gaps; what an observation has beyond them is padding.
    Missing numerics become null, characters lose their trailing blanks. `charset` is a Python codec's name. `schema`
    is what `arrow_schema` gave for the same variables, where the caller has it with more metadata.

    Raises TheirError when the bytes are not whole rows or not as many as the definition says (a negative number of
    observations says nothing).
    """
    schema = schema or arrow_schema(definition, variables, charset=charset, float_format=float_format)
    length = definition.obs_length
    rows = 0
    for block in _whole_rows(blocks, length, max(1, min(rows_a_batch, BATCH_BYTES // max(length, 1)))):
        cells = block.reshape(-1, length)
        rows += len(cells)
        yield pa.RecordBatch.from_arrays(_columns(cells, variables, order, float_format, charset), schema=schema)
    if length and 0 <= definition.observations != rows:
        why = f"the definition says {definition.observations} observations, and {rows} came"
        raise TheirError("observation-count", "number of observations", -1, why)


def _columns(
    cells: numeric.Bytes,
    variables: Sequence[Variable],
    order: ByteOrder,
    float_format: FloatFormat,
    charset: str,
) -> list[pa.Array]:
    columns = []
    at = 0
    for variable in variables:
        column = cells[:, at : at + variable.length]
        at += variable.length
        if variable.is_numeric:
            columns.append(numeric.to_arrow(numeric.decode(column, order, float_format)))
        else:
            columns.append(text.decode(column, charset))
    return columns


def _whole_rows(
    blocks: Iterable[bytes | bytearray | memoryview], length: int, rows_a_batch: int
) -> Iterator[numeric.Bytes]:
    """The blocks' bytes again, joined or cut to pieces of at most `rows_a_batch` whole rows."""
    wanted = length * rows_a_batch
    held: list[numeric.Bytes] = []
    size = total = 0
    for block in blocks:
        held.append(np.frombuffer(block, np.uint8))
        size += held[-1].size
        total += held[-1].size
        if size and not length:
            raise TheirError("observation-length", "observations", 0, "an observation has no bytes, yet some came")
        if length and size >= wanted:
            joined = np.concatenate(held)
            whole = size - size % length
            for at in range(0, whole, wanted):
                yield joined[at : min(at + wanted, whole)]
            held, size = [joined[whole:]], size - whole
    if length and size % length:
        why = f"the last row has {size % length} of {length} bytes"
        raise TheirError("observation-torn", "observations", total - size % length, why)
    if size:
        yield np.concatenate(held)
