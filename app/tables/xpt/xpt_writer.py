"""Write tables as transport files."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from app.codecs.sas.data_set_messages import DataSetDefinition, Variable
from app.dataset import encode
from app.dataset.format_names import SasFormat
from app.model.errors import GatewayError
from app.tables.xpt import xpt_layouts, xpt_limits
from app.tables.xpt.xpt_layouts import (
    CONTEXT,
    LABELS_8,
    LABELS_9,
    PARTS,
    RECORD,
    Label8,
    Label9,
    LabelRecord,
    LibraryRecord,
    MemberRecord5,
    MemberRecord8,
    ModifiedRecord,
    Namestr5,
    Namestr8,
    Version,
)
from app.tables.xpt.xpt_limits import LIMITS, fit
from app.wire import Layout

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
    table and time give the same bytes. `charset` is a Python codec's name, by default what `xpt_limits.charset_of`
    returns. `rename` changes items that the version cannot hold, as `app.tables.xpt.xpt_limits.fit` does, which also
    returns the changes. `lengths` are the bytes that the longest value of a text column needs
    (`app.dataset.encode.character_lengths`); a column without `sas.length` must have one there.

    Version 5 cannot distinguish rows at its end from padding if they have only blank character values and lie in the
    last 80 bytes: SAS and every other program read such a file without them. Version 8 keeps them if `rows` is given.

    Raises MisfitError, before anything is written, for items that the version cannot hold. Raises InvalidInputError,
    naming column and row, for a value that its variable or the character set cannot hold.
    """
    charset = xpt_limits.checked_charset(charset or xpt_limits.charset_of(schema))
    fitted, _ = fit(schema, version, charset=charset, rename=rename, lengths=lengths)
    definition, described = encode.describe(
        fitted, charset=charset, observations=-1, character_lengths=lengths, float_format="ibm"
    )
    variables = [
        replace(each, length=max(SHORTEST_NUMERIC, each.length))
        if each.is_numeric
        else replace(each, format=_dollar(each.format), informat=_dollar(each.informat))
        for each in described
    ]
    member = (fitted.metadata or {})[b"sas.member"].decode()
    start = head(version, member, definition, variables, charset=charset, created=created, rows=rows)
    observations = encode.rows(batches, variables, order="big", charset=charset, float_format="ibm")
    length = sum(variable.length for variable in variables)

    def pieces() -> Iterator[bytes | memoryview]:
        yield start
        size = 0
        for block in observations:
            size += len(block)
            yield block
        if rows is not None and rows * length != size:
            raise GatewayError(f"expected {rows} rows of {length} bytes, found {size} bytes")
        if size % RECORD:
            yield b" " * (RECORD - size % RECORD)

    return pieces()


def _dollar(name: str) -> str:
    """Return the name of a character format as transport files have it."""
    return f"${name}" if name and not name.startswith("$") else name


SAS_VERSION: Final = "9.4"
SYSTEM: Final = "Linux"

_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")

_SHORT = LIMITS[5]
"""The maximum sizes in a description of a variable, in either version."""


def head(
    version: Version,
    member: str,
    definition: DataSetDefinition,
    variables: Sequence[Variable],
    *,
    charset: str,
    created: datetime,
    rows: int | None,
) -> bytes:
    """Return the part of a file before the observations. Names, labels and formats must fit the version."""
    names = PARTS[version]
    moment = f"{created.day:02}{_MONTHS[created.month - 1]}{created:%y:%H:%M:%S}"
    stamp = {"version": SAS_VERSION, "system": SYSTEM, "created": moment}
    member_record = MemberRecord8 if version == 8 else MemberRecord5
    out = bytearray()
    out += xpt_layouts.header(names.library)
    out += _record(LibraryRecord(**stamp))
    out += _record(ModifiedRecord(modified=moment))
    out += xpt_layouts.header(names.member, xpt_layouts.member_numbers())
    out += xpt_layouts.header(names.descriptor)
    out += _record(member_record(name=_raw(member, charset), **stamp))
    out += _record(
        LabelRecord(
            modified=moment,
            label=_raw(definition.label, charset),
            type=_raw(definition.data_set_type, charset),
        )
    )
    out += xpt_layouts.header(names.variables, xpt_layouts.variables_numbers(len(variables)))
    out += _padded(_namestrs(version, variables, charset))
    if version == 8:
        out += _labels(variables, charset)
    out += xpt_layouts.header(names.observations, xpt_layouts.observations_numbers(rows if version == 8 else None))
    return bytes(out)


def _namestrs(version: Version, variables: Sequence[Variable], charset: str) -> bytes:
    out = bytearray()
    position = 0
    for number, variable in enumerate(variables, 1):
        name, label = _raw(variable.name, charset), _raw(variable.label, charset)
        output, read = _raw(variable.format, charset), _raw(variable.informat, charset)
        fields: dict[str, Any] = {
            "ntype": 1 if variable.is_numeric else 2,
            "nlng": variable.length,
            "nvar0": number,
            "nname": name[:8],
            "nlabel": label[:40],
            "nform": output[:8],
            "nfl": variable.format_length,
            "nfd": variable.format_decimal,
            "niform": read[:8],
            "nifl": variable.informat_length,
            "nifd": variable.informat_decimal,
            "npos": position,
        }
        if version == 8:
            fields |= {"longname": name, "lablen": len(label), "formlen": len(output), "informlen": len(read)}
        out += _record(Namestr8(**fields) if version == 8 else Namestr5(**fields))
        position += variable.length
    return bytes(out)


def _labels(variables: Sequence[Variable], charset: str) -> bytes:
    """Return the records for attributes that do not fit in the descriptions of variables; empty if all fit."""
    long_format = any(_is_longer(name, _SHORT.format, charset) for v in variables for name in (v.format, v.informat))
    labels = []
    for number, variable in enumerate(variables, 1):
        if not (
            _is_longer(variable.label, _SHORT.label, charset)
            or _is_longer(variable.format, _SHORT.format, charset)
            or _is_longer(variable.informat, _SHORT.format, charset)
        ):
            continue
        texts = [text.encode(charset) for text in (variable.name, variable.label)]
        if long_format:
            output = SasFormat(variable.format, variable.format_length, variable.format_decimal)
            read = SasFormat(variable.informat, variable.informat_length, variable.informat_decimal)
            # An empty text is a blank, since %XPT2LOC reads a text of no bytes up to the end.
            texts = [text or b" " for text in (*texts, str(output).encode(charset), str(read).encode(charset))]
        layout = Label9 if long_format else Label8
        labels.append(_record(layout(number, *map(len, texts))) + b"".join(texts))
    if not labels:
        return b""
    name = LABELS_9 if long_format else LABELS_8
    return xpt_layouts.header(name, str(len(labels))) + _padded(b"".join(labels))


def _is_longer(text: str, size: int, charset: str) -> bool:
    return len(text.encode(charset)) > size


def _record(layout: Layout) -> bytes:
    return layout.encode(CONTEXT)


def _raw(text: str, charset: str) -> str:
    """Return a text as the Latin-1 characters that have its bytes."""
    return text.encode(charset).decode(CONTEXT.charset)


def _padded(data: bytes) -> bytes:
    return data + b" " * (-len(data) % RECORD)
