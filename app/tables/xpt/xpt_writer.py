"""Write tables as transport files."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

import pyarrow as pa

from app.codecs.sas.data_set_messages import Variable
from app.dataset import encode
from app.model.errors import GatewayError
from app.tables.xpt import xpt_charsets
from app.tables.xpt.head_writer import head
from app.tables.xpt.header_records import Version
from app.tables.xpt.xpt_layouts import RECORD
from app.tables.xpt.xpt_limits import fit

EPOCH: Final = datetime(1960, 1, 1)
"""The epoch of SAS."""

SHORTEST_NUMERIC: Final = 3
"""The shortest numeric of version 5, which every reader accepts."""


def write(
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    version: Version,
    *,
    rows: int | None = None,
    created: datetime = EPOCH,
    charset: str | None = None,
    rename: bool = False,
    lengths: Mapping[str, int] | None = None,
) -> Iterator[bytes | memoryview]:
    """Yield a transport file with one data set, in pieces of at most 1 MiB (at least one row).

    `rows` is the number of rows, if known: version 8 states it. `created` is the creation time in the file; the same
    table and time give the same bytes. `charset` is a Python codec's name, by default the data set's own if it contains
    ASCII, else UTF-8. `rename` changes items that the version cannot hold, as `app.tables.xpt.xpt_limits.fit` does,
    which also returns the changes. `lengths` are the bytes that the longest value of a text column needs
    (`app.dataset.encode.character_lengths`); a column without `sas.length` must have one there.

    Version 5 cannot distinguish rows at its end from padding if they have only blank character values and lie in the
    last 80 bytes: SAS and every other program read such a file without them. Version 8 keeps them if `rows` is given.

    Raises MisfitError, before anything is written, for items that the version cannot hold. Raises InvalidInputError,
    naming column and row, for a value that its variable or the character set cannot hold.
    """
    charset = xpt_charsets.checked(charset or xpt_charsets.own(schema))
    fitted, _ = fit(schema, version, charset=charset, rename=rename, lengths=lengths)
    definition, described = encode.describe(
        fitted, charset=charset, observations=-1, character_lengths=lengths, float_format="ibm"
    )
    variables = [_variable(variable) for variable in described]
    member = (fitted.metadata or {})[b"sas.member"].decode()
    start = head(version, member, definition, variables, charset=charset, created=created, rows=rows)
    observations = encode.rows(batches, variables, order="big", charset=charset, float_format="ibm")
    return _pieces(start, observations, sum(variable.length for variable in variables), rows)


def _pieces(
    start: bytes, observations: Iterable[memoryview], length: int, rows: int | None
) -> Iterator[bytes | memoryview]:
    yield start
    size = 0
    for block in observations:
        size += len(block)
        yield block
    if rows is not None and rows * length != size:
        raise GatewayError(f"expected {rows} rows of {length} bytes, found {size} bytes")
    if size % RECORD:
        yield b" " * (RECORD - size % RECORD)


def _variable(variable: Variable) -> Variable:
    """Return the variable as transport files describe it: character formats begin with `$`."""
    if variable.is_numeric:
        return replace(variable, length=max(SHORTEST_NUMERIC, variable.length))
    return replace(variable, format=_dollar(variable.format), informat=_dollar(variable.informat))


def _dollar(name: str) -> str:
    return f"${name}" if name and not name.startswith("$") else name
