"""The content of complete attachments, from the packets that brought it."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final, NamedTuple

import pyarrow as pa

from app.codecs.sapdb.constants import LONGS, PartKind, ValMode
from app.codecs.sapdb.data_rows import RowsError, columns, inputs, row_size
from app.codecs.sapdb.packet_records import LongDescriptor, ParameterInfo
from app.codecs.sapdb.parameter_values import Described, Manner
from app.codecs.sapdb.part_buffers import long_data
from app.dataset.sapdb import column_types, varying
from app.dataset.sapdb import row_columns as data_rows
from app.framing.order_packet.packet_pieces import (
    LONG_ID_SIZE,
    REFERENCE,
    Description,
    SegmentContent,
    body_message,
    contents,
    description_of,
    is_description,
    long_key,
    long_pieces,
    rows_of,
)
from app.framing.protocol import DataSetFacts, FileContent, Received, Span, StoreTable
from app.model.errors import InvalidInputError
from app.model.evidence import kept_warnings
from app.model.records import AttachmentRecord
from app.wire import WireError, in_part
from app.wire.kinds import Buffer

BATCH_BYTES: Final = 2 << 20
"""The most bytes of rows that are decoded together, unless one packet has more."""


# --- files ------------------------------------------------------------------------------------------------------------


def file(record: AttachmentRecord, received: Received) -> FileContent:
    """Return where the bytes of a LONG value lie. Raises InvalidInputError and WireError as they are gone over."""

    def spans() -> Iterator[Span]:
        offset = 0
        for number, body in enumerate(received.bodies()):
            piece = next(
                (
                    piece
                    for content in contents(body_message(received.first, body))
                    for piece in long_pieces(content)
                    if piece.key == record.correl_id and piece.offset == offset
                ),
                None,
            )
            if piece is None:
                raise InvalidInputError(
                    "bad-group", "intern_pos", -1, f"no piece of the LONG value begins at byte {offset}"
                )
            yield number, piece.start, body[piece.start : piece.start + piece.size], True
            offset += piece.size

    return FileContent(spans)


# --- data sets --------------------------------------------------------------------------------------------------------


class _Table(NamedTuple):
    """A data set as its description has it: the columns that its rows have, and their schema."""

    parameters: tuple[Described, ...]
    schema: pa.Schema

    @property
    def has_longs(self) -> bool:
        return any(each.data_type in LONGS for each in self.parameters)


class _Some(NamedTuple):
    """Rows of one segment: the number of the first one, that of their packet, the part that has them, the byte of the
    packet where that begins, and how it is written."""

    first: int
    number: int
    at: int
    length: int
    buffer: Buffer
    manner: Manner
    is_varying: bool


def data_set(record: AttachmentRecord, received: Received, store: StoreTable) -> DataSetFacts:
    """Store the table of a complete data set. Raises InvalidInputError and WireError."""
    doubts: dict[str, None] = {}
    table = _table(record, received, doubts)
    while True:
        try:
            count = store(table.schema, _batches(record, received, table, doubts))
        except data_rows.LongTimes as longer:
            field = table.schema.field(longer.column).with_type(pa.duration("us"))
            table = table._replace(schema=table.schema.set(longer.column, field))
        else:
            return DataSetFacts(count, len(table.parameters), warnings=kept_warnings(doubts))


def _table(record: AttachmentRecord, received: Received, doubts: dict[str, None]) -> _Table:
    """Return the columns that the rows have, and note what is in doubt of them."""
    described, is_input, kind = _described(record, received, doubts)
    chosen = inputs(described.parameters) if is_input else columns(described.parameters)  # type: ignore[arg-type]
    if not chosen:
        raise InvalidInputError("no-columns", "shortinfo", -1, "none of the columns is one of the rows' direction")
    numbers = [number for number, each in enumerate(described.parameters) if any(each is one for one in chosen)]
    if kind == PartKind.DATA:
        try:
            row_size(chosen, numbers)
        except WireError as error:
            raise InvalidInputError("bad-column", error.row, described.at + error.at, error.why) from error
    names: list[str] = []
    if len(described.names) == len(chosen):
        names = list(described.names)
    elif len(described.names) == len(described.parameters):
        names = [described.names[number] for number in numbers]
    elif described.names:
        why = f"{len(described.names)} names of columns for {len(chosen)} columns: these are called by their numbers"
        doubts[why] = None
    called = {"sas.library": record.qualifier_1, "sas.member": record.qualifier_2}
    schema = column_types.schema(names, chosen, called)
    for name, each in zip(schema.names, chosen, strict=True):
        if column_types.is_unknown(each.data_type):
            doubts[f"column {name} has the unknown type {int(each.data_type)}: its values are kept as bytes"] = None
    return _Table(tuple(chosen), schema)


def _described(
    record: AttachmentRecord, received: Received, doubts: dict[str, None]
) -> tuple[Description, bool, int | None]:
    """Return the description of the columns, which the first part has, whether the rows go to a kernel, and the kind of
    part that the first ones are in."""
    first, second = islice(received.bodies([0, 1]), 2)
    segments = _segments(record, received, 0, first, doubts)
    described = next((content for content in segments if is_description(content, rows_of(content))), None)
    if described is None:
        raise InvalidInputError("no-description", "shortinfo", -1, "the first packet does not describe the columns")
    for content in _segments(record, received, 1, second, doubts):
        if (found := rows_of(content)) is not None:
            return description_of(described), found.is_input, content.row_kind()
    raise InvalidInputError("no-rows", "data", -1, "the second packet has no rows")


def _segments(
    record: AttachmentRecord, received: Received, number: int, body: Buffer, doubts: dict[str, None]
) -> list[SegmentContent]:
    """Return the segments of a packet that are of the attachment, and note what is in doubt of them."""
    try:
        found = contents(body_message(received.first, body))
    except InvalidInputError as error:
        error.part = number
        raise
    own = [content for content in found if content.statement == record.correl_id]
    doubts.update(dict.fromkeys(why for content in own for why in content.doubts))
    return own


def _batches(
    record: AttachmentRecord, received: Received, table: _Table, doubts: dict[str, None]
) -> Iterator[pa.RecordBatch]:
    """Return the rows in their order, from many packets at once."""
    held: list[_Some] = []
    for some in _in_order(record, received, doubts):
        size = sum(len(each.buffer) for each in held)
        if held and (size >= BATCH_BYTES or some.manner != held[0].manner or some.is_varying or held[0].is_varying):
            yield _decoded(held, table)
            held = []
        held.append(some)
    if held:
        yield _decoded(held, table)


def _in_order(record: AttachmentRecord, received: Received, doubts: dict[str, None]) -> Iterator[_Some]:
    expected = 0
    for number, body in enumerate(received.bodies(range(1, len(received))), 1):
        for content in _segments(record, received, number, body, doubts):
            with in_part(number):
                found = rows_of(content)
            if found is not None and found.first == expected:
                break
        else:
            raise InvalidInputError(
                "bad-group", "resultcount", -1, f"no packet brings the rows from row {expected + 1} on"
            )
        kind = content.row_kind()
        buffer, at = (b"", 0) if kind is None else (content.parts[kind].part.buffer, content.parts[kind].at)
        if not found.length and not buffer:
            continue
        yield _Some(found.first, number, at, found.length, buffer, content.manner, kind == PartKind.VARDATA)
        expected += found.length


def _decoded(held: Sequence[_Some], table: _Table) -> pa.RecordBatch:
    if len(held) > 1 and not table.has_longs:
        parts = [(each.buffer, each.length) for each in held]
        parameters: Sequence[ParameterInfo] = table.parameters  # type: ignore[assignment]
        with suppress(WireError):  # read by itself, a part tells what is wrong with it
            return data_rows.decode_parts(parts, parameters, held[0].manner, table.schema)
    batches = [_decoded_alone(each, table) for each in held]
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0] if len(batches) > 1 else batches[0]


def _decoded_alone(some: _Some, table: _Table) -> pa.RecordBatch:
    """Return the rows of one segment. Raises InvalidInputError with the byte of the packet."""
    names = _long_names(some, table)
    try:
        if not some.is_varying:
            parameters: Sequence[ParameterInfo] = table.parameters  # type: ignore[assignment]
            return data_rows.decode(some.buffer, parameters, some.length, some.manner, table.schema, names, some.first)
        batch = varying.decode(some.buffer, table.parameters, some.manner, table.schema, names, some.first)
    except WireError as error:
        code = "bad-rows" if isinstance(error, RowsError) else "column-type"
        raise InvalidInputError(code, error.row, some.at + error.at, error.why, some.number) from error
    if batch.num_rows != some.length:
        why = f"{batch.num_rows} rows, but the part says {some.length}"
        raise InvalidInputError("bad-rows", "vardata", some.at, why, some.number)
    return batch


def _long_names(some: _Some, table: _Table) -> data_rows.LongName:
    """Return what cells of LONG columns are: the value itself, where it came with its row, or the name of its file."""

    def name(row: int, column: int, descriptor: LongDescriptor) -> str | None:
        if descriptor.valmode in {ValMode.ALLDATA, ValMode.LASTDATA} and descriptor.valpos:
            data = long_data(some.buffer, descriptor, f"row[{some.first + row}].value[{column}]")
            return column_types.long_text(table.parameters[column].data_type, data, some.manner)
        key = long_key(descriptor)
        return REFERENCE + key[:LONG_ID_SIZE].hex() if key else None

    return name
