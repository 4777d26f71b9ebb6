"""What an order packet brings: descriptions of columns, rows, and pieces of LONG values, and of which statement.

The GroupId of a message identifies its statement, where it has one; else the parsid of a segment does, else the
CorrelId of the message. What describes the columns, and the rows themselves, are then parts of one group: the
description is its first message, and all rows are its second, whose offsets count rows. A piece of a LONG value is a
part of a group that the identifiers in its descriptor name, and whose offsets count bytes. Whatever else a packet holds
(a commit, a connect, the parameters of a single statement) is of no attachment."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from app.codecs.sapdb.constants import (
    LONGS,
    DataType,
    FunctionCode,
    MessCode,
    MessSwap,
    MessType,
    PartAttribute,
    PartKind,
    Undef,
    ValMode,
)
from app.codecs.sapdb.packet import SEGMENT_KIND_AT, Packet, Part, decode_packet
from app.codecs.sapdb.packet_records import (
    SEGMENT_HEADERS,
    CommandSegment,
    LongDescriptor,
    PacketHeader,
    PartHeader,
    ReturnSegment,
)
from app.codecs.sapdb.parameter_values import LONG_SIZE, Described, Manner, code_of
from app.codecs.sapdb.part_buffers import LongValue, PartBuffer, decode_part
from app.dataset.sapdb.column_types import LONG_BYTES
from app.model.attachment import AttachmentDefinition, AttachmentKind
from app.model.errors import InvalidInputError
from app.model.event import GroupPart, Pieces
from app.model.message import PhysicalMessage
from app.wire import WireError
from app.wire.kinds import Buffer, Order

KEY_SIZE: Final = 24
DESCRIPTION, ROWS = 1, 2
"""The messages of a data set's group."""

STATEMENT, LONG = "PARSID", "LONG"
"""What attachments are called by that have no other name."""

REFERENCE: Final = "long:"
"""What a cell of a LONG column begins with that stands for a file; other cells are the value itself."""

PARSID_SIZE: Final = 12
LONG_ID_SIZE: Final = 16
_MOST_PLACE: Final = (1 << 31) - 1

_DESCRIBING: Final = (PartKind.SHORTINFO, PartKind.VARDATA_SHORTINFO, PartKind.OUTPUT_COLS_NO_PARAMETER)
_HOLDING_ROWS: Final = (PartKind.DATA, PartKind.VARDATA)
_STATEMENTS: Final = (PartKind.PARSID, PartKind.PARSID_OF_SELECT)
_TABLES: Final = (PartKind.TABLENAME, PartKind.RESULTTABLENAME)
_MASS: Final = frozenset({70, 114, 115, 116, 117})
"""What a parsid says of the application where its statement takes several rows."""

_NO_ROW: Final = 100
"""The return code of a reply that has no (further) row, which is no error."""

_MASS_FUNCTIONS: Final = 1000
_ROW_FUNCTIONS: Final = frozenset(
    {
        FunctionCode.NIL,  # of kernels that do not report it
        FunctionCode.SELECT,
        FunctionCode.SELECT_INTO,
        FunctionCode.FETCH_FIRST,
        FunctionCode.FETCH_LAST,
        FunctionCode.FETCH_NEXT,
        FunctionCode.FETCH_PREV,
        FunctionCode.FETCH_POS,
        FunctionCode.FETCH_SAME,
        FunctionCode.FETCH_RELATIVE,
    }
)
"""What replies answer that have rows. The reply to an UPDATE of no row is not the end of a data set."""

_WHOLE: Final = frozenset({ValMode.ALLDATA, ValMode.LASTDATA})


_CODES: Final = frozenset(
    {
        MessCode.ASCII,
        MessCode.EBCDIC,
        MessCode.UNICODE_SWAP,
        MessCode.UNICODE,
        MessCode.UNICODE_NATIVE,
        MessCode.UTF8,
    }
)
_UNICODE_ORDERS: Final[Mapping[int, Order]] = {MessCode.UNICODE: ">", MessCode.UNICODE_SWAP: "<"}
"""The only order of numbers that a kernel takes with these codes."""


class PartPlace(NamedTuple):
    """A part, and the byte of the packet where its buffer begins."""

    part: Part
    at: int


