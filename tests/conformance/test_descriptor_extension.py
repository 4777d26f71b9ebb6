"""MQMDE: what the queue manager does with one in front of the data, and when it makes one.

The rows are those of IBM MQ: "MQMDE - Message descriptor extension", table 1.
"""

import struct
from types import ModuleType
from typing import Any

import pytest

from tests.conformance.calls import Got, Session
from tests.conformance.headers import GROUP, dead_letter_header, extension, fields_of


def put_with(session: Session, queue: str, mde: bytes, version: int, **fields: Any) -> Any:
    return session.put(
        session.destination(queue),
        mde + b"data",
        version=version,
        **{"Format": session.mq.CMQC.MQFMT_MD_EXTENSION, **fields},
    )


def extended(got: Got) -> tuple[Any, ...]:
    """The fields that a version-2 MQMD has more, and what describes the data."""
    md = got.md
    return (md.GroupId, md.MsgSeqNumber, md.Offset, md.MsgFlags, md.Format, md.Encoding, md.CodedCharSetId)


@pytest.mark.parametrize("version", [1, 2])
def test_a_valid_one_is_honoured(session: Session, queue: str, version: int, c: ModuleType) -> None:
    """Rows 1 and 2: a version-1 MQMD, or a version-2 MQMD with initial values, and a valid MQMDE."""
    put_with(session, queue, extension(c), version)
    got = session.get(session.source(queue))
    assert got.body == b"data"
    assert extended(got) == (GROUP, 3, 0, c.MQMF_MSG_IN_GROUP, b"MQSTR   ", 273, 1252)


def test_beside_other_values_it_is_data(session: Session, queue: str, c: ModuleType) -> None:
    """Row 3: a version-2 MQMD with values of its own and a valid MQMDE."""
    mde = extension(c)
    put_with(session, queue, mde, 2, MsgFlags=c.MQMF_LAST_MSG_IN_GROUP, GroupId=b"\x05" * 24, MsgSeqNumber=9)
    got = session.get(session.source(queue))
    assert got.body == mde + b"data"
    assert got.md.Format == c.MQFMT_MD_EXTENSION
    assert (got.md.GroupId, got.md.MsgSeqNumber) == (b"\x05" * 24, 9)


INVALID: dict[str, tuple[str, dict[str, Any]]] = {
    "identifier": ("MQRC_MDE_ERROR", {"StrucId": b"XYZ "}),
    "length": ("MQRC_MDE_ERROR", {"StrucLength": 68}),
    "no sequence number": ("MQRC_MSG_SEQ_NUMBER_ERROR", {"MsgSeqNumber": 0}),
    "sequence number too high": ("MQRC_MSG_SEQ_NUMBER_ERROR", {"MsgSeqNumber": 1_000_000_000}),
    "negative offset": ("MQRC_OFFSET_ERROR", {"MsgFlags": 2, "Offset": -1}),
    "offset too high": ("MQRC_OFFSET_ERROR", {"MsgFlags": 2, "Offset": 1_000_000_000}),
    "unknown flag": ("MQRC_MSG_FLAGS_ERROR", {"MsgFlags": 0x800}),
}


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("case", INVALID)
def test_one_that_is_not_valid_fails_the_call(
    session: Session, queue: str, version: int, case: str, c: ModuleType
) -> None:
    """Row 4, and IBM MQ: 2248 MDE_ERROR, 2249 MSG_FLAGS_ERROR, 2250 MSG_SEQ_NUMBER_ERROR, 2251 OFFSET_ERROR."""
    reason, fields = INVALID[case]
    with session.fails(getattr(c, reason)):
        put_with(session, queue, extension(c, **fields), version)
    assert session.bodies(session.source(queue)) == []


@pytest.mark.parametrize("version", [1, 2])
def test_one_that_is_cut_off_fails_the_call(session: Session, queue: str, version: int, c: ModuleType) -> None:
    """IBM MQ: 2248 (08C8) MQRC_MDE_ERROR, "extends beyond the end of the message"."""
    with session.fails(c.MQRC_MDE_ERROR):
        session.put(session.destination(queue), extension(c)[:71], version=version, Format=c.MQFMT_MD_EXTENSION)


