"""IBM MQ groups and segments: what a descriptor means, what is refused, and how a file is written."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.framing import mq_group
from app.framing.mq_group import MQ_GROUP
from app.model.attachment import AttachmentKind
from app.model.errors import InvalidInputError
from app.model.event import GroupPart
from app.model.message import PhysicalMessage
from app.model.records import DeliveryRecord, FramingOptions, GroupedAs, OutgoingAttachment

GROUP, MESSAGE = b"G" * 24, b"M" * 24
ALLOWED, SEGMENT, LAST_SEGMENT, IN_GROUP, LAST_IN_GROUP = 1, 2, 4, 8, 16


def physical(flags: int = 0, body: bytes = b"body", **fields: Any) -> PhysicalMessage:
    given = {"msg_type": 8, "message_id": MESSAGE, "group_id": GROUP, "msg_flags": flags, **fields}
    return PhysicalMessage("orders", "mq_group", body=body, **given)


def read(message: PhysicalMessage) -> GroupPart:
    return MQ_GROUP.read(message, 0)


def refusal(message: PhysicalMessage) -> InvalidInputError:
    with pytest.raises(InvalidInputError) as refused:
        read(message)
    return refused.value


# --- reading ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "number", "offset", "meaning"),
    [
        (0, 1, 0, (MESSAGE, 1, 0, True, True)),
        (ALLOWED, 1, 0, (MESSAGE, 1, 0, True, True)),
        (IN_GROUP, 3, 0, (GROUP, 3, 0, True, False)),
        (IN_GROUP | ALLOWED, 3, 0, (GROUP, 3, 0, True, False)),
        (IN_GROUP | LAST_IN_GROUP, 3, 0, (GROUP, 3, 0, True, True)),
        (LAST_IN_GROUP, 999_999_999, 0, (GROUP, 999_999_999, 0, True, True)),
        (SEGMENT, 1, 0, (GROUP, 1, 0, False, True)),
        (SEGMENT, 1, 999_999_999, (GROUP, 1, 999_999_999, False, True)),
        (SEGMENT | LAST_SEGMENT, 1, 8, (GROUP, 1, 8, True, True)),
        (LAST_SEGMENT, 1, 8, (GROUP, 1, 8, True, True)),
        (IN_GROUP | SEGMENT, 2, 8, (GROUP, 2, 8, False, False)),
        (IN_GROUP | LAST_IN_GROUP | SEGMENT, 2, 0, (GROUP, 2, 0, False, True)),
        (IN_GROUP | LAST_SEGMENT, 2, 8, (GROUP, 2, 8, True, False)),
        (LAST_IN_GROUP | LAST_SEGMENT, 2, 8, (GROUP, 2, 8, True, True)),
    ],
)
def test_what_flags_mean(flags: int, number: int, offset: int, meaning: tuple[object, ...]) -> None:
    part = read(physical(flags, msg_seq_number=number, offset=offset))
    assert (part.correl_id, part.message, part.offset, part.ends_message, part.ends_group) == meaning
    assert part.size == 4


@pytest.mark.parametrize(
    ("message", "code", "row"),
    [
        (physical(msg_type=4), "report-message", "msg_type"),
        (physical(IN_GROUP | SEGMENT, msg_type=4), "report-message", "msg_type"),
        (physical(message_id=b""), "no-identifier", "message_id"),
        (physical(message_id=bytes(24)), "no-identifier", "message_id"),
        (physical(message_id=b"M" * 25), "no-identifier", "message_id"),
        (physical(IN_GROUP, group_id=b""), "no-identifier", "group_id"),
        (physical(LAST_SEGMENT, group_id=bytes(7)), "no-identifier", "group_id"),
        (physical(IN_GROUP, group_id=b"G" * 25), "no-identifier", "group_id"),
        (physical(IN_GROUP, msg_seq_number=0), "bad-grouping", "msg_seq_number"),
        (physical(IN_GROUP, msg_seq_number=-1), "bad-grouping", "msg_seq_number"),
        (physical(IN_GROUP, msg_seq_number=1_000_000_000), "bad-grouping", "msg_seq_number"),
        (physical(msg_seq_number=2), "bad-grouping", "msg_seq_number"),
        (physical(SEGMENT, msg_seq_number=2), "bad-grouping", "msg_seq_number"),
        (physical(SEGMENT, offset=-1), "bad-grouping", "offset"),
        (physical(SEGMENT, offset=1_000_000_000), "bad-grouping", "offset"),
        (physical(IN_GROUP, offset=4), "bad-grouping", "offset"),
        (physical(offset=4), "bad-grouping", "offset"),
        (physical(SEGMENT, b""), "bad-grouping", "body"),
        (physical(SEGMENT, original_length=5), "bad-grouping", "original_length"),
        (physical(LAST_SEGMENT, original_length=3), "bad-grouping", "original_length"),
    ],
)
def test_what_cannot_be_is_refused_with_the_field(message: PhysicalMessage, code: str, row: str) -> None:
    error = refusal(message)
    assert (error.code, error.row) == (code, row)
    assert error.why


@pytest.mark.parametrize(
    "message",
    [
        physical(LAST_SEGMENT, b"", offset=8),
        physical(IN_GROUP, b""),
        physical(SEGMENT, original_length=4),
        physical(IN_GROUP, original_length=77),
        physical(IN_GROUP, group_id=b"short"),
        physical(IN_GROUP, message_id=b""),
    ],
)
def test_what_can_be_is_taken(message: PhysicalMessage) -> None:
    assert len(read(message).correl_id) == 24


def test_only_segments_have_an_original_length_that_must_be_theirs() -> None:
    assert "truncated or converted" in refusal(physical(SEGMENT, original_length=100)).why


@pytest.mark.parametrize(
    ("format_name", "kind"),
    [
        ("MQSTR", AttachmentKind.TEXT_FILE),
        ("MQSTR   ", AttachmentKind.TEXT_FILE),
        ("", AttachmentKind.BINARY_FILE),
        ("MQHRF2", AttachmentKind.BINARY_FILE),
    ],
)
def test_the_format_tells_text_from_bytes(format_name: str, kind: AttachmentKind) -> None:
    assert read(physical(format=format_name)).definition.kind is kind


@pytest.mark.parametrize(
    ("flags", "properties", "called"),
    [
        (0, {}, ("MSGID", MESSAGE.hex(), "")),
        (IN_GROUP, {}, ("GROUPID", GROUP.hex(), "")),
        (SEGMENT, {"colour": "green"}, ("GROUPID", GROUP.hex(), "")),
        (0, {"filename": "../отчёт 1.csv"}, ("FILENAME", "../отчёт 1.csv", "")),
        (IN_GROUP, {"filename": "a", "description": "of a"}, ("FILENAME", "a", "of a")),
        (IN_GROUP, {"description": "of it"}, ("GROUPID", GROUP.hex(), "of it")),
        (0, {"filename": ""}, ("MSGID", MESSAGE.hex(), "")),
        (0, {"filename": "a\x1b[31m"}, ("MSGID", MESSAGE.hex(), "")),
        (0, {"filename": "a\x9b31m"}, ("MSGID", MESSAGE.hex(), "")),
        (0, {"filename": "a" * 5000, "description": "\0"}, ("MSGID", MESSAGE.hex(), "")),
    ],
)
def test_a_file_is_called_what_its_sender_says_or_by_its_identifier(
    flags: int, properties: dict[str, str], called: tuple[str, str, str]
) -> None:
    definition = read(physical(flags, properties=properties)).definition
    assert (definition.qualifier_1, definition.qualifier_2, definition.description) == called


MQLONG = st.integers(-(2**31), 2**31 - 1)


@given(
    st.builds(
        PhysicalMessage,
        st.just("orders"),
        st.just("mq_group"),
        st.sampled_from([4, 8, 100_000]) | MQLONG,
        body=st.binary(max_size=9),
        message_id=st.binary(max_size=26),
        group_id=st.binary(max_size=26),
        msg_seq_number=st.integers(-1, 3) | MQLONG,
        offset=st.integers(-1, 3) | MQLONG,
        msg_flags=st.integers(0, 31) | MQLONG,
        original_length=st.integers(-1, 9) | MQLONG,
        format=st.sampled_from(["", "MQSTR", "MQHRF2"]),
        properties=st.dictionaries(st.sampled_from(["filename", "description", "x"]), st.text(max_size=9)),
    )
)
def test_any_message_means_something_or_is_refused_with_a_reason(message: PhysicalMessage) -> None:
    part = meaning(message)
    if isinstance(part, InvalidInputError):
        assert part.code in {"report-message", "no-identifier", "bad-grouping"}
        assert part.row in PhysicalMessage._fields
        assert part.why
        return
    assert len(part.correl_id) == 24
    assert any(part.correl_id)
    assert part.correl_id == MQ_GROUP.attachment_key(message)
    assert 1 <= part.message < 10**9 > part.offset >= 0
    assert part.size or part.ends_message
    assert part.definition.qualifier_2


def meaning(message: PhysicalMessage) -> GroupPart | InvalidInputError:
    try:
        return read(message)
    except InvalidInputError as error:
        return error


# --- writing ----------------------------------------------------------------------------------------------------------


def outgoing(number: int, content: bytes, kind: AttachmentKind = AttachmentKind.BINARY_FILE) -> OutgoingAttachment:
    key = bytes([number]) * 16
    return OutgoingAttachment(key, kind, "FILENAME", f"{number}.bin", "", 0, 0, f"{number}", len(content), "")


def written(contents: list[bytes], limit: int, group: GroupedAs = "messages", **fields: Any) -> list[PhysicalMessage]:
    attachments = tuple(outgoing(number, content) for number, content in enumerate(contents, 1))
    delivery = DeliveryRecord("d", "partner", bytes(24), bytes(24), attachments, 0, 0, **fields)

    def bodies(attachment: OutgoingAttachment) -> Iterator[bytes]:
        content = contents[int(attachment.object_name) - 1]
        return (content[at : at + limit] for at in range(0, len(content), limit))

    how = FramingOptions(limit, "", 819, 273, framing="mq_group", group=group)
    sent = list(mq_group.messages(delivery, how, bodies))
    assert sent == list(mq_group.messages(delivery, how, bodies)), "an interrupted delivery goes on with the same"
    return sent


@given(
    st.lists(st.binary(max_size=40), min_size=1, max_size=3),
    st.integers(1, 9),
    st.sampled_from(["messages", "segments"]),
)
def test_what_is_written_reads_as_whole_groups(contents: list[bytes], limit: int, group: GroupedAs) -> None:
    sent = written(contents, limit, group)
    assert len({message.message_id for message in sent}) == len(sent)
    parts: dict[bytes, list[tuple[GroupPart, bytes]]] = {}
    for message in sent:
        part = read(message)
        parts.setdefault(part.correl_id, []).append((part, bytes(message.body)))
    assert list(parts) == [bytes([number]) * 16 + bytes(8) for number in range(1, len(contents) + 1)]
    for content, theirs in zip(contents, parts.values(), strict=True):
        assert b"".join(body for _, body in theirs) == content
        places = [(part.message, part.offset, part.ends_message, part.ends_group) for part, _ in theirs]
        last = len(places) - 1
        if group == "messages":
            assert places == [(number + 1, 0, True, number == last) for number in range(last + 1)]
        else:
            assert places == [(1, number * limit, number == last, True) for number in range(last + 1)]


def test_a_group_as_it_goes_out() -> None:
    first, second, third = written([b"abcdefg"], 3)
    assert (first.msg_type, first.group_id, first.correl_id) == (8, b"\1" * 16 + bytes(8), bytes(24))
    assert [message.msg_flags for message in (first, second, third)] == [8, 8, 24]
    assert [message.msg_seq_number for message in (first, second, third)] == [1, 2, 3]
    assert [dict(message.properties) for message in (first, second, third)] == [{"filename": "1.bin"}, {}, {}]
    assert {message.original_length for message in (first, second, third)} == {-1}
    assert {(message.format, message.ccsid, message.encoding) for message in (first, second)} == {("", 0, 273)}


def test_an_empty_file_is_one_empty_message() -> None:
    (message,) = written([b""], 3)
    assert (message.body, message.msg_flags, message.msg_seq_number) == (b"", 24, 1)
    (segment,) = written([b""], 3, "segments")
    assert (segment.body, segment.msg_flags, segment.offset) == (b"", 6, 0)


def test_what_the_application_says_of_its_message() -> None:
    (message,) = written([b"a"], 3, original_msg_type=65_536, original_correl_id=b"C" * 24)
    assert (message.msg_type, message.correl_id) == (65_536, b"C" * 24)


def test_text_goes_out_in_its_character_set() -> None:
    attachment = outgoing(1, b"text", AttachmentKind.TEXT_FILE)
    delivery = DeliveryRecord("d", "partner", bytes(24), bytes(24), (attachment,), 0, 0)
    how = FramingOptions(9, "", 819, 273, framing="mq_group")
    (message,) = mq_group.messages(delivery, how, lambda _: iter([b"text"]))
    assert (message.format, message.ccsid) == ("MQSTR", 819)


def test_a_file_longer_than_offsets_reach_goes_as_messages_only() -> None:
    attachment = replace(outgoing(1, b""), size=10**9)
    delivery = DeliveryRecord("d", "partner", bytes(24), bytes(24), (attachment,), 0, 0)
    how = FramingOptions(9, "", 819, 273, framing="mq_group", group="segments")
    with pytest.raises(InvalidInputError, match="send it as the messages of a group"):
        next(mq_group.messages(delivery, how, lambda _: iter([b"x"])))
    assert next(mq_group.messages(delivery, how._replace(group="messages"), lambda _: iter([b"x"]))).body == b"x"
