"""What physical messages of the framing `sas_queue` mean, well made or not."""

from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.codecs.sas import correlid, dialect
from app.codecs.sas.attachment_messages import write_count, write_header
from app.codecs.sas.dialect import DIALECTS, Dialect
from app.framing import sas_queue
from app.framing.message_charsets import charset_of, charsets
from app.framing.message_events import read_event
from app.model.attachment import AttachmentDefinition, AttachmentKind, MessageHeader
from app.model.errors import InvalidInputError
from app.model.event import Announced, Event, PartArrived, Unsequenced
from app.model.message import PhysicalMessage
from app.model.records import FramingOptions

HEADER, SUBORDINATE = 100_000, 100_001
KEY = bytes(range(65, 81))
SEGMENTS = [
    (0b00001, 0, True),
    (0b00010, 0, False),
    (0b00010, 9, False),
    (0b00110, 9, False),
    (0b00100, 9, False),
    (0b11110, 0, True),
    (0b00110, 0, True),
    (0b00100, 0, True),
    (0b00000, 9, False),
]
"""MsgFlags and Offset, and whether such a message is a whole one. A queue manager that puts the segments of a message
together says that it is the only segment."""


def physical(
    msg_type: int, body: bytes, correl_id: bytes = bytes(24), *, ccsid: int = 0, encoding: int = 0
) -> PhysicalMessage:
    return PhysicalMessage("orders", "sas_queue", msg_type, correl_id, body, ccsid=ccsid, encoding=encoding)


def read(message: PhysicalMessage, known: int = dialect.ALL) -> Event:
    return sas_queue.SAS_QUEUE.read(message, known)


def header(*names: str) -> MessageHeader:
    entries = tuple(
        AttachmentDefinition(AttachmentKind.TEXT_FILE, bytes([number]) * 16, "FILENAME", name, "of the day", 1, 2)
        for number, name in enumerate(names, 1)
    )
    return MessageHeader(b"H" * 24, 8, b"O" * 24, b"M" * 24, entries)


def refusal(message: PhysicalMessage) -> InvalidInputError:
    with pytest.raises(InvalidInputError) as caught:
        read(message)
    return caught.value


@pytest.mark.parametrize(("flags", "offset", "is_whole"), SEGMENTS)
@pytest.mark.parametrize("msg_type", [HEADER, SUBORDINATE])
def test_a_segment_is_refused_unless_it_is_the_only_one(
    msg_type: int, flags: int, offset: int, *, is_whole: bool
) -> None:
    whole = physical(msg_type, write_header(header("a"), DIALECTS[0]), correlid.join(KEY, 2))
    came = whole._replace(msg_flags=flags, offset=offset, group_id=b"G" * 24)
    if is_whole:
        assert read_event(came, dialect.ALL) == read_event(whole, dialect.ALL)
        return
    with pytest.raises(InvalidInputError) as caught:
        read_event(came, dialect.ALL)
    assert caught.value.code == "segmented-message"
    assert "MQGMO_COMPLETE_MSG" in caught.value.why


# --- what is well made --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("written", DIALECTS, ids=lambda each: each.name)
def test_a_header_announces_what_was_written(written: Dialect) -> None:
    said = header("first.txt", "second.txt", "")
    event = read(physical(HEADER, write_header(said, written)))
    assert isinstance(event, Announced)
    assert event.header == said
    assert event.dialects & dialect.mask_of(written)


def test_the_dialects_of_a_source_come_first_and_others_are_read_all_the_same() -> None:
    big, little = Dialect(">"), Dialect("<")
    empty = write_header(MessageHeader(bytes(24), 0, bytes(24), bytes(24), ()), big)
    event = read(physical(HEADER, empty), dialect.mask_of(little))
    assert event == Announced(MessageHeader(bytes(24), 0, bytes(24), bytes(24), ()), dialect.mask_of(little))
    event = read(physical(HEADER, write_header(header("a"), big)), dialect.mask_of(little))
    assert isinstance(event, Announced)
    assert event.header == header("a")