class SegmentContent(NamedTuple):
    """A segment as its parts by their kind, how its values are written, and the statement that it belongs to. `doubts`
    are warnings of what the packet says of its values."""

    number: int
    header: Any
    parts: Mapping[int, PartPlace]
    manner: Manner
    statement: bytes
    doubts: tuple[str, ...]

    def held(self, kind: int) -> Any:
        """Return what the part of a kind holds. Raises WireError."""
        part, at = self.parts[kind]
        return decode_part(kind, PartBuffer(part.buffer, part.header.arg_count, self.manner, self.row(kind), at))

    def row(self, kind: int) -> str:
        """Return what errors call a part."""
        return f"segment[{self.number}].{PartKind(kind).name.lower()}"

    def row_kind(self) -> int | None:
        """Return the kind of the part that has rows; None for a segment without one."""
        return self.first_of(_HOLDING_ROWS)

    def first_of(self, kinds: Sequence[int]) -> int | None:
        """Return the first of these kinds that the segment has a part of."""
        return next((kind for kind in kinds if kind in self.parts), None)


class Description(NamedTuple):
    """The columns of a statement: their names, their parameters, and the byte of the packet where these begin."""

    names: tuple[str, ...]
    parameters: tuple[Described, ...]
    at: int


class RowRange(NamedTuple):
    """Rows of a statement: the number of the first one, how many there are, whether they are the last ones, and whether
    they go to a kernel."""

    first: int
    length: int
    is_last: bool
    is_input: bool


class LongPiece(NamedTuple):
    """A piece of a LONG value: where it begins in the value, where its bytes lie in the packet, and whether it is the
    last one."""

    key: bytes
    offset: int
    start: int
    size: int
    is_last: bool
    kind: AttachmentKind
    name: str


def read(message: PhysicalMessage) -> GroupPart | Pieces:
    """Return what a message that is a packet brings.

    Raises InvalidInputError where it is none, and where it brings nothing but what belongs in quarantine.
    """
    found: list[GroupPart] = []
    refused: list[InvalidInputError] = []
    for content in contents(message):
        try:
            _check_return(content)
            found += _parts(content)
        except InvalidInputError as error:
            refused.append(error)
        except WireError as error:
            refused.append(InvalidInputError("bad-part", error.row, error.at, error.why))
    if not refused:
        return found[0] if len(found) == 1 else Pieces(tuple(found))
    # A message has one entry in quarantine.
    first, *others = refused
    why = first.code, first.row, first.at, "; ".join([first.why, *map(str, others)])
    if not found:
        raise InvalidInputError(*why)
    return Pieces(tuple(found), why)


def contents(message: PhysicalMessage) -> list[SegmentContent]:
    """Return the segments of a packet, with their parts by kind.

    Raises InvalidInputError, also for a kind of part that comes twice, and for an unknown kind of segment.
    """
    try:
        packet = decode_packet(message.body)
    except WireError as error:
        raise InvalidInputError("bad-packet", error.row, error.at, error.why) from error
    manner = Manner(code_of(packet.header.mess_code, packet.order), packet.context)
    found: list[SegmentContent] = []
    for number, segment in enumerate(packet.segments):
        begin = PacketHeader.SIZE + segment.header.segm_offset
        if (kind := segment.header.segm_kind) not in SEGMENT_HEADERS:
            why = f"unknown kind {kind}; commands are 1 and 3, replies 2 and 4"
            raise InvalidInputError("bad-packet", f"segment[{number}].segm_kind", begin + SEGMENT_KIND_AT, why)

        parts: dict[int, PartPlace] = {}
        at = begin + type(segment.header).SIZE
        for index, part in enumerate(segment.parts):
            if (kind := part.header.part_kind) in parts:
                row = f"segment[{number}].part[{index}].part_kind"
                why = f"a second part of kind {kind}; a segment has at most one"
                raise InvalidInputError("bad-packet", row, at, why)
            at += PartHeader.SIZE
            parts[kind] = PartPlace(part, at)
            at += len(part.buffer) + len(part.fill)

        parsids = (parts[kind].part.buffer[:PARSID_SIZE] for kind in _STATEMENTS if kind in parts)
        identifier = next((each for each in (message.group_id, *parsids, message.correl_id) if any(each)), b"")
        statement = bytes(identifier[:KEY_SIZE]).ljust(KEY_SIZE, b"\0") if identifier else b""
        found.append(SegmentContent(number, segment.header, parts, manner, statement, _doubts(packet)))
    return found


