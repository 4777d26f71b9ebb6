"""The records of the order interface that have a fixed size. Bytes that mean nothing are kept."""

from typing import Annotated

from app.codecs.sapdb.constants import (
    DataType,
    IoType,
    MessCode,
    MessSwap,
    MessType,
    PartKind,
    Producer,
    SegmentKind,
    SqlMode,
    ValMode,
)
from app.wire import Layout, Num, Raw, row

Byte = Annotated[int, Num("B")]
Int2 = Annotated[int, Num("h")]
Int4 = Annotated[int, Num("i")]
C5 = Annotated[bytes, Raw(5)]
C3 = Annotated[bytes, Raw(3)]
C8 = Annotated[bytes, Raw(8)]
Set2 = Annotated[bytes, Raw(2)]


class PacketHeader(Layout):
    """The first 32 bytes of a packet. Its numbers are in the order that `mess_swap` says."""

    mess_code: Annotated[int, Num("B", MessCode)] = row("code of texts", default=MessCode.ASCII)
    mess_swap: Annotated[int, Num("B", MessSwap)] = row("order of bytes in numbers", default=MessSwap.FULL_SWAPPED)
    filler1: Int2 = row("unused", default=0)
    appl_version: C5 = row("version of the client", default=b"62000")
    application: C3 = row("kind of client", default=b"XCI")
    varpart_size: Int4 = row("bytes available after the header", default=0)
    varpart_len: Int4 = row("bytes used after the header", default=0)
    filler2: Int2 = row("unused", default=0)
    no_of_segm: Int2 = row("number of segments", default=0)
    filler3: C8 = row("unused", default=bytes(8))


class SegmentHeader(Layout):
    """What the headers of all segments begin with."""

    segm_len: Int4 = row("bytes of the segment with its header and fill", default=0)
    segm_offset: Int4 = row("where the segment begins, counted from the end of the packet header", default=0)
    no_of_parts: Int2 = row("number of parts", default=0)
    own_index: Int2 = row("number of the segment in its packet, from 1 on", default=1)
    segm_kind: Annotated[int, Num("B", SegmentKind)] = row("kind of segment", default=SegmentKind.NIL)


class CommandSegment(SegmentHeader):
    """The header of a command: segment kinds cmd and proccall, 40 bytes."""

    mess_type: Annotated[int, Num("B", MessType)] = row("what is asked for", default=MessType.DBS)
    sqlmode: Annotated[int, Num("B", SqlMode)] = row("SQL mode", default=SqlMode.SESSION_SQLMODE)
    producer: Annotated[int, Num("B", Producer)] = row("what the command comes from", default=Producer.USER_CMD)
    commit_immediately: Byte = row("1: commit at the end", default=0)
    ignore_costwarning: Byte = row("1: do not refuse by cost", default=0)
    prepare: Byte = row("1: prepare only", default=0)
    with_info: Byte = row("1: the reply describes parameters and columns", default=0)
    mass_cmd: Byte = row("1: several rows in one execute", default=0)
    parsing_again: Byte = row("1: the statement was parsed before", default=0)
    command_options: Byte = row("set of options: selfetch off 1, scrollable cursor 2, no result set close 4", default=0)
    filler: Annotated[bytes, Raw(1)] = row("unused", default=bytes(1))
    filler2: C8 = row("unused", default=bytes(8))
    filler3: C8 = row("unused", default=bytes(8))


class ReturnSegment(SegmentHeader):
    """The header of a reply: segment kinds return and procreply, 40 bytes."""

    sqlstate: C5 = row("SQLSTATE", default=b"00000")
    returncode: Int2 = row("0, or the number of an error or a warning", default=0)
    errorpos: Int4 = row("position of the error in the command", default=0)
    extern_warning: Set2 = row("set of warnings for the application", default=bytes(2))
    intern_warning: Set2 = row("set of warnings for the client", default=bytes(2))
    function_code: Int2 = row("what statement it was", default=0)
    tracelevel: Byte = row("level of the trace that the kernel asks for", default=0)
    filler: Annotated[bytes, Raw(1)] = row("unused", default=bytes(1))
    filler2: C8 = row("unused", default=bytes(8))


