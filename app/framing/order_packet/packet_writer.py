"""Deliveries as order packets: data sets as mass inserts, files as the pieces of LONG values.

A data set begins with the reply to a parse, which describes its columns and names its table; the commands that insert
its rows follow, each with the parsid and the number of rows before its own. A file is cut into putval commands; the
first one names it. Identifiers follow from the attachment, so the same delivery gives the same packets each time.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from app.codecs.ibm_mq.encodings import integer_order
from app.codecs.sapdb.constants import (
    ALIGNMENT,
    LONGS,
    MOST_BYTES,
    DataType,
    FunctionCode,
    IoType,
    MessCode,
    MessSwap,
    MessType,
    ParameterMode,
    PartAttribute,
    PartKind,
    SegmentKind,
    ValMode,
)
from app.codecs.sapdb.data_rows import row_size
from app.codecs.sapdb.packet import Part, encode_packet, laid_out, new_part
from app.codecs.sapdb.packet_records import (
    CommandSegment,
    LongDescriptor,
    PacketHeader,
    ParameterInfo,
    Parsid,
    PartHeader,
    ReturnSegment,
    SegmentHeader,
)
from app.codecs.sapdb.parameter_values import LONG_SIZE, Manner, code_of
from app.codecs.sapdb.part_buffers import LongValue, encode_part
from app.dataset import sas_columns, side_columns
from app.dataset.conversion_error import BadValueError, refuse_any
from app.dataset.sapdb import column_types
from app.dataset.sapdb import row_columns as data_rows
from app.framing.order_packet.packet_pieces import KEY_SIZE, LONG_ID_SIZE, REFERENCE
from app.framing.protocol import DeliveryContents, fixed_records, message_identifier
from app.model.attachment import AttachmentKind
from app.model.errors import InvalidInputError
from app.model.message import PhysicalMessage
from app.model.records import DeliveryRecord, FramingOptions, OutgoingAttachment
from app.wire import Context
from app.wire.kinds import Order

NAME: Final = "order_packet"

ROWS_A_BATCH: Final = 16_384
_MOST_ARGUMENTS: Final = 32_767
"""Rows of one data part, which a number of two bytes counts."""

_LONGEST_LONG: Final = (1 << 31) - 1
_INSERT: Final = 35
_MASS_COMMAND: Final = 70
"""What a parsid says of the kind of its statement, and of what it asks of the application."""


def messages(
    delivery: DeliveryRecord, options: FramingOptions, contents: DeliveryContents
) -> Iterator[PhysicalMessage]:
    """Make all packets of a delivery. Raises InvalidInputError and WireError for what packets have no place for."""
    numbers = count()
    files = [each for each in delivery.attachments if each.kind is not AttachmentKind.DATA_SET]
    for attachment in delivery.attachments:
        is_table = attachment.kind is AttachmentKind.DATA_SET
        packets = _table(attachment, options, contents, files) if is_table else _file(attachment, options, contents)
        for packet in packets:
            yield PhysicalMessage(
                delivery.destination,
                NAME,
                body=packet,
                message_id=message_identifier(delivery.id, next(numbers)),
                group_id=attachment.correl_id.ljust(KEY_SIZE, b"\0"),
            )


def check_names(delivery: DeliveryRecord, options: FramingOptions) -> None:
    """Check that a packet has room for each file's name. Raises InvalidInputError and WireError."""
    for attachment in delivery.attachments:
        if attachment.kind is not AttachmentKind.DATA_SET:
            _file_packets(attachment, options)


_ORDINARY: Final = (1e-60, 1e60)
"""What is between these numbers every FLOAT has, which rounds to its digits."""
_MANNER: Final = Manner(code_of(MessCode.ASCII, "<"), Context("<"))
"""How values are written to check them: another byte order or code of texts has room for the same ones."""