@pytest.mark.parametrize("length", [3, 0, -1])
def test_the_original_length_of_a_report_segment(session: Session, queue: str, length: int, c: ModuleType) -> None:
    """IBM MQ: 2252 (08CC) MQRC_ORIGINAL_LENGTH_ERROR: shorter than the data of a report that is a segment."""
    mde = extension(c, MsgFlags=c.MQMF_SEGMENT, OriginalLength=length)
    with session.fails(c.MQRC_ORIGINAL_LENGTH_ERROR):
        put_with(session, queue, mde, 1, MsgType=c.MQMT_REPORT)


@pytest.mark.parametrize("flags", ["MQMF_MSG_IN_GROUP", "MQMF_SEGMENT"])
@pytest.mark.parametrize("length", [0, -5, 3])
def test_the_original_length_of_others_is_ignored(
    session: Session, queue: str, flags: str, length: int, c: ModuleType
) -> None:
    """IBM MQ: OriginalLength (MQLONG): the queue manager ignores the field of a segment that is no report message,
    and in all other cases."""
    put_with(session, queue, extension(c, MsgFlags=getattr(c, flags), OriginalLength=length), 1)
    got = session.get(session.source(queue))
    assert got.md.OriginalLength == (4 if flags == "MQMF_SEGMENT" else c.MQOL_UNDEFINED)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("case", ["encoding", "announced encoding", "character set", "version"])
def test_one_that_is_foreign_is_data(session: Session, queue: str, version: int, case: str, c: ModuleType) -> None:
    """Row 5: wrong encoding or character set, or an unsupported version (of which the page on 2248 says otherwise)."""
    mde, fields = {
        "encoding": (extension(c, ">"), {"Encoding": 273}),
        "announced encoding": (extension(c), {"Encoding": 273}),
        "character set": (extension(c, codec="cp500"), {"CodedCharSetId": 500}),
        "version": (extension(c, Version=3), {}),
    }[case]
    put_with(session, queue, mde, version, **fields)
    got = session.get(session.source(queue))
    assert got.body == mde + b"data"
    assert got.md.Format == c.MQFMT_MD_EXTENSION
    assert (got.md.GroupId, got.md.MsgFlags) == (bytes(24), 0)


@pytest.mark.guess
def test_no_character_set_for_the_data_is_accepted(session: Session, queue: str, c: ModuleType) -> None:
    """Table 2 has CodedCharSetId zero as initial value, the page on 2248 calls it an error: the first is believed."""
    put_with(session, queue, extension(c, CodedCharSetId=0), 1)
    assert session.get(session.source(queue)).body == b"data"


