"""Unloaded queues: a file written by hand from IBM's pages, what IBM's program writes of any message, and any bytes."""

from io import BytesIO
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.capture import qload
from app.capture.capture_entries import Entry, RefusedEntry, lines
from app.model.message import PhysicalMessage
from tests.support import captures
from tests.support.captures import NOW, Display, entries, origin, unloaded
from tests.support.sas_client import Program, binary_file, message

SAMPLE = (Path(__file__).parents[1] / "vectors" / "qload" / "unloaded.txt").read_bytes()

LONG = st.integers(-(2**31), 2**31 - 1)
IDENTIFIER = st.just(b"") | st.binary(min_size=24, max_size=24).filter(any)
MESSAGES = st.builds(
    PhysicalMessage,
    st.just(captures.SOURCE),
    st.just("sas_queue"),
    msg_type=LONG,
    correl_id=st.binary(min_size=24, max_size=24),
    body=st.binary(max_size=200) | st.text('ab~" *<>\\', max_size=150).map(str.encode),
    message_id=IDENTIFIER,
    group_id=IDENTIFIER,
    msg_seq_number=LONG,
    offset=LONG,
    msg_flags=LONG,
    original_length=LONG,
    encoding=LONG,
    ccsid=LONG,
    format=st.sampled_from(["", "MQSTR", "FMT12345"]),
    put_time=st.integers(0, 2**47).map(lambda hundredths: hundredths // 10_000 * 10_000),
    received_at=st.just(NOW),
    properties=st.just({}),
)


def read(text: bytes) -> list[Entry]:
    return entries(qload.read, text)


def only(text: str) -> Entry:
    (entry,) = read(text.encode())
    return entry


def refusal(text: str) -> RefusedEntry:
    entry = only(text)
    assert isinstance(entry, RefusedEntry)
    return entry


def refused(entry: Entry) -> tuple[int, bytes]:
    """A refusal's line and bytes."""
    assert isinstance(entry, RefusedEntry)
    return entry.line, bytes(entry.message.body)


def test_a_file_of_every_kind_of_line() -> None:
    first, second, third, fourth = read(SAMPLE)
    queued = bytes.fromhex("414D5120514D31202020202020202020A1B2C3D4020001")
    assert first == PhysicalMessage(
        captures.SOURCE,
        "sas_queue",
        100001,
        bytes(range(16)) + bytes.fromhex("0000000100000000"),
        bytes.fromhex("000000000000C80000000000000000000000000000000000FF41424344"),
        queued + b"\x20",
        encoding=546,
        ccsid=1208,
        put_time=1_795_246_200_120_000,
        received_at=NOW,
    )
    assert second == PhysicalMessage(
        captures.SOURCE,
        "sas_queue",
        8,
        body=b'Dear all,\r\nthe "orders" of ~ today: AB and a literal',
        message_id=queued + b"\x21",
        encoding=273,
        ccsid=819,
        format="MQSTR",
        put_time=1_795_246_201_990_000,
        received_at=NOW,
    )
    assert third == PhysicalMessage(captures.SOURCE, "sas_queue", 8, body=b"first line\n\nlast line\n", received_at=NOW)
    assert fourth == PhysicalMessage(
        captures.SOURCE,
        "sas_queue",
        8,
        body=b"last",
        message_id=queued + b"\x22",
        group_id=b"G" * 24,
        msg_seq_number=2,
        msg_flags=0x18,
        encoding=546,
        ccsid=1208,
        format="MQSTR",
        received_at=NOW,
    )


@given(st.lists(MESSAGES, max_size=3), st.sampled_from(["hex", "columns", "ascii"]), st.sampled_from([10, 25, 4000]))
def test_what_is_unloaded_is_read(messages: list[PhysicalMessage], display: Display, width: int) -> None:
    assert read(unloaded(messages, display, width)) == messages


def test_line_ends_of_windows_are_none_of_the_text() -> None:
    assert read(SAMPLE.replace(b"\n", b"\r\n")) == read(SAMPLE)


def test_a_file_cut_anywhere_gives_the_messages_before_the_cut() -> None:
    random = Random(1)
    program = Program(random)
    sent = [
        each._replace(source=captures.SOURCE, received_at=NOW)
        for each in message(program, [binary_file(program, "a", b"abc")])[:3]
    ]
    text = unloaded(sent, "ascii")
    _, *ends = [at for at in range(len(text)) if text[at:].startswith(b"\n\nA ")]
    for cut in range(len(text)):
        found = read(text[:cut])
        whole = sum(end < cut for end in ends)
        assert found[:whole] == sent[:whole]
        assert len(found) <= whole + 1
        assert all(isinstance(each, RefusedEntry) for each in found[whole:]) or text[:cut].endswith(b"\n")
        assert all(isinstance(each, PhysicalMessage | RefusedEntry) for each in found)


@given(st.binary(max_size=300) | st.text('ANXST *"~\nVERMSTCOI0123456789abcf<>', max_size=300).map(str.encode))
def test_any_bytes_are_messages_or_refused(text: bytes) -> None:
    for entry in read(text):
        if isinstance(entry, RefusedEntry):
            assert (entry.code, entry.message.received_at) == ("bad-unload", NOW)
            assert 1 <= entry.line <= text.count(b"\n") + 1
            assert bytes(entry.message.body).strip(b"\n")


@pytest.mark.parametrize(
    ("text", "line", "at", "why"),
    [
        ("Q 41", 1, 0, "'Q 41' is not a line"),
        ("A  VER 2\nX", 1, 2, "unknown code ' VER 2'; known are: VER, RPT"),
        ("A AOK 1\nX", 1, 2, "unknown code 'AOK 1'; known are"),
        ("A VERS 2\nX", 1, 2, "unknown code 'VERS 2'; known are"),
        ("AVER 2\nX", 1, 0, "'AVER 2' is not a line"),
        ("* comment\n\nX 41", 3, 0, "the body has no descriptor"),
        ("N\nA MST 8x\nX", 2, 6, "'8x' is not a 32-bit number"),
        ("N\nA MST 2147483648\nX", 2, 6, "not a 32-bit number"),
        ("N\nA COI 00g1\nX", 2, 8, "not a hexadecimal digit: 'g'"),
        ("N\nA COI 001\nX", 2, 6, "found 3 digits; 24 bytes have 48"),
        (f"N\nA MSI {'00' * 25}\nX", 2, 6, "50 digits"),
        ("N\nA FMT 123456789\nX", 2, 6, "9 characters; at most 8 are allowed"),
        ("N\nX 4", 2, 3, "odd number of hexadecimal digits: 1"),
        ("N\nX 41 42", 2, 4, "not a hexadecimal digit: ' '"),
        ("N\nX 41zz", 2, 4, "not a hexadecimal digit: 'z'"),
        ("N\nX 41  <A", 2, 4, "not a hexadecimal digit"),
        ('N\nS "abc', 2, 2, "this text has no closing quotation mark"),
        ('N\nS "ab~', 2, 5, "this text has no closing quotation mark"),
        ('N\nS "a~b"', 2, 4, "may follow ~"),
        ('N\nS "a" b', 2, 5, "unexpected text after the closing quotation mark"),
        ("A VER 2\nN\nX", 2, 0, "replaces the descriptor"),
        ("A VER 2\n", 1, -1, "the descriptor has no body"),
        ("N", 1, -1, "the descriptor has no body"),
    ],
)
def test_what_cannot_be_read_has_its_place(text: str, line: int, at: int, why: str) -> None:
    found = refusal(text)
    assert (found.code, found.line, found.at) == ("bad-unload", line, at)
    assert why in found.why


def test_reading_goes_on_behind_what_cannot_be_read() -> None:
    text = b"N\nX 41\n\nA MST x\nX 42\nX 43\n\nA VER 2\nA VER 1\nX 44\nQ\nX 45\nN\nX 46\n"
    bodies = [each.body if isinstance(each, PhysicalMessage) else refused(each) for each in read(text)]
    assert bodies == [
        b"A",
        (4, b"A MST x\nX 42\nX 43\n"),
        (8, b"A VER 2\n"),
        (11, b"A VER 1\nX 44\nQ\nX 45\n"),
        b"F",
    ]


def test_bad_headers_keep_the_message_as_it_is_described() -> None:
    found = refusal("A MST 8\nA FMT MQDEAD\nA MSI 41\nX 444C482000000001\n")
    assert (found.code, found.line) == ("bad-mq-header", 1)
    assert found.why.startswith("MQDLH")
    assert found.message == PhysicalMessage(
        captures.SOURCE,
        "sas_queue",
        8,
        body=b"DLH \0\0\0\1",
        message_id=b"A" + bytes(23),
        format="MQDEAD",
        received_at=NOW,
    )


def test_what_a_message_does_not_say_the_import_says() -> None:
    said = origin(msg_type=100001, encoding=273, ccsid=500)
    found = list(qload.read(lines(BytesIO(b"N\nX\nA MST 1\nA CCS 0\nA ENC 546\nX\n")), said))
    assert [(each.msg_type, each.encoding, each.ccsid) for each in found if isinstance(each, PhysicalMessage)] == [
        (100001, 273, 500),
        (1, 546, 500),
    ]
