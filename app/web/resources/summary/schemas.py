"""The JSON of the summary."""

from datetime import datetime

from pydantic import BaseModel, Field


class SourceSummary(BaseModel):
    """A source: its connection, what it brings, and how many of its attachments are in each of these states."""

    name: str = Field(examples=["orders"])
    adapter: str | None = Field(description="transport; null if the source is no longer configured", examples=["mqtt"])
    framing: str | None = Field(examples=["sas_queue"])
    connected: bool
    since: datetime | None = Field(description="since when it is connected, or was seen without a connection")
    error: str | None = Field(description="why it is not connected", examples=[None])
    messages_per_second: float = Field(description="received in the last ten seconds", examples=[211.3])
    bytes_per_second: float = Field(description="of bodies", examples=[6761600.0])
    messages_per_point: list[int] = Field(
        description="messages received in each of the points of `history`", examples=[[12678]]
    )
    backlog: int | None = Field(
        description="messages that the broker has delivered and that are not on disk yet; null if the transport does "
        "not count them",
        examples=[12],
    )
    unannounced: int = Field(
        description="waiting for a header, which tells whether it is an attachment or an application message",
        examples=[0],
    )
    receiving: int = Field(examples=[3])
    complete: int = Field(description="not finished yet", examples=[0])
    finished: int = Field(examples=[1840])
    quarantined: int = Field(examples=[1])
    last_message_at: datetime | None = Field(
        description="to the second; if nothing has come since the gateway's start, that of the newest attachment"
    )


class DestinationSummary(BaseModel):
    """A destination: its connection, and its deliveries."""

    name: str = Field(examples=["replies"])
    connected: bool
    since: datetime | None = Field(description="since when it is connected, or was seen without a connection")
    error: str | None = Field(examples=[None])
    queued: int = Field(examples=[0])
    sending: int = Field(examples=[1])
    sent: int = Field(examples=[310])
    failed: int = Field(examples=[0])
    messages_per_second: float = Field(description="confirmed by the broker in the last ten seconds", examples=[88.0])


class OpenQuarantine(BaseModel):
    """The entries of the quarantine that are neither replayed nor dismissed."""

    open: int = Field(examples=[2])


class AgeCount(BaseModel):
    """Attachments being received whose last message is less than `under_seconds` old, and at least as old as the entry
    before says. Null: all older ones."""

    under_seconds: int | None = Field(examples=[600])
    count: int = Field(examples=[4])


class JournalSummary(BaseModel):
    """The journal on its disk. Receiving pauses while less than `reserve_bytes` are free."""

    size: int = Field(description="bytes of its segments", examples=[268435456])
    free_bytes: int = Field(examples=[54087696384])
    reserve_bytes: int = Field(examples=[268435456])
    segments: int = Field(examples=[2])


class HistoryPoint(BaseModel):
    """What happened from a time on."""

    time: datetime
    messages: int = Field(examples=[12678])
    size: int = Field(description="bytes of the bodies that came", examples=[405696000])
    finished: int = Field(examples=[31])
    quarantined: int = Field(examples=[0])


class HistoryView(BaseModel):
    """The last hour, as far as the gateway has been running. The last point is not over yet."""

    seconds_per_point: int = Field(examples=[60])
    points: list[HistoryPoint]


class SummaryView(BaseModel):
    """What the gateway does at present. A caller with limits sees its own sources and destinations only."""

    time: datetime
    sources: list[SourceSummary]
    destinations: list[DestinationSummary]
    attachments: dict[str, int] = Field(
        description="number of attachments in each state", examples=[{"receiving": 3, "finished": 1840}]
    )
    unannounced: int = Field(
        description="what waits for a header, which tells whether it is an attachment or an application message; the "
        "other numbers do not have it",
        examples=[0],
    )
    quarantine: OpenQuarantine
    partials_by_age: list[AgeCount]
    journal: JournalSummary | None = Field(description="null for a caller with limits")
    history: HistoryView
