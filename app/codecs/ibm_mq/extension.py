"""The MQMDE: when it is honoured, and when it is written.

Five fields of a version-2 MQMD say where a message belongs in a group and in a logical message. A version-1 MQMD has
no room for them, so they travel in an MQMDE in front of the data, or are not there and have their initial values.

On MQPUT and MQPUT1 a queue manager does this with an MQMDE that the Format announces (IBM MQ, "MQMDE", table 1):

| MQMD | its five fields | the MQMDE's | |
|---|---|---|---|
| version 1 | - | valid | honoured |
| version 2 | initial | valid | honoured |
| version 2 | not initial | valid | data |
| either | any | not valid | the call fails with a reason |
| either | any | another character set, encoding or version | data |

On MQGET with a version-1 MQMD it puts one in front of the data only if some field has not its initial value.

What "not valid" is, the pages of the reasons say: an identifier that is MDE in neither ASCII nor EBCDIC, a length other
than 72 (2248), and the fields of 2249 to 2252. OriginalLength counts in a report on a segment alone; anywhere else it
is ignored, whatever it is (page "OriginalLength"). Three cases of these pages are never met here: that of 2248 refuses
a version other than 2 and a CodedCharSetId of 0, where the table calls the first data, and where the second is the
structure's initial value and its field's page says that it is not checked; 2258 can only befall a distribution list.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from app.codecs.ibm_mq.encodings import EBCDIC
from app.codecs.ibm_mq.headers import MQMD1, MQMD2, MQMDE
from app.codecs.ibm_mq.words import (
    HEADER_FORMATS,
    MQ_NO_ID,
    MQMF_LAST_MSG_IN_GROUP,
    MQMF_LAST_SEGMENT,
    MQMF_MSG_IN_GROUP,
    MQMF_REJECT_UNSUP_MASK,
    MQMF_SEGMENT,
    MQMF_SEGMENTATION_ALLOWED,
    MQMT_REPORT,
    MQOL_UNDEFINED,
    MQRC_MDE_ERROR,
    MQRC_MSG_FLAGS_ERROR,
    MQRC_MSG_SEQ_NUMBER_ERROR,
    MQRC_OFFSET_ERROR,
    MQRC_ORIGINAL_LENGTH_ERROR,
)
from app.codecs.ibm_mq.writing import ASCII, Heads, identifier, written
from app.model.message import PhysicalMessage
from app.wire import Context, WireError
from app.wire.kinds import Buffer

MOST: Final = 999_999_999
_SEGMENT = MQMF_SEGMENT | MQMF_LAST_SEGMENT
UNKNOWN_FLAGS: Final = MQMF_REJECT_UNSUP_MASK & ~(
    MQMF_SEGMENTATION_ALLOWED | _SEGMENT | MQMF_MSG_IN_GROUP | MQMF_LAST_MSG_IN_GROUP
)
HEADS: Final = Heads([MQMDE()])
_HEAD_SIZE = 8
_IDENTIFIERS = frozenset("MDE ".encode(charset) for charset in (ASCII, EBCDIC))
_PLACES = {cell.name: cell.at for cell in MQMDE.cells(MQMDE().encode())}


class Grouping(NamedTuple):
    """The five fields, with their initial values."""

    group_id: bytes = MQ_NO_ID
    msg_seq_number: int = 1
    offset: int = 0
    msg_flags: int = 0
    original_length: int = MQOL_UNDEFINED


INITIAL = Grouping()


class ExtensionError(WireError):
    """An MQMDE that is not valid; `reason` is the MQRC with which MQPUT fails."""

    def __init__(self, reason: int, row: str, at: int, why: str) -> None:
        super().__init__(row, at, f"{why} (MQRC {reason})")
        self.reason = reason


def grouping_of(message: PhysicalMessage) -> Grouping:
    """The five fields of a message."""
    return Grouping(
        identifier(message.group_id),
        message.msg_seq_number,
        message.offset,
        message.msg_flags,
        message.original_length,
    )


def grouping_in(header: MQMD1 | MQMDE) -> Grouping:
    """The five fields that a descriptor or an MQMDE has; initial for version 1."""
    if isinstance(header, MQMD2 | MQMDE):
        return Grouping(header.group_id, header.msg_seq_number, header.offset, header.msg_flags, header.original_length)
    return INITIAL


def with_grouping(message: PhysicalMessage, grouping: Grouping) -> PhysicalMessage:
    """The message with other five fields; no group identifier is an empty one."""
    fields = grouping._asdict()
    if grouping.group_id == MQ_NO_ID:
        fields["group_id"] = b""
    return message._replace(**fields)


def on_put(
    own: Grouping, msg_type: int, buffer: Buffer, at: int, encoding: int, ccsid: int
) -> tuple[MQMDE, Context] | None:
    """Table 1: the MQMDE at byte `at`, where the Format announces one, and how it is written; None when it is data.

    `own` are the descriptor's five fields, initial for version 1. `encoding` and `ccsid` are what it has to be written
    in: the queue manager's own on MQPUT; on receipt those that the descriptor announces, since a message may come from
    another queue manager. Raises ExtensionError for one that is not valid.
    """
    found = HEADS.find(buffer, at, encoding, ccsid)
    if found is None:
        _check_head(bytes(buffer[at : at + _HEAD_SIZE]), at)
        return None
    _, context = found
    try:
        extension, end = MQMDE.decode(buffer, at, context)
    except WireError as error:
        raise ExtensionError(MQRC_MDE_ERROR, error.row, error.at, error.why) from None
    _check(extension, at, msg_type, 0 if extension.format in HEADER_FORMATS else len(buffer) - end)
    return (extension, context) if own == INITIAL else None


def extension(message: PhysicalMessage, encoding: int, ccsid: int) -> bytes:
    """What MQGET with a version-1 MQMD puts in front of a message's data, and a program that sends with one: the
    message's MQMDE, written in the queue manager's Encoding and CodedCharSetId, or nothing when it would say nothing.

    In front of it the descriptor's Format is MQFMT_MD_EXTENSION, and its Encoding and CodedCharSetId are these.
    """
    return b"" if grouping_of(message) == INITIAL else _extension(message).encode(written(encoding, ccsid))


def _extension(message: PhysicalMessage) -> MQMDE:
    return MQMDE(
        encoding=message.encoding,
        coded_char_set_id=message.ccsid,
        format=message.format,
        **grouping_of(message)._asdict(),
    )


_FAULTS: tuple[tuple[int, str, Callable[[MQMDE], bool], str], ...] = (
    (MQRC_MDE_ERROR, "struc_length", lambda it: it.struc_length != MQMDE.SIZE, f"not {MQMDE.SIZE}"),
    (MQRC_MSG_FLAGS_ERROR, "msg_flags", lambda it: bool(it.msg_flags & UNKNOWN_FLAGS), "with flags that are unknown"),
    (MQRC_MSG_SEQ_NUMBER_ERROR, "msg_seq_number", lambda it: not 1 <= it.msg_seq_number <= MOST, f"not 1 to {MOST}"),
    (MQRC_OFFSET_ERROR, "offset", lambda it: not 0 <= it.offset <= MOST, f"not 0 to {MOST}"),
)
"""What an MQMDE must not have: the reason, the row, whether it has it, and what to say."""


def _check_head(head: bytes, at: int) -> None:
    """Refuses what begins like an MQMDE in no character set, or ends before its version. Raises ExtensionError."""
    if head[:4] not in _IDENTIFIERS or len(head) < _HEAD_SIZE:
        why = f"{head.hex().upper() or 'nothing'}, where 'MDE ' and a version belong"
        raise ExtensionError(MQRC_MDE_ERROR, "MQMDE.struc_id", at, why)


def _check(extension: MQMDE, at: int, msg_type: int, data: int) -> None:
    """Refuses an MQMDE at byte `at`, with so many bytes of data behind it. Raises ExtensionError."""
    for reason, name, is_wrong, why in _FAULTS:
        if is_wrong(extension):
            value = getattr(extension, name)
            raise ExtensionError(reason, f"MQMDE.{name}", at + _PLACES[f"MQMDE.{name}"], f"{value}, {why}")
    least = data if extension.msg_flags & MQMF_LAST_SEGMENT else max(data, 1)
    if msg_type == MQMT_REPORT and extension.msg_flags & _SEGMENT and extension.original_length < least:
        name = "MQMDE.original_length"
        why = f"{extension.original_length}, where a report on a segment has at least {least}"
        raise ExtensionError(MQRC_ORIGINAL_LENGTH_ERROR, name, at + _PLACES[name], why)
