"""The JSON of messages, of the maps in them, and of a dry run."""

from base64 import b64encode
from datetime import datetime
from math import isfinite
from typing import Any, Literal, get_args

from pydantic import BaseModel, Field

from app.codecs.ibm_mq.constants import MQFMT_STRING
from app.codecs.ibm_mq.encodings import charset
from app.codecs.sas.rendezvous_messages import CHAR, MAP_TYPE_NAMES, MapItem, is_map, read_map
from app.dataset.character_columns import GUESSES
from app.dataset.checks import Fault
from app.model.records import MessageRecord
from app.model.times import to_time
from app.service.sending.delivery_creation import DryRun
from app.service.sending.upload_conversion import ConvertedFile
from app.tables.read.read_request import Defined, Origin, VariableType
from app.web.http.parameters import optional_time
from app.web.problems import FieldError
from app.web.resources.attachments.schemas import AttachmentSummary
from app.web.resources.data_set_schemas import IndexView
from app.web.resources.schemas import KindWord, Links, kind_word, shown
from app.wire import WireError

MapType = Literal["short", "long", "double", "char"]
MOST_MAP_VALUES = 32_767
"""A message has at most 65,535 fields: their number, and two for each value."""

_BITS = {"short": 16, "long": 32}

assert get_args(MapType) == tuple(MAP_TYPE_NAMES.values())


class MapValue(BaseModel):
    """One value of a map. It is null for a number that JSON lacks, and for a text that its character set lacks."""

    type: MapType = Field(examples=["long"])
    value: int | float | str | None = Field(examples=[9999])

    @classmethod
    def of(cls, item: MapItem, codec: str | None) -> "MapValue":
        value: int | float | str | None
        if isinstance(item.value, bytes):
            value = text_of(item.value, codec)
        else:
            value = item.value if isfinite(item.value) else None
        return cls.model_construct(type=MAP_TYPE_NAMES[item.type], value=value)


def text_of(data: bytes, codec: str | None) -> str | None:
    """Return bytes as text; None where they are none in the codec, or where there is no codec."""
    if codec is None:
        return None
    try:
        return data.decode(codec)
    except UnicodeDecodeError:
        return None


def map_items(body: bytes) -> tuple[MapItem, ...] | None:
    """Return the values of an application message that is a map; None for any other one."""
    if not is_map(body):
        return None
    try:
        return read_map(body)
    except WireError:
        return None


def text_in(body: bytes, items: tuple[MapItem, ...] | None, codec: str | None) -> str | None:
    """Return the text that an application message is, or that is the only value of its map; None without one."""
    if items is None:
        return text_of(body, codec)
    if len(items) == 1 and items[0].type == CHAR and isinstance(items[0].value, bytes):
        return text_of(items[0].value, codec)
    return None


def _is_double(value: float | str) -> bool:
    try:
        return isfinite(float(value))
    except OverflowError:  # of an integer
        return False


def check_map_value(type_: MapType, value: float | str) -> None:
    """Raise ValueError for a value that its type does not have."""
    if isinstance(value, str) != (type_ == "char"):
        raise ValueError(f"a {type_} has {'a text' if type_ == 'char' else 'a number'}")
    if type_ in _BITS and not (isinstance(value, int) and -(1 << _BITS[type_] - 1) <= value < 1 << _BITS[type_] - 1):
        raise ValueError(f"a {type_} is an integer of {_BITS[type_]} bits, not {value!r}")
    if type_ == "double" and not _is_double(value):
        raise ValueError(f"a {type_} is a finite number of 64 bits")


def charset_of(record: MessageRecord, items: tuple[MapItem, ...] | None, configured: int) -> str | None:
    """Return the Python codec of an application message: of its CCSID, or of the `configured` one of its source.

    Without both it is that of the first guess in which all its texts can be read. Bytes that nothing calls text have
    none.
    """
    if ccsid := record.application_ccsid or configured:
        return charset(ccsid)
    if items is not None:
        texts = [item.value for item in items if isinstance(item.value, bytes)]
    elif shown(record.application_format) == MQFMT_STRING:
        texts = [record.application_body or b""]
    else:
        return None
    return next(codec for codec in ("utf-8", *GUESSES) if all(text_of(each, codec) is not None for each in texts))


class ApplicationMessage(BaseModel):
    """The application message. `text` is present if its bytes, or the only value of its map, are text in `charset`."""

    format: str = Field(examples=["MQSTR"])
    ccsid: int = Field(examples=[1208], description="as its descriptor says; 0 if it does not")
    charset: str | None = Field(
        examples=["utf-8"],
        description="the character set in which texts were read: of the CCSID, or of the source's `ccsid`; else UTF-8, "
        "if all texts are, else Windows-1252",
    )
    size: int
    text: str | None
    values: list[MapValue] | None = Field(description="the values of a map, as SAS sends them over TIB/Rendezvous")
    base64: str

    @classmethod
    def of(cls, record: MessageRecord, configured: int) -> "ApplicationMessage | None":
        """Return the application message of a message whose source has the `configured` CCSID, 0 if none."""
        body = record.application_body
        if body is None:
            return None
        items = map_items(body)
        codec = charset_of(record, items, configured)
        return cls(
            format=shown(record.application_format),
            ccsid=record.application_ccsid,
            charset=codec,
            size=len(body),
            text=text_in(body, items, codec),
            values=None if items is None else [MapValue.of(each, codec) for each in items],
            base64=b64encode(body).decode(),
        )


