"""The framing `sas_queue`: attachments of the SAS Common Messaging Interface on a queue.

An attachment header has message type 100000. All messages that belong to it have type 100001 and are distinguished only
by their correlid (SAS, "Using the Common Messaging Interface": attachment layout for WebSphere MQ and MSMQ).

Messages are written in the order of the specification: the header, the application message, and for each attachment its
sequenced parts and then its count. So a receiver that has the count can rely on the parts. A message without an
application message sends an empty one, since a receiving SAS program waits for it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from app.codecs.ibm_mq.encodings import in_charset
from app.codecs.sas import correlid, dialect, file_messages
from app.codecs.sas.attachment_messages import read_counts, read_header, write_count, write_header
from app.codecs.sas.constants import HEADER_MSG_TYPE, SUBORDINATE_MSG_TYPE
from app.codecs.sas.data_set_messages import write_indexes
from app.codecs.sas.dialect import Dialect
from app.dataset import encode, indexes_and_constraints
from app.framing import sas_evidence
from app.framing.message_charsets import charset_of, in_first_charset, with_doubt
from app.framing.protocol import (
    ArrangementName,
    Bodies,
    Body,
    Columns,
    DataSetFacts,
    DataSetTable,
    DeliveryContents,
    Descriptors,
    FileContent,
    Framing,
    PartReader,
    Received,
    Span,
    StoreTable,
    message_identifier,
)
from app.model.attachment import AttachmentKind, MessageHeader
from app.model.errors import InvalidInputError
from app.model.event import Announced, Event, PartArrived, Unsequenced
from app.model.framing_facts import Captures, FramingTraits
from app.model.message import PhysicalMessage
from app.model.records import AttachmentRecord, DeliveryRecord, FramingOptions
from app.wire import WireError

LONGEST_COUNT = 8
"""The length of the longest body that can be a count, in bytes."""

LONGEST_HEADER = 8 << 20
"""The length of the longest header that is read, in bytes: room for 10,000 attachments with names of 800 bytes.

