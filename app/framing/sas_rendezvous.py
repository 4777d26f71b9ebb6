"""The framing `sas_rendezvous`: attachments of the SAS Common Messaging Interface on TIB/Rendezvous.

Each message is a tibrvMsg whose name is its type (SAS, "Using the Common Messaging Interface": attachment layout
for TIB/Rendezvous). Its attachment and its number come from the order of arrival (`sas_arrivals`). They stand in its
CorrelId as in `sas_queue`: 16 bytes of the attachment's key, 4 of the number.

It is written in the order of the specification: the header, the application message, and for each attachment its
messages and then the last one, which counts them. All of a delivery belongs to the header before it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from app.codecs.sas import correlid
from app.codecs.sas.attachment_messages import definition_of, entry_of
from app.codecs.sas.correlid import BLANK_CORRELID, attachment_key, correlid_of
from app.codecs.sas.dialect import DIALECTS, mask_of
from app.codecs.sas.numbered import message_name
from app.codecs.sas.rendezvous_indexes import write_indexes
from app.codecs.sas.rendezvous_messages import (
    CHAR,
    MAP_NAMES,
    MapItem,
    RendezvousHeader,
    is_map,
    read_header,
    read_last,
    read_map,
    write_header,
    write_last,
    write_map,
)
from app.codecs.sas.rendezvous_observations import longest_text
from app.framing import rendezvous_bodies, rendezvous_content
from app.framing.message_charsets import charset_of, in_first_charset, with_doubt
from app.framing.protocol import (
    NO_OPTIONS,
    ArrangementName,
    ArrivalOptions,
    Arrivals,
    Body,
    DataSetFacts,
    DeliveryContents,
    FileContent,
    Framing,
    PartReader,
    Received,
    StoreTable,
    message_identifier,
)
from app.framing.rendezvous_bodies import RendezvousBodies
from app.framing.sas_arrivals import DOUBT, PARTS, REFUTED, NumberedArrivals, choice_of
from app.model.attachment import AttachmentKind, MessageHeader
from app.model.errors import InvalidInputError
from app.model.event import Announced, Event, PartArrived, Refuted, Unsequenced
from app.model.framing_facts import Captures, FramingTraits
from app.model.message import NO_PROPERTIES, PhysicalMessage
from app.model.records import AttachmentRecord, DeliveryRecord, FramingOptions
from app.wire import WireError

_DIALECTS = mask_of(DIALECTS[0])
"""Numbers are big-endian, a long has 4 bytes, and no length counts a NUL."""

_HEADS = (b"\x06HDR\0", b"\x04HDR\0")
"""How the first field of a header begins, with an identifier or without."""
_HEAD_AT = 8
_COUNT_DIGITS = 10
_PARTS = frozenset({"DAT", "VAR", "ATO", "ATI", "ATC", "FDC", "ATX", "ATB"})

_TRAITS = FramingTraits(
    "sas_rendezvous",
    needs_descriptor=False,
    numbered_on_arrival=True,
    captures=Captures(frozenset({"rendezvous", "mqtt"}), default_of=frozenset({"rendezvous"})),
)


@dataclass(frozen=True)
class SasRendezvous(Framing):
    """The framing as the product knows it; see `app.framing.protocol.Framing`."""

    traits: FramingTraits = _TRAITS
    arrangement: ArrangementName = "numbered"
    kinds: frozenset[AttachmentKind] = frozenset(AttachmentKind)
    application_message: bool = True
    options: frozenset[str] = frozenset({"body_limit", "ccsid", "record_length"})
    extras: frozenset[str] = frozenset({"version", "max_gen", "sort_variables", "indexes", "rendezvous_constraints"})

    def arrivals(self, options: ArrivalOptions = NO_OPTIONS) -> Arrivals | None:
        return NumberedArrivals(options)

    def read(self, message: PhysicalMessage, known: int) -> Event:  # noqa: ARG002 - it has one dialect
        """Return what a numbered message means. Raises InvalidInputError: `bad-header`, `bad-rendezvous-message`,
        `no-header` for one that has no number, or `unknown-message-name`."""
        try:
            name = message_name(message.body)
            if name == "HDR":
                return Announced(_header(message), _DIALECTS)
            key, number = correlid.split(message.correl_id)
            if not any(key):
                raise InvalidInputError(
                    "no-header", "correl_id", -1, f"{name or 'a message'} that no header opened an attachment for"
                )
            if number:
                if name not in _PARTS:
                    raise _unknown(name)
                return PartArrived(key, number, len(message.body))
            if name == "LST":
                # As it was decided when it came in; by its own number, if nothing was decided.
                properties = message.properties
                if REFUTED in properties:
                    return Refuted(key, properties[REFUTED], len(message.body))
                doubt, parts = properties.get(DOUBT, ""), properties.get(PARTS, "")
                if parts.isascii() and parts.isdigit() and len(parts) <= _COUNT_DIGITS:
                    counts: tuple[int, ...] = (int(parts),) * 2
                else:
                    counts = () if doubt else (read_last(message.body),) * 2
                return Unsequenced(key, counts, len(message.body), doubt, choice_of(message))
            if name in MAP_NAMES:
                read_map(message.body)
                return Unsequenced(key, (), len(message.body))
        except WireError as error:
            raise InvalidInputError("bad-rendezvous-message", error.row, error.at, error.why) from error
        raise _unknown(name)

    def is_header(self, message: PhysicalMessage) -> bool:
        return bytes(message.body[_HEAD_AT : _HEAD_AT + len(_HEADS[0])]) in _HEADS

    def attachment_key(self, message: PhysicalMessage) -> bytes:
        return correlid.split(message.correl_id)[0]

    def file(self, record: AttachmentRecord, received: Received) -> FileContent:
        return rendezvous_content.read_file(record, received)

    def begin_file(self, record: AttachmentRecord, body: Body) -> PartReader | None:
        return rendezvous_content.begin_file(record, body)

    def data_set(self, record: AttachmentRecord, received: Received, store: StoreTable) -> DataSetFacts:
        return rendezvous_content.read_data_set(record, received, store)

    def application(self, content: bytes | Sequence[MapItem]) -> bytes:
        return application(content)

    def longest_text(self, options: FramingOptions) -> int | None:
        return longest_text(options.body_limit)

    def check_values(
        self,
        field: pa.Field,  # noqa: ARG002
        values: pa.Array,
        damaged: pa.Array | None,
        files: Sequence[str],  # noqa: ARG002
    ) -> None:
        rendezvous_bodies.check_texts(values, damaged)

    def checked_rows(
        self,
        name: tuple[str, str],  # noqa: ARG002
        schema: pa.Schema,
        batches: Iterator[pa.RecordBatch],
        options: FramingOptions,
    ) -> Iterator[pa.RecordBatch]:
        for _ in write_indexes(rendezvous_bodies.indexes_of(schema), charset_of(options), options.body_limit):
            pass  # each index has room in a message
        return batches

    def check_names(self, delivery: DeliveryRecord, options: FramingOptions) -> None:
        _header_body(delivery, options)

    def write(
        self, delivery: DeliveryRecord, options: FramingOptions, contents: DeliveryContents
    ) -> Iterator[PhysicalMessage]:
        return messages(delivery, options, RendezvousBodies(options, contents))


SAS_RENDEZVOUS = SasRendezvous()


def _unknown(name: str) -> InvalidInputError:
    return InvalidInputError(
        "unknown-message-name", "name", _HEAD_AT, f"{name[:80]!r} is not a message of an attachment"
    )


def _header(message: PhysicalMessage) -> MessageHeader:
    """Return what a header says. It does not say whether an application message follows; one has the header's key."""
    base = correlid.split(message.correl_id)[0]
    try:
        header, charset = in_first_charset(message, lambda charset: (read_header(message.body, charset), charset))
    except WireError as error:
        raise InvalidInputError("bad-header", error.row, error.at, error.why) from error
    attachments = tuple(
        definition_of(entry, attachment_key(entry.correlid, base, number))
        for number, entry in enumerate(header.attachments)
    )
    return MessageHeader(
        correlid.join(base, 0),
        header.original_msg_type,
        bytes(24),
        bytes(24),
        with_doubt(message, charset, attachments),
    )


