"""Drafts of messages, the checks of a destination, and the deliveries that drafts become."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from secrets import token_bytes
from typing import TypeVar

from app.codecs.ibm_mq.constants import MQFMT_STRING
from app.codecs.ibm_mq.encodings import charset
from app.codecs.sas.rendezvous_messages import MAP_TYPE_NAMES, MapItem
from app.framing.registry import framing
from app.model.attachment import AttachmentKind
from app.model.errors import InvalidInputError
from app.model.records import DeliveryRecord, FramingOptions, OutgoingAttachment
from app.service.sending.sending_errors import DestinationRefuses, Refusal, UnknownDestination
from app.service.sending.upload_conversion import ConversionRequest
from app.service.sending.upload_parts import StoredPart
from app.settings import Destination
from app.wire import WireError

FILE_SPECIFICATIONS = ("FILENAME", "FILEREF")
"""The values of a file's qualifier 1. They say whether qualifier 2 is a file's name or a fileref."""

MapValue = tuple[str, int | float | str]
"""One value of a map: its data type (short, long, double, char), and a number or a text."""

_MAP_TYPES = {name: kind for kind, name in MAP_TYPE_NAMES.items()}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DraftedApplicationMessage:
    """The application message. Text is written in the destination's character set; bytes are sent as they are.

    The values of a map are their data types, as the specification calls them, and numbers or texts.
    """

    content: str | bytes | tuple[MapValue, ...]
    format: str | None = None

    @property
    def message_format(self) -> str:
        """Return the descriptor's Format: as given, else MQSTR for text and blank for bytes."""
        if self.format is not None:
            return self.format
        return MQFMT_STRING if isinstance(self.content, str) else ""

    def body(self, to: Destination) -> bytes:
        """Return the bytes that go to a destination.

        Raises ValueError for text that its character set lacks, and for what its framing does not carry.
        """
        codec, content = charset(to.ccsid, to.encoding), self.content
        carried: bytes | list[MapItem]
        if isinstance(content, bytes):
            if self.message_format.rstrip() == MQFMT_STRING and codec is not None:
                _in_charset(lambda: content.decode(codec), "the bytes are not text", to.ccsid)
            carried = content
        elif codec is None:
            raise ValueError(f"text cannot be written in the destination's CCSID {to.ccsid}; give the bytes in base64")
        elif isinstance(content, str):
            carried = _in_charset(lambda: content.encode(codec), "text cannot be written", to.ccsid)
        else:
            carried = [_map_item(each, codec, to.ccsid) for each in content]
        try:
            return framing(to.framing).application(carried)
        except WireError as error:
            raise ValueError(f"{error.row}: {error.why}") from None


def _map_item(value: MapValue, codec: str, ccsid: int) -> MapItem:
    kind, given = value
    if isinstance(given, str):
        return MapItem(_MAP_TYPES[kind], _in_charset(lambda: given.encode(codec), "text cannot be written", ccsid))
    return MapItem(_MAP_TYPES[kind], given)


def _in_charset(convert: Callable[[], T], what: str, ccsid: int) -> T:
    try:
        return convert()
    except UnicodeError as error:
        reason = error.reason if isinstance(error, UnicodeDecodeError | UnicodeEncodeError) else error
        raise ValueError(f"{what} in the destination's CCSID {ccsid}: {reason}") from None


@dataclass(frozen=True, slots=True)
class DraftedAttachment:
    """One attachment: the name of the part with its bytes, and its entry in the header.

    Names that are None come from the part's file. `conversion` says how to read the file of a data set.
    """

    part: str
    kind: AttachmentKind
    name: str | None = None
    qualifier_1: str | None = None
    description: str = ""
    minor_version: int = 0
    major_version: int = 0
    conversion: ConversionRequest = field(default_factory=ConversionRequest)


@dataclass(frozen=True, slots=True)
class DraftedMessage:
    """A message to send."""

    destination: str
    attachments: tuple[DraftedAttachment, ...]
    original_msg_type: int = 0
    original_correl_id: bytes = b""
    application_message: DraftedApplicationMessage | None = None


