"""The data sets of a transport file, read record by record: their header records, and where their observations are.

A transport file does not state its character set. So texts are read as Latin-1 here, which keeps their bytes; `decoded`
returns them in another character set.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import BinaryIO, Final, TypeVar

from app.codecs.sas.data_set_messages import Variable
from app.dataset import character_columns, format_names
from app.dataset.schema import LONGEST_CHARACTER
from app.model.errors import InvalidInputError
from app.tables.xpt import xpt_layouts
from app.tables.xpt.xpt_layouts import (
    CONTEXT,
    LABELS_8,
    LABELS_9,
    PARTS,
    RECORD,
    HeaderNames,
    HeaderRecord,
    Label8,
    Label9,
    LabelRecord,
    LibraryRecord,
    MemberRecord5,
    MemberRecord8,
    ModifiedRecord,
    Namestr,
    Namestr8,
    Version,
    start_of,
)
from app.wire import Layout

NUMERIC: Final = 1
CHARACTER: Final = 2

_PADDING = b" \0"
_TYPES = {NUMERIC: b"\1", CHARACTER: b"\2"}

CHUNK = 8192 * RECORD
"""The number of bytes read at once."""

FIRST_CHUNK = 64 * RECORD
"""The number of bytes read first if the end may be near; each further read is twice as large."""

L = TypeVar("L", bound=Layout)


class Records:
    """A seekable file of whole records. Its errors are InvalidInputError with the byte.

    No memory is allocated for bytes that the file does not have.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = file.seek(0, 2)
        torn = self.size % RECORD
        if torn:
            why = f"the last record has {torn} of {RECORD} bytes"
            raise InvalidInputError("xpt-truncated", "record", self.size - torn, why)

    def take(self, at: int, size: int, what: str) -> bytes:
        """Return bytes from byte `at` on; `what` names them in errors."""
        if at + size > self.size:
            why = f"{at + size - self.size} bytes are missing at the end of the file"
            raise InvalidInputError("xpt-truncated", what, at, why)
        self._file.seek(at)
        pieces = []
        while size:
            piece = self._file.read(size)
            if not piece:
                raise InvalidInputError("xpt-truncated", what, at, "the file became shorter while it was read")
            pieces.append(piece)
            size -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def layout(self, layout: type[L], at: int) -> L:
        """Return the record at byte `at`."""
        return layout.decode(self.take(at, layout.SIZE, layout.__name__), 0, CONTEXT)[0]

    def header(self, name: str, at: int) -> HeaderRecord:
        """Return the header record at byte `at`, which must have this name."""
        record = self.take(at, RECORD, name)
        if not record.startswith(start_of(name)):
            raise InvalidInputError(
                "xpt-header", name, at, f"expected a header record {name}, found {record[:28].decode('latin-1')!r}"
            )
        return HeaderRecord.decode(record, 0, CONTEXT)[0]

    def is_header(self, name: str, at: int) -> bool:
        """Tell whether the header record of this name is at byte `at`."""
        return at < self.size and self.take(at, RECORD, name).startswith(start_of(name))

    def chunks(self, at: int, end: int, size: int = CHUNK) -> Iterator[bytes]:
        """Yield the bytes up to `end`, in pieces of this size except for the last one."""
        for start in range(at, end, size):
            yield self.take(start, min(size, end - start), "observations")

    def find(self, first: str, second: str, at: int) -> int:
        """Return the byte from `at` on of a header record `first` that `second` follows, or that ends the file.

        Return the file's size if there is no such byte.
        """
        start = start_of(first)
        size = FIRST_CHUNK
        while at < self.size:
            chunk = self.take(at, min(size, self.size - at), first)
            offset = chunk.find(start)
            while offset >= 0:
                behind = at + offset + RECORD
                if offset % RECORD == 0 and (behind == self.size or self.is_header(second, behind)):
                    return at + offset
                offset = chunk.find(start, offset + 1)
            at += len(chunk)
            size = min(2 * size, CHUNK)
        return self.size


@dataclass(frozen=True, slots=True)
class TransportMember:
    """A data set of a file.

    Observations and their padding lie between the bytes `at` and `end`. `count` is the number of observations if the
    file states it.
    """

    version: Version
    name: str
    label: str
    type: str
    variables: tuple[Variable, ...]
    at: int
    end: int
    count: int | None

    @property
    def row_size(self) -> int:
        """The size of an observation in bytes."""
        return sum(variable.length for variable in self.variables)


def read_members(records: Records) -> Iterator[TransportMember]:
    """Yield the data sets of a file, in its order. Raises InvalidInputError."""
    version = next((each for each, names in PARTS.items() if records.is_header(names.library, 0)), None)
    if version is None:
        start = records.take(0, min(records.size, 28), "LIBRARY").decode("latin-1")
        known = "a file of PROC CPORT, which only SAS reads" if start.startswith("**COMPRESSED**") else repr(start)
        raise InvalidInputError("xpt-header", "LIBRARY", 0, f"expected a transport file, found {known}")
    at = RECORD + LibraryRecord.SIZE + ModifiedRecord.SIZE
    while at < records.size:
        member = _member(records, version, at)
        yield member
        at = member.end


def decoded(member: TransportMember, charset: str) -> TransportMember:
    """Return the same data set with its texts in a character set."""

    def of(latin_1: str) -> str:
        return character_columns.shown(latin_1.encode(CONTEXT.charset), charset)

    variables = (
        replace(each, name=of(each.name), label=of(each.label), format=of(each.format), informat=of(each.informat))
        for each in member.variables
    )
    return replace(
        member, name=of(member.name), label=of(member.label), type=of(member.type), variables=tuple(variables)
    )