def test_a_group_without_flags_is_none(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: GroupId (MQBYTE24): "if none of these flags is set, GroupId has the special null value MQGI_NONE"."""
    put_with(session, queue, extension(c, MsgFlags=0), 1)
    got = session.get(session.source(queue))
    assert extended(got)[:4] == (bytes(24), 1, 0, 0)


def test_version_1_gets_one_in_front(session: Session, queue: str, c: ModuleType) -> None:
    """Under "MQMDE returned by MQGET call": for a version-1 MQMD, in the queue manager's own ways of writing."""
    session.put(
        session.destination(queue),
        b"data",
        Format=b"MQSTR",
        Encoding=273,
        CodedCharSetId=1252,
        GroupId=GROUP,
        MsgSeqNumber=3,
        MsgFlags=c.MQMF_MSG_IN_GROUP,
    )
    got = session.get(session.source(queue), version=1)
    assert fields_of(got.body[:72]) == fields_of(extension(c))
    assert got.body[72:] == b"data"
    assert got.md.Format == c.MQFMT_MD_EXTENSION
    assert got.md.Encoding == c.MQENC_NATIVE
    assert got.md.CodedCharSetId == session.connection.inquire(c.MQIA_CODED_CHAR_SET_ID)
    assert got.length == 76


def test_version_1_gets_none_for_initial_values(session: Session, queue: str) -> None:
    """Under "MQMDE returned by MQGET call": only "if one or more of the fields in the MQMDE has a nondefault value"."""
    session.put(session.destination(queue), b"data", Format=b"MQSTR")
    got = session.get(session.source(queue), version=1)
    assert (got.body, got.md.Format) == (b"data", b"MQSTR   ")


def test_version_2_never_gets_one_made(session: Session, queue: str, c: ModuleType) -> None:
    """Under "Usage": "Applications that use a version-2 MQMD will not encounter an MQMDE structure"."""
    session.put(session.destination(queue), b"data", GroupId=GROUP, MsgFlags=c.MQMF_MSG_IN_GROUP)
    got = session.get(session.source(queue))
    assert (got.body, got.md.GroupId, got.md.Format) == (b"data", GROUP, c.MQFMT_NONE)


def test_one_made_for_a_message_with_one_as_data(session: Session, queue: str, c: ModuleType) -> None:
    """Both rules: data that is an MQMDE (row 3), got with version 1, stands behind another."""
    mde = extension(c)
    put_with(session, queue, mde, 2, MsgFlags=c.MQMF_LAST_MSG_IN_GROUP, GroupId=b"\x05" * 24)
    got = session.get(session.source(queue), version=1)
    assert got.body[72:] == mde + b"data"
    assert fields_of(got.body[:72])[5] == c.MQFMT_MD_EXTENSION
    assert got.md.Format == c.MQFMT_MD_EXTENSION


def test_the_original_length_of_a_segment(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: OriginalLength (MQLONG): of a segment that is no report "the length of the application message data"."""
    session.put(session.destination(queue), b"four", MsgFlags=c.MQMF_SEGMENT, OriginalLength=99)
    got = session.get(session.source(queue), version=1)
    assert fields_of(got.body[:72])[-1] == 4


def test_the_original_length_of_a_segment_put_with_one(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: OriginalLength (MQLONG): the MQMDE itself is not part of the data."""
    put_with(session, queue, extension(c, MsgFlags=c.MQMF_SEGMENT), 1)
    assert session.get(session.source(queue)).md.OriginalLength == 4


def put_dead_segment(session: Session, queue: str, c: ModuleType) -> None:
    session.put(
        session.destination(queue),
        dead_letter_header(c, "DESTINATION") + b"data",
        Format=c.MQFMT_DEAD_LETTER_HEADER,
        GroupId=GROUP,
        MsgSeqNumber=1,
        Offset=40,
        MsgFlags=c.MQMF_SEGMENT,
    )


def test_a_dead_segment_gets_one_behind_its_header(session: Session, queue: str, c: ModuleType) -> None:
    """Under "There is one special case": a segment put with version 2 and MQFMT_DEAD_LETTER_HEADER."""
    put_dead_segment(session, queue, c)
    got = session.get(session.source(queue))
    assert got.body[:108] == dead_letter_header(c, "DESTINATION")[:108]
    mde = fields_of(got.body[172:244])
    assert mde[:3] == (b"MDE ", 2, 72)
    assert mde[7:11] == (GROUP, 1, 40, c.MQMF_SEGMENT)
    assert got.body[244:] == b"data"
    assert extended(got)[:5] == (bytes(24), 1, 0, 0, c.MQFMT_DEAD_LETTER_HEADER)


@pytest.mark.guess
def test_a_dead_segments_headers_name_each_other(session: Session, queue: str, c: ModuleType) -> None:
    """Believed of the special case: MQDLH then names the MQMDE, and the MQMDE describes what the MQDLH did."""
    put_dead_segment(session, queue, c)
    body = session.get(session.source(queue)).body
    encoding, ccsid, format_name = struct.unpack("=2i8s", body[108:124])
    assert (encoding, format_name) == (c.MQENC_NATIVE, c.MQFMT_MD_EXTENSION)
    assert ccsid == session.connection.inquire(c.MQIA_CODED_CHAR_SET_ID)
    assert fields_of(body[172:244])[3:6] == (785, 500, b"MQSTR   ")
