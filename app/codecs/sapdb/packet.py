"""Packets: a header, segments after it, and parts in each segment.

Segments and parts begin at multiples of 8; what lies between the end of a buffer and the next part is fill, which means
nothing and is kept. Lengths and offsets are compared with each other and with the size of the packet, before anything
is taken by them.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from struct import Struct
from typing import NamedTuple, NoReturn

from app.codecs.sapdb.constants import ALIGNMENT, FILL, MOST_BYTES, SHORT_VARPART, MessSwap
from app.codecs.sapdb.packet_records import SEGMENT_HEADERS, PacketHeader, PartHeader, SegmentHeader, UnknownSegment
from app.wire import Context, WireError
from app.wire.kinds import Buffer, Order

_ORDERS: dict[int, Order] = {MessSwap.NORMAL: ">", MessSwap.FULL_SWAPPED: "<"}
_CONTEXTS: dict[Order, Context] = {order: Context(order) for order in _ORDERS.values()}
_LENGTHS: dict[Order, Struct] = {order: Struct(f"{order}ii") for order in _ORDERS.values()}
_SWAP_AT, _SIZE_AT, _LEN_AT, _COUNT_AT = 1, 12, 16, 22
SEGMENT_KIND_AT = 12
_SEGMENT_SIZE = UnknownSegment.SIZE
"""Bytes of a segment header of any kind."""


class Part(NamedTuple):
    """One part. `fill` is what lies after the buffer up to the next multiple of 8."""

    header: PartHeader
    buffer: bytes
    fill: bytes


class PacketSegment(NamedTuple):
    header: SegmentHeader
    parts: tuple[Part, ...]


class Packet(NamedTuple):
    """One packet. `order` is the byte order of its numbers."""

    order: Order
    header: PacketHeader
    segments: tuple[PacketSegment, ...]

    @property
    def context(self) -> Context:
        """How its records are written."""
        return _CONTEXTS[self.order]


def fill_size(size: int) -> int:
    """Return the number of bytes of fill after `size` bytes."""
    return -size % ALIGNMENT


def byte_order(buffer: Buffer, at: int = 0) -> Order:
    """Return the byte order of the packet at byte `at`. Raises WireError.

    A packet that says neither of the two orders in use has the order in which its lengths fit the packet.
    """
    if len(buffer) - at < PacketHeader.SIZE:
        raise WireError("PacketHeader", at, f"{len(buffer) - at} bytes, and a packet has at least {PacketHeader.SIZE}")
    swap = buffer[at + _SWAP_AT]
    if swap in _ORDERS:
        return _ORDERS[swap]
    for order, lengths in _LENGTHS.items():
        size, length = lengths.unpack_from(buffer, at + _SIZE_AT)
        if size >= length == len(buffer) - at - PacketHeader.SIZE:
            return order
    raise WireError("PacketHeader.mess_swap", at + _SWAP_AT, f"{swap} is not a byte order in use (1 or 2)")


def decode_packet(buffer: Buffer) -> Packet:
    """Return the packet that takes all of these bytes. Raises WireError."""
    packet, end = packet_at(buffer, 0)
    if end != len(buffer):
        raise WireError("PacketHeader.varpart_len", _LEN_AT, f"{len(buffer) - end} bytes after the packet")
    return packet


def packet_at(buffer: Buffer, at: int) -> tuple[Packet, int]:
    """Return the packet that begins at byte `at`, and the byte after it. Raises WireError."""
    order = byte_order(buffer, at)
    context = _CONTEXTS[order]
    header, start = PacketHeader.decode(buffer, at, context)
    length, left = header.varpart_len, len(buffer) - at - PacketHeader.SIZE
    if not 0 <= length <= left:
        raise WireError("PacketHeader.varpart_len", at + _LEN_AT, f"{length} bytes, but {left} are left")
    if length > MOST_BYTES - PacketHeader.SIZE:
        why = f"{length} bytes, and a packet has at most {MOST_BYTES} with its header"
        raise WireError("PacketHeader.varpart_len", at + _LEN_AT, why)
    if length > header.varpart_size:
        why = f"{header.varpart_size} bytes are available, but {length} are used"
        raise WireError("PacketHeader.varpart_size", at + _SIZE_AT, why)
    if not 1 <= header.no_of_segm <= length // _SEGMENT_SIZE:
        raise WireError("PacketHeader.no_of_segm", at + _COUNT_AT, f"{header.no_of_segm} segments in {length} bytes")
    end = at + PacketHeader.SIZE + length
    limit = min(len(buffer), end + SHORT_VARPART)
    segments = []
    place = start
    for number in range(header.no_of_segm):
        segment = _segment(buffer, _Place(f"segment[{number}]", start, place, limit), context)
        segments.append(segment)
        place += segment.header.segm_len
    if place < end:
        raise WireError("PacketHeader.varpart_len", at + _LEN_AT, f"{end - place} bytes after the last segment")
    return Packet(order, header, tuple(segments)), place


class _Place(NamedTuple):
    """Where a segment, or a part, begins: its row, the start of the packet's variable part, its byte, and the byte that
    it must end before."""

    row: str
    start: int
    at: int
    limit: int

    def refuse(self, name: str, why: str) -> NoReturn:
        raise WireError(f"{self.row}.{name}", self.at + _OFFSETS[name], why)


_OFFSETS = {"segm_len": 0, "segm_offset": 4, "no_of_parts": 8}
_PART_OFFSETS = {"arg_count": 2, "segm_offset": 4, "buf_len": 8, "buf_size": 12}


def _segment(buffer: Buffer, place: _Place, context: Context) -> PacketSegment:
    at, left = place.at, place.limit - place.at
    if left < _SEGMENT_SIZE:
        place.refuse("segm_len", f"a segment has at least {_SEGMENT_SIZE} bytes, and {left} are left")
    header, part_at = SEGMENT_HEADERS.get(buffer[at + SEGMENT_KIND_AT], UnknownSegment).decode(buffer, at, context)
    if not _SEGMENT_SIZE <= header.segm_len <= left:
        place.refuse("segm_len", f"{header.segm_len} bytes, but {left} are left")
    if header.segm_offset != at - place.start:
        place.refuse("segm_offset", f"{header.segm_offset}, and the segment begins at {at - place.start}")
    if not 0 <= header.no_of_parts <= (header.segm_len - _SEGMENT_SIZE) // PartHeader.SIZE:
        place.refuse("no_of_parts", f"{header.no_of_parts} parts in a segment of {header.segm_len} bytes")
    end = at + header.segm_len
    parts = []
    for number in range(header.no_of_parts):
        part = _part(buffer, _Place(f"{place.row}.part[{number}]", place.start, part_at, end), at, context)
        parts.append(part)
        part_at += PartHeader.SIZE + len(part.buffer) + len(part.fill)
    if part_at != end:
        place.refuse("segm_len", f"{header.segm_len} bytes, and the parts end {end - part_at} bytes before")
    return PacketSegment(header, tuple(parts))


def _part(buffer: Buffer, place: _Place, segment_at: int, context: Context) -> Part:
    def require(is_right: bool, name: str, why: str) -> None:
        if not is_right:
            raise WireError(f"{place.row}.{name}", place.at + _PART_OFFSETS.get(name, 0), why)

    left = place.limit - place.at - PartHeader.SIZE
    require(
        left >= 0, "part_kind", f"a part has at least {PartHeader.SIZE} bytes, and {place.limit - place.at} are left"
    )
    header, at = PartHeader.decode(buffer, place.at, context)
    offset, length = header.segm_offset, header.buf_len
    begins = segment_at - place.start
    require(offset == begins, "segm_offset", f"{offset}, and the segment begins at {begins}")
    require(0 <= length <= header.buf_size, "buf_len", f"{length} bytes, but {header.buf_size} are available")
    require(length + fill_size(length) <= left, "buf_len", f"{length} bytes and their fill, but {left} are left")
    require(header.arg_count >= 0, "arg_count", f"{header.arg_count} arguments")
    end = at + length
    return Part(header, bytes(buffer[at:end]), bytes(buffer[end : end + fill_size(length)]))


def encode_packet(packet: Packet) -> bytes:
    """Return the bytes of a packet as its headers say them. Raises WireError where they contradict what they head.

    `laid_out` makes the headers agree with their parts.
    """
    out = bytearray()
    context = packet.context
    packet.header.append(out, context)
    for number, segment in enumerate(packet.segments):
        begin = len(out)
        segment.header.append(out, context)
        for part in segment.parts:
            part.header.append(out, context)
            out += part.buffer
            out += part.fill
        if len(out) - begin != segment.header.segm_len:
            why = f"{segment.header.segm_len} bytes, but there are {len(out) - begin}"
            raise WireError(f"segment[{number}].segm_len", begin, why)
    data = bytes(out)
    decode_packet(data)
    return data


def new_part(header: PartHeader, buffer: bytes) -> Part:
    """Return a part with the kernel's fill; `laid_out` sets its lengths."""
    return Part(header, buffer, bytes([FILL]) * fill_size(len(buffer)))


