"""The MQMDE: when it is honoured, and when it is written.

Five fields of a version-2 MQMD give a message's place in a group and in a logical message. A version-1 MQMD does not
have them. They are then in an MQMDE before the data, or they are missing and have their initial values.

On MQPUT and MQPUT1 a queue manager treats an MQMDE that the Format announces as follows (IBM MQ, "MQMDE", table 1):

| MQMD | its five fields | the MQMDE's | |
|---|---|---|---|
| version 1 | - | valid | honoured |
| version 2 | initial | valid | honoured |
| version 2 | not initial | valid | data |
| either | any | not valid | the call fails with a reason |
| either | any | another character set, encoding or version | data |

On MQGET with a version-1 MQMD it puts an MQMDE before the data only if one of the fields does not have its initial
value.

The pages of the reason codes define "not valid": an identifier that is MDE in neither ASCII nor EBCDIC, a length other
than 72 (2248), and wrong fields (2249 to 2252). OriginalLength counts only in a report on a segment; everywhere else it
is ignored, whatever its value (page "OriginalLength").

Three cases of these pages do not occur here. The page of 2248 refuses a version other than 2, but the table calls this
data. It also refuses a CodedCharSetId of 0, but that is the structure's initial value, and the page of the field says
that it is not checked. 2258 occurs only with distribution lists.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from app.codecs.ibm_mq.constants import (
    HEADER_FORMATS,
    MQ_NO_ID,
    MQMF_LAST_MSG_IN_GROUP,
    MQMF_LAST_SEGMENT,
    MQMF_MSG_IN_GROUP,
    MQMF_REJECT_UNSUP_MASK,
    MQMF_SEGMENTATION_ALLOWED,
    MQMT_REPORT,
    MQOL_UNDEFINED,
    MQRC_MDE_ERROR,
    MQRC_MSG_FLAGS_ERROR,
    MQRC_MSG_SEQ_NUMBER_ERROR,
    MQRC_OFFSET_ERROR,
    MQRC_ORIGINAL_LENGTH_ERROR,
    SEGMENT_FLAGS,
)
from app.codecs.ibm_mq.encodings import EBCDIC
from app.codecs.ibm_mq.headers import MQMD1, MQMD2, MQMDE
from app.codecs.ibm_mq.structure_writing import ASCII, Heads, identifier, written
from app.model.message import PhysicalMessage
from app.wire import Context, WireError
from app.wire.kinds import Buffer

MOST: Final = 999_999_999
UNKNOWN_FLAGS: Final = MQMF_REJECT_UNSUP_MASK & ~(
    MQMF_SEGMENTATION_ALLOWED | SEGMENT_FLAGS | MQMF_MSG_IN_GROUP | MQMF_LAST_MSG_IN_GROUP
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
    """An error for an MQMDE that is not valid; `reason` is the MQRC with which MQPUT fails."""

    def __init__(self, reason: int, row: str, at: int, why: str) -> None:
        super().__init__(row, at, f"{why} (MQRC {reason})")
        self.reason = reason


def grouping_of(message: PhysicalMessage) -> Grouping:
    """Return the five fields of a message."""
    return Grouping(
        identifier(message.group_id),
        message.msg_seq_number,
        message.offset,
        message.msg_flags,
        message.original_length,
    )


def grouping_in(header: MQMD1 | MQMDE) -> Grouping:
    """Return the five fields of a descriptor or an MQMDE; the initial values for version 1."""
    if isinstance(header, MQMD2 | MQMDE):
        return Grouping(header.group_id, header.msg_seq_number, header.offset, header.msg_flags, header.original_length)
    return INITIAL


def with_grouping(message: PhysicalMessage, grouping: Grouping) -> PhysicalMessage:
    """Return the message with other five fields; MQGI_NONE becomes an empty group identifier."""
    fields = grouping._asdict()
    if grouping.group_id == MQ_NO_ID:
        fields["group_id"] = b""
    return message._replace(**fields)


def on_put(
    own: Grouping, msg_type: int, buffer: Buffer, at: int, encoding: int, ccsid: int
) -> tuple[MQMDE, Context] | None:
    """Return the MQMDE at byte `at` and how it is written; None when it is data.

    This is table 1 for a Format that announces one.

    `own` are the descriptor's five fields, initial for version 1. `encoding` and `ccsid` are those in which it must be
    written: on MQPUT the queue manager's own; on receipt those that the descriptor announces, since a message may come
    from another queue manager. Raises ExtensionError for an MQMDE that is not valid.
    """
    found = HEADS.find(buffer, at, encoding, ccsid)
    if found is None:
        head = bytes(buffer[at : at + _HEAD_SIZE])
        if head[:4] not in _IDENTIFIERS or len(head) < _HEAD_SIZE:
            why = f"found {head.hex().upper() or 'nothing'}, expected 'MDE ' and a version"
            raise ExtensionError(MQRC_MDE_ERROR, "MQMDE.struc_id", at, why)
        return None
    _, context = found
    try:
        extension, end = MQMDE.decode(buffer, at, context)
    except WireError as error:
        raise ExtensionError(MQRC_MDE_ERROR, error.row, error.at, error.why) from None
    for reason, name, is_wrong, why in _FAULTS:
        if is_wrong(extension):
            value = getattr(extension, name)
            raise ExtensionError(reason, f"MQMDE.{name}", at + _PLACES[f"MQMDE.{name}"], f"{value}, {why}")
    if msg_type == MQMT_REPORT and extension.msg_flags & SEGMENT_FLAGS:
        data = 0 if extension.format in HEADER_FORMATS else len(buffer) - end
        least = data if extension.msg_flags & MQMF_LAST_SEGMENT else max(data, 1)
        if extension.original_length < least:
            name = "MQMDE.original_length"
            why = f"{extension.original_length}; a report on a segment has at least {least}"
            raise ExtensionError(MQRC_ORIGINAL_LENGTH_ERROR, name, at + _PLACES[name], why)
    return (extension, context) if own == INITIAL else None


def extension(message: PhysicalMessage, encoding: int, ccsid: int) -> bytes:
    """Return the MQMDE that MQGET with a version-1 MQMD, or a sending program, puts before a message's data.

    It is written in the queue manager's Encoding and CodedCharSetId. It is empty when all its fields have their initial
    values. With it, the descriptor's Format is MQFMT_MD_EXTENSION, and its Encoding and CodedCharSetId are these.
    """
    grouping = grouping_of(message)
    if grouping == INITIAL:
        return b""
    made = MQMDE(
        encoding=message.encoding, coded_char_set_id=message.ccsid, format=message.format, **grouping._asdict()
    )
    return made.encode(written(encoding, ccsid))


_FAULTS: tuple[tuple[int, str, Callable[[MQMDE], bool], str], ...] = (
    (MQRC_MDE_ERROR, "struc_length", lambda it: it.struc_length != MQMDE.SIZE, f"not {MQMDE.SIZE}"),
    (MQRC_MSG_FLAGS_ERROR, "msg_flags", lambda it: bool(it.msg_flags & UNKNOWN_FLAGS), "has unknown flags"),
    (MQRC_MSG_SEQ_NUMBER_ERROR, "msg_seq_number", lambda it: not 1 <= it.msg_seq_number <= MOST, f"not 1 to {MOST}"),
    (MQRC_OFFSET_ERROR, "offset", lambda it: not 0 <= it.offset <= MOST, f"not 0 to {MOST}"),
)
"""The errors of an MQMDE: reason code, field, the condition for the error, and its text."""
