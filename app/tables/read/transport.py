"""SAS transport files of versions 5 and 8, which do not say in which character set they are."""

from typing import BinaryIO

import pyarrow as pa

from app.dataset import side
from app.tables.read.reading import Options, Reading, Remark
from app.tables.xpt.read import read as read_transport

_GUESS = "cp1252"


def read(file: BinaryIO, options: Options) -> Reading:
    """A data set of a transport file, the only one or the one that is asked for.

    Texts that are not UTF-8 are read as Windows Latin 1, unless `options` say what they are.
    """
    table = read_transport(file, member=options.member, charset=options.encoding or "utf-8")
    if options.encoding is None and _is_damaged(table.schema):
        guessed = read_transport(file, member=options.member, charset=_GUESS)
        remark = Remark(None, f"it is not UTF-8 and was read as {_GUESS}; say which encoding it is in")
        return Reading(guessed.schema, guessed.batches, (remark,))
    return Reading(table.schema, table.batches)


def _is_damaged(schema: pa.Schema) -> bool:
    return any(side.bytes_of(field) is not None for field in schema)
