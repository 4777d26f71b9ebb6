"""What clients see: the JSON of attachments and messages, and what all resources share.

Identifiers of brokers are hexadecimal, times RFC 3339 in UTC, sizes bytes. `links` are addresses on this host.
"""

from base64 import b64encode
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, Field

from app.model.attachment import AttachmentKind, AttachmentState
from app.model.records import AttachmentRecord, MessageRecord
from app.ports import Page
from app.web.deps import to_time
from app.web.names import file_name

T = TypeVar("T")
R = TypeVar("R")
KindWord = Literal["data-set", "text-file", "binary-file"]
KINDS: dict[str, AttachmentKind] = {kind.word: kind for kind in AttachmentKind}
Links = dict[str, str]


def shown(text: str) -> str:
    """Text from a wire as JSON can carry it: a lone surrogate becomes a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")


class PageView(BaseModel, Generic[T]):
    """One page, newest first (of tables: by name). `next` is the `cursor` of the page behind it, null at the end."""

    items: list[T]
    next: str | None


def page_view(page: Page[R], view: Callable[[R], T]) -> PageView[T]:
    return PageView(items=[view(item) for item in page.items], next=page.next)


class Progress(BaseModel):
    """How far an attachment has come. `missing` are closed ranges of sequence numbers, at most 100 of them, and only
    while it is receiving; of an IBM MQ group, of the MsgSeqNumbers of logical messages that are not whole."""

    parts_received: int = Field(examples=[3])
    parts_expected: int | None = Field(description="null until its count has come, or all of a group", examples=[5])
    bytes_received: int = Field(examples=[96000])
    duplicates: int = Field(description="parts that came again and changed nothing", examples=[0])
    missing: list[tuple[int, int]] | None = Field(default=None, examples=[[(2, 3)]])

    @classmethod
    def of(cls, record: AttachmentRecord, missing: Sequence[tuple[int, int]] | None = None) -> "Progress":
        return cls(
            parts_received=record.parts_received,
            parts_expected=record.parts_expected,
            bytes_received=record.bytes_received,
            duplicates=record.duplicates,
            missing=None if missing is None else list(missing),
        )


class Reason(BaseModel):
    """Why something expired, was quarantined or failed: `code` for programs, `text` for people."""

    code: str = Field(examples=["length"])
    text: str


class AttachmentView(BaseModel):
    """One attachment. `name` is the sender's (a path, a fileref, a member); `file_name` is safe to save under."""

    id: str = Field(examples=["9f2c4b1e0d5a4c3b8e7f6a5d4c3b2a19"])
    source: str = Field(examples=["orders"])
    state: AttachmentState
    kind: KindWord | None = Field(description="null until its header has come")
    name: str = Field(description="qualifier 2", examples=["d:\\mytext.txt"])
    qualifier_1: str = Field(
        description="FILENAME or FILEREF; of a data set its library; GROUPID or MSGID of what has no name",
        examples=["FILENAME"],
    )
    file_name: str = Field(examples=["mytext.txt"])
    description: str = Field(examples=["Text file..."])
    minor_version: int
    major_version: int
    correl_id: str = Field(description="the attachment correlid, 16 bytes; of an IBM MQ group its GroupId, 24 bytes")
    message: str | None = Field(description="the message it came with")
    ordinal: int = Field(description="its place in that message, from 0")
    progress: Progress
    size: int | None = Field(description="bytes of content, once finished")
    sha256: str | None
    content_type: str | None = Field(examples=["text/plain; charset=utf-8"])
    observations: int | None = Field(description="of a data set")
    variables: int | None = Field(description="of a data set")
    record_length: int | None = Field(description="logical record length of a file, as its sender announced it")
    announced_size: int | None = Field(
        description="bytes of a file, as its sender announced them; whether they count line ends is up to the sender"
    )
    warnings: list[str] = Field(description="what contradicts the sender's announcement of a file", examples=[[]])
    first_received_at: datetime
    last_received_at: datetime
    completed_at: datetime | None
    finished_at: datetime | None
    reason: Reason | None
    links: Links

    @classmethod
    def of(
        cls, record: AttachmentRecord, base: str, missing: Sequence[tuple[int, int]] | None = None
    ) -> "AttachmentView":
        return cls(
            id=record.id,
            source=record.source,
            state=record.state,
            kind=kind_word(record.kind),
            name=shown(record.qualifier_2),
            qualifier_1=shown(record.qualifier_1),
            file_name=file_name(record),
            description=shown(record.description),
            minor_version=record.minor_version,
            major_version=record.major_version,
            correl_id=record.correl_id.hex(),
            message=record.message_id,
            ordinal=record.ordinal,
            progress=Progress.of(record, missing),
            size=record.size,
            sha256=record.sha256,
            content_type=record.content_type,
            observations=record.observations,
            variables=record.variables,
            record_length=record.record_length,
            announced_size=record.announced_size,
            warnings=list(record.warnings),
            first_received_at=to_time(record.first_received_at),
            last_received_at=to_time(record.last_received_at),
            completed_at=optional_time(record.completed_at),
            finished_at=optional_time(record.finished_at),
            reason=reason_of(record),
            links=_attachment_links(record, base),
        )