def check_values(field: pa.Field, values: pa.Array, files: Sequence[str]) -> None:
    """Check values of a column of a message with files of these names. Raises BadValueError."""
    if _have_a_place(field, values):
        return
    needed = column_types.needs([pa.RecordBatch.from_arrays([values], schema=pa.schema([field]))])
    wanted = column_types.sapdb_type(field, needed.get(field.name, column_types.Needs()))
    if wanted.data_type in LONGS:
        _check_named(values, Counter(files))
        return
    if wanted.data_type in column_types.TEXTS | column_types.BYTES:
        lengths = column_types.lengths(values)
        refuse_any(lengths > column_types.longest(wanted.data_type), column_types.too_long(wanted))
        if sas_columns.is_text(values.type) and not field.metadata:
            return
    try:
        (info,) = column_types.parameters(pa.schema([field]), needed)
    except InvalidInputError:
        return  # `checked_rows` raises it
    cells, _ = data_rows.encode_column(values, info, _MANNER)
    if cells.shape[1] > (room := info.in_out_len - 1):
        raise BadValueError(0, f"values take {cells.shape[1]} bytes, but there is room for {room}")


def _have_a_place(field: pa.Field, values: pa.Array) -> bool:
    """Tell whether values are sure to have a place, because of their type or, as FLOAT rounds, their size."""
    if pa.types.is_floating(values.type):
        sizes = pc.abs(values)
        ordinary = pc.and_(pc.greater(sizes, _ORDINARY[0]), pc.less(sizes, _ORDINARY[1]))
        return pc.all(pc.or_(ordinary, pc.equal(sizes, 0))).as_py() is not False
    is_any = pa.types.is_integer(values.type) or pa.types.is_boolean(values.type)
    return is_any and not field.metadata


def checked_rows(
    name: tuple[str, str], schema: pa.Schema, batches: Iterator[pa.RecordBatch], options: FramingOptions
) -> Iterator[pa.RecordBatch]:
    """Yield rows, and raise InvalidInputError or WireError at last if a packet has no room for one, or for what
    describes them."""
    rows = side_columns.without_sides(schema)
    needed: dict[str, column_types.Needs] = {}
    for batch in batches:
        needed = column_types.needs([batch.select(rows.names)], needed)
        yield batch
    described = _described(name, rows, needed, options, bytes(KEY_SIZE))
    _rows_at_once(described.packets, described.statement, described.infos)


