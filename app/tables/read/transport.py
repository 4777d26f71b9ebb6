"""Read SAS transport files of versions 5 and 8, which do not state their character set."""

from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from app.dataset import side_columns
from app.tables.read.request import Options, Reading, Remark
from app.tables.xpt.read import read as read_transport

_GUESS = "cp1252"


def read(file: BinaryIO, options: Options) -> Reading:
    """Read a data set of a transport file: the only one or the requested one.

    Texts are UTF-8, unless `options` state their encoding. If some texts are not UTF-8, and the others are only ASCII,
    they are Windows Latin 1.
    """
    table = read_transport(file, member=options.member, charset=options.encoding or "utf-8")
    if options.encoding is None and _is_damaged(table.schema) and not any(map(_is_other_than_ascii, table.batches())):
        guessed = read_transport(file, member=options.member, charset=_GUESS)
        remark = Remark(None, f"it is not UTF-8 and was read as {_GUESS}; state its encoding")
        return Reading(guessed.schema, guessed.batches, (remark,))
    return Reading(table.schema, table.batches)


def _is_damaged(schema: pa.Schema) -> bool:
    return any(side_columns.bytes_of(field) is not None for field in schema)


def _is_other_than_ascii(batch: pa.RecordBatch) -> bool:
    """Tell whether a text that decodes has characters beyond ASCII."""
    damaged = {side_columns.bytes_of(field): column for field, column in zip(batch.schema, batch.columns, strict=True)}
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if pa.types.is_string(field.type) and not side_columns.is_side(field):
            whole = column.filter(damaged[field.name].is_null()) if field.name in damaged else column
            if not pc.all(pc.string_is_ascii(whole), min_count=0).as_py():
                return True
    return False
