"""Places of rows in MQ headers, against the offsets that IBM's pages give."""

import pytest

from app.codecs.ibm_mq.constants import MQ_NO_ID
from app.codecs.ibm_mq.field_positions import place, rows
from app.codecs.ibm_mq.headers import MQMD1, MQMD2, MQMDE
from app.wire import Context


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        ("report", None, slice(8, 12)),
        ("expiry", None, slice(16, 20)),
        ("msg_id", None, slice(48, 72)),
        ("backout_count", None, slice(96, 100)),
        ("reply_to_q", "put_appl_name", slice(100, 304)),
        ("put_date", "put_time", slice(304, 320)),
        ("appl_origin_data", None, slice(320, 324)),
    ],
)
def test_a_row_is_where_the_specification_has_it(first: str, last: str | None, expected: slice) -> None:
    assert place(MQMD1, first, last) == place(MQMD2, first, last) == expected


@pytest.mark.parametrize("order", ["<", ">"])
def test_rows_are_taken_as_the_layout_reads_them(order: str) -> None:
    context = Context("<" if order == "<" else ">", "latin-1")
    extension = MQMDE(group_id=bytes(range(24)), msg_seq_number=7, offset=9, msg_flags=8, original_length=11)
    taken = rows(MQMDE, context.order, "struc_length", "group_id", ("msg_seq_number", "offset"), "original_length")
    pair = extension.encode(context)[place(MQMDE, "msg_seq_number", "offset")]
    assert taken.unpack(extension.encode(context)) == (72, bytes(range(24)), pair, 11)
    within = place(MQMD2, "group_id", "msg_seq_number")
    some = rows(MQMD2, context.order, "msg_seq_number", within=within)
    assert some.unpack(MQMD2(group_id=MQ_NO_ID, msg_seq_number=5).encode(context)[within]) == (5,)
