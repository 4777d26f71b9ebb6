"""The chain of headers: what announces what, in every way of writing it."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.codecs.ibm_mq.constants import HEADER_FORMATS, MQFMT_MD_EXTENSION
from app.codecs.ibm_mq.encodings import EBCDIC
from app.codecs.ibm_mq.extension import ExtensionError, Grouping
from app.codecs.ibm_mq.header_chain import MOST_HEADERS, Data, Doubt, Header, peel
from app.codecs.ibm_mq.headers import MQDLH, MQH, MQMD1, MQMDE, MQRFH, MQRFH2, MQXQH
from app.codecs.ibm_mq.structure_writing import ASCII, ORDERS
from app.wire import Context, WireError
from tests.support.cases import for_each
from tests.support.refusals import wire_error

CONTEXTS = [Context(order, charset) for order, charset in product(ORDERS, (ASCII, EBCDIC))]
ENCODINGS = {">": 273, "<": 546}
CCSIDS = {ASCII: 819, EBCDIC: 500}
LEADING: dict[str, Header] = {
    "MQCICS": MQH("CIH", 2, 180),
    "MQDEAD": MQDLH(),
    "MQHDIST": MQH("DH", 1, 48),
    "MQHEPCF": MQH("EPH", 1, 68),
    "MQHMDE": MQMDE(msg_seq_number=2),
    "MQHREF": MQH("RMH", 1, 108),
    "MQHRF": MQRFH(),
    "MQHRF2": MQRFH2(),
    "MQHSAP": MQH("SAPH", 1, 108),
    "MQHWIH": MQH("WIH", 1, 120),
    "MQIMS": MQH("IIH", 1, 84),
    "MQXMIT": MQXQH(),
}
WITHOUT_ENCODING = {"MQCICS", "MQIMS"}


def said(name: str, context: Context, at: int = 0) -> Data:
    return Data(name, ENCODINGS[context.order], CCSIDS[context.charset], at)


def raw_of(name: str, context: Context, /, **says: Any) -> bytes:
    """A header that says these things of what follows it."""
    header = LEADING[name]
    if isinstance(header, MQXQH):
        return header.encode(context) + MQMD1(**says).encode(context)
    values = {row.name: getattr(header, row.name) for row in header.ROWS} | says
    raw = type(header)(**values).encode(context)
    return raw.ljust(getattr(header, "struc_length", len(raw)), b"\0")


def test_every_header_format_is_known() -> None:
    assert LEADING.keys() == HEADER_FORMATS


@for_each("name", LEADING)
@for_each("context", CONTEXTS)
def test_a_header_says_what_follows_it(name: str, context: Context) -> None:
    raw = raw_of(name, context, format="MQSTR", encoding=785, coded_char_set_id=1047)
    links, data = peel(b"before" + raw + b"data", said(name, context, 6))
    expected = (ENCODINGS[context.order], CCSIDS[context.charset]) if name in WITHOUT_ENCODING else (785, 1047)
    assert (data.format, data.encoding, data.ccsid, data.at) == ("MQSTR", *expected, 6 + len(raw))
    assert links[0].header.struc_id == LEADING[name].struc_id
    assert all(link.context == context for link in links)


@pytest.mark.parametrize("name", sorted(LEADING.keys() - WITHOUT_ENCODING))
def test_inherit_is_the_character_set_of_the_header_itself(name: str) -> None:
    raw = raw_of(name, CONTEXTS[1], format="MQSTR", coded_char_set_id=-2)
    inherited = 0 if name == "MQXMIT" else 500
    assert peel(raw, said(name, CONTEXTS[1]))[1].ccsid == inherited


@pytest.mark.parametrize("ccsid", [0, -1])
def test_the_queue_managers_own_and_embedded_are_handed_on(ccsid: int) -> None:
    raw = raw_of("MQDEAD", CONTEXTS[0], format="MQHRF2", encoding=273, coded_char_set_id=ccsid)
    raw += raw_of("MQHRF2", CONTEXTS[1], format="MQPCF", coded_char_set_id=-2)
    links, data = peel(raw, said("MQDEAD", CONTEXTS[0]))
    assert [link.context for link in links] == CONTEXTS[:2]
    assert (data.format, data.ccsid) == ("MQPCF", ccsid)


@for_each("name", LEADING)
@for_each("context", CONTEXTS)
def test_where_nothing_is_announced_the_first_bytes_tell(name: str, context: Context) -> None:
    raw = raw_of(name, context, format="MQSTR")
    for encoding, ccsid in product((0, 785 & ~15), (0, -1, 1200, 99999)):
        assert peel(raw, Data(name, encoding, ccsid))[0][0].context == context


@pytest.mark.parametrize("raw", [b"", b"MDE ", b"XYZ \0\0\0\2" + bytes(64), bytes(500)])
def test_bytes_that_are_no_extension_are_refused_where_one_is_announced(raw: bytes) -> None:
    with pytest.raises(ExtensionError, match=r"struc_id at byte 0.*2248"):
        peel(raw, Data(MQFMT_MD_EXTENSION, 273, 819))


def test_an_extension_of_a_version_that_is_not_supported_is_data() -> None:
    announced = Data(MQFMT_MD_EXTENSION, 273, 819)
    doubt = Doubt("MQMDE", 0, "is data, since its version or its writing is not as announced")
    assert peel(b"MDE \0\0\0\x09" + bytes(500), announced) == ([], announced._replace(doubts=(doubt,)))


@pytest.mark.parametrize("name", LEADING)
def test_a_header_that_is_cut_off_names_its_place(name: str) -> None:
    raw = raw_of(name, CONTEXTS[0])
    for cut in range(8, len(raw)):
        error = wire_error(lambda cut=cut: peel(raw[:cut], Data(name, 273, 819)))  # type: ignore[misc]
        assert error is not None
        assert 0 <= error.at <= cut


@for_each("name", [name for name, header in LEADING.items() if isinstance(header, MQH)])
@for_each("off", [-(2**31), -1, 0, -200, 2**31 - 1])
def test_a_length_that_cannot_be_is_refused(name: str, off: int) -> None:
    header = LEADING[name]
    assert isinstance(header, MQH)
    length = header.struc_length - 1 if off == -200 else off
    raw = raw_of(name, CONTEXTS[0]) + b"data"
    raw = raw[:8] + length.to_bytes(4, "big", signed=True) + raw[12:]
    with pytest.raises(WireError) as refusal:
        peel(raw, Data(name, 273, 819))
    assert (refusal.value.row.partition(".")[2], refusal.value.at) == ("struc_length", 8)


def test_cics_headers_of_both_versions() -> None:
    for version, length in ((1, 164), (2, 180)):
        raw = MQH("CIH", version, length, format="MQSTR").encode() + bytes(length - 32)
        assert peel(raw, Data("MQCICS", 273, 819))[1] == Data("MQSTR", 273, 819, length)


def test_the_descriptor_in_a_transmission_header_must_be_one() -> None:
    raw = MQXQH().encode() + MQMD1(version=2).encode()
    with pytest.raises(WireError) as refusal:
        peel(raw, Data("MQXMIT", 273, 819))
    assert (refusal.value.row, refusal.value.at) == ("MQMD1.version", 108)


def test_a_descriptor_in_another_byte_order_than_its_header_is_none() -> None:
    raw = MQXQH().encode(Context(">")) + MQMD1().encode(Context("<"))
    with pytest.raises(WireError):
        peel(raw, Data("MQXMIT", 273, 819))


def test_there_is_an_end_to_headers() -> None:
    last = raw_of("MQDEAD", CONTEXTS[0], format="MQSTR")
    raw = raw_of("MQDEAD", CONTEXTS[0], format="MQDEAD") * (MOST_HEADERS - 1)
    links, data = peel(raw + last + b"data", Data("MQDEAD", 273, 819))
    assert (len(links), data.format, data.at) == (MOST_HEADERS, "MQSTR", len(raw + last))
    with pytest.raises(WireError) as refusal:
        peel(raw[: len(last)] + raw + last, Data("MQDEAD", 273, 819))
    assert (refusal.value.row, refusal.value.at) == ("headers", len(raw + last))


def test_a_transmission_header_begins_another_message() -> None:
    """What the descriptor of the transmission queue says of groups is not said of the message behind it."""
    raw = raw_of("MQXMIT", CONTEXTS[0], format="MQHMDE", encoding=273, coded_char_set_id=819, msg_type=100001)
    raw += MQMDE(msg_seq_number=7, format="MQSTR").encode()
    data = peel(raw, Data("MQXMIT", 273, 819, 0, Grouping(msg_seq_number=2), 8))[1]
    assert (data.format, data.grouping.msg_seq_number, data.msg_type) == ("MQSTR", 7, 100001)


def test_an_extension_behind_one_that_said_something_is_data() -> None:
    """The five fields are not default any more (table 1, the third row)."""
    first = MQMDE(format="MQHMDE", coded_char_set_id=819, msg_seq_number=2).encode()
    second = MQMDE(format="MQSTR", msg_seq_number=3).encode()
    data = peel(first + second, Data("MQHMDE", 273, 819))[1]
    assert (data.format, data.at, data.grouping.msg_seq_number) == ("MQHMDE", 72, 2)
    assert data.doubts == (Doubt("MQMDE", 72, "is data, since the message has group fields already"),)
    silent = MQMDE(format="MQHMDE", coded_char_set_id=819).encode()
    data = peel(silent + second, Data("MQHMDE", 273, 819))[1]
    assert (data.format, data.at, data.grouping.msg_seq_number) == ("MQSTR", 144, 3)


@given(st.lists(st.tuples(st.sampled_from(sorted(LEADING)), st.sampled_from(CONTEXTS)), min_size=1, max_size=6))
def test_any_chain_is_walked_to_its_end(chain: list[tuple[str, Context]]) -> None:
    """Each header in its own writing, as the one before announces it; extensions say nothing, so all are honoured."""
    raw, data = b"", said(*chain[0])
    following = [*chain[1:], ("MQSTR", CONTEXTS[0])]
    for (name, context), (next_name, next_context) in zip(chain, following, strict=True):
        says = {"format": next_name, "encoding": ENCODINGS[next_context.order], "msg_seq_number": 1}
        says["coded_char_set_id"] = CCSIDS[next_context.charset]
        if name in WITHOUT_ENCODING and next_context != context and next_name in HEADER_FORMATS:
            return
        if name != "MQHMDE":
            says.pop("msg_seq_number")
        raw += raw_of(name, context, **says)
    links, behind = peel(raw + b"data", data)
    assert (behind.format, behind.at) == ("MQSTR", len(raw))
    assert len(links) == len(chain) + sum(name == "MQXMIT" for name, _ in chain)


@given(st.sampled_from(sorted(LEADING)), st.sampled_from(CONTEXTS), st.binary(max_size=300))
def test_any_bytes_are_walked_or_refused(name: str, context: Context, tail: bytes) -> None:
    head = raw_of(name, context)[:8]
    for raw in (tail, head + tail):
        error = wire_error(lambda raw=raw: peel(raw, said(name, context)))  # type: ignore[misc]
        assert error is None or 0 <= error.at <= len(raw)