def messages(delivery: DeliveryRecord, options: FramingOptions, bodies: RendezvousBodies) -> Iterator[PhysicalMessage]:
    """Make all physical messages of a delivery, numbered as they will be when they arrive.

    Raises WireError for a name that does not fit the options, and for a header that is longer than a message.
    """
    for number, (correl_id, body, parts) in enumerate(_framed(delivery, options, bodies)):
        yield PhysicalMessage(
            source=delivery.destination,
            framing=_TRAITS.name,
            correl_id=correl_id,
            body=body,
            message_id=message_identifier(delivery.id, number),
            ccsid=options.ccsid,
            properties=NO_PROPERTIES if parts is None else {PARTS: str(parts)},
        )


def _framed(
    delivery: DeliveryRecord, options: FramingOptions, bodies: RendezvousBodies
) -> Iterator[tuple[bytes, bytes, int | None]]:
    """Return the CorrelId and the body of each message, and of a last message the number of parts."""
    base = correlid.join(delivery.header_correl_id[: correlid.KEY_SIZE], 0)
    yield base, _header_body(delivery, options), None
    if delivery.application_body is not None:
        yield base, application(delivery.application_body), None
    for attachment in delivery.attachments:
        number = 0
        for number, body in enumerate(bodies.of(attachment), 1):
            yield correlid.join(attachment.correl_id, number), body, None
        yield correlid.join(attachment.correl_id, 0), write_last(number), number


def _header_body(delivery: DeliveryRecord, options: FramingOptions) -> bytes:
    header = RendezvousHeader(
        correlid_of(delivery.header_correl_id),
        0,
        BLANK_CORRELID,
        correlid_of(delivery.message_correl_id),
        len(delivery.attachments),
        [entry_of(each.definition, correlid_of(each.correl_id)) for each in delivery.attachments],
    )
    return write_header(header, charset_of(options))


def application(content: bytes | Sequence[MapItem]) -> bytes:
    """Return an application message: of the values of a map, of a map as it is, or of bytes as a map of one text.

    Raises WireError for a map that receivers refuse, and for a NUL in a text.
    """
    if not isinstance(content, bytes):
        return write_map(content)
    if not is_map(content):
        return write_map([MapItem(CHAR, content)])
    read_map(content)
    return content