A header is tried in every dialect and held in memory with all its entries. The limit bounds the time for that.
"""

_BLANK_SEQUENCE = int.from_bytes(b"    ", "big")

_TRAITS = FramingTraits("sas_queue", captures=Captures(default_of=Captures().formats))


@dataclass(frozen=True)
class SasQueue(Framing):
    """The framing `sas_queue`; see `app.framing.protocol.Framing`."""

    traits: FramingTraits = _TRAITS
    names_missing: bool = True
    arrangement: ArrangementName = "numbered"
    kinds: frozenset[AttachmentKind] = frozenset(AttachmentKind)
    application_message: bool = True
    options: frozenset[str] = frozenset({"body_limit", "dialect", "ccsid", "encoding", "record_length"})
    extras: frozenset[str] = frozenset({"version", "sort_variables", "indexes", "constraints"})

    def read(self, message: PhysicalMessage, known: int) -> Event:
        """Return the event of a physical message. `known` is the set of dialects that its source has used.

        Raises InvalidInputError: `unknown-message-type`, or `bad-header` with the row and byte of the header.
        """
        if message.msg_type == SUBORDINATE_MSG_TYPE:
            key, sequence = correlid.split(message.correl_id)
            size = len(message.body)
            if sequence:
                return PartArrived(key, sequence, size)
            return Unsequenced(key, read_counts(message.body) if size <= LONGEST_COUNT else (), size)
        if message.msg_type != HEADER_MSG_TYPE:
            known_types = f"attachments use {HEADER_MSG_TYPE} and {SUBORDINATE_MSG_TYPE}"
            why = f"unknown message type {message.msg_type}: {known_types}"
            raise InvalidInputError("unknown-message-type", "msg_type", -1, why)
        if len(message.body) > LONGEST_HEADER:
            why = f"{len(message.body):,} bytes, at most {LONGEST_HEADER:,} are read"
            raise InvalidInputError("bad-header", "AttachmentHeader", LONGEST_HEADER, why)
        try:
            header, dialects, charset = in_first_charset(
                message,
                lambda charset: (
                    *read_header(message.body, charset=charset, encoding=message.encoding, known=known),
                    charset,
                ),
                lambda found: [entry.qualifier_1 for entry in found[0].attachments],
            )
        except WireError as error:
            raise InvalidInputError("bad-header", error.row, error.at, error.why) from error
        attachments = with_doubt(message, charset, header.attachments)
        return Announced(replace(header, attachments=attachments), dialects)

    def is_header(self, message: PhysicalMessage) -> bool:
        return message.msg_type == HEADER_MSG_TYPE

    def read_columns(self, batch: Descriptors, framed: npt.NDArray[np.bool_]) -> Columns:
        """Return the sequenced parts and the unsequenced messages among the `framed` rows of a batch."""
        types, starts, lengths = batch.msg_types, batch.offsets[:-1], np.diff(batch.offsets)
        rows = np.flatnonzero(framed & (types == SUBORDINATE_MSG_TYPE) & (lengths >= correlid.COMPARED_SIZE))
        correl_ids = batch.correl_ids[starts[rows, None] + np.arange(correlid.COMPARED_SIZE)]
        sequences = correl_ids[:, correlid.KEY_SIZE :].copy().view(">u4")[:, 0].astype(np.int64)
        numbered = (sequences != 0) & (sequences != _BLANK_SEQUENCE)
        return Columns(
            rows[numbered],
            correl_ids[numbered, : correlid.KEY_SIZE],
            sequences[numbered],
            rows[~numbered],
            correl_ids[~numbered, : correlid.KEY_SIZE],
        )

    def attachment_key(self, message: PhysicalMessage) -> bytes:
        """Return the correlid of the attachment that a subordinate message belongs to."""
        return correlid.split(message.correl_id)[0]

    def file(self, record: AttachmentRecord, received: Received) -> FileContent:
        return read_file(record, received)

    def leading_file(self, record: AttachmentRecord, received: Received) -> FileContent:
        return read_file(record, received, is_whole=False)

    def begin_file(self, record: AttachmentRecord, body: Body) -> PartReader | None:
        if record.kind is not AttachmentKind.BINARY_FILE:
            return None
        try:
            description, dialects = file_messages.read_file_description(body, record.dialects or dialect.ALL)
        except WireError:
            return None
        return SasPartReader(description, dialects)

    def data_set(self, record: AttachmentRecord, received: Received, store: StoreTable) -> DataSetFacts:
        from app.framing.sas_data_sets import read_data_set  # noqa: PLC0415 - it loads pandas, which commands do without

        return read_data_set(record, received, store)

    def small_data_sets(self, several: Mapping[str, tuple[AttachmentRecord, Received]]) -> dict[str, DataSetTable]:
        from app.framing.sas_data_sets import read_small_data_sets  # noqa: PLC0415 - it loads pandas

        return read_small_data_sets(several)

    def leading_rows(self, record: AttachmentRecord, received: Received, store: StoreTable) -> DataSetFacts | None:
        from app.framing.sas_data_sets import read_leading_rows  # noqa: PLC0415 - it loads pandas

        return read_leading_rows(record, received, store)

    def checked_rows(
        self,
        name: tuple[str, str],  # noqa: ARG002
        schema: pa.Schema,
        batches: Iterator[pa.RecordBatch],
        options: FramingOptions,
    ) -> Iterator[pa.RecordBatch]:
        for _ in write_indexes(
            indexes_and_constraints.read_indexes(encode.entries_of_data_set(schema)),
            Dialect.parse(options.dialect),
            charset_of(options),
            options.body_limit,
        ):
            pass  # each index has room in a message
        return batches

    def check_names(self, delivery: DeliveryRecord, options: FramingOptions) -> None:
        _header_body(delivery, options)

    def write(
        self, delivery: DeliveryRecord, options: FramingOptions, contents: DeliveryContents
    ) -> Iterator[PhysicalMessage]:
        from app.framing.sas_bodies import SasBodies  # noqa: PLC0415 - it loads pandas, which commands do without

        return messages(delivery, options, SasBodies(options, contents).of)


SAS_QUEUE = SasQueue()


def read_file(record: AttachmentRecord, received: Received, *, is_whole: bool = True) -> FileContent:
    """Return the places of a file's records; if the parts are not the whole file, the last one may be incomplete.
    Raises WireError for a description that cannot be read."""
    first = received.first
    description, dialects = file_messages.read_file_description(first.body, record.dialects or dialect.ALL)
    is_text = record.kind is AttachmentKind.TEXT_FILE
    has_bytes_as_characters = len(in_charset("\n", first.ccsid, first.encoding)) == 1
    behind = range(1, len(received))
    try:
        chosen = file_messages.detect(
            lambda: received.bodies(behind), dialects, text=is_text and has_bytes_as_characters, is_whole=is_whole
        )
    except WireError as error:
        raise _located(error, received, behind) from None

    rivals = file_messages.RivalDialects(dialects, chosen, joined=not is_text)

    def spans() -> Iterator[Span]:
        body: Body = b""

        def walked() -> Iterator[Body]:
            nonlocal body
            for each in received.bodies(behind):
                body = each
                rivals.see(each)
                yield each

        try:
            for part, start, length, ends in file_messages.spans(walked(), chosen, is_whole=is_whole):
                yield part + 1, start, body[start : start + length], ends
        except WireError as error:
            raise _located(error, received, behind) from None

    def evidence() -> sas_evidence.Evidence:
        return sas_evidence.of_file(dialects, chosen, rivals.found)

    return FileContent(
        spans, of_lines=is_text, begins_at=1, description=description, dialects=dialects, evidence=evidence
    )


def _located(error: WireError, received: Received, numbers: Sequence[int]) -> WireError:
    """Return the error of these joined parts with its part and the byte of that."""
    error.locate(map(len, received.bodies(numbers)))
    error.part = None if error.part is None else numbers[error.part]
    return error


class SasPartReader:
    """A reader of a file's records part by part; see `app.framing.protocol.PartReader`."""

    def __init__(self, description: file_messages.FileDescription, dialects: int) -> None:
        self.description: file_messages.FileDescription | None = description
        self.dialects: int | None = dialects
        self._possible = dialects or dialect.ALL
        self._chosen: Dialect | None = None
        self._plain = file_messages.tried_first(self._possible)
        self._rivals: file_messages.RivalDialects | None = None

    @property
    def evidence(self) -> sas_evidence.Evidence:
        # A file without a byte has no record that could show how it is read.
        chosen = self._chosen or file_messages.detect(lambda: (), self._possible)
        found = self._rivals.found if self._rivals is not None else ()
        return sas_evidence.of_file(self._possible, chosen, found)

    def spans(self, body: Body) -> list[tuple[int, int]] | None:
        """Return the (start, length) of the records in a part; None if it does not consist of whole records."""
        if (start := self.record_start([body])) is not None:
            return [(start, len(body) - start)]
        try:
            self._chosen = self._chosen or file_messages.detect(lambda: [body], self._possible)
            self._see([body], self._chosen)
            return [(start, length) for _, start, length, _ in file_messages.spans([body], self._chosen)]
        except WireError:
            return None

    def record_start(self, bodies: Sequence[Body]) -> int | None:
        plain = self._plain if self._chosen in (None, self._plain) else None
        if plain is None or (start := file_messages.record_start(bodies, plain)) is None:
            return None
        self._chosen = plain
        self._see(bodies, plain)
        return start

    def _see(self, bodies: Sequence[Body], chosen: Dialect) -> None:
        if self._rivals is None:
            self._rivals = file_messages.RivalDialects(self._possible, chosen, joined=True)
        if not self._rivals.is_settled:
            for body in bodies:
                self._rivals.see(body)