def reason_of(record: AttachmentRecord) -> Reason | None:
    return None if record.reason_code is None else Reason(code=record.reason_code, text=shown(record.reason or ""))


def kind_word(kind: AttachmentKind | None) -> Any:
    return kind.word if kind else None


def optional_time(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else to_time(microseconds)


def _attachment_links(record: AttachmentRecord, base: str) -> Links:
    links = {"self": f"{base}/attachments/{record.id}"}
    if record.state is AttachmentState.FINISHED:
        links["content"] = f"{links['self']}/content"
        if record.kind is AttachmentKind.DATA_SET:
            links["schema"] = f"{links['self']}/schema"
    if record.message_id:
        links["message"] = f"{base}/messages/{record.message_id}"
    return links


class VariableView(BaseModel):
    """One variable of a data set, as PROC CONTENTS tells it. `column` is its name in the Parquet file."""

    position: int = Field(examples=[1])
    name: str = Field(examples=["Sex"])
    column: str = Field(examples=["Sex"])
    type: Literal["numeric", "character"] = Field(examples=["character"])
    length: int = Field(description="bytes in an observation", examples=[1])
    label: str = Field(examples=[""])
    format: str = Field(examples=["$1."])
    informat: str = Field(examples=[""])
    kind: str | None = Field(description="date, datetime, time or time-of-day, by its format", examples=[None])
    arrow_type: str = Field(examples=["string"])
    missing_column: str | None = Field(description="the column of its special missing values, if any", examples=[None])
    bytes_column: str | None = Field(description="the column of its undecodable values, if any", examples=[None])
    notes: list[str] = Field(examples=[[]])


class KeyView(BaseModel):
    """A variable of the sort key."""

    variable: str
    descending: bool


class IndexView(BaseModel):
    """An index of a data set; `flags` and `upercmx` as its sender wrote them."""

    name: str
    variables: list[str]
    flags: int
    upercmx: int


class SchemaView(BaseModel):
    """A data set's variables, and what else its definition says under `attributes`."""

    library: str
    member: str
    label: str
    observations: int
    observation_length: int
    variables: list[VariableView]
    sort_key: list[KeyView]
    indexes: list[IndexView]
    protection: list[str] = Field(description="read, write, alter: what needs a password in SAS", examples=[[]])
    warnings: list[str] = Field(description="what was doubtful when it was read", examples=[[]])
    attributes: dict[str, str] = Field(examples=[{"compress": "NO", "encoding": "utf-8"}])


class ApplicationMessage(BaseModel):
    """The application message. `text` is there when its bytes read as text in its CCSID."""

    format: str = Field(examples=["MQSTR"])
    ccsid: int = Field(examples=[1208])
    size: int
    text: str | None
    base64: str

    @classmethod
    def of(cls, body: bytes, message_format: str, ccsid: int, text: str | None) -> "ApplicationMessage":
        return cls(
            format=shown(message_format), ccsid=ccsid, size=len(body), text=text, base64=b64encode(body).decode()
        )


class MessageFields(BaseModel):
    """What an attachment header says of its message."""

    id: str
    source: str
    header_correl_id: str
    message_correl_id: str
    original_msg_type: int
    original_correl_id: str
    received_at: datetime
    complete_at: datetime | None = Field(description="when the last of it was finished")
    links: Links


class MessageSummary(MessageFields):
    """One message, and the identifiers of its attachments in the header's order."""

    attachments: list[str]

    @classmethod
    def of(cls, record: MessageRecord, base: str) -> "MessageSummary":
        return cls(**_message_fields(record, base), attachments=list(record.attachments))


class AttachmentSummary(BaseModel):
    """An attachment as its message lists it."""

    id: str
    state: AttachmentState | None
    kind: KindWord | None
    name: str
    description: str
    size: int | None
    links: Links

    @classmethod
    def of(cls, attachment_id: str, record: AttachmentRecord | None, base: str) -> "AttachmentSummary":
        if record is None:
            return cls(id=attachment_id, state=None, kind=None, name="", description="", size=None, links={})
        return cls(
            id=record.id,
            state=record.state,
            kind=kind_word(record.kind),
            name=shown(record.qualifier_2),
            description=shown(record.description),
            size=record.size,
            links=_attachment_links(record, base),
        )


class MessageView(MessageFields):
    """One message, its application message and its attachments in the header's order."""

    application_message: ApplicationMessage | None
    attachments: list[AttachmentSummary]

    @classmethod
    def of(
        cls,
        record: MessageRecord,
        base: str,
        application_message: ApplicationMessage | None,
        attachments: list[AttachmentSummary],
    ) -> "MessageView":
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
