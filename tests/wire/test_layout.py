"""The layout engine: two readers that must agree, one writer, and errors that name the place."""

from enum import IntEnum
from itertools import pairwise, product
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.wire import Bits, Cell, Chars, Context, Layout, Many, Num, Raw, Rest, Text, Texts, Varint, WireError, row
from app.wire.kinds import NUL_RULES, Long, Order

ORDERS: tuple[Order, ...] = ("<", ">")
LONGS: tuple[Long, ...] = (4, 8)
CONTEXTS = [Context(*choices) for choices in product(ORDERS, ("latin-1", "cp037"), LONGS, NUL_RULES, (False, True))]


class Colour(IntEnum):
    RED = 1
    GREEN = 2


Int = Annotated[int, Num("i")]
CLong = Annotated[int, Num("long")]


class Item(Layout):
    """An entry of a list."""

    mark: Annotated[bytes, Raw(1)] = row("a byte that puts what follows out of line")
    colour: Annotated[Colour | int, Num("h", Colour)] = row("a colour | or another number")
    text: Annotated[str, Text("long")] = row("a text")


class Head(Layout):
    """What messages have in common."""

    version: Annotated[int, Bits(4)] = row("version")
    flag: Annotated[int, Bits(1)] = row("flag")
    kind: Annotated[Colour | int, Bits(11, Colour)] = row("kind")
    name: Annotated[str, Chars(8)] = row("a name")


class Message(Head):
    """A message with a row of every kind."""

    ratio: Annotated[float, Num("d")] = row("a double")
    size: Annotated[int, Varint()] = row("a size")
    reach: CLong = row("a long")
    or_one: Annotated[str, Text("i", or_one=True)] = row("a text, perhaps of length one")
    name_count: Int = row("how many names")
    names: Annotated[list[str], Texts("name_count", "long")] = row("names")
    count: Int = row("how many items")
    items: Annotated[list[Item], Many(Item, "count")] = row("items")
    rest: Annotated[bytes, Rest()] = row("the rest")


class Stream(Layout):
    """Items to the end."""

    items: Annotated[list[Item], Many(Item)] = row("items")


contexts = st.sampled_from(CONTEXTS)
texts = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=9)
int32 = st.integers(-(1 << 31), (1 << 31) - 1)
items = st.builds(
    Item, st.binary(min_size=1, max_size=1), st.sampled_from(Colour) | st.integers(3, 999).map(int), texts
)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    names, many = draw(st.lists(texts, max_size=3)), draw(st.lists(items, max_size=3))
    return Message(
        draw(st.integers(0, 15)),
        draw(st.integers(0, 1)),
        draw(st.sampled_from(Colour) | st.integers(3, 2047)),
        draw(texts).strip()[:8].rstrip(),
        draw(st.floats(allow_nan=False)),
        draw(st.integers(0, Varint.LIMIT - 1)),
        draw(int32),
        draw(texts),
        len(names),
        names,
        len(many),
        many,
        draw(st.binary(max_size=9)),
    )


def decoded_by_cells(cells: list[Cell]) -> dict[str, Any]:
    return {cell.name: cell.value for cell in cells}


@given(messages(), contexts, st.binary(max_size=5))
def test_what_is_written_is_read(message: Message, context: Context, before: bytes) -> None:
    body = message.encode(context)
    assert Message.decode(body, 0, context) == (message, len(body))
    assert Message.decode(memoryview(before + body), len(before), context) == (message, len(before) + len(body))


@given(messages(), contexts)
def test_cells_lie_one_behind_the_other_and_say_the_same(message: Message, context: Context) -> None:
    body = message.encode(context)
    cells = list(Message.cells(memoryview(body), 0, context))
    assert cells[0].at == 0
    assert cells[-1].at + cells[-1].size == len(body)
    for one, other in pairwise(cells):
        assert other.at == one.at + one.size or (other.at, other.size) == (one.at, one.size)
    values = decoded_by_cells(cells)
    for name in ["version", "flag", "kind", "name", "ratio", "size", "reach", "or_one", "name_count", "count", "rest"]:
        assert values[f"Message.{name}"] == getattr(message, name)
    for i, item in enumerate(message.items):
        for name in ("mark", "colour", "text"):
            assert values[f"Message.items[{i}].{name}"] == getattr(item, name)
    assert [values[f"Message.names[{i}]"] for i in range(message.name_count)] == message.names


