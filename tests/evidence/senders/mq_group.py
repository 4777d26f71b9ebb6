"""Programs that put groups and segments on IBM MQ queues, by the fields of the MQMD: GroupId, MsgSeqNumber, Offset,
MsgFlags and OriginalLength."""

from collections.abc import Iterator, Sequence

from tests.evidence.senders import contents
from tests.evidence.senders.sent import Physical, Sending, Sent

SEGMENT, LAST_SEGMENT, IN_GROUP, LAST_IN_GROUP = 2, 4, 8, 16
GROUP = b"one group of messages".ljust(24, b"\0")
DATAGRAM = 8


def sendings() -> Iterator[Sending]:
    """Yield files as groups, as segments, and as groups with a message in segments."""
    for kind, format_, pieces in (
        ("text", "MQSTR   ", [b"".join(line + b"\n" for line in lines) for lines in contents.LINES]),
        ("binary", "        ", [b"".join(records) for records in contents.RECORDS]),
    ):
        yield grouped(kind, pieces, format_)
        for told, says in (("segments with OriginalLength", True), ("segments without OriginalLength", False)):
            messages = [*_segments(pieces, format_, says=says)]
            yield sending(kind, told, messages, pieces)
        first, *others = [_grouped(pieces, at, format_) for at in range(len(pieces))]
        halves = [pieces[1][:7], pieces[1][7:]]
        within = [
            each._replace(msg_seq_number=2, msg_flags=each.msg_flags | IN_GROUP)
            for each in _segments(halves, format_, says=False)
        ]
        yield sending(kind, "group with segments", [first, *within, *others[1:]], pieces)
        alone = Physical("message", pieces[0], DATAGRAM, message_id=b"alone".ljust(24), format=format_)
        yield Sending("mq_group", kind, "message alone", "", (alone,), (Sent(b"alone".ljust(24).hex(), pieces[0]),))
    yield grouped("binary, empty", [b""])


def grouped(kind: str, pieces: Sequence[bytes], format_: str = "") -> Sending:
    """Return a file as a group of messages with these bodies."""
    return sending(kind, "group", [_grouped(pieces, at, format_) for at in range(len(pieces))], pieces)


def sending(kind: str, told: str, messages: Sequence[Physical], pieces: Sequence[bytes]) -> Sending:
    named = [each._replace(message_id=b"message %d" % at) for at, each in enumerate(messages)]
    return Sending("mq_group", kind, told, "", tuple(named), (Sent(GROUP.hex(), b"".join(pieces)),))


def _grouped(pieces: Sequence[bytes], at: int, format_: str) -> Physical:
    flags = IN_GROUP | (LAST_IN_GROUP if at == len(pieces) - 1 else 0)
    return Physical(
        "message", pieces[at], DATAGRAM, group_id=GROUP, msg_seq_number=at + 1, msg_flags=flags, format=format_
    )


def _segments(pieces: Sequence[bytes], format_: str, *, says: bool) -> Iterator[Physical]:
    offset = 0
    for at, piece in enumerate(pieces):
        flags = SEGMENT | (LAST_SEGMENT if at == len(pieces) - 1 else 0)
        length = len(piece) if says else -1
        yield Physical(
            "last segment" if flags & LAST_SEGMENT else "segment",
            piece,
            DATAGRAM,
            group_id=GROUP,
            offset=offset,
            msg_flags=flags,
            original_length=length,
            format=format_,
        )
        offset += len(piece)