class _Packets:
    """Makes the packets of one attachment: their byte order, the code of their texts, and the room in each."""

    def __init__(self, options: FramingOptions, texts: Sequence[str]) -> None:
        order: Order = integer_order(options.encoding) or "<"
        self.is_unicode = not all(all(ord(character) < 0x100 for character in text) for text in texts)
        wide = MessCode.UNICODE if order == ">" else MessCode.UNICODE_SWAP
        self._code = wide if self.is_unicode else MessCode.ASCII
        self._swap = MessSwap.NORMAL if order == ">" else MessSwap.FULL_SWAPPED
        self.manner = Manner(code_of(self._code, order), Context(order))
        self._size = (min(options.body_limit, MOST_BYTES) - PacketHeader.SIZE) // ALIGNMENT * ALIGNMENT

    def room(self, *buffers: int) -> int:
        """Return the bytes that a further part's buffer may have after parts with buffers of these sizes."""
        taken = CommandSegment.SIZE + sum(PartHeader.SIZE + -(-size // ALIGNMENT) * ALIGNMENT for size in buffers)
        return self._size - taken - PartHeader.SIZE

    def part(self, kind: int, value: Any) -> Part:
        """Return a part that holds a value of its kind."""
        arguments, buffer = encode_part(kind, value, self.manner)
        return new_part(PartHeader(kind, arg_count=arguments), buffer)

    def packet(self, segment: SegmentHeader, parts: Sequence[Part]) -> bytes:
        """Return a packet of one segment. Raises WireError where it has no room."""
        header = PacketHeader(self._code, self._swap, varpart_size=self._size)
        return encode_packet(laid_out(header, [(segment, parts)]))


# --- data sets --------------------------------------------------------------------------------------------------------


def _table(
    attachment: OutgoingAttachment,
    options: FramingOptions,
    contents: DeliveryContents,
    files: Sequence[OutgoingAttachment],
) -> Iterator[bytes]:
    with contents.table(attachment) as table:
        schema = side_columns.without_sides(table.schema_arrow)
        needed = column_types.needs(_batches(table, schema))
        name = (attachment.qualifier_1, attachment.qualifier_2)
        packets, statement, infos, first_packet = _described(name, schema, needed, options, attachment.correl_id)
        yield first_packet

        def rows() -> Iterator[data_rows.Bytes]:
            first = 0
            for batch in _batches(table, schema):
                yield data_rows.encode(batch, infos, packets.manner, first, _long_named(files))
                first += batch.num_rows

        yield from _inserts(packets, statement, rows(), infos, table)


class _Described(NamedTuple):
    """How the packets of a data set are made, the part that names its statement, its columns, and the packet with
    these."""

    packets: "_Packets"
    statement: Part
    infos: Sequence[ParameterInfo]
    packet: bytes


def _described(
    name: tuple[str, str],
    schema: pa.Schema,
    needed: Mapping[str, column_types.Needs],
    options: FramingOptions,
    identifier: bytes,
) -> _Described:
    """Return what describes a data set of this owner and name. Raises InvalidInputError, and WireError where the packet
    has no room."""
    owner, member = name
    packets = _Packets(options, [*schema.names, owner, member])
    infos = column_types.parameters(schema, needed, unicode_packet=packets.is_unicode)
    statement = packets.part(
        PartKind.PARSID,
        [Parsid(identifier[:4], identifier[4:7], identifier[7], _INSERT, identifier[8], _MASS_COMMAND, 0)],
    )
    packet = packets.packet(
        ReturnSegment(segm_kind=SegmentKind.RETURN, function_code=FunctionCode.INSERT),
        [
            statement,
            packets.part(PartKind.SHORTINFO, infos),
            packets.part(PartKind.COLUMNNAMES, schema.names),
            packets.part(PartKind.TABLENAME, f'"{owner}"."{member}"' if owner else f'"{member}"'),
        ],
    )
    return _Described(packets, statement, infos, packet)


def _batches(table: pq.ParquetFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Return the rows without side columns, read in this thread alone."""
    for batch in table.iter_batches(ROWS_A_BATCH, use_threads=False):
        yield batch.select(schema.names)


def _inserts(
    packets: _Packets,
    statement: Part,
    rows: Iterator[data_rows.Bytes],
    infos: Sequence[ParameterInfo],
    table: pq.ParquetFile,
) -> Iterator[bytes]:
    """Return the commands that insert rows: as many rows each as there is room for."""
    size, total = row_size(infos), table.metadata.num_rows
    at_once = _rows_at_once(packets, statement, infos)
    before = 0
    for buffer in fixed_records((cells.reshape(-1).data for cells in rows), at_once * size):
        yield _insert(packets, statement, bytes(buffer), before, len(buffer) // size, total)
        before += len(buffer) // size
    if not total:
        yield _insert(packets, statement, b"", 0, 0, 0)


def _rows_at_once(packets: _Packets, statement: Part, infos: Sequence[ParameterInfo]) -> int:
    """Return the number of rows for which a packet has room. Raises InvalidInputError if it has none for one."""
    size = row_size(infos)
    room = packets.room(len(statement.buffer), len(packets.part(PartKind.RESULTCOUNT, 0).buffer))
    at_once = min(room // max(size, 1), _MOST_ARGUMENTS)
    if at_once < 1:
        why = f"a row takes {size:,} bytes, and a packet has room for {max(room, 0):,}"
        raise InvalidInputError("too-long", "data", -1, f"{why}: allow longer bodies, or send fewer columns")
    return at_once


def _insert(packets: _Packets, statement: Part, buffer: bytes, before: int, number: int, total: int) -> bytes:
    attributes = PartAttribute.FIRST if not before else PartAttribute(0)
    if before + number == total:
        attributes |= PartAttribute.LAST
    data = PartHeader(PartKind.DATA, int(attributes or PartAttribute.NEXT), number)
    counted = packets.part(PartKind.RESULTCOUNT, before or None)
    return packets.packet(
        CommandSegment(segm_kind=SegmentKind.CMD, mess_type=MessType.EXECUTE, mass_cmd=1),
        [statement, counted, new_part(data, buffer)],
    )


def _long_named(files: Sequence[OutgoingAttachment]) -> Callable[[str], LongDescriptor]:
    """Return a function that finds the descriptor of a LONG value by the name of a file of the delivery, or by a
    reference."""
    numbers = Counter(each.qualifier_2 for each in files)
    by_name = {each.qualifier_2: each for each in files}

    def named(name: str) -> LongDescriptor:
        if (why := _unnamed(name, numbers)) is not None:
            raise InvalidInputError("value", "LONG", -1, why)
        if (file := by_name.get(name)) is not None:
            return _descriptor(file.correl_id, valmode=ValMode.NODATA, maxlen=file.size)
        return _descriptor(_referred(name), valmode=ValMode.NODATA)

    return named


def _check_named(values: pa.Array, files: Mapping[str, int]) -> None:
    """Check cells of a LONG column, of a message with this number of files of each name. Raises BadValueError."""
    for row, name in enumerate(values.to_pylist()):
        if name and (why := _unnamed(name, files)) is not None:
            raise BadValueError(row, why)


def _unnamed(name: str, files: Mapping[str, int]) -> str | None:
    """Return why a cell of a LONG column names no single value; None if it does."""
    if (number := files.get(name, 0)) > 1:
        return f"{name[:80]!r} is the name of {number} files of the same message"
    return None if number or _referred(name) else f"{name[:80]!r} names no file of the same message"


def _referred(name: str) -> bytes:
    """Return the identifier of a LONG value in a reference to it; nothing for other texts."""
    try:
        identifier = bytes.fromhex(name.removeprefix(REFERENCE)) if name.startswith(REFERENCE) else b""
    except ValueError:
        return b""
    return identifier if len(identifier) == LONG_ID_SIZE else b""


# --- files ------------------------------------------------------------------------------------------------------------


class _FilePackets(NamedTuple):
    """How the packets of a file are made: the parts that begin the first one, and the bytes of the file in each."""

    packets: _Packets
    named: Sequence[Part]
    room: int


def _file_packets(attachment: OutgoingAttachment, options: FramingOptions) -> _FilePackets:
    if attachment.size > _LONGEST_LONG:
        why = f"{attachment.size:,} bytes, and a LONG value has at most {_LONGEST_LONG:,}"
        raise InvalidInputError("too-large", "intern_pos", -1, why)
    name = attachment.qualifier_2
    packets = _Packets(options, [name])
    is_text = attachment.kind is AttachmentKind.TEXT_FILE
    data_type = DataType.LONG_ASCII if is_text else DataType.LONG_BYTE
    info = ParameterInfo(ParameterMode.OPTIONAL, IoType.INPUT, data_type, 0, 0, LONG_SIZE, 1)
    named = [packets.part(PartKind.SHORTINFO, [info]), packets.part(PartKind.COLUMNNAMES, [name])]
    room = packets.room(*(len(part.buffer) for part in named)) // ALIGNMENT * ALIGNMENT - LONG_SIZE
    if room < 1:
        raise InvalidInputError(
            "too-long", "columnnames", -1, f"the name {name!r} leaves no room in a packet for the file"
        )
    return _FilePackets(packets, named, room)


def _file(attachment: OutgoingAttachment, options: FramingOptions, contents: DeliveryContents) -> Iterator[bytes]:
    packets, named, room = _file_packets(attachment, options)
    offset = 0
    for piece in fixed_records(contents.pieces(attachment), room):
        yield _putval(packets, attachment, bytes(piece), offset, named)
        offset += len(piece)
    if not offset:
        yield _putval(packets, attachment, b"", 0, named)


def _putval(
    packets: _Packets, attachment: OutgoingAttachment, piece: bytes, offset: int, named: Sequence[Part]
) -> bytes:
    is_last = offset + len(piece) == attachment.size
    valmode = ValMode.DATAPART if not is_last else ValMode.LASTDATA if offset else ValMode.ALLDATA
    place = {"intern_pos": offset + 1, "valpos": LONG_SIZE + 1, "vallen": len(piece)}
    descriptor = _descriptor(attachment.correl_id, valmode=valmode, maxlen=attachment.size, **place)
    part = packets.part(PartKind.LONGDATA, [LongValue(0, descriptor, piece)])
    return packets.packet(
        CommandSegment(segm_kind=SegmentKind.CMD, mess_type=MessType.PUTVAL), [*(() if offset else named), part]
    )


def _descriptor(identifier: bytes, **fields: int) -> LongDescriptor:
    half = LONG_ID_SIZE // 2
    return LongDescriptor(identifier[:half], identifier[half:LONG_ID_SIZE].ljust(half, b"\0"), **fields)
