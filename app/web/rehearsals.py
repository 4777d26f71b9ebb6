"""Dry runs: what a message would be, told without sending or keeping anything."""

from typing import Literal

from pydantic import BaseModel, Field

from app.model.records import DeliveryRecord
from app.service.conversion import Slot, finished
from app.service.conversion.jobs import count_messages
from app.service.gateway import Gateway
from app.service.incoming import Prepared
from app.service.outbox import CannotSend, cut_of
from app.tables.read.reading import VariableType
from app.tables.read.wishes import Defined, Origin
from app.web.preparing import Preparation, told
from app.web.problems import FieldError, Problem
from app.web.schemas import IndexView, KindWord, kind_word

Attribute = Literal["name", "type", "length", "format", "informat", "label"]


class VariableProposal(BaseModel):
    """One variable as it would be sent. `origins` tells for each attribute whether it was given, is the file's, or was
    inferred from types and values."""

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
    constraints: int = Field(description="bytes of integrity constraints that are sent as they came")
    warnings: list[FieldError] = Field(description="what was changed on the way, or may not be what was meant")

    @classmethod
    def of(cls, prepared: Prepared) -> "DataSetProposal":
        definition = prepared.definition
        return cls(
            format=prepared.format,
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
            warnings=[FieldError(**told(fault)) for fault in definition.warnings],
        )


class AttachmentProposal(BaseModel):
    """One attachment as it would be sent."""

    part: str
    kind: KindWord
    name: str
    qualifier_1: str
    messages: int = Field(description="physical messages it would take, its count message included")
    data_set: DataSetProposal | None = None


class Rehearsal(BaseModel):
    """A message as it would be sent."""

    destination: str
    messages: int = Field(
        description="physical messages it would take, the header and the application message included"
    )
    attachments: list[AttachmentProposal]


def rehearse(slot: Slot, gateway: Gateway, prepared: Preparation, delivery: DeliveryRecord) -> Rehearsal:
    """Cuts a delivery as its destination is configured and counts. Raises Problem for what could not be sent."""
    destination = gateway.destinations[delivery.destination]
    how = cut_of(destination, destination.body_limit)
    try:
        total, counts = finished(slot.run(count_messages, how, gateway.store, delivery))
    except CannotSend as error:
        raise Problem("unsuitable", str(error)) from error
    return Rehearsal(
        destination=delivery.destination,
        messages=total,
        attachments=[
            AttachmentProposal(
                part=entry.part,
                kind=kind_word(attachment.kind),
                name=attachment.qualifier_2,
                qualifier_1=attachment.qualifier_1,
                messages=counts[attachment.correl_id],
                data_set=_proposal(prepared.data_sets.get(entry.part)),
            )
            for entry, attachment in zip(prepared.draft.attachments, delivery.attachments, strict=True)
        ],
    )


def _proposal(prepared: Prepared | None) -> DataSetProposal | None:
    return None if prepared is None else DataSetProposal.of(prepared)