def _doubts(packet: Packet) -> tuple[str, ...]:
    """Return warnings of a header that does not say how numbers or texts are written, or contradicts itself."""
    swap, code = packet.header.mess_swap, packet.header.mess_code
    doubts = []
    if swap not in {MessSwap.NORMAL, MessSwap.FULL_SWAPPED}:
        order = "big-endian" if packet.order == ">" else "little-endian"
        doubts.append(f"mess_swap {swap} of its packets is no byte order in use: by their lengths, numbers are {order}")
    if code not in _CODES:
        doubts.append(f"mess_code {code} of its packets is no character set in use: texts were read as ISO 8859-1")
    if _UNICODE_ORDERS.get(code, packet.order) != packet.order:
        both = f"mess_code {code} and mess_swap {swap} of its packets contradict each other"
        doubts.append(f"{both}: texts were read by mess_code, and numbers by mess_swap")
    return tuple(doubts)


def _check_return(content: SegmentContent) -> None:
    """Raise InvalidInputError for a reply that says that its command failed."""
    header = content.header
    if not isinstance(header, ReturnSegment) or header.returncode in {0, _NO_ROW}:
        return
    state = header.sqlstate.decode("latin-1")
    why = f"error {header.returncode} at position {header.errorpos}, SQLSTATE {state}"
    if PartKind.ERRORTEXT in content.parts:
        why += f": {content.held(PartKind.ERRORTEXT)}"
    raise InvalidInputError("error-reply", f"segment[{content.number}].returncode", -1, why)


# --- events -----------------------------------------------------------------------------------------------------------


def _parts(content: SegmentContent) -> Iterator[GroupPart]:
    for piece in long_pieces(content):
        yield GroupPart(
            AttachmentDefinition(piece.kind, piece.key, LONG, piece.name),
            1,
            piece.offset,
            piece.size,
            ends_message=piece.is_last,
            ends_group=True,
            units=piece.size,
        )
    rows = rows_of(content)
    if is_description(content, rows):
        size = len(content.parts[content.first_of(_DESCRIBING) or 0].part.buffer)
        yield GroupPart(_definition(content), DESCRIPTION, 0, size, ends_message=True, ends_group=False, units=0)
    if rows is not None:
        kind = content.row_kind()
        size = 0 if kind is None else len(content.parts[kind].part.buffer)
        yield GroupPart(_definition(content), ROWS, rows.first, size, rows.is_last, ends_group=True, units=rows.length)


def _definition(content: SegmentContent) -> AttachmentDefinition:
    if not content.statement:
        why = "there is no GroupId, parsid or CorrelId, so nothing says which statement the rows or columns are of"
        raise InvalidInputError("no-statement", f"segment[{content.number}]", -1, why)
    owner = table = ""
    if (kind := content.first_of(_TABLES)) is not None:
        # The part has "OWNER"."TABLE" or "TABLE".
        words = [word.strip().strip('"') for word in str(content.held(kind)).rstrip(" \0").split('"."')]
        owner, table = words if len(words) == 2 else ("", words[0])
    if not table:
        parsid, others = content.statement[:PARSID_SIZE], content.statement[PARSID_SIZE:]
        owner, table = STATEMENT, (parsid + others if any(others) else parsid).hex()
    return AttachmentDefinition(AttachmentKind.DATA_SET, content.statement, owner, table)


# --- columns and rows -------------------------------------------------------------------------------------------------


def is_description(content: SegmentContent, rows: RowRange | None) -> bool:
    """Tell whether a segment describes columns. One that comes with rows counts where the rows are the first ones."""
    if content.first_of(_DESCRIBING) is None or PartKind.LONGDATA in content.parts:
        return False
    return rows is None or not rows.first


def description_of(content: SegmentContent) -> Description:
    """Return the columns that a segment describes. Raises WireError."""
    kind = content.first_of(_DESCRIBING)
    parameters = tuple(content.held(kind)) if kind is not None else ()
    names = content.held(PartKind.COLUMNNAMES) if PartKind.COLUMNNAMES in content.parts else ()
    return Description(tuple(names), parameters, 0 if kind is None else content.parts[kind].at)