@given(st.integers(1, 2**32 - 1).filter(lambda number: number != 0x20202020), st.binary(max_size=100))
def test_a_sequence_number_makes_a_part(sequence: int, body: bytes) -> None:
    event = read(physical(SUBORDINATE, body, correlid.join(KEY, sequence)))
    assert event == PartArrived(KEY, sequence, len(body))


@pytest.mark.parametrize("bare", [KEY, KEY + bytes(4), KEY + bytes(8), KEY + b" " * 8, KEY + bytes(4) + b"\xff" * 4])
@pytest.mark.parametrize("order", [">", "<"])
def test_a_count_is_read_in_both_byte_orders(bare: bytes, order: str) -> None:
    body = write_count(3, Dialect("<" if order == "<" else ">"))
    counts = (3 << 24, 3) if order == "<" else (3, 3 << 24)
    assert read(physical(SUBORDINATE, body, bare)) == Unsequenced(KEY, counts, 4)


@pytest.mark.parametrize("body", [b"", b"\xff" * 4, b"\x80\0\0\x80", b"abc", b"an application message"])
def test_what_can_be_no_count_may_be_an_application_message(body: bytes) -> None:
    assert read(physical(SUBORDINATE, body, KEY)) == Unsequenced(KEY, (), len(body))


def test_a_body_may_lie_in_a_larger_buffer() -> None:
    body = write_header(header("a"), DIALECTS[0])
    whole = memoryview(b"before" + body + b"behind")
    message = physical(HEADER, b"")._replace(body=whole[6:-6])
    assert read(message) == read(physical(HEADER, body))


# --- character sets -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "charset", "ccsid"),
    [
        ("отчёт.csv", "utf-8", 1208),
        ("отчёт.csv", "utf-8", 0),
        ("отчёт.csv", "cp1251", 1251),
        ("prix €.txt", "cp1140", 1140),
        ("Ü.txt", "latin-1", 1208),
        ("Ü.txt", "latin-1", 65_535),
        ("Ü.txt", "utf-8", -3),
    ],
)
def test_names_are_read_as_the_descriptor_says_or_as_they_can_be(name: str, charset: str, ccsid: int) -> None:
    event = read(physical(HEADER, write_header(header(name), DIALECTS[0], charset), ccsid=ccsid))
    assert isinstance(event, Announced)
    assert event.header.attachments[0].qualifier_2 == name


CHARACTER_SETS: list[tuple[int, int, list[str]]] = [
    (1208, 0, ["utf-8", "cp1252", "latin-1"]),
    (819, 0, ["latin-1", "utf-8", "cp1252"]),
    (37, 785, ["cp037", "utf-8", "cp1252", "latin-1"]),
    (937, 785, ["cp500", "utf-8", "cp1252", "latin-1"]),
    (1200, 546, ["utf-16-le", "utf-8", "cp1252", "latin-1"]),
    (0, 0, ["utf-8", "cp1252", "latin-1"]),
    (99_999, 0, ["utf-8", "cp1252", "latin-1"]),
]


@pytest.mark.parametrize(("ccsid", "encoding", "tried"), CHARACTER_SETS)
def test_names_are_written_in_the_character_set_that_is_tried_first(
    ccsid: int, encoding: int, tried: list[str]
) -> None:
    assert charset_of(FramingOptions(32_000, "", ccsid, encoding, None, "sas_queue")) == tried[0]


@pytest.mark.parametrize(("ccsid", "encoding", "tried"), CHARACTER_SETS)
def test_the_character_sets_that_are_tried(ccsid: int, encoding: int, tried: list[str]) -> None:
    assert list(charsets(physical(HEADER, b"", ccsid=ccsid, encoding=encoding))) == tried


# --- what is not --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("msg_type", [0, 8, 99_999, 100_002, -1, 2**31 - 1])
def test_other_message_types_are_named(msg_type: int) -> None:
    error = refusal(physical(msg_type, b""))
    assert (error.code, error.row, error.at) == ("unknown-message-type", "msg_type", -1)
    assert str(msg_type) in error.why


