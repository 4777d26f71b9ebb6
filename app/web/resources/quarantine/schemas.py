"""The JSON of quarantine entries."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from app.model.records import QuarantineRecord, QuarantineState
from app.model.times import to_time
from app.ports import QuarantineGroups
from app.service.quarantine.replays import ReplayOutcome, Result
from app.web.resources.attachments.schemas import AttachmentSummary, Reason, reason_of
from app.web.resources.schemas import Links, shown

LONGEST_WHY: Final = 4000
MOST_AT_ONCE: Final = 500
"""Entries of a request."""


class QuarantineView(BaseModel):
    """A physical message that the gateway cannot read.

    `row` names the field, `at` the byte (null if there is none). `preview` has its first bytes in hexadecimal.
    `properties` has the properties stored with it, such as `mqmd.put_appl_name` of a message received over IBM MQ. Both
    are null in lists, when the bytes have been deleted, and while this process of a divided gateway cannot read them.
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
    """The outcome of a replay.

    - `quarantined`: it cannot be read this time either; `entry` is its new entry. With the code `other-framing` it is
      the same one: a message that came under another framing, and says too little for the present one of its source.
    - `processed`: it was read; `attachments` lists the attachments that it announces or is a part of, if any is known.
    - `pending`: it is not assembled yet, because of other messages before it or because a job on Spark does that.
    """

    result: Result
    entry: QuarantineView | None
    attachments: list[ReplayedAttachment]


class QuarantineGroupView(BaseModel):
    """Quarantined messages of one source with the same code and the same reason, apart from numbers and identifiers."""

    source: str
    code: str = Field(examples=["truncated"])
    why: str = Field(
        description="the reason of all; where they differ, … stands for a number or an identifier",
        examples=["… bytes are missing"],
    )
    count: int = Field(examples=[87])
    first_received_at: datetime
    last_received_at: datetime


class QuarantineGroupsView(BaseModel):
    """The largest groups of quarantined messages. `groups` and `entries` count all of them, including those that
    `items` leaves out. Counting ends after the newest 4,000 entries, and then `is_exact` is false."""

    items: list[QuarantineGroupView]
    groups: int = Field(examples=[3])
    entries: int = Field(examples=[112])
    is_exact: bool = Field(description="whether no older entries match", examples=[True])

    @classmethod
    def of(cls, found: QuarantineGroups) -> "QuarantineGroupsView":
        items = [
            QuarantineGroupView(
                source=shown(group.source),
                code=group.code,
                why=shown(group.why),
                count=group.entries,
                first_received_at=to_time(group.first_received_at),
                last_received_at=to_time(group.last_received_at),
            )
            for group in found.items
        ]
        return cls(items=items, groups=found.groups, entries=found.entries, is_exact=found.is_all)


class Group(BaseModel):
    """A group of `GET /v1/quarantine/groups`."""

    model_config = ConfigDict(extra="forbid")

    source: str = Field(max_length=100, examples=["orders"])
    code: str = Field(max_length=100, examples=["truncated"])
    why: str = Field(max_length=LONGEST_WHY, examples=["… bytes are missing"])


class Several(BaseModel):
    """The identifiers of quarantine entries, each with or without its leading zeros; or a group, whose entries in the
    state `kept` are meant, 500 in a request, the newest first. `cursor` is the `next` of the previous request."""

    model_config = ConfigDict(extra="forbid")

    ids: list[Annotated[str, Field(max_length=100)]] | None = Field(
        default=None, min_length=1, max_length=MOST_AT_ONCE, examples=[["0000000100002005", "0000000100002006"]]
    )
    group: Group | None = None
    cursor: str | None = Field(default=None, max_length=1000)

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Self:
        if (self.ids is None) == (self.group is None):
            raise ValueError("give ids, or a group")
        if self.cursor is not None and self.group is None:
            raise ValueError("a cursor needs a group")
        return self


class OneOfSeveral(BaseModel):
    """The result for one entry. `outcome` is the outcome of its replay, if it was known within some seconds.

    `not-found`: there is no such entry. `gone`: its bytes are gone. `damaged`: they cannot be read. `storage-full`: it
    cannot be replayed at present.
    """

    id: str
    result: Literal["replayed", "dismissed", "not-found", "gone", "damaged", "storage-full"]
    outcome: OutcomeView | None = None


class SeveralView(BaseModel):
    """What was done with each entry, in the order of the request. `next` is the `cursor` for the rest of a group, null
    if there is none."""

    items: list[OneOfSeveral]
    next: str | None = None


class ReplayedView(QuarantineView):
    """A quarantine entry that was replayed, and the outcome."""

    outcome: OutcomeView

    @classmethod
    def of_outcome(cls, record: QuarantineRecord, outcome: ReplayOutcome, base: str) -> "ReplayedView":
        return cls(**dict(QuarantineView.of(record, base)), outcome=outcome_view(outcome, base))


def outcome_view(outcome: ReplayOutcome, base: str) -> OutcomeView:
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