class UnknownSegment(SegmentHeader):
    """The header of a segment of any other kind, 40 bytes."""

    rest: Annotated[bytes, Raw(27)] = row("unknown", default=bytes(27))


SEGMENT_HEADERS: dict[int, type[SegmentHeader]] = {
    SegmentKind.CMD: CommandSegment,
    SegmentKind.RETURN: ReturnSegment,
    SegmentKind.PROCCALL: CommandSegment,
    SegmentKind.PROCREPLY: ReturnSegment,
}


class PartHeader(Layout):
    """The 16 bytes in front of a part's buffer."""

    part_kind: Annotated[int, Num("B", PartKind)] = row("what the buffer holds", default=PartKind.DATA)
    attributes: Byte = row("set: last packet 1, next packet 2, first packet 4", default=0)
    arg_count: Int2 = row("arguments in the buffer", default=1)
    segm_offset: Int4 = row("where the segment begins, counted from the end of the packet header", default=0)
    buf_len: Int4 = row("bytes in use", default=0)
    buf_size: Int4 = row("bytes available", default=0)


class Parsid(Layout):
    """The identifier of a parsed statement, 12 bytes that are never swapped."""

    session_id: Annotated[bytes, Raw(4)] = row("session")
    counter: C3 = row("number of the statement in its session")
    command_number: Byte = row("number of the command")
    message_type: Byte = row("kind of statement, by the kernel's own numbers")
    max_buffer_number: Byte = row("highest number of an internal buffer")
    application_info: Byte = row("what the statement asks of the client; 70 and 114 to 117: mass command")
    flag: Byte = row("unused")


class DescribedParameter(Layout):
    """What the descriptions of a parameter or a column begin with."""

    mode: Byte = row("set: mandatory 1, optional 2, default 4, escape character 8")
    io_type: Annotated[int, Num("B", IoType)] = row("direction")
    data_type: Annotated[int, Num("B", DataType)] = row("type")
    frac: Byte = row("digits after the decimal point; 255 for none that are fixed")
    length: Int2 = row("length by its declaration: digits or characters")
    in_out_len: Int2 = row("bytes in a data part with the undef byte")


class ParameterInfo(DescribedParameter):
    """One argument of shortinfo: a parameter or a column, 12 bytes."""

    bufpos: Int4 = row("position of the undef byte in a row of a data part, from 1 on")


class VardataParameterInfo(DescribedParameter):
    """One argument of vardata_shortinfo that is input, 12 bytes."""

    param_no: Int2 = row("number of the parameter")
    read_only: Byte = row("1: cannot be changed")
    serial: Byte = row("1: a serial column")


class ApplicationParameter(Layout):
    """One argument of appl_parameter_description, 4 bytes."""

    data_type: Annotated[int, Num("B", DataType)] = row("type")
    frac: Byte = row("digits after the decimal point")
    length: Int2 = row("length")


class LongDescriptor(Layout):
    """What stands for a LONG value in a row, after its undef byte: 40 bytes."""

    descriptor: C8 = row("identifier of the value", default=bytes(8))
    table_id: C8 = row("identifier of the table", default=bytes(8))
    maxlen: Int4 = row("longest value", default=0)
    intern_pos: Int4 = row("position of the piece in the value, from 1 on", default=0)
    infoset: Byte = row("set: no close 4, unicode 64 and others", default=0)
    state: Byte = row("set: stream 1 and others", default=0)
    used: Byte = row("the kernel's own", default=0)
    valmode: Annotated[int, Num("B", ValMode)] = row("which piece it is", default=ValMode.DATAPART)
    valind: Int2 = row("the client's own number of the value", default=0)
    unused: Int2 = row("unused", default=0)
    valpos: Int4 = row("where the piece begins in the part's buffer, from 1 on", default=0)
    vallen: Int4 = row("bytes of the piece", default=0)