def laid_out(header: PacketHeader, segments: Iterable[tuple[SegmentHeader, Sequence[Part]]]) -> Packet:
    """Return a packet whose numbers, lengths, offsets and sizes match its contents, as the kernel counts them.

    `varpart_size` of the header is the room there is, and `mess_swap` the order of bytes. Raises WireError when there
    is less room than it takes.
    """
    order = _ORDERS.get(header.mess_swap)
    if order is None:
        raise WireError("PacketHeader.mess_swap", _SWAP_AT, f"{header.mess_swap} is not a byte order in use (1 or 2)")
    made: list[PacketSegment] = []
    offset = 0
    for number, (segment, parts) in enumerate(segments, 1):
        at = offset + _SEGMENT_SIZE
        placed = []
        for part in parts:
            room = header.varpart_size - at - PartHeader.SIZE
            numbers = {"segm_offset": offset, "buf_len": len(part.buffer), "buf_size": room}
            placed.append(part._replace(header=dataclasses.replace(part.header, **numbers)))
            at += PartHeader.SIZE + len(part.buffer) + len(part.fill)
        numbers = {"segm_len": at - offset, "segm_offset": offset, "no_of_parts": len(placed), "own_index": number}
        made.append(PacketSegment(dataclasses.replace(segment, **numbers), tuple(placed)))
        offset = at
    if offset > header.varpart_size:
        why = f"{offset} bytes, but {header.varpart_size} are available"
        raise WireError("PacketHeader.varpart_size", _SIZE_AT, why)
    return Packet(order, dataclasses.replace(header, varpart_len=offset, no_of_segm=len(made)), tuple(made))
