"""tibrvMsg: any fields come back, and any bytes give fields or one error."""

import json
import struct
import zlib
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.codecs.rendezvous.constants import ARRAYS, MAGIC, MOST_DEPTH, MOST_XML_BYTES
from app.codecs.rendezvous.field_values import DateTime, size_of
from app.codecs.rendezvous.tibrv_message import Field, RawValue, by_id, decode_message, encode_message, is_message
from app.trace import NotRecognised, explain
from app.wire import WireError
from tests.support.length import IS_LONG

FOLDER = Path("tests/vectors/rendezvous")
SAMPLES = [bytes.fromhex(json.loads(path.read_text())["hex"]) for path in sorted(FOLDER.glob("rv_*.json"))]

latin = st.text(st.characters(min_codepoint=1, max_codepoint=255), max_size=40)
U32 = st.integers(0, 2**32 - 1)
values: dict[str, st.SearchStrategy[Any]] = {
    **{f"I{8 << n}": st.integers(-(1 << (8 << n) - 1), (1 << (8 << n) - 1) - 1) for n in range(4)},
    **{f"U{8 << n}": st.integers(0, (1 << (8 << n)) - 1) for n in range(4)},
    "F32": st.floats(width=32, allow_nan=False),
    "F64": st.floats(allow_nan=False),
    "STRING": latin,
    "OPAQUE": st.binary(max_size=300),
    "BOOL": st.booleans(),
    "IPADDR32": st.ip_addresses(v=4).map(str),
    "IPPORT16": st.integers(0, 65535),
    "DATETIME": st.builds(DateTime, U32, U32),
    "XML": latin,
    "SUBJECT": st.lists(latin.filter(lambda text: "." not in text), min_size=1, max_size=5).map(".".join),
    "STRINGARRAY": st.lists(latin, max_size=5),
    "I16ARRAY": st.lists(st.integers(-(1 << 15), (1 << 15) - 1), max_size=40),
    "U64ARRAY": st.lists(st.integers(0, (1 << 64) - 1), max_size=9),
    "F64ARRAY": st.lists(st.floats(allow_nan=False), max_size=9),
}


def named(kind: str, value: st.SearchStrategy[Any]) -> st.SearchStrategy[Field]:
    return st.builds(lambda name, number, held: Field(name, number, kind, held), latin, st.integers(0, 65535), value)


plain = st.one_of(
    *(named(kind, value) for kind, value in values.items()),
    st.builds(lambda value: Field(None, 0, "I32", value), st.integers(-5, 5)),
    st.builds(lambda data: Field("x", 3, "RAW", RawValue(200, data)), st.binary(max_size=200)),
)
fields = st.recursive(
    st.lists(plain, max_size=4).map(tuple),
    lambda inner: st.one_of(
        inner.map(lambda nested: (Field("m", 1, "MSG", nested),)),
        st.lists(inner, max_size=3).map(lambda several: (Field("a", 2, "MSGARRAY", tuple(several)),)),
    ),
    max_leaves=6,
)


@given(fields)
def test_any_message_comes_back(message: tuple[Field, ...]) -> None:
    data = encode_message(message)
    assert is_message(data)
    assert decode_message(data) == message
    assert decode_message(memoryview(data)) == message
    assert encode_message(decode_message(data)) == data


@pytest.mark.parametrize("sample", SAMPLES)
def test_every_cut_is_an_error(sample: bytes) -> None:
    for end in range(len(sample)):
        with pytest.raises(WireError):
            decode_message(sample[:end])


def decoded_or_refused(data: bytes) -> tuple[Field, ...] | None:
    """The fields, or None when the bytes are refused at one of them."""
    places: list[int] = []
    try:
        return decode_message(data)
    except WireError as error:
        places.append(error.at)
    assert 0 <= places[0] <= len(data)
    return None


def test_mutations_give_a_value_or_our_error() -> None:
    random = Random(13)
    for _ in range(200_000 if IS_LONG else 5_000):
        data = bytearray(random.choice(SAMPLES))
        for _ in range(random.choice((1, 1, 2, 8))):
            data[random.randrange(len(data))] = random.randrange(256)
        if (message := decoded_or_refused(bytes(data))) is not None:
            assert decode_message(encode_message(message)) == message or any("nan" in str(each) for each in message)


@given(st.binary(max_size=200))
def test_noise_behind_a_header_is_a_value_or_our_error(noise: bytes) -> None:
    data = (8 + len(noise)).to_bytes(4, "big") + MAGIC + noise
    if decoded_or_refused(data) is None:
        with pytest.raises(NotRecognised):
            explain(data, "tibrvmsg")
    else:
        (frame,) = explain(data, "tibrvmsg")
        assert sum(cell.size for cell in frame.cells) == len(data)


