"""The vtrace text of a packet, line for line as a kernel writes it in its short trace."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Literal

from app.codecs.sapdb.constants import CommandOption, IoType, ParameterMode, PartAttribute, PartKind, Undef
from app.codecs.sapdb.packet import Packet, PacketSegment, Part
from app.codecs.sapdb.packet_records import (
    ApplicationParameter,
    CommandSegment,
    ParameterInfo,
    Parsid,
    ReturnSegment,
    VardataParameterInfo,
)
from app.codecs.sapdb.part_buffers import COUNT_SIZE, read_count
from app.trace import vtrace_names as names
from app.wire import Context, WireError

Direction = Literal["REQUEST", "RECEIVE"]
"""REQUEST for what a client sends, RECEIVE for the reply."""

MOST_KEPT: Final = 116
"""Bytes of a buffer that the short trace keeps."""

_WIDTH: Final = 72
_INDENT: Final = " " * 9
_PIECE: Final = 61
"""Characters of text on a line of its own."""

_HEX_LINE: Final = 28
_TEXT_RUN: Final = 3
"""The number of consecutive printable characters from which text is shown next to hexadecimal digits."""


def direction(packet: Packet) -> Direction:
    """Return where a packet goes by its first segment: replies come from the kernel."""
    return "RECEIVE" if isinstance(packet.segments[0].header, ReturnSegment) else "REQUEST"


def vtrace(packet: Packet, known: Direction | None = None) -> list[str]:
    """Return the lines of a packet's trace. `known` is its direction; without it, the segments show it."""
    goes = known or direction(packet)
    lines = [" "] if goes == "REQUEST" else []
    header = packet.header
    code = names.CODES.get(header.mess_code) or f"mess_code{header.mess_code:3}  "
    swap = names.SWAPS.get(header.mess_swap) or f"mess_swap={header.mess_swap:02X}"
    version, application = (_latin(raw) for raw in (header.appl_version, header.application))
    counted = _counted(header.no_of_segm, "segment")
    lines.append(f"{goes}: {code}, {swap}, {version}-{application}     ({counted}, len: {header.varpart_len})")
    for segment in packet.segments:
        lines += _segment(segment, packet.context)
    return lines


def _latin(raw: bytes) -> str:
    """Text of any bytes; those that are not printable are points, as in texts next to hexadecimal digits."""
    return "".join(char if char.isprintable() else "." for char in raw.decode("latin-1"))


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" + "s" * (number != 1)


def _segment(segment: PacketSegment, context: Context) -> Iterator[str]:
    header = segment.header
    extent = f"({_counted(header.no_of_parts, 'part')}, len: {header.segm_len}"
    if isinstance(header, CommandSegment):
        name = names.MESS_TYPES.get(header.mess_type) or f"CMD_MESS={header.mess_type}"
        offset = f", offset: {header.segm_offset}" if header.segm_offset else ""
        yield f"   {name} SEGMENT {header.own_index}   {extent}{offset})"
        yield from _command(header)
    else:
        offset = f", segm_offset: {header.segm_offset}" if header.segm_offset else ""
        if isinstance(header, ReturnSegment):
            result = f"*** {header.returncode}" if header.returncode else "ok"
            yield f"   {result} / RETURN SEGMENT {header.own_index}   {extent}{offset})"
            yield from _return(header)
        else:
            yield f"   SEGM_KIND={int(header.segm_kind)} SEGMENT {header.own_index}   {extent}{offset})"
    for part in segment.parts:
        yield from _part(part, context)


def _command(header: CommandSegment) -> Iterator[str]:
    mode = names.SQL_MODES.get(header.sqlmode) or f"SQLMODE={header.sqlmode}"
    producer = names.PRODUCERS.get(header.producer) or f"PRODUCER={header.producer}"
    flags = [mode, producer, *_flags(header, ["ignore_costwarning"])]
    yield _INDENT + ", ".join(flags)
    flags = list(_flags(header, ["commit_immediately", "with_info", "prepare", "mass_cmd", "parsing_again"]))
    if header.command_options & CommandOption.SELFETCH_OFF:
        flags.append("selfetch off")
    if header.command_options & CommandOption.SCROLLABLE_CURSOR_ON:
        flags.append("scrollable on")
    if flags:
        yield _INDENT + ", ".join(flags)


