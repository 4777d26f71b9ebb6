"""The JSON of messages, and of a dry run."""

from base64 import b64encode
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from app.codecs.ibm_mq.encodings import charset
from app.model.records import MessageRecord
from app.model.times import to_time
from app.service.sending.delivery_creation import DryRun
from app.service.sending.upload_conversion import ConvertedFile
from app.tables.read.overrides import Defined, Origin
from app.tables.read.read_request import VariableType
from app.web.http.iso_times import optional_time
from app.web.problems import FieldError
from app.web.resources.attachments.schemas import AttachmentSummary
from app.web.resources.data_set_schemas import IndexView
from app.web.resources.messages.map_schemas import MapValue, map_items, text_in
from app.web.resources.messages.sending_problems import fault_members
from app.web.resources.schemas import KindWord, Links, kind_word, shown


class ApplicationMessage(BaseModel):
    """The application message. `text` is present if its bytes, or the only value of its map, are text in its CCSID."""

    format: str = Field(examples=["MQSTR"])
    ccsid: int = Field(examples=[1208])
    size: int
    text: str | None
    values: list[MapValue] | None = Field(description="the values of a map, as SAS sends them over TIB/Rendezvous")
    base64: str

    @classmethod
    def of(cls, record: MessageRecord) -> "ApplicationMessage | None":
        body = record.application_body
        if body is None:
            return None
        codec, items = charset(record.application_ccsid), map_items(body)
        return cls(
            format=shown(record.application_format),
            ccsid=record.application_ccsid,
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
    def of(cls, record: MessageRecord, base: str, attachments: list[AttachmentSummary]) -> "MessageView":
        application_message = ApplicationMessage.of(record)
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
                    data_set=_proposal(dry_run.data_sets.get(part)),
                )
                for part, attachment in attachments
            ],
        )


def _proposal(converted: ConvertedFile | None) -> DataSetProposal | None:
    return None if converted is None else DataSetProposal.of(converted)