def framed(body: bytes) -> bytes:
    return (8 + len(body)).to_bytes(4, "big") + MAGIC + body


@pytest.mark.parametrize("data", [b"text", b"text\0", b"text\0behind", b"", b"\0"])
def test_strings_of_all_senders_are_read_and_kept(data: bytes) -> None:
    whole = framed(b"\x02s\0\x08" + bytes([len(data)]) + data)
    (field,) = decode_message(whole)
    assert field.value == data.partition(b"\0")[0].decode()
    assert encode_message([field]) == whole


@pytest.mark.parametrize("head", [b"\x79\x00\x07", b"\x7a\x00\x00\x00\x09"])
def test_small_texts_may_have_long_sizes_and_numbers_may_not(head: bytes) -> None:
    (field,) = decode_message(framed(b"\x02s\0\x08" + head + b"text\0"))
    assert field.value == "text"
    with pytest.raises(WireError, match=r"field\[0\]\.size"):
        decode_message(framed(b"\x02s\0\x0b" + head.replace(b"\x07", b"\x06").replace(b"\x09", b"\x08") + bytes(4)))


@pytest.mark.parametrize("length", [0, 119, 120, 29_999, 30_000])
def test_sizes_change_their_form_where_the_format_says(length: int) -> None:
    forms = {119: b"\x77", 120: b"\x79\0\x7a", 29_999: b"\x79\x75\x31", 30_000: b"\x7a\0\0\x75\x34"}
    assert size_of(length) == forms.get(length, b"\0")
    (field,) = decode_message(encode_message([Field("o", 0, "OPAQUE", bytes(length))]))
    assert len(field.value) == length


def test_messages_nested_too_deep_are_refused() -> None:
    message: tuple[Field, ...] = ()
    for _ in range(MOST_DEPTH):
        message = (Field("m", 0, "MSG", message),)
    assert decode_message(encode_message(message)) == message
    with pytest.raises(WireError, match="nested deeper"):
        decode_message(encode_message((Field("m", 0, "MSG", message),)))


def test_xml_that_inflates_is_refused_before_it_is_expanded() -> None:
    packed = zlib.compress(bytes(MOST_XML_BYTES * 64))
    data = b"\x7a" + struct.pack(">I", MOST_XML_BYTES * 64 + 4) + packed
    with pytest.raises(WireError, match="at most"):
        decode_message(framed(b"\x02x\0\x2f" + size_of(len(data)) + data))
    lying = b"\x01" + packed
    with pytest.raises(WireError, match="its size says 1"):
        decode_message(framed(b"\x02x\0\x2f" + size_of(len(lying)) + lying))


@pytest.mark.parametrize("wire", ARRAYS)
def test_an_array_of_half_an_element_is_refused(wire: int) -> None:
    size = struct.calcsize(ARRAYS[wire])  # type: ignore[index]
    if size > 1:
        with pytest.raises(WireError, match="are not elements of"):
            decode_message(framed(b"\x02a\0" + bytes([wire, size + 1]) + bytes(size + 1)))


def test_counts_are_paid_for() -> None:
    for wire in (48, 49):
        with pytest.raises(WireError):
            decode_message(framed(b"\x02a\0" + bytes([wire]) + b"\x7a\0\0\0\x08\xff\xff\xff\xff"))


def test_fields_are_found_by_identifier_whatever_their_order() -> None:
    message = [Field("ATO", 3, "I32", 3), Field("ATO", 1, "I32", 1), Field("ATO", 0, "I32", 0), Field("", 3, "I32", 4)]
    assert {number: field.value for number, field in by_id(message).items()} == {3: 3, 1: 1}


@pytest.mark.parametrize(
    ("field", "row"),
    [
        (Field(None, 1, "I32", 1), "field[0].id"),
        (Field("x", 65_536, "I32", 1), "field[0].id"),
        (Field("x" * 255, 0, "I32", 1), "field[0].name"),
        (Field("a\0b", 0, "I32", 1), "field[0].name"),
        (Field("日", 0, "I32", 1), "field[0].name"),
        (Field("x", 0, "I8", 200), "field[0].data"),
        (Field("x", 0, "STRING", "日"), "field[0].data"),
        (Field("x", 0, "IPADDR32", "1.2.3.400"), "field[0].data"),
        (Field("x", 0, "COMPLEX", 1), "field[0].type"),
    ],
)
def test_what_the_wire_cannot_have_is_not_written(field: Field, row: str) -> None:
    with pytest.raises(WireError) as raised:
        encode_message([field])
    assert raised.value.row == row