def _member(records: Records, version: Version, at: int) -> TransportMember:
    names = PARTS[version]
    size = xpt_layouts.namestr_size(records.header(names.member, at), at)
    at += RECORD
    records.header(names.descriptor, at)
    at += RECORD
    name = (records.layout(MemberRecord8, at) if version == 8 else records.layout(MemberRecord5, at)).name
    label = records.layout(LabelRecord, at + RECORD)
    at += 2 * RECORD
    count = xpt_layouts.variable_count(records.header(names.variables, at), at)
    at += RECORD
    described = memoryview(records.take(at, count * size, "Namestr"))
    variables = [_variable(described[index * size :], at + index * size, version) for index in range(count)]
    at = _record_end(at + count * size)
    if version == 8:
        at = _read_labels(records, at, variables)
    header = records.header(names.observations, at)
    observations = xpt_layouts.observation_count(header, at) if version == 8 else None
    at += RECORD
    return TransportMember(
        version=version,
        name=_text(name),
        label=_text(label.label),
        type=_text(label.type),
        variables=tuple(variables),
        at=at,
        end=_end(records, names, at, observations, sum(variable.length for variable in variables)),
        count=observations,
    )


def _end(records: Records, names: HeaderNames, at: int, count: int | None, row_size: int) -> int:
    """Return the end of the observations that begin at byte `at`, which is the start of the next data set."""
    if count is None:
        return records.find(names.member, names.descriptor, at)
    end = _record_end(at + count * row_size)
    if end > records.size:
        why = f"{count} observations of {row_size} bytes do not fit in the remaining {records.size - at} bytes"
        raise InvalidInputError("xpt-truncated", names.observations, at, why)
    behind = at + count * row_size
    if records.take(behind, end - behind, names.observations).strip(_PADDING):
        why = f"bytes that are not padding follow the {count} observations that the file announces"
        raise InvalidInputError("xpt-observations", names.observations, behind, why)
    if end < records.size and not records.is_header(names.member, end):
        why = f"{records.size - end} bytes follow the {count} observations that the file announces"
        raise InvalidInputError("xpt-observations", names.observations, end, why)
    return end


def _variable(described: memoryview, at: int, version: Version) -> Variable:
    layout = Namestr8 if version == 8 else Namestr
    namestr, _ = layout.decode(described, 0, CONTEXT)
    kind = _TYPES.get(namestr.ntype)
    shortest, longest = (2, 8) if namestr.ntype == NUMERIC else (1, LONGEST_CHARACTER)
    if kind is None or not shortest <= namestr.nlng <= longest:
        why = f"a variable cannot have type {namestr.ntype} and length {namestr.nlng}"
        raise InvalidInputError("xpt-variable", _text(namestr.nname), at, why)
    name = namestr.longname if isinstance(namestr, Namestr8) and namestr.longname else namestr.nname
    return Variable(
        name=_text(name),
        format=_text(namestr.nform),
        informat=_text(namestr.niform),
        label=_text(namestr.nlabel),
        type=kind,
        length=namestr.nlng,
        format_length=namestr.nfl,
        format_decimal=namestr.nfd,
        informat_length=namestr.nifl,
        informat_decimal=namestr.nifd,
    )


def _read_labels(records: Records, at: int, variables: list[Variable]) -> int:
    """Add long labels and formats to their variables, and return the position after them.

    They refer to variables by number and name. Some programs count from 0, so the name decides if it is a known one.
    """
    places = {variable.name: index for index, variable in enumerate(variables)}
    for name, layout in ((LABELS_8, Label8), (LABELS_9, Label9)):
        if records.is_header(name, at):
            count = xpt_layouts.label_count(records.header(name, at), at)
            at += RECORD
            for _ in range(count):
                at = _read_label(records, layout, at, variables, places)
            at = _record_end(at)
    return at


def _read_label(
    records: Records,
    layout: type[Label8],
    at: int,
    variables: list[Variable],
    places: Mapping[str, int],
) -> int:
    record = records.layout(layout, at)
    sizes = [record.name, record.label, *((record.format, record.informat) if isinstance(record, Label9) else (0, 0))]
    data = records.take(at + layout.SIZE, sum(sizes), layout.__name__)
    texts = data.decode(CONTEXT.charset)
    name, label, output, read = (
        _text(texts[end - size : end]) for size, end in zip(sizes, accumulate(sizes), strict=True)
    )
    index = places.get(name, record.number - 1)
    if not 0 <= index < len(variables):
        why = f"a label for variable {record.number}, but there are {len(variables)} variables"
        raise InvalidInputError("xpt-variable", layout.__name__, at, why)
    variable = replace(variables[index], name=name or variables[index].name, label=label)
    if output:
        reference = format_names.parse(output)
        variable = replace(
            variable, format=reference.name, format_length=reference.width, format_decimal=reference.decimals
        )
    if read:
        reference = format_names.parse(read)
        variable = replace(
            variable, informat=reference.name, informat_length=reference.width, informat_decimal=reference.decimals
        )
    variables[index] = variable
    return at + layout.SIZE + len(data)


def _text(raw: str) -> str:
    return raw.rstrip(" \0")


def _record_end(at: int) -> int:
    return -(-at // RECORD) * RECORD
