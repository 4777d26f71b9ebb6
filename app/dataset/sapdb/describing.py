"""The columns of a table as a shortinfo part describes them."""

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from app.codecs.sapdb.constants import UNICODE_TEXTS, DataType, IoType, ParameterMode
from app.codecs.sapdb.packet_records import ParameterInfo
from app.codecs.sapdb.parameter_values import in_out_len
from app.dataset import sas_columns
from app.dataset.sapdb.column_types import MODE, TEXTS, Needs, sapdb_type
from app.dataset.sapdb.text_columns import wide_lengths
from app.model.errors import InvalidInputError

_LONGEST_FIELD = 32_767
"""The most bytes of a value that shortinfo can state, with the undef byte."""

_NOT_LATIN = "[^\u0000-\u00ff]"


def needs(batches: Iterable[pa.RecordBatch]) -> dict[str, Needs]:
    """Return what the texts and the byte strings of a table need, by column. Reads every batch."""
    found: dict[str, Needs] = {}
    for batch in batches:
        for field, values in zip(batch.schema, batch.columns, strict=True):
            if sas_columns.is_text(field.type):
                texts = pc.ascii_rtrim(sas_columns.strings(values), characters=" ")
                is_ascii = pc.all(pc.string_is_ascii(texts)).as_py() is not False
                is_latin = is_ascii or pc.any(pc.match_substring_regex(texts, _NOT_LATIN)).as_py() is not True
                added = Needs(int(wide_lengths(texts).max(initial=1)), is_latin)
            elif pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type):
                added = Needs(pc.max(pc.binary_length(values)).as_py() or 1)
            else:
                continue
            known = found.get(field.name, Needs())
            found[field.name] = Needs(max(known.length, added.length), known.is_latin and added.is_latin)
    return found


def parameters(
    schema: pa.Schema, needed: Mapping[str, Needs], *, io_type: IoType = IoType.INPUT, unicode_packet: bool = False
) -> tuple[ParameterInfo, ...]:
    """Return what describes the columns of a table, whose values lie side by side in its rows.

    Raises InvalidInputError for a column that no type takes, or whose values are too long.
    """
    made: list[ParameterInfo] = []
    at = 1
    for field in schema:
        wanted = sapdb_type(field, needed.get(field.name, Needs()))
        if unicode_packet and wanted.data_type in TEXTS and wanted.data_type not in UNICODE_TEXTS:
            is_varying = wanted.data_type == DataType.VARCHAR_ASCII
            wanted = wanted._replace(data_type=DataType.VARCHAR_UNICODE if is_varying else DataType.UNICODE)
        size = in_out_len(wanted.data_type, wanted.length, unicode_packet=unicode_packet)
        if size > _LONGEST_FIELD:
            why = f"values of {wanted.length:,} characters take {size:,} bytes, and a field has {_LONGEST_FIELD:,}"
            raise InvalidInputError("too-long", field.name, -1, f"{why}: send them as files")
        try:
            mode = int((field.metadata or {})[MODE.encode()]) & 0xFF
        except (KeyError, ValueError):
            mode = ParameterMode.OPTIONAL if field.nullable else ParameterMode.MANDATORY
        made.append(ParameterInfo(mode, io_type, wanted.data_type, wanted.frac, wanted.length, size, at))
        at += size
    return tuple(made)


def row_names(schema: pa.Schema) -> Sequence[str]:
    """Return the names of the columns, as a columnnames part has them."""
    return [field.name for field in schema]