@pytest.mark.parametrize("cut", [0, 1, 23, 24, 60, 79, 80, -1])
def test_a_header_that_was_cut_is_refused_where_it_ends(cut: int) -> None:
    error = refusal(physical(HEADER, write_header(header("first.txt"), DIALECTS[0])[:cut]))
    assert error.code == "bad-header"
    assert error.row
    assert error.at >= 0


@pytest.mark.parametrize("count", [2, 10_000, 2**31 - 1, -1, -(2**31)])
def test_a_count_of_attachments_that_are_not_there_is_refused(count: int) -> None:
    body = bytearray(write_header(header("first.txt"), DIALECTS[0]))
    body[76:80] = count.to_bytes(4, "big", signed=True)
    assert refusal(physical(HEADER, bytes(body))).code == "bad-header"


def header_body(name: str, charset: str) -> bytes:
    """A header with a second name that the gateway itself does not write."""
    stand_in = "?" * len(name)
    body = write_header(header("fine", stand_in), DIALECTS[0], charset)
    return body.replace(stand_in.encode(charset), name.encode(charset))


@pytest.mark.parametrize("name", ["a\0b", "\x1b[31m", "\x7f", "bell\x07"])
def test_control_characters_in_a_name_are_refused(name: str) -> None:
    for charset in ("utf-8", "latin-1"):
        error = refusal(physical(HEADER, header_body(name, charset), ccsid=1208))
        assert (error.code, error.row) == ("bad-header", "AttachmentHeader.attachments[1].qualifier2")
        assert "control character" in error.why


def test_the_reason_is_that_of_the_declared_character_set() -> None:
    body = header_body("\x01", "cp1140")
    assert "control character 01" in refusal(physical(HEADER, body, ccsid=1140)).why


WHOLE = write_header(header("first.txt", "second.txt"), DIALECTS[0])


@st.composite
def spoilt_headers(draw: st.DrawFn) -> bytes:
    """A header with some bytes overwritten, cut out or put in."""
    body = bytearray(write_header(header("first.txt", "second.txt"), draw(st.sampled_from(DIALECTS))))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(body)))
        body[at : at + draw(st.integers(0, 8))] = draw(st.binary(max_size=8))
    return bytes(body)


@given(
    st.builds(
        PhysicalMessage,
        st.just("orders"),
        st.just("sas_queue"),
        st.sampled_from([HEADER, SUBORDINATE]) | st.integers(-(2**31), 2**31 - 1),
        st.binary(max_size=30),
        st.binary(max_size=200) | spoilt_headers(),
        encoding=st.sampled_from([0, 273, 546, 785, -1]),
        ccsid=st.sampled_from([0, 37, 819, 932, 1200, 1208, 13488, -3, 2**31 - 1]),
    ),
    st.integers(0, dialect.ALL),
)
@example(physical(HEADER, WHOLE + b"\0"), dialect.ALL)
@example(physical(SUBORDINATE, b"", b""), 0)
def test_any_message_means_something_or_is_refused_with_a_reason(message: PhysicalMessage, known: int) -> None:
    found = meaning(message, known)
    if isinstance(found, InvalidInputError):
        assert found.code in {"unknown-message-type", "bad-header"}
        assert found.row
        assert found.why
    elif isinstance(found, Announced):
        assert found.dialects & dialect.ALL == found.dialects != 0
    else:
        assert len(found.correl_id) == 16


def meaning(message: PhysicalMessage, known: int) -> Event | InvalidInputError:
    try:
        return read(message, known)
    except InvalidInputError as error:
        return error


def test_a_header_longer_than_any_list_of_attachments_is_refused_unread() -> None:
    body = write_header(header("first.txt"), DIALECTS[0])
    error = refusal(physical(HEADER, body + bytes(sas_queue.LONGEST_HEADER)))
    assert (error.code, error.at) == ("bad-header", sas_queue.LONGEST_HEADER)
    assert "bytes, at most 8,388,608 are read" in error.why


def test_a_large_header_of_noise_is_refused() -> None:
    body = bytearray(Random(3).randbytes(1 << 20))
    body[76:80] = (10_000).to_bytes(4, "big")
    assert refusal(physical(HEADER, bytes(body))).code == "bad-header"
