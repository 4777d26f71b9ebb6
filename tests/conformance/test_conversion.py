"""MQGMO_CONVERT of headers and of data behind them, in the encoding and character set that the getter asks for."""

import struct
from types import ModuleType
from typing import Any

import pytest

from tests.conformance.calls import Got, Session
from tests.conformance.headers import extension, fields_of

HOST, HOST_CCSID = 785, 500
"""The encoding of z/OS, whose integers are the other way round, and a character set of EBCDIC."""


def convert(session: Session, queue: str, warning: int = 0, **wanted: Any) -> Got:
    c = session.mq.CMQC
    options = c.MQGMO_CONVERT | c.MQGMO_PROPERTIES_FORCE_MQRFH2
    wanted = {"CodedCharSetId": 1208, "Encoding": c.MQENC_NATIVE, "warning": warning} | wanted
    return session.get(session.source(queue), options, match=c.MQMO_NONE, **wanted)


def put(session: Session, queue: str, format_: bytes, body: bytes) -> None:
    """Puts data as a program on z/OS does; the MQMDE is for ibmmq, which fails on an MQRFH2."""
    c = session.mq.CMQC
    announced = extension(c, Format=format_, Encoding=HOST, CodedCharSetId=HOST_CCSID, MsgFlags=0, MsgSeqNumber=1)
    session.put(session.destination(queue), announced + body, Format=c.MQFMT_MD_EXTENSION)


def host(text: str, size: int = 0) -> bytes:
    return text.ljust(size).encode("cp500")


def dead_letter_header(format_: str, ccsid: int = HOST_CCSID, encoding: int = HOST) -> bytes:
    return struct.pack(
        ">4s2i48s48s2i8si28s8s8s",
        *(host("DLH "), 1, 2053, host("QUEUE.Ä", 48), host("QM1", 48), encoding, ccsid, host(format_, 8)),
        *(6, host("a program", 28), host("20010203"), host("04050607")),
    )


def rules(format_: str, folder: bytes, name_value_ccsid: int = 1208, ccsid: int = HOST_CCSID) -> bytes:
    fixed = (host("RFH "), 2, 40 + len(folder), HOST, ccsid, host(format_, 8), 0, name_value_ccsid, len(folder))
    return struct.pack(">4s4i8s3i", *fixed) + folder