class MessageFields(BaseModel):
    """The fields of an attachment header about its message."""

    id: str
    source: str
    header_correl_id: str
    message_correl_id: str
    original_msg_type: int
    original_correl_id: str
    received_at: datetime
    complete_at: datetime | None = Field(description="when the last attachment was finished")
    links: Links


class MessageSummary(MessageFields):
    """One message, and the identifiers of its attachments in the header's order."""

    attachments: list[str]

    @classmethod
    def of(cls, record: MessageRecord, base: str) -> "MessageSummary":
        return cls(**_message_fields(record, base), attachments=list(record.attachments))


class MessageView(MessageFields):
    """One message, its application message and its attachments in the header's order."""

    application_message: ApplicationMessage | None
    attachments: list[AttachmentSummary]

    @classmethod
    def of(
        cls, record: MessageRecord, base: str, attachments: list[AttachmentSummary], configured_ccsid: int
    ) -> "MessageView":
        application_message = ApplicationMessage.of(record, configured_ccsid)
        return cls(**_message_fields(record, base), application_message=application_message, attachments=attachments)


def _message_fields(record: MessageRecord, base: str) -> dict[str, Any]:
    return {
        "id": record.id,
        "source": record.source,
        "header_correl_id": record.header_correl_id.hex(),
        "message_correl_id": record.message_correl_id.hex(),
        "original_msg_type": record.original_msg_type,
        "original_correl_id": record.original_correl_id.hex(),
        "received_at": to_time(record.received_at),
        "complete_at": optional_time(record.complete_at),
        "links": {"self": f"{base}/messages/{record.id}"},
    }


Attribute = Literal["name", "type", "length", "format", "informat", "label"]


class VariableProposal(BaseModel):
    """One variable as it would be sent.

    `origins` has the origin of each attribute: given, from the file, or inferred from types and values.
    """

    column: str = Field(description="the column of the file", examples=["order date"])
    name: str = Field(examples=["ORDER_DATE"])
    type: VariableType
    length: int = Field(description="bytes", examples=[8])
    format: str = Field(examples=["DATE9."])
    informat: str
    label: str
    origins: dict[Attribute, Origin]

    @classmethod
    def of(cls, variable: Defined) -> "VariableProposal":
        return cls.model_validate(variable._asdict())


class DataSetProposal(BaseModel):
    """A data set as it would be sent."""

    format: str = Field(description="the file's format", examples=["csv"])
    library: str = Field(examples=["WORK"])
    member: str = Field(examples=["SALES"])
    label: str
    observations: int
    variables: list[VariableProposal]
    indexes: list[IndexView] = Field(description="the indexes that are sent")
    constraints: int = Field(description="bytes of integrity constraints, which are sent unchanged")
    value_labels: dict[str, int] = Field(
        description="number of value labels of each format that has some", examples=[{"$SEX": 2}]
    )
    warnings: list[FieldError] = Field(description="changes by the conversion, and doubtful guesses")

    @classmethod
    def of(cls, converted: ConvertedFile) -> "DataSetProposal":
        definition = converted.definition
        return cls(
            format=converted.format,
            library=definition.library,
            member=definition.member,
            label=definition.label,
            observations=definition.observations,
            variables=[VariableProposal.of(variable) for variable in definition.variables],
            indexes=[
                IndexView(name=each.name, variables=each.variables, flags=each.flags, upercmx=each.upercmx)
                for each in definition.indexes
            ],
            constraints=len(definition.constraints),
            value_labels={name: len(labels) for name, labels in definition.catalog.items()},
            warnings=[FieldError(**fault_members(fault)) for fault in definition.warnings],
        )


class AttachmentProposal(BaseModel):
    """One attachment as it would be sent."""

    part: str
    kind: KindWord
    name: str
    qualifier_1: str
    messages: int = Field(description="number of physical messages, including its count message")
    data_set: DataSetProposal | None = None


class Rehearsal(BaseModel):
    """A message as it would be sent."""

    destination: str
    messages: int = Field(description="number of physical messages, including the header and the application message")
    attachments: list[AttachmentProposal]

    @classmethod
    def of(cls, dry_run: DryRun) -> "Rehearsal":
        attachments = zip(dry_run.parts, dry_run.delivery.attachments, strict=True)
        return cls(
            destination=dry_run.delivery.destination,
            messages=dry_run.messages,
            attachments=[
                AttachmentProposal(
                    part=part,
                    kind=kind_word(attachment.kind),
                    name=attachment.qualifier_2,
                    qualifier_1=attachment.qualifier_1,
                    messages=dry_run.attachment_messages[attachment.correl_id],
                    data_set=DataSetProposal.of(found) if (found := dry_run.data_sets.get(part)) else None,
                )
                for part, attachment in attachments
            ],
        )


def fault_members(fault: Fault) -> dict[str, Any]:
    """Return the members of a FieldError for a fault of a data set."""
    places = [fault.variable, None if fault.row is None else f"in row {fault.row}"]
    where = " ".join(place for place in places if place is not None)
    members = {"variable": fault.variable, "row": fault.row, "code": fault.code}
    return {
        "detail": f"{where}: {fault.why}" if where else fault.why,
        **{name: value for name, value in members.items() if value is not None},
    }