def rows_of(content: SegmentContent) -> RowRange | None:
    """Return which rows a segment has; None for one without rows. Raises InvalidInputError where nothing states their
    place."""
    kind = content.row_kind()
    if kind is None:
        return _end_of_rows(content)
    header, (part, _) = content.header, content.parts[kind]
    is_input = isinstance(header, CommandSegment)
    if is_input and not header.mass_cmd:
        parsid = content.parts.get(PartKind.PARSID)
        if parsid is None or len(parsid.part.buffer) < PARSID_SIZE or parsid.part.buffer[10] not in _MASS:
            return None
    attributes, count, total = part.header.attributes, part.header.arg_count, _row_count(content)
    if isinstance(header, ReturnSegment) and header.function_code == FunctionCode.SELECT_INTO:
        attributes |= PartAttribute.FIRST | PartAttribute.LAST
    is_last = bool(attributes & PartAttribute.LAST) or _has_no_row(header)
    # A command counts the rows before its own, a reply those up to its last one. A kernel that does not know a
    # reply's number yet says -1, and 0 before it has fetched any.
    first: int | None
    if attributes & PartAttribute.FIRST:
        first = 0
    elif total is None or (not is_input and (total < 0 or total == 0 < count)):
        first = 0 if attributes & PartAttribute.LAST else None
    else:
        first = total if is_input else total - count
    if first is None or not 0 <= first <= _MOST_PLACE - count:
        why = f"neither FIRST nor the row count ({total}) says which {count} rows these are"
        raise InvalidInputError("no-place", content.row(kind), -1, why)
    return RowRange(first, count, is_last, is_input)


def _end_of_rows(content: SegmentContent) -> RowRange | None:
    """Return the place after the last row, from a reply that has no row; None where it does not state it."""
    header, total = content.header, _row_count(content)
    if not content.statement or not _has_no_row(header) or header.function_code % _MASS_FUNCTIONS not in _ROW_FUNCTIONS:
        return None
    return RowRange(total, 0, is_last=True, is_input=False) if total is not None and 0 <= total <= _MOST_PLACE else None


def _row_count(content: SegmentContent) -> int | None:
    """Return the number in the resultcount part; None without the part, or if it is NULL."""
    return content.held(PartKind.RESULTCOUNT) if PartKind.RESULTCOUNT in content.parts else None


def _has_no_row(header: Any) -> bool:
    return isinstance(header, ReturnSegment) and header.returncode == _NO_ROW


# --- LONG values ------------------------------------------------------------------------------------------------------


def long_key(descriptor: LongDescriptor) -> bytes:
    """Return the key of a LONG value: the identifiers of the value and of its table. Empty where it has none."""
    identifiers = bytes(descriptor.descriptor) + bytes(descriptor.table_id)
    return identifiers.ljust(KEY_SIZE, b"\0") if any(identifiers) else b""


def long_pieces(content: SegmentContent) -> Iterator[LongPiece]:
    """Find the pieces of LONG values that a segment brings. Raises WireError and InvalidInputError."""
    if PartKind.LONGDATA not in content.parts or not _brings_data(content.header):
        return
    values: Sequence[LongValue] = content.held(PartKind.LONGDATA)
    described = description_of(content)
    at = content.parts[PartKind.LONGDATA].at
    for number, value in enumerate(values):
        start = at + LONG_SIZE
        at = start + len(value.data)
        if value.undef < min(Undef) and (value.data or value.descriptor.valmode in _WHOLE):
            row = f"{content.row(PartKind.LONGDATA)}[{number}]"
            descriptor, size = value.descriptor, len(value.data)
            key = long_key(descriptor)
            if not key:
                raise InvalidInputError("no-identifier", row, -1, "the descriptor of the LONG value has no identifier")
            offset = descriptor.intern_pos - 1
            if not descriptor.intern_pos and descriptor.valmode == ValMode.ALLDATA:
                offset = 0
            if not 0 <= offset <= _MOST_PLACE - size:
                why = f"position {descriptor.intern_pos} does not say where the {size} bytes belong in the LONG value"
                raise InvalidInputError("no-place", row, -1, why)
            types, names = described.parameters, described.names
            data_type = types[number].data_type if number < len(types) else DataType.LONG_BYTE
            is_text = data_type in LONGS and data_type not in LONG_BYTES
            kind = AttachmentKind.TEXT_FILE if is_text else AttachmentKind.BINARY_FILE
            shown = (names[number] if number < len(names) else "") or key[:LONG_ID_SIZE].hex()
            yield LongPiece(key, offset, start, size, descriptor.valmode in _WHOLE, kind, shown)


def _brings_data(header: Any) -> bool:
    """Tell whether descriptors have their bytes after them: not where they ask for some, or belong to a request."""
    if isinstance(header, CommandSegment):
        return header.mess_type != MessType.GETVAL
    return isinstance(header, ReturnSegment) and header.function_code != FunctionCode.PUTVAL


def body_message(first: PhysicalMessage, body: Buffer) -> PhysicalMessage:
    """Return the message of a part that has another body than the first one, by whose descriptor it is read."""
    return first._replace(body=body)
