"""Folders of an MQRFH2 and pairs of an MQRFH: read as written, bounded, and nothing but names and values."""

import struct
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.codecs.ibm_mq.encodings import EBCDIC
from app.codecs.ibm_mq.headers import MQRFH2
from app.codecs.ibm_mq.rfh import (
    WIDEST,
    Property,
    RfhFolder,
    folders_of,
    properties_of,
    read_folders,
    read_pairs,
    with_properties,
    write_rfh2,
)
from app.codecs.ibm_mq.structure_writing import ASCII, ORDERS
from app.codecs.ibm_mq.unwrap import unwrap
from app.model.message import PhysicalMessage
from app.wire import Context, WireError
from tests.support.refusals import wire_error

CONTEXTS = [Context(order, charset) for order, charset in product(ORDERS, (ASCII, EBCDIC))]
CCSIDS = [1208, 1200, 13488, 17584]
BIG = CONTEXTS[0]
NAME = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,6}", fullmatch=True)
DOTTED = st.lists(NAME, min_size=1, max_size=3).map(".".join)
TEXT = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff") | st.sampled_from("\t\r\n")
)
TYPES = st.sampled_from(["string", "boolean", "bin.hex", "i1", "i2", "i4", "i8", "int", "r4", "r8"])
PROPERTIES = st.builds(Property, DOTTED, st.none() | TEXT, TYPES)
FOLDERS = st.lists(st.builds(RfhFolder, NAME, st.lists(PROPERTIES, max_size=5).map(tuple)), max_size=4)


def rfh2(*data: bytes, ccsid: int = 1208, context: Context = BIG) -> bytes:
    """An MQRFH2 with this NameValueData."""
    body = b"".join(struct.pack(f"{context.order}i", len(one)) + one for one in data)
    return MQRFH2(struc_length=36 + len(body), name_value_ccsid=ccsid).encode(context) + body


def read(raw: bytes, context: Context = BIG) -> list[RfhFolder]:
    header, at = MQRFH2.decode(raw, 0, context)
    return list(read_folders(raw, at, len(raw), header, context))


def usr(raw: str) -> tuple[Property, ...]:
    (folder,) = read(rfh2(raw.encode()))
    return folder.properties


@given(FOLDERS, st.sampled_from(CONTEXTS), st.sampled_from(CCSIDS))
def test_what_is_written_is_read_again(folders: list[RfhFolder], context: Context, ccsid: int) -> None:
    raw = write_rfh2(folders, "MQSTR", 785, 500, context, ccsid)
    header, _ = MQRFH2.decode(raw, 0, context)
    assert (header.struc_length, header.format, header.encoding) == (len(raw), "MQSTR", 785)
    assert (header.coded_char_set_id, header.name_value_ccsid, len(raw) % 4) == (500, ccsid, 0)
    assert read(raw, context) == folders


@given(st.dictionaries(DOTTED, TEXT), st.sampled_from([(273, 819), (546, 819), (785, 500), (546, 37), (0, 0)]))
def test_properties_travel_in_front_of_a_body(properties: dict[str, str], native: tuple[int, int]) -> None:
    properties = {name.removeprefix("usr."): text for name, text in properties.items()}
    message = PhysicalMessage("", "", 8, body=b"data", format="MQSTR", encoding=785, ccsid=500, properties=properties)
    headed = with_properties(message, *native)
    assert (headed.format, headed.encoding, headed.ccsid, headed.properties) == ("MQHRF2", *native, {})
    again = unwrap(headed)
    assert again._replace(body=bytes(again.body)) == message


def test_folders_of_properties_and_back() -> None:
    folders = [
        RfhFolder("usr", (Property("a", "1"), Property("b.c", "2"), Property("none", None, "i4"))),
        RfhFolder("mcd", (Property("Msd", "jms_text"), Property("group.x", ""))),
    ]
    properties = {"a": "1", "usr.b.c": "2", "mcd.Msd": "jms_text", "mcd.group.x": ""}
    assert properties_of(folders) == properties
    assert properties_of(folders_of(properties)) == properties


