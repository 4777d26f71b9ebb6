"""Explains packets of the SAP DB order interface: their records, their fields as JSON, and their vtrace text."""

from collections.abc import Iterator
from typing import Any

from app.codecs.sapdb.packet import Packet, PacketSegment, Part, packet_at
from app.codecs.sapdb.packet_records import CommandSegment, PacketHeader, PartHeader, ReturnSegment
from app.codecs.sapdb.parameter_values import Manner, code_of
from app.codecs.sapdb.part_buffers import PartBuffer, decode_part
from app.trace.frames import MOST_FRAMES, Frame, Hints, TooManyFrames
from app.trace.vtrace import elements, vtrace
from app.wire import Cell, WireError


def packets(data: memoryview, hints: Hints) -> list[Frame]:
    """Explain whole packets, one after the other."""
    if not data:
        raise WireError("PacketHeader", 0, "there is no packet")
    frames: list[Frame] = []
    at = 0
    while at < len(data):
        if len(frames) == MOST_FRAMES:
            raise TooManyFrames(f"more than {MOST_FRAMES:,} packets; byte {at} begins another")
        packet, end = packet_at(data, at)
        lines = vtrace(packet, hints.direction or None)
        count = len(packet.segments)
        note = f"{'big' if packet.order == '>' else 'little'}-endian, {count} segment" + "s" * (count != 1)
        frames.append(
            Frame(
                "order-packet", at, list(_cells(data, packet, at)), note, {"decoded": described(packet), "trace": lines}
            )
        )
        at = end
    return frames


def _cells(data: memoryview, packet: Packet, at: int) -> Iterator[Cell]:
    manner = Manner(code_of(packet.header.mess_code, packet.order), packet.context)
    yield from PacketHeader.cells(data, at, packet.context)
    at += PacketHeader.SIZE
    for number, segment in enumerate(packet.segments):
        row = f"segment[{number}]."
        yield from type(segment.header).cells(data, at, packet.context, row)
        at += type(segment.header).SIZE
        for index, part in enumerate(segment.parts):
            of_part = f"{row}part[{index}]."
            yield from type(part.header).cells(data, at, packet.context, of_part)
            at += PartHeader.SIZE
            if part.buffer:
                yield Cell(at, len(part.buffer), f"{of_part}buffer", _shown(part, at, manner))
            at += len(part.buffer)
            if part.fill:
                yield Cell(at, len(part.fill), f"{of_part}fill", part.fill)
            at += len(part.fill)


def _shown(part: Part, at: int, manner: Manner) -> str | int | bytes:
    """Return the text or the number that a part holds; its bytes where it holds anything else."""
    try:
        held = decode_part(part.header.part_kind, PartBuffer(part.buffer, part.header.arg_count, manner, "buffer", at))
    except WireError:
        return part.buffer
    return held if isinstance(held, str | int) else part.buffer


def described(packet: Packet) -> dict[str, Any]:
    """Return a packet as JSON has it: every field of its headers, with names where there are some, and bytes in
    hexadecimal."""
    header = packet.header
    return {
        "mess_code": int(header.mess_code),
        "mess_swap": int(header.mess_swap),
        "filler1": header.filler1,
        "appl_version": header.appl_version.decode("latin-1"),
        "application": header.application.decode("latin-1"),
        "varpart_size": header.varpart_size,
        "varpart_len": header.varpart_len,
        "filler2": header.filler2,
        "no_of_segm": header.no_of_segm,
        "filler3": header.filler3.hex(),
        "segments": [
            {
                "segm_len": segment.header.segm_len,
                "segm_offset": segment.header.segm_offset,
                "no_of_parts": segment.header.no_of_parts,
                "own_index": segment.header.own_index,
                "segm_kind": _named(segment.header.segm_kind),
                "parts": list(_parts(segment, header.varpart_size)),
                **_special(segment),
            }
            for segment in packet.segments
        ],
    }


def _special(segment: PacketSegment) -> dict[str, Any]:
    """Return the fields that a segment has by its kind."""
    match segment.header:
        case CommandSegment() as header:
            flags = ("commit_immediately", "ignore_costwarning", "prepare", "with_info", "mass_cmd", "parsing_again")
            return {
                "mess_type": _named(header.mess_type),
                "sqlmode": _named(header.sqlmode),
                "producer": _named(header.producer),
                **{flag: bool(getattr(header, flag)) for flag in flags},
                "command_options": header.command_options,
                "filler": (header.filler + header.filler2 + header.filler3).hex(),
            }
        case ReturnSegment() as header:
            return {
                "sqlstate": header.sqlstate.decode("latin-1"),
                "returncode": header.returncode,
                "errorpos": header.errorpos,
                "extern_warning": elements(header.extern_warning),
                "intern_warning": elements(header.intern_warning),
                "function_code": header.function_code,
                "tracelevel": header.tracelevel,
                "filler": (header.filler + header.filler2).hex(),
            }
        case header:
            return {"rest": getattr(header, "rest", b"").hex()}


def _parts(segment: PacketSegment, room: int) -> Iterator[dict[str, Any]]:
    at = segment.header.segm_offset + type(segment.header).SIZE
    for part in segment.parts:
        header = part.header
        at += PartHeader.SIZE
        yield {
            "part_kind": _named(header.part_kind),
            "attributes": header.attributes,
            "arg_count": header.arg_count,
            "segm_offset": header.segm_offset,
            "buf_len": header.buf_len,
            "buf_size": header.buf_size,
            "buf": part.buffer.hex(),
            "pad": part.fill.hex(),
            "_size_rule": _SIZE_RULES.get(header.buf_size - (room - at)),
        }
        at += len(part.buffer) + len(part.fill)


_SIZE_RULES = {0: "kernel", PartHeader.SIZE: "jdbc"}
"""Who counts the available bytes like this: the driver adds the part's header."""


def _named(value: int) -> str | int:
    name = getattr(value, "name", None)
    return value if name is None else name.lower()