def test_a_header_and_the_text_behind_it(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MQDLH - Dead letter header, Character set and encoding; Conversion processing. Encoding, CodedCharSetId
    and Format say of both parts what they are then."""
    put(session, queue, c.MQFMT_DEAD_LETTER_HEADER, dead_letter_header("MQSTR") + host("Größe"))
    got = convert(session, queue, CodedCharSetId=819)
    assert (got.md.Format, got.md.CodedCharSetId, got.md.Encoding) == (b"MQDEAD  ", 819, c.MQENC_NATIVE)
    fields = struct.unpack("=4s2i48s48s2i8si28s8s8s", got.body[:172])
    assert fields[:5] == (b"DLH ", 1, 2053, "QUEUE.Ä".ljust(48).encode("latin-1"), b"QM1".ljust(48))
    assert fields[5:8] == (c.MQENC_NATIVE, 819, b"MQSTR   ")
    assert (fields[9], got.body[172:]) == (b"a program".ljust(28), "Größe".encode("latin-1"))


@pytest.mark.parametrize("format_", ["", "SASDATA"])
def test_a_header_before_what_cannot_be_converted(session: Session, queue: str, format_: str, c: ModuleType) -> None:
    """IBM MQ: 2110 (083E) MQRC_FORMAT_ERROR: "some parts may be converted and other parts not converted. However, the
    values returned in the various CodedCharSetId and Encoding fields always correctly describe the relevant data"."""
    put(session, queue, c.MQFMT_DEAD_LETTER_HEADER, dead_letter_header(format_) + host("body"))
    got = convert(session, queue, c.MQRC_FORMAT_ERROR)
    described = struct.unpack_from("=2i8s", got.body, 108)
    assert (got.md.CodedCharSetId, got.md.Encoding) == (1208, c.MQENC_NATIVE)
    assert described == (HOST, HOST_CCSID, format_.ljust(8).encode())
    assert got.body[172:] == host("body")


def test_a_header_before_nothing(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: Conversion processing: where there are no data there is nothing to convert."""
    put(session, queue, c.MQFMT_DEAD_LETTER_HEADER, dead_letter_header(""))
    assert convert(session, queue).body[:4] == b"DLH "


def test_data_that_are_as_wanted_behind_a_header_that_is_not(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: Conversion processing: each part by its own CodedCharSetId and Encoding."""
    body = dead_letter_header("SASDATA", ccsid=1208, encoding=c.MQENC_NATIVE) + b"\xff"
    put(session, queue, c.MQFMT_DEAD_LETTER_HEADER, body)
    got = convert(session, queue)
    assert struct.unpack_from("=2i", got.body, 108) == (c.MQENC_NATIVE, 1208)
    assert got.body[172:] == b"\xff"


def test_data_inherit_the_character_set(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MQDLH, CodedCharSetId: MQCCSI_INHERIT: that of the structure itself."""
    body = dead_letter_header("SASDATA", ccsid=c.MQCCSI_INHERIT) + host("body")
    put(session, queue, c.MQFMT_DEAD_LETTER_HEADER, body)
    got = convert(session, queue, c.MQRC_FORMAT_ERROR)
    assert struct.unpack_from("=2i", got.body, 108) == (HOST, HOST_CCSID)


def test_a_header_that_is_none(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2110 (083E) MQRC_FORMAT_ERROR: "data that is not consistent with the format definition"."""
    session.put(session.destination(queue), b"no header", version=1, Format=b"MQIMS", CodedCharSetId=500)
    got = convert(session, queue, c.MQRC_FORMAT_ERROR)
    assert (got.body, got.md.CodedCharSetId) == (b"no header", 500)


@pytest.mark.parametrize("ccsid", [1208, 1200])
def test_folders_keep_their_character_set(session: Session, queue: str, ccsid: int, c: ModuleType) -> None:
    """IBM MQ: NameValueData: "not converted to the character set specified on the MQGET call … However, NameValueData
    is converted to the encoding"."""
    text = "<usr><a>Größe</a></usr>  "
    folder = text.encode("utf-8" if ccsid == 1208 else "utf-16-be")
    folder += b" " * (-len(folder) % 4) if ccsid == 1208 else b"\0 " * (-len(folder) % 4 // 2)
    put(session, queue, c.MQFMT_RF_HEADER_2, rules("MQSTR", folder, ccsid) + host("Größe"))
    got = convert(session, queue)
    fixed = struct.unpack_from("=4s4i8s3i", got.body)
    assert fixed[:8] == (b"RFH ", 2, 40 + len(folder), c.MQENC_NATIVE, 1208, b"MQSTR   ", 0, ccsid)
    kept = got.body[40 : 40 + len(folder)]
    assert kept.decode("utf-8" if ccsid == 1208 else "utf-16-le").rstrip() == text.rstrip()
    assert got.body[40 + len(folder) :] == "Größe".encode()


def test_a_chain_of_headers(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: Processing conventions: "one or more MQ header structures followed by user data"."""
    folder = b"<usr><a>1</a></usr> "
    put(
        session,
        queue,
        c.MQFMT_DEAD_LETTER_HEADER,
        dead_letter_header("MQHRF2") + rules("MQSTR", folder) + host("text"),
    )
    got = convert(session, queue)
    assert struct.unpack_from("=2i8s", got.body, 108) == (c.MQENC_NATIVE, 1208, b"MQHRF2  ")
    assert (got.body[172:176], got.body[-4:]) == (b"RFH ", b"text")


def test_the_extension_describes_what_was_converted(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MQMDE: one that the queue manager makes is in its own encoding, and describes the data behind it."""
    session.put(
        session.destination(queue),
        host("text"),
        Format=b"MQSTR",
        CodedCharSetId=HOST_CCSID,
        GroupId=b"g" * 24,
        MsgFlags=c.MQMF_MSG_IN_GROUP,
    )
    got = convert(session, queue, version=1)
    assert fields_of(got.body[:72])[3:6] == (c.MQENC_NATIVE, 1208, b"MQSTR   ")
    assert got.body[72:] == b"text"


def test_a_message_from_a_transmission_queue(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MQXQH - Transmission-queue header: the descriptor in it is converted, and describes what follows."""
    names = struct.pack(">4si48s48s", host("XQH "), 1, host("Q", 48), host("QM2", 48))
    head = struct.pack(">4s7i8s2i", host("MD  "), 1, 0, 8, -1, 0, HOST, HOST_CCSID, host("MQSTR", 8), 0, 0)
    identity = struct.pack(">24s24si48s48s12s32s32s", b"i" * 24, b"c" * 24, 0, *(host("", n) for n in (48, 48, 12)),
                           b"t" * 32, host("", 32))  # fmt: skip
    origin = struct.pack(">i28s8s8s4s", 6, host("a program", 28), host("20010203"), host("04050607"), host("", 4))
    put(session, queue, c.MQFMT_XMIT_Q_HEADER, names + head + identity + origin + host("text"))
    got = convert(session, queue)
    assert struct.unpack_from("=4si48s", got.body) == (b"XQH ", 1, b"Q".ljust(48))
    assert struct.unpack_from("=2i8s", got.body, 104 + 24) == (c.MQENC_NATIVE, 1208, b"MQSTR   ")
    assert (got.body[104 + 48 : 104 + 72], got.body[428:]) == (b"i" * 24, b"text")


def test_programmable_command_formats(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: Structures for commands and responses: numbers, strings with a CodedCharSetId of their own, and bytes."""
    text = host("QUEUE.Ä", 8)
    body = struct.pack(">9i", 7, 36, 3, 0, 1, 1, 0, 0, 4)
    body += struct.pack(">4i", 3, 16, 20, 1) + struct.pack(">5i", 4, 28, 2016, 0, 7) + text
    body += struct.pack(">6i", 5, 24, 1002, 2, 3, 5) + struct.pack(">4i", 9, 20, 7001, 2) + b"\x01\x02\0\0"
    put(session, queue, c.MQFMT_ADMIN, body)
    got = convert(session, queue, CodedCharSetId=819)
    assert struct.unpack_from("=9i", got.body) == (7, 36, 3, 0, 1, 1, 0, 0, 4)
    assert struct.unpack_from("=4i5i", got.body, 36) == (3, 16, 20, 1, 4, 28, 2016, 819, 7)
    assert got.body[72:79].decode("latin-1") == "QUEUE.Ä"
    assert struct.unpack_from("=6i4i2s", got.body, 80) == (5, 24, 1002, 2, 3, 5, 9, 20, 7001, 2, b"\x01\x02")


def test_what_is_no_command_format(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2110 (083E) MQRC_FORMAT_ERROR."""
    put(session, queue, c.MQFMT_ADMIN, struct.pack(">9i", 7, 36, 3, 0, 1, 1, 0, 0, 1) + b"\0" * 9)
    convert(session, queue, c.MQRC_FORMAT_ERROR)


def test_a_name_that_does_not_fit_any_more(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2190 (088E) MQRC_CONVERTED_STRING_TOO_BIG: "a string in a fixed-length field … expanded"; blanks at its
    end are given up before."""
    header = dead_letter_header("MQSTR")
    put(session, queue, c.MQFMT_DEAD_LETTER_HEADER, header[:12] + host("Ä" * 24, 48) + header[60:] + host("text"))
    assert convert(session, queue).body[12:60] == ("Ä" * 24).encode()
    put(session, queue, c.MQFMT_DEAD_LETTER_HEADER, header[:12] + host("Ä" * 25, 48) + header[60:] + host("text"))
    got = convert(session, queue, c.MQRC_CONVERTED_STRING_TOO_BIG)
    assert (got.body[:4], got.md.CodedCharSetId, got.md.Encoding) == (host("DLH "), HOST_CCSID, HOST)


def test_a_message_that_does_not_fit_any_more(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2120 (0848) MQRC_CONVERTED_MSG_TOO_BIG: the message is returned unconverted, and is gone."""
    session.put(session.destination(queue), b"\xe4" * 4, Format=b"MQSTR", CodedCharSetId=819)
    got = convert(session, queue, c.MQRC_CONVERTED_MSG_TOO_BIG, length=4)
    assert (got.body, got.md.CodedCharSetId) == (b"\xe4" * 4, 819)
    assert session.bodies(session.source(queue)) == []


@pytest.mark.parametrize(
    ("put_as", "wanted", "reason"), [(3, 546, "SOURCE"), (273, 3, "TARGET")]
)  # fmt: skip
def test_encodings_that_are_not_known(
    session: Session, queue: str, put_as: int, wanted: int, reason: str, c: ModuleType
) -> None:
    """IBM MQ: 2112 (0840) MQRC_SOURCE_INTEGER_ENC_ERROR; 2116 (0844) MQRC_TARGET_INTEGER_ENC_ERROR."""
    session.put(session.destination(queue), b"text", Format=b"MQSTR", CodedCharSetId=819, Encoding=put_as)
    convert(session, queue, getattr(c, f"MQRC_{reason}_INTEGER_ENC_ERROR"), Encoding=wanted)


def test_the_byte_order_of_utf_16(session: Session, queue: str) -> None:
    """IBM MQ: Unicode: the byte order of UTF-16 is that of the Encoding."""
    session.put(
        session.destination(queue), "Größe".encode("utf-16-be"), Format=b"MQSTR", CodedCharSetId=1200, Encoding=273
    )
    assert convert(session, queue, CodedCharSetId=1200).body == "Größe".encode("utf-16-le")
