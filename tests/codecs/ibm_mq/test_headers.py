"""Descriptors and headers: sizes, places and initial values as IBM's declarations have them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.codecs.ibm_mq import constants
from app.codecs.ibm_mq.headers import MQDLH, MQMD1, MQMD2, MQMDE, MQRFH, MQRFH2, MQXQH
from app.wire import Chars, Context, Layout, Num, Raw, WireError
from app.wire.kinds import Order, Row

ORDERS: tuple[Order, ...] = ("<", ">")
CONTEXTS = [Context(order, charset) for order in ORDERS for charset in ("latin-1", "cp500")]

OFFSETS = {
    MQMD2: "struc_id 0 version 4 report 8 msg_type 12 expiry 16 feedback 20 encoding 24 coded_char_set_id 28 format 32 "
    "priority 40 persistence 44 msg_id 48 correl_id 72 backout_count 96 reply_to_q 100 reply_to_q_mgr 148 "
    "user_identifier 196 accounting_token 208 appl_identity_data 240 put_appl_type 272 put_appl_name 276 put_date 304 "
    "put_time 312 appl_origin_data 320 group_id 324 msg_seq_number 348 offset 352 msg_flags 356 original_length 360",
    MQMDE: "struc_id 0 version 4 struc_length 8 encoding 12 coded_char_set_id 16 format 20 flags 28 group_id 32 "
    "msg_seq_number 56 offset 60 msg_flags 64 original_length 68",
    MQDLH: "struc_id 0 version 4 reason 8 dest_q_name 12 dest_q_mgr_name 60 encoding 108 coded_char_set_id 112 "
    "format 116 put_appl_type 124 put_appl_name 128 put_date 156 put_time 164",
    MQXQH: "struc_id 0 version 4 remote_q_name 8 remote_q_mgr_name 56",
    MQRFH2: "struc_id 0 version 4 struc_length 8 encoding 12 coded_char_set_id 16 format 20 flags 28 "
    "name_value_ccsid 32",
}
SIZES: dict[type[Layout], int] = {
    MQMD1: 324,
    MQMD2: 364,
    MQMDE: 72,
    MQDLH: 172,
    MQXQH: 428 - 324,
    MQRFH: 32,
    MQRFH2: 36,
}


@pytest.mark.parametrize(("layout", "size"), SIZES.items())
@pytest.mark.parametrize("context", CONTEXTS)
def test_the_initial_values_take_the_declared_size(layout: type[Layout], size: int, context: Context) -> None:
    encoded = layout().encode(context)
    assert len(encoded) == layout.SIZE == size
    assert layout.decode(encoded, 0, context) == (layout(), size)
    for cut in range(size):
        with pytest.raises(WireError) as refusal:
            layout.decode(encoded[:cut], 0, context)
        assert refusal.value.at <= cut


@pytest.mark.parametrize("layout", OFFSETS)
def test_rows_lie_where_the_c_declarations_put_them(layout: type[Layout]) -> None:
    names = OFFSETS[layout].split()
    expected = dict(zip(names[::2], map(int, names[1::2]), strict=True))
    assert {cell.name.partition(".")[2]: cell.at for cell in layout.cells(layout().encode())} == expected


def test_version_1_is_the_beginning_of_version_2() -> None:
    assert [row.name for row in MQMD2.ROWS[: len(MQMD1.ROWS)]] == [row.name for row in MQMD1.ROWS]
    assert MQMD2(version=1).encode().startswith(MQMD1().encode())


def test_the_initial_mqmde_is_that_of_its_table_2() -> None:
    assert MQMDE().encode(Context(">", "latin-1")) == (
        b"MDE "
        + (2).to_bytes(4, "big")
        + (72).to_bytes(4, "big")
        + (273).to_bytes(4, "big")
        + bytes(4)
        + b" " * 8
        + bytes(4)
        + constants.MQ_NO_ID
        + (1).to_bytes(4, "big")
        + bytes(8)
        + b"\xff" * 4
    )


def _value(row: Row) -> st.SearchStrategy[Any]:
    match row.kind:
        case Num():
            return st.integers(-(2**31), 2**31 - 1)
        case Chars(size):
            return st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=size)
        case Raw(size):
            return st.binary(min_size=size, max_size=size)
        case kind:
            raise TypeError(kind)


HEADERS: st.SearchStrategy[Layout] = st.one_of(
    [st.builds(layout, **{row.name: _value(row) for row in layout.ROWS}) for layout in SIZES]
)


@given(HEADERS, st.sampled_from(CONTEXTS))
def test_what_is_written_is_read_again(header: Layout, context: Context) -> None:
    encoded = header.encode(context)
    assert type(header).decode(encoded, 0, context) == (header, len(encoded))