@given(messages(), contexts, st.data())
def test_any_bytes_give_a_value_or_an_error_and_both_readers_agree(
    message: Message, context: Context, data: st.DataObject
) -> None:
    body = bytearray(message.encode(context))
    for _ in range(data.draw(st.integers(0, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    body = body[: data.draw(st.integers(0, len(body)))]
    fast, slow = outcome(Message, bytes(body), context)
    assert fast == slow
    found = Message.attempt(bytes(body), 0, context)
    assert (found is None) == isinstance(fast, str)


def outcome(layout: type[Layout], body: bytes, context: Context) -> tuple[str | int, str | int]:
    """The error of both readers, or where they ended."""
    fast: str | int
    slow: str | int = 0
    try:
        _, fast = layout.decode(body, 0, context)
    except WireError as error:
        fast = str(error)
    try:
        for cell in layout.cells(body, 0, context):
            slow = cell.at + cell.size
    except WireError as error:
        slow = str(error)
    return fast, slow


@given(st.binary(max_size=200), contexts)
def test_noise(noise: bytes, context: Context) -> None:
    for layout in (Message, Stream, Head):
        fast, slow = outcome(layout, noise, context)
        assert fast == slow


BAD_BYTES = [
    (Stream, "00 0001 FFFFFFFF", Context(), "Stream.items[0].text", 7, "a length of -1"),
    (Stream, "00 0001 7FFFFFFF 41", Context(), "Stream.items[0].text", 7, "text of 2147483647 bytes does not fit"),
    (Stream, "00 0001 00000001 41 42", Context(), "Stream.items[0].text", 8, "expected a NUL, found 42"),
    (Stream, "00 0001 00000000", Context(nul="included"), "Stream.items[0].text", 7, "it must count the NUL"),
    (Stream, "00 0001 00000002 41 FF 00", Context(charset="utf-8"), "Stream.items[0].text", 8, "byte FF is not utf-8"),
    (Stream, "00 01 0001", Context(aligned=True), "Stream.items[0].colour", 1, "padding must be zero, but is 01"),
    (Stream, "00 00", Context(), "Stream.items[0].colour", 1, "does not fit in the 1 bytes left"),
]


@pytest.mark.parametrize(("layout", "body", "context", "where", "at", "why"), BAD_BYTES)
def test_an_error_names_row_byte_and_reason(
    layout: type[Layout], body: str, context: Context, where: str, at: int, why: str
) -> None:
    with pytest.raises(WireError) as raised:
        layout.decode(bytes.fromhex(body), 0, context)
    assert (raised.value.row, raised.value.at) == (where, at)
    assert why in raised.value.why
    assert str(raised.value) == f"{where} at byte {at}: {raised.value.why}"


class Counted(Layout):
    """A count and what it counts."""

    count: Int = row("count")
    items: Annotated[list[Item], Many(Item, "count")] = row("items")


@pytest.mark.parametrize("count", [-1, -(1 << 31), 3, (1 << 31) - 1])
def test_a_count_that_the_bytes_do_not_pay_for_fails_before_its_loop(count: int) -> None:
    body = count.to_bytes(4, "big", signed=True) + bytes(2 * 8)
    with pytest.raises(WireError, match=rf"Counted.count at byte 0: {count} items of at least 8 bytes"):
        Counted.decode(body)


UNFIT_VALUES: list[tuple[Layout, str, int, str]] = [
    (Counted(2, [Item(b"x", 1, "")]), "Counted.items", 4, "1 items, but the count is 2"),
    (Counted(1, [Item(b"xy", 1, "")]), "Counted.items[0].mark", 4, "expected 1 bytes, found 2"),
    (Counted(1, [Item(b"x", 1 << 15, "")]), "Counted.items[0].colour", 5, "format requires"),
    (Counted(1, [Item(b"x", 1, "\u20ac")]), "Counted.items[0].text", 7, "cannot be encoded in latin-1"),
    (Head(16, 0, Colour.RED, ""), "Head.version", 0, "16 does not fit 4 bits"),
    (Head(3, 0, Colour.RED, "ninechars"), "Head.name", 2, "takes 9 bytes, but the field has 8"),
]


@pytest.mark.parametrize(("layout", "where", "at", "why"), UNFIT_VALUES)
def test_a_value_that_does_not_fit_is_named(layout: Layout, where: str, at: int, why: str) -> None:
    with pytest.raises(WireError) as raised:
        layout.encode()
    assert (raised.value.row, raised.value.at) == (where, at)
    assert why in raised.value.why


class Size(Layout):
    """A varint alone."""

    size: Annotated[int, Varint()] = row("size")


@pytest.mark.parametrize(
    ("size", "body"),
    [
        (0, "00"),
        (127, "7F"),
        (128, "8001"),
        (16_383, "FF7F"),
        (16_384, "808001"),
        (2_097_151, "FFFF7F"),
        (2_097_152, "80808001"),
        (268_435_455, "FFFFFF7F"),
    ],
)
def test_varints_at_their_boundaries(size: int, body: str) -> None:
    assert Size(size).encode().hex().upper() == body
    assert Size.decode(bytes.fromhex(body)) == (Size(size), len(body) // 2)


def test_varints_beyond_their_boundaries() -> None:
    with pytest.raises(WireError, match="the varint has more than four bytes"):
        Size.decode(bytes.fromhex("FFFFFFFF7F"))
    for size in (-1, 268_435_456):
        with pytest.raises(WireError, match="does not fit four bytes of seven bits"):
            Size(size).encode()


def test_the_nul_rules() -> None:
    written = {nul: [Item(b"x", 1, text).encode(Context(nul=nul))[3:].hex() for text in ("A", "")] for nul in NUL_RULES}
    assert written == {
        "excluded": ["000000014100", "0000000000"],
        "included": ["000000024100", "0000000100"],
        "absent": ["0000000141", "00000000"],
        "excluded_nonempty": ["000000014100", "00000000"],
    }


def test_numbers_are_aligned_to_the_start_of_the_message() -> None:
    context = Context("<", long=8, aligned=True)
    body = Item(b"x", Colour.GREEN, "A").encode(context)
    assert body.hex() == "780002000000000001000000000000004100"
    assert Item.decode(b"???" + body, 3, context) == (Item(b"x", Colour.GREEN, "A"), 3 + len(body))


def test_known_numbers_have_names_and_unknown_ones_survive() -> None:
    known, _ = Item.decode(bytes.fromhex("00 0002 0000000000"))
    unknown, _ = Item.decode(bytes.fromhex("00 0063 0000000000"))
    assert known.colour is Colour.GREEN
    assert unknown.colour == 0x63
    assert unknown.encode() == bytes.fromhex("00 0063 0000000000")


def test_fixed_text_is_trimmed_and_padded_with_the_blank_of_its_charset() -> None:
    body = Head(3, 0, Colour.RED, "AB").encode(Context(charset="cp037"))
    assert body[2:].hex() == "c1c2404040404040"
    assert Head.decode(body[:4] + bytes(6), 0, Context(charset="cp037"))[0].name == "AB"


def test_the_rest_of_a_memoryview_is_not_copied() -> None:
    class Tail(Layout):
        first: Annotated[bytes, Raw(1)] = row("first")
        rest: Annotated[bytes | memoryview, Rest()] = row("rest")

    buffer = memoryview(bytearray(b"abc"))
    tail, _ = Tail.decode(buffer)
    assert isinstance(tail.rest, memoryview)
    assert tail.rest.obj is buffer.obj


def test_sizes() -> None:
    assert Head.SIZE == 10
    assert (Message.SIZE, Item.SIZE) == (0, 0)


def test_the_table_documents_itself() -> None:
    assert Item.table().splitlines() == [
        "| row | type | meaning |",
        "|---|---|---|",
        "| mark | byte[1] | a byte that puts what follows out of line |",
        "| colour | int16 | a colour \\| or another number |",
        "| text | long length, text | a text |",
    ]
    types = [line.split(" | ")[1] for line in Message.table().splitlines()[2:]]
    assert types == [
        "4 bits",
        "1 bit",
        "11 bits",
        "char[8]",
        "double",
        "varint, 1 to 4 bytes",
        "long",
        "int32 length, text",
        "int32",
        "long length, name_count texts",
        "int32",
        "Item x count",
        "bytes, to the end",
    ]


def test_tables_that_no_message_can_follow_are_refused() -> None:
    with pytest.raises(TypeError, match="do not fill whole bytes"):

        class Ragged(Layout):
            bit: Annotated[int, Bits(3)] = row("three bits")

    with pytest.raises(TypeError, match="not a number in an earlier row"):

        class Uncounted(Layout):
            items: Annotated[list[Item], Many(Item, "count")] = row("items")

    with pytest.raises(TypeError, match="must be the last row"):

        class Behind(Layout):
            items: Annotated[list[Item], Many(Item)] = row("items")
            more: Int = row("more")

    with pytest.raises(TypeError, match="which can be empty"):

        class Endless(Layout):
            streams: Annotated[list[Stream], Many(Stream)] = row("streams")

    with pytest.raises(TypeError, match="has no row kind"):

        class Kindless(Layout):
            number: int = row("a number")