def find_destination(destinations: Mapping[str, Destination], name: str) -> Destination:
    """Return the destination of a name. Raises UnknownDestination."""
    if name not in destinations:
        raise UnknownDestination(name, destinations)
    return destinations[name]


def check_destination_takes(message: DraftedMessage, destination: Destination) -> None:
    """Check that a destination takes all of a message. Raises DestinationRefuses."""
    carries, application = framing(destination.framing), message.application_message
    name = carries.traits.name
    refusals = [
        Refusal(("attachments", number, "kind"), f"the framing {name} carries no {attachment.kind.word}")
        for number, attachment in enumerate(message.attachments)
        if attachment.kind not in carries.kinds
    ]
    if (msg_type := message.original_msg_type) in carries.traits.refused_msg_types:
        refusals.append(Refusal(("original_msg_type",), f"receivers of the framing {name} refuse MsgType {msg_type}"))
    if application is not None and not carries.application_message:
        refusals.append(Refusal(("application_message",), f"the framing {name} carries no application message"))
    elif application is not None:
        try:
            application.body(destination)
        except ValueError as error:
            refusals.append(Refusal(("application_message",), str(error)))
    if refusals:
        raise DestinationRefuses(message.destination, refusals)


def new_delivery(
    delivery_id: str,
    message: DraftedMessage,
    parts: Mapping[str, StoredPart],
    to: Destination,
    *,
    now: int,
    key: str | None = None,
    fingerprint: str = "",
    trace_parent: str | None = None,
) -> DeliveryRecord:
    """Return the delivery that a message becomes, with new correlids.

    `parts` are by the names that the message uses. `fingerprint` identifies a request with an idempotency key.
    """
    application = message.application_message
    return DeliveryRecord(
        id=delivery_id,
        destination=message.destination,
        header_correl_id=_correl_id(),
        message_correl_id=_correl_id(),
        attachments=tuple(_outgoing(attachment, parts[attachment.part]) for attachment in message.attachments),
        created_at=now,
        updated_at=now,
        original_msg_type=message.original_msg_type,
        original_correl_id=message.original_correl_id.ljust(24, b"\0"),
        application_body=application.body(to) if application else None,
        application_format=application.message_format if application else "",
        application_ccsid=to.ccsid if application else 0,
        idempotency_key=key,
        fingerprint=fingerprint,
        trace_parent=trace_parent,
    )


def _correl_id() -> bytes:
    """Return 16 random bytes and 8 zeros, which sequence numbers replace."""
    return token_bytes(16) + bytes(8)


def _outgoing(attachment: DraftedAttachment, part: StoredPart) -> OutgoingAttachment:
    return OutgoingAttachment(
        correl_id=token_bytes(16),
        kind=attachment.kind,
        qualifier_1=attachment.qualifier_1 or FILE_SPECIFICATIONS[0],
        qualifier_2=attachment.name or "",
        description=attachment.description,
        minor_version=attachment.minor_version,
        major_version=attachment.major_version,
        object_name=part.object_name,
        size=part.size,
        sha256=part.sha256,
    )


def check_names(delivery: DeliveryRecord, how: FramingOptions) -> None:
    """Check that messages have a place for all names and descriptions of a delivery: for those of each attachment, and
    for all together. Raises DestinationRefuses."""
    each = (replace(delivery, attachments=(attachment,)) for attachment in delivery.attachments)
    refusals = [
        Refusal(("attachments", number), why) for number, alone in enumerate(each) if (why := _unnamable(alone, how))
    ]
    if not refusals and (why := _unnamable(delivery, how)):
        refusals = [Refusal(("attachments",), why)]
    if refusals:
        raise DestinationRefuses(delivery.destination, refusals)


def _unnamable(delivery: DeliveryRecord, how: FramingOptions) -> str | None:
    """Return why messages have no place for the names of a delivery; None if they have."""
    try:
        framing(how.framing).check_names(delivery, how)
    except WireError as error:
        return f"{error.row}: {error.why}"
    except InvalidInputError as error:
        return str(error)
    return None