def _flags(header: CommandSegment, rows: Iterable[str]) -> Iterator[str]:
    for row in rows:
        value = getattr(header, row)
        if value:
            yield row if value == 1 else f"{row} = *** {value}"


def _return(header: ReturnSegment) -> Iterator[str]:
    function = names.FUNCTION_CODES.get(header.function_code)
    shown = [f"FUNCTION_CODE={header.function_code}" if function is None else function] if header.function_code else []
    if header.returncode:
        shown.append(f"errpos: {header.errorpos}")
    state = _latin(header.sqlstate)
    is_usual = (state[:1].isdecimal() or state[:1] in {"S", "I"}) and state[1:].isdecimal() and state.isascii()
    shown.append("*** " * (not is_usual) + f"sqlstate: '{state}'")
    if header.tracelevel:
        shown.append(f"trace: {header.tracelevel}")
    yield _INDENT + ", ".join(shown)
    external = elements(header.extern_warning)
    if not header.returncode or 15 in external:
        if external and 0 not in external:
            yield f"{_INDENT}*** external WARNING 0 missing"
        yield from _warnings("external", external, names.EXTERN_WARNINGS)
    yield from _warnings("internal", elements(header.intern_warning), names.INTERN_WARNINGS)


def elements(members: bytes) -> list[int]:
    """Return the elements of a set: element n is bit n mod 8 of byte n div 8."""
    return [number for number in range(len(members) * 8) if members[number // 8] >> number % 8 & 1]


def _warnings(which: str, found: list[int], known: dict[int, str]) -> Iterator[str]:
    for number in found:
        yield f"{_INDENT}{which} WARNING  {number:2}" + (f": {known[number]}" if number in known else "")


_PLACES: Final[Mapping[int, str]] = {
    PartAttribute.FIRST: " FIRST",
    PartAttribute.LAST: " LAST",
    PartAttribute.FIRST | PartAttribute.LAST: " FIRST/LAST",
}


def _part(part: Part, context: Context) -> Iterator[str]:
    header = part.header
    name = names.PART_KINDS.get(header.part_kind) or f"PART_KIND={int(header.part_kind)}"
    place = _PLACES.get(header.attributes & (PartAttribute.FIRST | PartAttribute.LAST), "")
    shown = [_counted(header.arg_count, "argument")]
    if header.buf_len <= 0:
        shown.append(f"len: {header.buf_len}")
    shown.append(f"size: {header.buf_size}")
    if header.segm_offset:
        shown.append(f"segm_offset: {header.segm_offset}")
    yield f"   {name}{place} PART   ({', '.join(shown)})"
    kept = part.buffer[:MOST_KEPT]
    if kept:
        yield from _buffer(header.part_kind, header.arg_count, header.buf_len, kept, context)


def _buffer(kind: int, count: int, length: int, kept: bytes, context: Context) -> Iterator[str]:
    """Return the lines of a buffer of this length, of which the bytes `kept` are left."""
    match kind:
        case PartKind.SHORTINFO | PartKind.OUTPUT_COLS_NO_PARAMETER | PartKind.VARDATA_SHORTINFO:
            is_vardata = kind == PartKind.VARDATA_SHORTINFO
            size = ParameterInfo.SIZE
            yield from _numbered(kept, count, size, lambda at: _short_info(kept, at, context, is_vardata=is_vardata))
        case PartKind.APPL_PARAMETER_DESCRIPTION:

            def application_parameter(at: int) -> str:
                each, _ = ApplicationParameter.decode(kept, at, context)
                return _typed(each.data_type, each.length, each.frac)

            yield from _numbered(kept, count, ApplicationParameter.SIZE, application_parameter)
        case PartKind.ABAP_INFO:
            at = 0
            for label in ("name   : ", "linenr : "):
                size = kept[at] if at < len(kept) else 0
                yield _INDENT + label + _latin(kept[at + 1 : at + 1 + size])
                at += 1 + size
        case PartKind.RESULTCOUNT if length == COUNT_SIZE:
            yield f"{_INDENT}result_count:{_count(kept)}"
        case PartKind.PARSID | PartKind.PARSID_OF_SELECT if len(kept) == Parsid.SIZE:
            parsid, _ = Parsid.decode(kept)
            number, info = parsid.message_type, parsid.application_info
            statement = names.STATEMENTS.get(number)
            if statement is None:
                statement = f"MESS={number}" if number <= names.LAST_STATEMENT else f"{number:02X}"
            shown = (names.PARSID_INFOS.get(info) or f"P_INFO={info}") + ", " if info else ""
            yield f"{_INDENT}{shown}mess_type: {statement}"
            yield from _buf(length, kept)
        case _:
            yield from _buf(length, kept)


def _count(field: bytes) -> str:
    if field[0] == Undef.NULL:
        return " UNDEF"
    if field[0]:
        return " NO DEFBYTE"
    try:
        return f" {read_count(field, '', 0)}"
    except WireError:
        return f"{field[0]:02X}" * COUNT_SIZE


def _fitted(number: int, width: int) -> str:
    """Return a number right-aligned in `width` places. Of one that does not fit, * and its last digits."""
    text = f"{number:{width}}"
    return text if len(text) <= width else "*" + text[1 - width :]


def _typed(data_type: int, length: int, frac: int) -> str:
    name = names.DATA_TYPES.get(data_type) or f"DATATYPE={int(data_type)}"
    return f"{name}({length},{frac})" if frac else f"{name}({length})"


def _numbered(kept: bytes, count: int, size: int, shown: Callable[[int], str]) -> Iterator[str]:
    """Yield a numbered line for each record of this size; `shown` returns the text of the one at a byte."""
    for number in range(count):
        at = number * size
        begin = f"{' ' * 8}{_fitted(number + 1, 3)}.  "
        if at + size > len(kept):
            yield f"{begin}<continued>"
            return
        yield begin + shown(at)


def _short_info(kept: bytes, at: int, context: Context, *, is_vardata: bool) -> str:
    info, _ = ParameterInfo.decode(kept, at, context)
    if is_vardata and info.io_type == IoType.INPUT:
        parameter, _ = VardataParameterInfo.decode(kept, at, context)
        where = f"no :{_fitted(parameter.param_no, 5)}"
    else:
        where = f"pos:{_fitted(info.bufpos, 5)}"
    io_type = names.IO_TYPES.get(info.io_type, "")
    typed = _typed(info.data_type, info.length, info.frac)
    typed = typed.ljust(16) if len(typed) < 16 else typed + "  "
    modes = ",".join(mode.name.lower() for mode in ParameterMode if info.mode & mode and mode.name)
    return f"{where}  io_len:{_fitted(info.in_out_len, 4)} {io_type:6} {typed}{modes}"


def _buf(length: int, kept: bytes) -> Iterator[str]:
    label = f"buf({length}):"
    if _is_text(kept):
        text = "".join(" " if byte == 0 else chr(byte) for byte in kept)
        if len(_INDENT) + len(label) + 1 + len(text) + 2 <= _WIDTH:
            yield f"{_INDENT}{label} '{text}'"
        else:
            yield f"{_INDENT}{label} "
            yield from _pieces(text)
        return
    yield _INDENT + label
    line = ""
    for at in range(0, len(kept), _HEX_LINE):
        if line:
            yield line
        line = _INDENT + kept[at : at + _HEX_LINE].hex(" ", -4).upper()
    text = "".join(chr(byte) if _is_printable(byte) else "." for byte in kept) if _has_text(kept) else ""
    if text and len(line) + 2 + len(text) + 1 <= _WIDTH:
        yield f"{line} '{text}'"
        return
    yield line
    yield from _pieces(text)


def _pieces(text: str) -> Iterator[str]:
    for at in range(0, len(text), _PIECE):
        yield f"{_INDENT}'{text[at : at + _PIECE]}'"


def _is_printable(byte: int) -> bool:
    return 0x20 <= byte <= 0x7E


def _is_text(kept: bytes) -> bool:
    """Tell whether all bytes are printable, by themselves or as UCS2 in either order."""
    if all(map(_is_printable, kept)):
        return True
    for high, low in ((kept[0::2], kept[1::2]), (kept[1::2], kept[0::2])):
        if not any(high) and all(map(_is_printable, low)):
            return True
    return False


def _has_text(kept: bytes) -> bool:
    """Tell whether enough printable characters run together; blanks between them neither count nor break the run."""
    run = 0
    for byte in kept:
        if byte == 0x20:
            continue
        run = run + 1 if _is_printable(byte) else 0
        if run >= _TEXT_RUN:
            return True
    return False
