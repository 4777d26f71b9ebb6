"""Headers that are not what they should be, counts, and correlids."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.codecs.sas.attachment_messages import (
    AttachmentEntry,
    AttachmentHeader,
    read_counts,
    read_header,
    write_count,
    write_header,
)
from app.codecs.sas.correlid import join, matches, split
from app.codecs.sas.dialect import Dialect, mask_of
from app.model.attachment import AttachmentDefinition, AttachmentKind, MessageHeader
from app.wire import WireError
from app.wire.kinds import Order
from tests.codecs.sas.samples import dialects

ENTRY = AttachmentDefinition(AttachmentKind.TEXT_FILE, b"\x33" * 16, "FILENAME", "notes.txt", "Notes", 1, 2)
HEADER = MessageHeader(b"h" * 24, 1, b"o" * 24, b"m" * 24, (ENTRY,))


@given(st.binary(max_size=300))
def test_noise_is_an_error(noise: bytes) -> None:
    with pytest.raises(WireError):
        read_header(noise)


@pytest.mark.parametrize("order", [">", "<"])
@pytest.mark.parametrize("msg_type", [0, 1, 8, 100, 65536, 100000])
def test_a_header_of_no_attachments_has_the_byte_order_that_makes_its_type_small(order: Order, msg_type: int) -> None:
    header = MessageHeader(b"H" * 24, msg_type, bytes(24), b"M" * 24, ())
    body = write_header(header, Dialect(order))
    assert read_header(body)[0] == header
    other = Dialect("<" if order == ">" else ">")
    if msg_type:
        assert read_header(body, known=mask_of(other))[0] != header, "what is known of the source comes first"


@pytest.mark.parametrize("count", [0, 2, 1000, (1 << 31) - 1, -1, -(1 << 31)])
def test_a_wrong_number_of_attachments(count: int) -> None:
    """Blank identifiers, as most senders have them, read as well with a `long` of 8 bytes."""
    header = replace(HEADER, original_msg_type=0, original_correl_id=bytes(24))
    for order, encoding in (("big", 273), ("little", 546)):
        body = write_header(header, Dialect.parse(f"{order}-4-excluded-packed"))
        wrong = count.to_bytes(4, order, signed=True)  # type: ignore[arg-type]
        with pytest.raises(WireError, match=f"{count}, but the message has 1 attachments") as raised:
            read_header(body[:76] + wrong + body[80:], encoding=encoding)
        assert (raised.value.row, raised.value.at) == ("AttachmentHeader.attachment_count", 76)


@pytest.mark.parametrize("length", [-1, 7, 9, (1 << 31) - 1, -(1 << 31)])
def test_a_wrong_length(length: int) -> None:
    body = write_header(HEADER, Dialect())
    with pytest.raises(WireError, match=r"AttachmentHeader"):
        read_header(body[:108] + length.to_bytes(4, "big", signed=True) + body[112:])


def test_an_unknown_type_and_a_control_character_are_named_with_their_byte() -> None:
    entry = AttachmentEntry(4, b"a" * 24, "FILENAME", "notes.txt", "Notes")
    body = AttachmentHeader(b"h" * 24, 1, b"o" * 24, b"m" * 24, 1, [entry]).encode()
    with pytest.raises(WireError, match="unknown attachment type 4") as raised:
        read_header(body)
    assert (raised.value.row, raised.value.at) == ("AttachmentHeader.attachments[0].type", 80)
    with pytest.raises(WireError, match="control character 07") as raised:
        read_header(
            write_header(HEADER, Dialect()).replace(
                ENTRY.qualifier_2.encode(), ENTRY.qualifier_2.encode()[:-1] + b"\x07"
            )
        )
    assert (raised.value.row, raised.value.at) == ("AttachmentHeader.attachments[0].qualifier2", 125)


@pytest.mark.parametrize(
    "entry",
    [
        replace(ENTRY, qualifier_1="a\x7fb"),
        replace(ENTRY, qualifier_2="a\x7fb"),
        replace(ENTRY, description="a\x7fb"),
    ],
)
def test_a_text_that_readers_refuse_is_not_written(entry: AttachmentDefinition) -> None:
    header = replace(HEADER, attachments=(entry,))
    with pytest.raises(WireError, match=r"attachments\[0\].*control character 7F"):
        write_header(header, Dialect())


def test_white_space_in_a_description_is_no_control_character() -> None:
    header = replace(HEADER, attachments=(replace(ENTRY, description="two\r\n\tlines"),))
    assert read_header(write_header(header, Dialect()))[0] == header


@pytest.mark.parametrize(
    ("charset", "name"), [("utf-8", "Fön \u5831\u544a.txt"), ("cp037", "Fön.txt"), ("cp1251", "отчёт")]
)
def test_names_in_other_character_sets(charset: str, name: str) -> None:
    header = replace(HEADER, attachments=(replace(ENTRY, qualifier_2=name),))
    body = write_header(header, Dialect("<"), charset)
    assert read_header(memoryview(body), charset=charset)[0] == header


def test_text_in_another_character_set_is_named_with_its_byte() -> None:
    body = write_header(replace(HEADER, attachments=(replace(ENTRY, qualifier_2="Fön"),)), Dialect())
    with pytest.raises(WireError, match="byte F6 is not utf-8") as raised:
        read_header(body, charset="utf-8")
    assert raised.value.at == 126


def test_what_does_not_fit_a_header_is_not_written() -> None:
    for header in (
        replace(HEADER, header_correl_id=b"short"),
        replace(HEADER, original_msg_type=1 << 31),
        replace(HEADER, attachments=(replace(ENTRY, correl_id=b"short"),)),
        replace(HEADER, attachments=(replace(ENTRY, qualifier_2="\u5831"),)),
    ):
        with pytest.raises(WireError):
            write_header(header, Dialect())


@given(st.integers(0, (1 << 31) - 1), dialects)
def test_counts(count: int, dialect: Dialect) -> None:
    body = write_count(count, dialect)
    readings = read_counts(memoryview(body))
    assert readings[dialect.order == "<"] == count


def test_what_can_be_a_count() -> None:
    assert read_counts(bytes.fromhex("00000003")) == (3, 3 << 24)
    assert read_counts(bytes.fromhex("0300000000000000")) == (3 << 56, 3)
    assert read_counts(bytes(4)) == (0, 0)
    assert read_counts(bytes.fromhex("000000FF")) == (255, -1 << 24)
    assert read_counts(bytes.fromhex("FFFFFFFF")) == ()
    assert [read_counts(bytes(size)) for size in (0, 1, 3, 5, 7, 9)] == [()] * 6
    with pytest.raises(WireError):
        write_count(1 << 31, Dialect())


@given(st.binary(min_size=16, max_size=16), st.integers(0, (1 << 32) - 1))
def test_correlids(key: bytes, sequence: int) -> None:
    correlid = join(key, sequence)
    assert len(correlid) == 24
    assert matches(correlid, correlid[:20])
    assert matches(correlid, correlid[:20] + b"    ")
    assert split(correlid) == (key, 0 if sequence == 0x20202020 else sequence)


def test_short_and_blank_correlids() -> None:
    assert split(b"") == (bytes(16), 0)
    assert split(b"ab") == (b"ab" + bytes(14), 0)
    assert split(b"k" * 16 + b" " * 8) == (b"k" * 16, 0)
    assert matches(b"k" * 16, b"k" * 16 + b" " * 8)
    assert not matches(b"k" * 16, join(b"k" * 16, 1))
    with pytest.raises(WireError):
        join(b"short", 1)
    with pytest.raises(WireError):
        join(bytes(16), 1 << 32)


def test_the_table_of_the_header() -> None:
    assert AttachmentHeader.table() == (
        "| row | type | meaning |\n"
        "|---|---|---|\n"
        "| header_correlid | byte[24] | correlationid of this header message |\n"
        "| original_msg_type | long | message type provided by the sending application |\n"
        "| original_correlid | byte[24] | message correlationid provided by the sending application |\n"
        "| message_correlid | byte[24] | generated correlationid for the message |\n"
        "| attachment_count | int32 | number of attachments |\n"
        "| attachments | AttachmentEntry x attachment_count | the list of attachments |"
    )