def test_types_empty_values_and_none() -> None:
    assert usr(
        "<usr content='properties'><a dt='i4'>-7</a><b dt=\"bin.hex\">00FF</b><c/><d></d>"
        "<e dt='i8' xsi:nil='true'></e><f xsi:nil='false'> </f></usr>"
    ) == (
        Property("a", "-7", "i4"),
        Property("b", "00FF", "bin.hex"),
        Property("c", ""),
        Property("d", ""),
        Property("e", None, "i8"),
        Property("f", " "),
    )


def test_groups_are_dotted_names() -> None:
    text = "<usr>\n <g><h><x>1</x><y>2</y></h> text <z>3</z></g>\n <w>4</w></usr>   "
    names = {prop.name: prop.text for prop in usr(text)}
    assert names == {"g.h.x": "1", "g.h.y": "2", "g.z": "3", "g": " text ", "w": "4"}


def test_characters_that_stand_for_others() -> None:
    assert (
        usr("<usr><a>&lt;&gt;&amp;&apos;&quot;&#65;&#x20AC;<![CDATA[<&]]></a><!-- not --></usr>")[0].text
        == "<>&'\"A€<&"
    )


def test_folders_that_are_blank_are_none() -> None:
    assert read(rfh2(b"", b"    ", b"\0\0\0\0", b"<a/>", b"<b/>\0\0 ")) == [RfhFolder("a", ()), RfhFolder("b", ())]


def test_no_character_set_said_is_utf_8_and_others_are_read_too() -> None:
    assert read(rfh2("<usr><ä>€</ä></usr>".encode(), ccsid=0))[0].properties == (Property("ä", "€"),)
    assert read(rfh2("<usr><ä>ö</ä></usr>".encode("cp273"), ccsid=273))[0].properties == (Property("ä", "ö"),)


BOMB = "<!DOCTYPE a [<!ENTITY b 'bbbb'><!ENTITY c '&b;&b;'>]><usr><a>&c;</a></usr>"
EXTERNAL = "<!DOCTYPE a SYSTEM 'file:///etc/passwd'><usr/>"


@pytest.mark.parametrize(
    ("text", "place", "why"),
    [
        (BOMB, 12, "document type"),
        (EXTERNAL, 39, "document type"),
        ("<usr><a>&other;</a></usr>", 8, "undefined entity"),
        ("<usr><a></b></usr>", 10, "mismatched tag"),
        ("<usr><a>ä&</a></usr>", 10, "invalid token"),
        ("<usr/><usr/>", 6, "junk after document element"),
        ("<usr>", 5, "no element found"),
        ("words", 0, "syntax error"),
        ("<usr a='1' a='2'/>", 11, "duplicate attribute"),
    ],
)
@pytest.mark.parametrize("ccsid", [1208, 1200])
@pytest.mark.parametrize("order", ORDERS)
def test_what_is_no_folder_is_refused_at_its_byte(text: str, place: int, why: str, ccsid: int, order: str) -> None:
    context = Context(order)  # type: ignore[arg-type]
    codec = "utf-8" if ccsid == 1208 else "utf-16-be" if order == ">" else "utf-16-le"
    raw = rfh2(b"", text.encode(codec), ccsid=ccsid, context=context)
    with pytest.raises(WireError, match=why) as refusal:
        read(raw, context)
    assert refusal.value.row == "MQRFH2.folders[1]"
    assert refusal.value.at == 44 + len(text[:place].encode(codec))


def test_bytes_in_another_character_set_are_refused_at_their_byte() -> None:
    with pytest.raises(WireError, match="utf-8") as refusal:
        read(rfh2(b"<usr><a>\xe4</a></usr>"))
    assert refusal.value.at == 48


@pytest.mark.parametrize(("size", "at"), [(-1, 36), (-(2**31), 36), (9, 36), (2**31 - 1, 36), (4, 44)])
def test_a_length_that_cannot_be_is_refused(size: int, at: int) -> None:
    raw = rfh2(b"<a/>") + b"\0" * 4
    raw = raw[:36] + size.to_bytes(4, "big", signed=True) + raw[40:-1]
    with pytest.raises(WireError) as refusal:
        read(raw)
    assert refusal.value.row.endswith(".length")
    assert refusal.value.at == at


