"""The attachment header (message type 100000) and the count message of an attachment."""

from typing import Annotated

from app.codecs.sas import message_reader
from app.codecs.sas.constants import APPLICATION_MSG_TYPES, MQ_MSG_TYPES, Correlid, Int, IntString, Long
from app.codecs.sas.correlid import KEY_SIZE, join
from app.codecs.sas.dialect import ALL, Dialect, furthest, survey
from app.codecs.sas.message_reader import INT_LIMIT, Fault, control_in, outside
from app.model.attachment import AttachmentDefinition, AttachmentKind, MessageHeader
from app.wire import Context, Layout, Many, Num, WireError, row
from app.wire.kinds import Buffer


class AttachmentEntry(Layout):
    """One attachment of a header's list."""

    type: Annotated[AttachmentKind | int, Num("i", AttachmentKind)] = row(
        "attachment type: 1 SAS data set, 2 external text file, 3 external binary file"
    )
    correlid: Correlid = row("attachment correlid: correlationid associated with this attachment")
    qualifier1: IntString = row("files: FILENAME or FILEREF; data sets: the sending library name")
    qualifier2: IntString = row("files: the sending filename or fileref; data sets: the sending member name")
    description: IntString = row("attachment description")
    minor_version: Int = row("user specified minor version number", default=0)
    major_version: Int = row("user specified major version number", default=0)


class AttachmentHeader(Layout):
    """The message that announces a message's attachments."""

    header_correlid: Correlid = row("correlationid of this header message")
    original_msg_type: Long = row("message type provided by the sending application")
    original_correlid: Correlid = row("message correlationid provided by the sending application")
    message_correlid: Correlid = row("generated correlationid for the message")
    attachment_count: Int = row("number of attachments")
    attachments: Annotated[list[AttachmentEntry], Many(AttachmentEntry, "attachment_count")] = row(
        "the list of attachments"
    )


class _UncountedHeader(AttachmentHeader):
    """The same message, where its list goes to the end whatever the number says."""

    attachments: Annotated[list[AttachmentEntry], Many(AttachmentEntry)] = row("the list of attachments")


class Count(Layout):
    """The message with the number of sequenced messages of an attachment; the count message itself is not included."""

    count: Int = row("number of messages that are associated with this attachment")


def read_header(
    body: Buffer, *, charset: str = "latin-1", encoding: int = 0, known: int = ALL
) -> tuple[MessageHeader, int]:
    """Return the contents of an attachment header, and the dialects in which it has these contents.

    The source's `known` dialects are tried first; all others are tried only if the message cannot be read in any of
    those. `encoding` is the descriptor's (MQMD.Encoding), 0 if there is none. Raises WireError with the reason for the
    dialect in which the most bytes could be read.
    """

    def read(dialect: Dialect) -> AttachmentHeader | None:
        return message_reader.attempt(AttachmentHeader, body, dialect.context(charset), _fault)

    found = survey(read, known, encoding=encoding, oddity=_oddity)
    found = found or survey(read, ALL & ~known, encoding=encoding, oddity=_oddity)
    if found is None:
        raise furthest(
            lambda dialect: _explain(body, dialect.context(charset)),
            ALL,
            encoding=encoding,
            known=known,
        )
    header, dialects = found
    return MessageHeader(
        header.header_correlid,
        header.original_msg_type,
        header.original_correlid,
        header.message_correlid,
        tuple(definition_of(entry, entry.correlid[:KEY_SIZE]) for entry in header.attachments),
    ), dialects


def _explain(body: Buffer, context: Context) -> tuple[int, WireError]:
    """Return how far a header could be read that is refused, and the error. A header in which nothing but the number of
    attachments is wrong counts as read furthest."""
    found = _UncountedHeader.attempt(body, 0, context)
    if found is None or found[0].attachment_count == len(found[0].attachments):
        return message_reader.explain(AttachmentHeader, body, context, _fault)
    row = "AttachmentHeader.attachment_count"
    cells = AttachmentHeader.cells(body, 0, context)
    why = f"{found[0].attachment_count}, but the message has {len(found[0].attachments)} attachments"
    return len(body) + 1, WireError(row, next(cell.at for cell in cells if cell.name == row), why)


def definition_of(entry: AttachmentEntry, correl_id: bytes) -> AttachmentDefinition:
    """Return what an entry of a header says of the attachment with this correlid."""
    return AttachmentDefinition(
        AttachmentKind(entry.type),
        correl_id,
        entry.qualifier1,
        entry.qualifier2,
        entry.description,
        entry.minor_version,
        entry.major_version,
    )


def entry_of(definition: AttachmentDefinition, correlid: bytes) -> AttachmentEntry:
    """Return the entry of a header for an attachment, with its correlid as the header has it."""
    return AttachmentEntry(
        definition.kind,
        correlid,
        definition.qualifier_1,
        definition.qualifier_2,
        definition.description,
        definition.minor_version,
        definition.major_version,
    )


def _oddity(header: AttachmentHeader) -> tuple[bool, int]:
    """Return whether the message type is unusual (neither IBM MQ's nor in the range for applications), and its size.

    In the wrong byte order, the small numbers that programs use are huge.
    """
    is_usual = header.original_msg_type in MQ_MSG_TYPES or header.original_msg_type in APPLICATION_MSG_TYPES
    return not is_usual, abs(header.original_msg_type)


def write_header(header: MessageHeader, dialect: Dialect, charset: str = "latin-1") -> bytes:
    """Return the body of an attachment header message. Raises WireError for values that do not fit, and for those that
    `read_header` refuses."""
    attachments = [entry_of(definition, join(definition.correl_id, 0)) for definition in header.attachments]
    written = AttachmentHeader(
        header.header_correl_id,
        header.original_msg_type,
        header.original_correl_id,
        header.message_correl_id,
        len(attachments),
        attachments,
    )
    if (fault := _fault(written)) is not None:
        raise WireError(f"AttachmentHeader.{fault[0]}", 0, fault[1])
    return written.encode(dialect.context(charset))


def read_counts(body: Buffer) -> tuple[int, ...]:
    """Return a message's body as a single numeric integer, big-endian and little-endian.

    Return an empty tuple when it cannot be a count: its size is not 4 or 8 bytes, or it is negative in both byte
    orders.
    """
    if len(body) not in {4, 8}:
        return ()
    readings = int.from_bytes(body, "big", signed=True), int.from_bytes(body, "little", signed=True)
    return readings if max(readings) >= 0 else ()


def write_count(count: int, dialect: Dialect) -> bytes:
    """Return the body of a count message. Raises WireError for a count that does not fit an int."""
    return Count(count).encode(dialect.context())


def _fault(header: AttachmentHeader) -> Fault | None:
    fault = outside("original_msg_type", header.original_msg_type, -INT_LIMIT, INT_LIMIT)
    for index, attachment in enumerate(header.attachments):
        fault = fault or attachment_fault(attachment, f"attachments[{index}].")
    return fault


def attachment_fault(attachment: AttachmentEntry, path: str) -> Fault | None:
    if not isinstance(attachment.type, AttachmentKind):
        return f"{path}type", f"unknown attachment type {attachment.type}"
    return control_in(
        **{
            f"{path}qualifier1": attachment.qualifier1,
            f"{path}qualifier2": attachment.qualifier2,
            f"{path}description": attachment.description,
        }
    )
