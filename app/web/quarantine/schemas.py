"""The JSON of quarantine entries."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.model.records import QuarantineRecord, QuarantineState
from app.model.times import to_time
from app.service.replaying import Outcome, Result
from app.web.attachments.schemas import AttachmentSummary, Reason, reason_of
from app.web.schemas import Links, shown


class QuarantineView(BaseModel):
    """A physical message that the gateway cannot read.

    `row` names the field, `at` the byte (null if there is none). `preview` has its first bytes in hexadecimal.
    `properties` has the properties stored with it, such as `mqmd.put_appl_name` of a message received over IBM MQ. Both
    are null in lists, and when the bytes have been deleted.
    """

    id: str
    source: str
    state: QuarantineState
    code: str = Field(examples=["truncated"])
    row: str = Field(examples=["AttachmentHeader.attachments"])
    at: int | None = Field(examples=[76])
    why: str
    msg_type: int
    correl_id: str
    size: int
    received_at: datetime
    preview: str | None = None
    properties: dict[str, str] | None = Field(default=None, examples=[{"mqmd.user_identifier": "sasadm"}])
    links: Links

    @classmethod
    def of(
        cls,
        record: QuarantineRecord,
        base: str,
        preview: bytes | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> "QuarantineView":
        own = f"{base}/quarantine/{record.id}"
        return cls(
            id=record.id,
            source=record.source,
            state=record.state,
            code=record.code,
            row=shown(record.row),
            at=record.at if record.at >= 0 else None,
            why=shown(record.why),
            msg_type=record.msg_type,
            correl_id=record.correl_id.hex(),
            size=record.size,
            received_at=to_time(record.received_at),
            preview=None if preview is None else preview.hex(),
            properties=None if properties is None else {shown(name): shown(text) for name, text in properties.items()},
            links={"self": own, "body": f"{own}/body", "replay": f"{own}/replay"},
        )


class ReplayedAttachment(AttachmentSummary):
    """An attachment to which a replayed message belongs. It waits for other parts while its state is `receiving`."""

    parts_received: int
    parts_expected: int | None
    reason: Reason | None


class OutcomeView(BaseModel):
    """What became of a replayed message.

    - `quarantined`: it cannot be read this time either; `entry` is its new entry.
    - `processed`: it was read; `attachments` are those that it announces or is a part of, if any is known.
    - `pending`: it is not assembled yet, because of other messages before it or because a job on Spark does that.
    """

    result: Result
    entry: QuarantineView | None
    attachments: list[ReplayedAttachment]


class Several(BaseModel):
    """The identifiers of quarantine entries, each with or without its leading zeros."""

    model_config = ConfigDict(extra="forbid")

    ids: list[Annotated[str, Field(max_length=100)]] = Field(
        min_length=1, max_length=500, examples=[["0000000100002005", "0000000100002006"]]
    )


class OneOfSeveral(BaseModel):
    """What was done with an entry. `outcome` is that of a replay, if it was known soon.

    `not-found`: there is no such entry. `gone`: its bytes are gone. `damaged`: they cannot be read. `storage-full`: it
    cannot be replayed at present.
    """

    id: str
    result: Literal["replayed", "dismissed", "not-found", "gone", "damaged", "storage-full"]
    outcome: OutcomeView | None = None


class SeveralView(BaseModel):
    """What was done with each entry, in the order of the request."""

    items: list[OneOfSeveral]


class ReplayedView(QuarantineView):
    """A quarantine entry that was replayed, and what became of its message."""

    outcome: OutcomeView

    @classmethod
    def of_outcome(cls, record: QuarantineRecord, outcome: Outcome, base: str) -> "ReplayedView":
        return cls(**dict(QuarantineView.of(record, base)), outcome=outcome_view(outcome, base))


def outcome_view(outcome: Outcome, base: str) -> OutcomeView:
    """Return the JSON of what became of a replayed message."""
    attachments = [
        ReplayedAttachment(
            **dict(AttachmentSummary.of(each.id, each, base)),
            parts_received=each.parts_received,
            parts_expected=each.parts_expected,
            reason=reason_of(each),
        )
        for each in outcome.attachments
    ]
    entry = None if outcome.entry is None else QuarantineView.of(outcome.entry, base)
    return OutcomeView(result=outcome.result, entry=entry, attachments=attachments)