@pytest.mark.parametrize("ccsid", [-1, 1025, 99999])
def test_a_character_set_that_is_not_known_is_refused(ccsid: int) -> None:
    raw = b"before" + rfh2(b"<a/>", ccsid=ccsid)
    header, at = MQRFH2.decode(raw, 6, BIG)
    with pytest.raises(WireError) as refusal:
        list(read_folders(raw, at, len(raw), header, BIG))
    assert (refusal.value.row, refusal.value.at) == ("MQRFH2.name_value_ccsid", 6 + 32)


def test_deep_folders_are_paid_for_by_their_bytes() -> None:
    deep = "<g>" * 5000 + "</g>" * 5000
    assert usr(deep)[0].name.count("g") == 4999
    wide = f"<usr><{'g' * 1000}>{'<a/>' * 10_000}</{'g' * 1000}></usr>"
    with pytest.raises(WireError, match=f"{WIDEST} times"):
        usr(wide)


@given(st.binary(max_size=60), st.sampled_from(CCSIDS), st.sampled_from(CONTEXTS))
def test_any_bytes_are_folders_or_a_wire_error(data: bytes, ccsid: int, context: Context) -> None:
    raw = rfh2(data, ccsid=ccsid, context=context)
    error = wire_error(lambda: read(raw, context))
    assert error is None or 36 <= error.at <= len(raw)


@given(FOLDERS, st.sampled_from(CONTEXTS), st.sampled_from(CCSIDS), st.data())
def test_damage_is_folders_or_a_wire_error(
    folders: list[RfhFolder], context: Context, ccsid: int, data: st.DataObject
) -> None:
    raw = bytearray(write_rfh2(folders, "", 0, 0, context, ccsid))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(32, len(raw) - 1))] = data.draw(st.integers(0, 255))
    error = wire_error(lambda: read(bytes(raw[: data.draw(st.integers(36, len(raw)))]), context))
    assert error is None or 32 <= error.at <= len(raw)


@pytest.mark.parametrize(
    "folder",
    [
        RfhFolder("1", ()),
        RfhFolder("", ()),
        RfhFolder("a b", ()),
        RfhFolder("usr", (Property("a..b", ""),)),
        RfhFolder("usr", (Property("a/><b", ""),)),
        RfhFolder("usr", (Property("a", "\0"),)),
        RfhFolder("usr", (Property("a", "\ud800"),)),
        RfhFolder("usr", (Property("a", "\ufffe"),)),
        RfhFolder("usr", (Property("a", "", "\x01"),)),
    ],
)
def test_what_no_folder_can_hold_is_not_written(folder: RfhFolder) -> None:
    with pytest.raises(WireError) as refusal:
        write_rfh2([RfhFolder("usr", ()), folder], "", 0, 0, BIG)
    assert refusal.value.row == "MQRFH2.folders[1]"


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("", {}),
        ("   ", {}),
        ("a 1", {"a": "1"}),
        (" a  1 b 2 ", {"a": "1", "b": "2"}),
        (
            'Famous_Words "The program displayed ""Hello World"""',
            {"Famous_Words": 'The program displayed "Hello World"'},
        ),
        ('"a b" ""', {"a b": ""}),
        ("a 1\0b 2 rubbish", {"a": "1"}),
        ("a 1 a 2", {"a": "2"}),
    ],
)
@pytest.mark.parametrize("codec", [ASCII, EBCDIC])
def test_pairs(text: str, pairs: dict[str, str], codec: str) -> None:
    raw = b"before" + text.encode(codec) + b"after"
    assert read_pairs(raw, 6, len(raw) - 5, codec) == pairs


@pytest.mark.parametrize(("text", "place"), [("a", 1), ("a 1 b", 5), ('a "1', 2), ('a"b c', 0), ('a "b"c', 2)])
def test_pairs_that_are_none_are_refused_at_their_byte(text: str, place: int) -> None:
    with pytest.raises(WireError) as refusal:
        read_pairs(text.encode(), 0, len(text), ASCII)
    assert (refusal.value.row, refusal.value.at) == ("MQRFH.name_value_string", place)


@given(st.binary(max_size=40))
def test_any_bytes_are_pairs_or_a_wire_error(raw: bytes) -> None:
    for codec in (ASCII, "utf-8", "utf-16-be", "cp932"):
        error = wire_error(lambda codec=codec: read_pairs(raw, 0, len(raw), codec))  # type: ignore[misc]
        assert error is None or 0 <= error.at <= len(raw)
