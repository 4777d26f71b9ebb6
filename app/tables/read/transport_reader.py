"""Read SAS transport files of versions 5 and 8, which do not state their character set.

Evidence is every text of the data set: names, labels and formats as well as values. A text beyond ASCII is evidence for
UTF-8 if it is UTF-8, and against it if it is not. A text that fills its field and ends within a character of UTF-8 was
cut off there: it is no evidence against UTF-8.
"""

import re
from collections.abc import Iterator
from typing import BinaryIO, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from app.dataset import character_columns, side_columns
from app.dataset.character_columns import GUESSES
from app.tables.read.read_request import FileTable, ReadOptions, Remark
from app.tables.read.text_charsets import Metadata
from app.tables.xpt.xpt_members import TransportMember
from app.tables.xpt.xpt_reader import XptDataSet
from app.tables.xpt.xpt_reader import read as read_transport

_FIELDS: Final = frozenset({8, 32, 40, 256})
"""The sizes of the fields of names, labels and formats."""

_CUT_OFF: Final = re.compile(rb"(?:[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})\Z")
"""The beginning of a character of UTF-8 at the end of a text."""

Evidence = Literal["for", "against"]


def read(file: BinaryIO, options: ReadOptions) -> FileTable:
    """Read a data set of a transport file: the only one or the requested one.

    Texts are in the character set that `options` state. Without one they are UTF-8, unless there is evidence against it
    and none for it: then they are Windows Latin 1. Where evidence contradicts itself, they are UTF-8, and bytes that do
    not decode are kept.
    """
    charset = options.encoding or "utf-8"
    found = read_transport(file, member=options.member, charset=charset)
    if options.encoding is None and "against" in (evidence := _evidence(found)) and "for" not in evidence:
        for charset in GUESSES:
            found = read_transport(file, member=options.member, charset=charset)
            texts = _texts(found.latin_1)
            if not _has_damaged_values(found.schema) and all(character_columns.decodes(raw, charset) for raw in texts):
                break
        remark = Remark(None, f"it is not UTF-8 and was read as {charset}; state its encoding")
        return FileTable(found.schema, found.batches, (remark, *_remarks(found, charset)))
    return FileTable(found.schema, found.batches, tuple(_remarks(found, charset)))


def _texts(member: TransportMember) -> Iterator[bytes]:
    """Yield the bytes of all names, labels, formats and types."""
    of_variables = (text for each in member.variables for text in (each.name, each.label, each.format, each.informat))
    for latin_1 in (member.name, member.label, member.type, *of_variables):
        yield latin_1.encode("latin-1")


def _evidence(found: XptDataSet) -> set[Evidence]:
    """Return the evidence for and against UTF-8 in a data set that was read as UTF-8."""
    evidence = {one for raw in _texts(found.latin_1) if (one := _evidence_of(raw)) is not None}
    if _has_damaged_values(found.schema):
        evidence.add("against")
    if "against" in evidence and "for" not in evidence and any(map(_has_other_than_ascii, found.batches())):
        evidence.add("for")
    return evidence


def _evidence_of(raw: bytes) -> Evidence | None:
    if raw.isascii():
        return None
    if character_columns.decodes(raw, "utf-8"):
        return "for"
    cut = _CUT_OFF.search(raw) if len(raw) in _FIELDS else None
    begun = raw if cut is None else raw[: cut.start()]
    if cut is None or not character_columns.decodes(begun, "utf-8"):
        return "against"
    return None if begun.isascii() else "for"


def _has_damaged_values(schema: pa.Schema) -> bool:
    return any(side_columns.bytes_of(field) is not None for field in schema)


def _has_other_than_ascii(batch: pa.RecordBatch) -> bool:
    """Tell whether a value that decodes has characters beyond ASCII."""
    damaged = {side_columns.bytes_of(field): column for field, column in zip(batch.schema, batch.columns, strict=True)}
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if pa.types.is_string(field.type) and not side_columns.is_side(field):
            whole = column.filter(damaged[field.name].is_null()) if field.name in damaged else column
            if not pc.all(pc.string_is_ascii(whole), min_count=0).as_py():
                return True
    return False


def _remarks(found: XptDataSet, charset: str) -> list[Remark]:
    metadata = Metadata(charset)
    metadata.text(found.latin_1.name, "data set's name")
    metadata.text(found.latin_1.label, "data set's label")
    metadata.text(found.latin_1.type, "data set's type")
    columns = side_columns.without_sides(found.schema).names
    for column, variable in zip(columns, found.latin_1.variables, strict=True):
        metadata.text(variable.name, "name", column)
        metadata.text(variable.label, "label", column)
        metadata.text(variable.format, "format", column)
        metadata.text(variable.informat, "informat", column)
    if found.nuls:
        nuls = f"{abs(found.nuls) * found.latin_1.row_size:,} NULs at its end"
        reading = "rows of zeros, not as padding" if found.nuls > 0 else "padding, not as rows of zeros"
        metadata.remarks.append(Remark(None, f"it does not state its number of rows: {nuls} are read as {reading}"))
    return metadata.remarks
