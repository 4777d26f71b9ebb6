"""Messages without their headers: what becomes of each header, and the fast way judged by the plain one."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.codecs.ibm_mq.constants import HEADER_FORMATS
from app.codecs.ibm_mq.encodings import EBCDIC
from app.codecs.ibm_mq.extension import grouping_of, with_grouping
from app.codecs.ibm_mq.header_chain import Data, peel
from app.codecs.ibm_mq.headers import MQDLH, MQH, MQMD1, MQMDE, MQRFH, MQRFH2, MQXQH
from app.codecs.ibm_mq.rfh import Property, RfhFolder, write_rfh2
from app.codecs.ibm_mq.structure_writing import ASCII, ORDERS
from app.codecs.ibm_mq.unwrap import LONGEST_HEADER, unwrap
from app.model.message import EVIDENCE, PhysicalMessage
from app.wire import Context, WireError
from tests.support.refusals import wire_error

CONTEXTS = [Context(order, charset) for order, charset in product(ORDERS, (ASCII, EBCDIC))]
ENCODINGS = {">": 273, "<": 546}
CCSIDS = {ASCII: 819, EBCDIC: 500}
BIG = CONTEXTS[0]
MESSAGE = PhysicalMessage(
    "source", "", 8, bytes(range(24)), b"data", b"m" * 24, encoding=785, ccsid=500, format="MQSTR"
)
SAYS: dict[str, Any] = {"encoding": 785, "coded_char_set_id": 500, "format": "MQSTR"}
NUMBER = st.sampled_from([-(2**31), -2, -1, 0, 1, 2, 31, 32, 4096, 999_999_999, 1_000_000_000, 2**31 - 1])


def headed(format: str, *headers: bytes, context: Context = BIG) -> PhysicalMessage:  # noqa: A002
    encoding, ccsid = ENCODINGS[context.order], CCSIDS[context.charset]
    return MESSAGE._replace(body=b"".join(headers) + b"data", format=format, encoding=encoding, ccsid=ccsid)


def plain(message: PhysicalMessage) -> PhysicalMessage:
    return message._replace(body=bytes(message.body))


@pytest.mark.parametrize("name", ["", "MQSTR", "MQPCF", "MQADMIN", "MQEVENT", "MQTRIG", "OWN", "MQHMDE2"])
def test_a_message_whose_format_is_no_header_is_the_same(name: str) -> None:
    message = MESSAGE._replace(format=name, body=MQMDE().encode())
    assert unwrap(message) is message


@pytest.mark.parametrize("context", CONTEXTS)
def test_an_extension_becomes_fields(context: Context) -> None:
    says: dict[str, Any] = {"group_id": b"g" * 24, "msg_seq_number": 3, "offset": 9, "msg_flags": 10}
    header = MQMDE(**SAYS, **says, original_length=7).encode(context)
    assert plain(unwrap(headed("MQHMDE", header, context=context))) == MESSAGE._replace(**says, original_length=7)


@pytest.mark.parametrize("context", CONTEXTS)
def test_an_original_length_is_that_of_the_data(context: Context) -> None:
    says: dict[str, Any] = {"group_id": b"g" * 24, "msg_flags": 2}
    encoding, ccsid = ENCODINGS[context.order], CCSIDS[context.charset]
    letter = MQDLH(reason=2053, **SAYS).encode(context)
    length = len(letter) + len(MESSAGE.body)
    behind = MQMDE(encoding=encoding, coded_char_set_id=ccsid, format="MQDEAD", **says, original_length=length).encode(
        context
    )
    assert unwrap(headed("MQHMDE", behind, letter, context=context)).original_length == len(MESSAGE.body)
    own = headed("MQDEAD", letter, context=context)._replace(**says, original_length=length)
    assert unwrap(own).original_length == len(MESSAGE.body)
    for otherwise in (-1, 0, len(MESSAGE.body), length + 1):
        assert unwrap(own._replace(original_length=otherwise)).original_length == otherwise


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_dead_letter_header_becomes_properties(context: Context) -> None:
    header = MQDLH(reason=2053, dest_q_name="SAS.IN", dest_q_mgr_name="QM1", put_date="20260101", **SAYS)
    properties = {"mqdlh.reason": "2053", "mqdlh.dest_q_name": "SAS.IN", "mqdlh.dest_q_mgr_name": "QM1"}
    properties |= {"mqdlh.put_appl_type": "0", "mqdlh.put_date": "20260101"}
    message = headed("MQDEAD", header.encode(context), context=context)._replace(properties={"own": "kept"})
    assert plain(unwrap(message)) == MESSAGE._replace(properties={"own": "kept"} | properties)


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_transmission_header_becomes_all_fields(context: Context) -> None:
    descriptor = MQMD1(
        **SAYS,
        msg_type=100001,
        msg_id=b"i" * 24,
        correl_id=b"c" * 24,
        reply_to_q="ANSWERS",
        put_date="20260822",
        put_time="10203040",
    )
    header = MQXQH(remote_q_name="SAS.IN", remote_q_mgr_name="QM2").encode(context) + descriptor.encode(context)
    message = headed("MQXMIT", header, context=context)._replace(group_id=b"g" * 24, msg_seq_number=2, put_time=1)
    message = message._replace(properties={"mqmd.reply_to_q": "OF.THE.CHANNEL", "mqmd.put_appl_name": "amqrmppa"})
    assert plain(unwrap(message)) == MESSAGE._replace(
        msg_type=100001,
        message_id=b"i" * 24,
        correl_id=b"c" * 24,
        put_time=1_787_394_030_400_000,
        properties={"mqmd.reply_to_q": "ANSWERS", "mqxqh.remote_q_name": "SAS.IN", "mqxqh.remote_q_mgr_name": "QM2"},
    )


def test_a_descriptor_without_identifier_or_time_gives_none() -> None:
    header = MQXQH().encode() + MQMD1(**SAYS).encode()
    message = unwrap(headed("MQXMIT", header))
    assert (message.message_id, message.correl_id, message.put_time) == (b"", bytes(24), 0)


@pytest.mark.parametrize("context", CONTEXTS)
def test_an_rfh2_becomes_properties_wherever_it_stands(context: Context) -> None:
    folders = [
        RfhFolder("mcd", (Property("Msd", "jms"),)),
        RfhFolder("usr", (Property("a", "1", "i4"), Property("b.c", "2"))),
    ]
    encoding, ccsid = ENCODINGS[context.order], CCSIDS[context.charset]
    first = write_rfh2(folders, "MQDEAD", encoding, ccsid, context)
    letter = MQDLH(format="MQHRF2", encoding=encoding, coded_char_set_id=ccsid).encode(context)
    last = write_rfh2([RfhFolder("usr", (Property("a", "2"),))], "MQSTR", 785, 500, context, 1200)
    message = unwrap(headed("MQHRF2", first, letter, last, context=context))
    properties = {"mcd.Msd": "jms", "a": "2", "usr.b.c": "2", "mqdlh.reason": "0"}
    properties |= {"mqdlh.put_appl_type": "0"}
    assert plain(message) == MESSAGE._replace(properties=properties)


@pytest.mark.parametrize(
    ("ccsid", "codec", "charset"),
    [(819, "latin-1", ASCII), (1208, "utf-8", ASCII), (273, "cp273", EBCDIC), (1047, "cp500", EBCDIC)],
)
def test_an_rfh_becomes_properties_in_the_character_set_announced(ccsid: int, codec: str, charset: str) -> None:
    text = "name Zürich ".encode(codec)
    header = MQRFH(struc_length=32 + len(text), **SAYS).encode(Context(">", charset)) + text
    assert unwrap(headed("MQHRF", header)._replace(ccsid=ccsid)).properties == {"name": "Zürich"}


def test_names_and_values_are_read_up_to_a_length() -> None:
    header = MQRFH2(struc_length=LONGEST_HEADER + 4).encode() + bytes(LONGEST_HEADER)
    with pytest.raises(WireError) as refusal:
        unwrap(headed("MQHRF2", header))
    assert (refusal.value.row, refusal.value.at) == ("MQRFH2.struc_length", 8)


@pytest.mark.parametrize(
    ("name", "struc_id", "size"), [("MQHWIH", "WIH", 120), ("MQIMS", "IIH", 84), ("MQHEPCF", "EPH", 120)]
)
def test_a_header_of_no_use_is_passed_over(name: str, struc_id: str, size: int) -> None:
    header = MQH(struc_id, 1, size, **SAYS).encode().ljust(size, b"\0")
    message = unwrap(headed(name, header))
    assert (message.format, message.properties, bytes(message.body)) == ("MQSTR", {}, b"data")


def test_the_body_is_not_copied() -> None:
    for header, name in ((MQMDE(msg_flags=8, **SAYS), "MQHMDE"), (MQDLH(**SAYS), "MQDEAD")):
        body = bytearray(header.encode() + b"data")
        message = unwrap(headed(name)._replace(body=memoryview(body)))
        body[-4:] = b"DATA"
        assert bytes(message.body) == b"DATA"


@given(st.data())
def test_the_fast_way_is_the_plain_one(data: st.DataObject) -> None:
    """Any MQMDE, valid or not, behind any descriptor: what `unwrap` gives is what the chain gives."""
    context = data.draw(st.sampled_from(CONTEXTS))
    header = MQMDE(
        version=data.draw(st.sampled_from([1, 2, 2, 2])),
        struc_length=data.draw(st.sampled_from([71, 72, 72, 72])),
        encoding=data.draw(NUMBER),
        coded_char_set_id=data.draw(NUMBER),
        format=data.draw(st.sampled_from(["", "MQSTR", "MQHMDE", "MQDEAD"])),
        group_id=data.draw(st.sampled_from([bytes(24), b"g" * 24])),
        msg_seq_number=data.draw(NUMBER),
        offset=data.draw(NUMBER),
        msg_flags=data.draw(NUMBER),
        original_length=data.draw(NUMBER),
    )
    raw = header.encode(data.draw(st.sampled_from(CONTEXTS))) + b"data"
    message = headed("MQHMDE", context=context)._replace(
        body=raw[: data.draw(st.sampled_from([0, 7, 8, 71, 72, 76]))],
        msg_type=data.draw(st.sampled_from([4, 8])),
        msg_seq_number=data.draw(st.sampled_from([1, 2])),
    )
    assert outcome(lambda: unwrap(message)) == outcome(lambda: by_the_chain(message))


def by_the_chain(message: PhysicalMessage) -> PhysicalMessage:
    said = Data(message.format, message.encoding, message.ccsid, 0, grouping_of(message), message.msg_type)
    _, data = peel(message.body, said)
    body = bytes(message.body)[data.at :]
    message = message._replace(format=data.format, encoding=data.encoding, ccsid=data.ccsid, body=body)
    if data.doubts:
        said_of = "; ".join(f"the {name} at byte {at} {why}" for name, at, why in data.doubts)
        message = message._replace(properties={EVIDENCE: said_of})
    return with_grouping(message, data.grouping)


def outcome(call: Any) -> object:
    try:
        return plain(call())
    except WireError as error:
        return type(error), str(error)


@given(st.sampled_from(sorted(HEADER_FORMATS)), st.sampled_from(CONTEXTS), st.binary(max_size=200), st.data())
def test_any_bytes_are_a_message_or_a_wire_error(name: str, context: Context, tail: bytes, data: st.DataObject) -> None:
    starts = ["RFH \2", "RFH \1", "XQH \1", "DLH \1", "MDE \2", "IIH \1", "CIH \2"]
    start = data.draw(st.sampled_from(starts))
    number = ord(start[4]).to_bytes(4, "big" if context.order == ">" else "little")
    message = headed(name, start[:4].encode(context.charset) + number + tail, context=context)
    error = wire_error(lambda: unwrap(message))
    assert error is None or 0 <= error.at <= len(message.body)
