"""Tables -> transport files."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

import pyarrow as pa

from app.codecs.sas.dataset import Variable
from app.dataset import encode
from app.model.errors import OurError
from app.tables.xpt import charsets
from app.tables.xpt.head import head
from app.tables.xpt.layouts import RECORD
from app.tables.xpt.limits import fit
from app.tables.xpt.parts import Version

EPOCH: Final = datetime(1960, 1, 1)
"""SAS's own beginning of time."""

SHORTEST_NUMERIC: Final = 3
"""The shortest numeric that version 5 has, and that every reader takes."""


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
    """A transport file with one data set, in pieces of at most 1 MiB (one row at least).

    `rows` is the number of rows, where it is known: version 8 says it. `created` stands in the file as when it was
    made; the same table and the same time make the same bytes. `charset` is a Python codec's name, by default the
    data set's own where that has ASCII in it, else UTF-8. `rename` changes what the version cannot hold, as
    `app.tables.xpt.limits.fit` does, which also tells what that is. `lengths` are the bytes that the longest value of
    a text column needs (`app.dataset.encode.character_lengths`); a column without `sas.length` must have one there.

    Version 5 cannot tell rows at its end from padding when they have only blank character values and lie in the last
    80 bytes: SAS and every other program read such a file without them. Version 8 keeps them if `rows` is given.

    Raises MisfitError, before anything is written, for what the version cannot hold; TheirError, naming column and
    row, for a value that its variable or the character set cannot.
    """
    charset = charsets.checked(charset or charsets.own(schema))
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
        raise OurError(f"a table of {rows} rows of {length} bytes had {size} bytes")
    if size % RECORD:
        yield b" " * (RECORD - size % RECORD)


def _variable(variable: Variable) -> Variable:
    """The variable as transport files have it: character formats begin with `$`."""
    if variable.is_numeric:
        return replace(variable, length=max(SHORTEST_NUMERIC, variable.length))
    return replace(variable, format=_dollar(variable.format), informat=_dollar(variable.informat))


def _dollar(name: str) -> str:
    return f"${name}" if name and not name.startswith("$") else name