def messages(delivery: DeliveryRecord, options: FramingOptions, bodies: Bodies) -> Iterator[PhysicalMessage]:
    """Make all physical messages of a delivery.

    The first body of a file is its description, the first body of a data set its definition. Raises WireError when a
    name does not fit the options.
    """
    for number, (msg_type, correl_id, body) in enumerate(_framed(delivery, options, bodies)):
        is_application = correl_id == delivery.message_correl_id
        yield PhysicalMessage(
            source=delivery.destination,
            framing=_TRAITS.name,
            msg_type=msg_type,
            correl_id=correl_id,
            body=body,
            message_id=message_identifier(delivery.id, number),
            encoding=options.encoding,
            ccsid=(delivery.application_ccsid if is_application else 0) or options.ccsid,
            format=delivery.application_format if is_application else "",
        )


def _framed(
    delivery: DeliveryRecord, options: FramingOptions, bodies: Bodies
) -> Iterator[tuple[int, bytes, bytes | memoryview]]:
    dialect = Dialect.parse(options.dialect)
    yield HEADER_MSG_TYPE, delivery.header_correl_id, _header_body(delivery, options)
    yield SUBORDINATE_MSG_TYPE, delivery.message_correl_id, delivery.application_body or b""
    for attachment in delivery.attachments:
        sequence = 0
        for sequence, body in enumerate(bodies(attachment), 1):
            yield SUBORDINATE_MSG_TYPE, correlid.join(attachment.correl_id, sequence), body
        yield SUBORDINATE_MSG_TYPE, correlid.join(attachment.correl_id, 0), write_count(sequence, dialect)


def _header_body(delivery: DeliveryRecord, options: FramingOptions) -> bytes:
    header = MessageHeader(
        header_correl_id=delivery.header_correl_id,
        original_msg_type=delivery.original_msg_type,
        original_correl_id=delivery.original_correl_id,
        message_correl_id=delivery.message_correl_id,
        attachments=tuple(attachment.definition for attachment in delivery.attachments),
    )
    return write_header(header, Dialect.parse(options.dialect), charset_of(options))
