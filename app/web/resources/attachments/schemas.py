"""The JSON of attachments."""

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Literal

from pydantic import BaseModel, Field

from app.codecs.missing_parts.request_documents import MissingParts, read_document, spoken
from app.model.attachment import AttachmentKind, AttachmentState
from app.model.evidence import Choice, Ground, Question
from app.model.records import AttachmentRecord
from app.model.times import to_time
from app.ports import MissingRequest
from app.web.http.disposition import file_name
from app.web.http.parameters import optional_time
from app.web.resources.schemas import KindWord, Links, kind_word, shown


class Progress(BaseModel):
    """The progress of an attachment.

    `missing_parts` has closed ranges of sequence numbers, at most 100, and only while the attachment is being received.
    For an IBM MQ group these are the MsgSeqNumbers of incomplete logical messages. It is null in lists, and for a group
    whose last messages this process of a divided gateway cannot read yet.
    """

    parts_received: int = Field(examples=[3])
    parts_expected: int | None = Field(
        description="null until the count message has arrived, or all messages of a group", examples=[5]
    )
    bytes_received: int = Field(examples=[96000])
    duplicates: int = Field(
        description="messages that changed nothing: duplicate parts, and everything received after it was finished",
        examples=[0],
    )
    missing_parts: list[tuple[int, int]] | None = Field(default=None, examples=[[(2, 3)]])

    @classmethod
    def of(cls, record: AttachmentRecord, missing: Sequence[tuple[int, int]] | None = None) -> "Progress":
        return cls(
            parts_received=record.parts_received,
            parts_expected=record.parts_expected,
            bytes_received=record.bytes_received,
            duplicates=record.duplicates,
            missing_parts=None if missing is None else list(missing),
        )


class RequestedParts(BaseModel):
    """What the sender of an attachment was asked for last. It may have come since.

    `parts` has closed ranges of numbers; a last number of null means all that follow.
    """

    requests: int = Field(description="how often its sender was asked", examples=[1])
    asked_at: datetime = Field(description="when its sender was asked last")
    next_at: datetime | None = Field(description="when it may be asked again; null: not any more")
    address: str | None = Field(
        description="the topic or queue that got the request; null: the event `attachment.missing` alone tells of it",
        examples=["plant/replies"],
    )
    parts: list[tuple[int, int | None]] = Field(
        description="the numbers of parts, or of logical messages", examples=[[(2, 3), (9, None)]]
    )
    lacks_header: bool = Field(description="whether the header was asked for", examples=[False])
    lacks_count: bool = Field(description="whether the message with the number of parts was asked for", examples=[True])
    text: str = Field(description="the same for people", examples=["parts 2-3, 9 and all that follow, count"])
    ended: str | None = Field(description="why its sender sends nothing more, as it says", examples=[None])

    @classmethod
    def of(cls, request: MissingRequest) -> "RequestedParts | None":
        asked = read_document(request.document)
        if not isinstance(asked, MissingParts) or asked.is_empty:
            return None
        return cls(
            requests=request.requests,
            asked_at=to_time(request.asked_at),
            next_at=optional_time(request.next_at),
            address=None if request.address is None else shown(request.address),
            parts=list(asked.parts),
            lacks_header=asked.header,
            lacks_count=asked.total,
            text=spoken(asked),
            ended=None if request.ended is None else shown(request.ended),
        )


class Reason(BaseModel):
    """The reason why something expired, was quarantined or failed: `code` for programs, `text` for people."""

    code: str = Field(examples=["length"])
    text: str


class ChoiceView(BaseModel):
    """A question about the bytes that allows several answers, and the reading that was taken."""

    question: Question = Field(examples=["dialect"])
    reading: str = Field(examples=["big-4-excluded-packed"])
    ground: Ground = Field(
        description="what decided it; `preference` means that nothing did, and the most usual reading was taken",
        examples=["only-reading"],
    )
    others: list[str] = Field(description="other readings that fit as well", examples=[[]])


@lru_cache(maxsize=256)
def choices(evidence: tuple[Choice, ...]) -> list[ChoiceView]:
    """Return the JSON of evidence, which is mostly the same in many attachments."""
    return [
        ChoiceView(
            question=choice.question,
            reading=shown(choice.reading),
            ground=choice.ground,
            others=[shown(other) for other in choice.others],
        )
        for choice in evidence
    ]


class ContainedFileView(BaseModel):
    """One of several files in the content of an attachment: bytes `offset` to `offset` + `size` - 1."""

    offset: int = Field(description="where its bytes begin in the content", examples=[4096])
    size: int = Field(examples=[1200])
    record_length: int = Field(description="its logical record length, as its sender announced it", examples=[80])
    announced_size: int = Field(description="its bytes, as its sender announced them", examples=[1200])


class AttachmentView(BaseModel):
    """One attachment. `name` is the sender's (a path, a fileref, a member); `file_name` is a safe file name."""

    id: str = Field(examples=["9f2c4b1e0d5a4c3b8e7f6a5d4c3b2a19"])
    source: str = Field(examples=["orders"])
    state: AttachmentState
    kind: KindWord | None = Field(description="null until the attachment header has arrived")
    name: str = Field(description="qualifier 2", examples=["d:\\mytext.txt"])
    qualifier_1: str = Field(
        description="file: FILENAME or FILEREF; data set: its library; attachment without a name: GROUPID or MSGID",
        examples=["FILENAME"],
    )
    file_name: str = Field(examples=["mytext.txt"])
    description: str = Field(examples=["Text file..."])
    minor_version: int
    major_version: int
    correl_id: str = Field(
        description="the attachment correlid, 16 bytes; of an IBM MQ group its GroupId, and of order packets the "
        "identifier of the statement or of the LONG value, 24 bytes"
    )
    message: str | None = Field(description="the message to which it belongs")
    ordinal: int = Field(description="its place in that message, from 0")
    progress: Progress
    requested: RequestedParts | None = Field(
        default=None, description="what its sender was asked for; null if it never was, and in lists"
    )
    receipt: Literal["made", "coming"] | None = Field(
        default=None, description="null if it is not finished, or no receipts are made, and in lists"
    )
    size: int | None = Field(description="bytes of content, once finished")
    sha256: str | None
    content_type: str | None = Field(examples=["text/plain; charset=utf-8"])
    observations: int | None = Field(description="of a data set")
    variables: int | None = Field(description="of a data set")
    record_length: int | None = Field(
        description="logical record length of a file, as its sender announced it; `files` has those of several"
    )
    announced_size: int | None = Field(
        description="bytes of a file, as its sender announced them; whether they count line ends is up to the sender"
    )
    files: list[ContainedFileView] = Field(
        description="the files, if the content is several, one behind the other; once finished", examples=[[]]
    )
    warnings: list[str] = Field(
        description="what contradicts the sender or is in doubt, in sentences; at most 20", examples=[[]]
    )
    warnings_count: int = Field(examples=[0])
    evidence: list[ChoiceView] = Field(description="the choices between readings, and what decided them; once finished")
    first_received_at: datetime
    last_received_at: datetime
    completed_at: datetime | None
    finished_at: datetime | None
    reason: Reason | None
    trace_parent: str | None = Field(
        description="W3C `traceparent` of the message that announced it; null if it had no valid one",
        examples=["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"],
    )
    links: Links

    @classmethod
    def of(
        cls,
        record: AttachmentRecord,
        base: str,
        missing: Sequence[tuple[int, int]] | None = None,
        request: MissingRequest | None = None,
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
            requested=None if request is None else RequestedParts.of(request),
            size=record.size,
            sha256=record.sha256,
            content_type=record.content_type,
            observations=record.observations,
            variables=record.variables,
            record_length=record.record_length,
            announced_size=record.announced_size,
            files=[ContainedFileView(**file._asdict()) for file in record.files],
            warnings=[shown(warning) for warning in record.warnings],
            warnings_count=len(record.warnings),
            evidence=choices(record.evidence),
            first_received_at=to_time(record.first_received_at),
            last_received_at=to_time(record.last_received_at),
            completed_at=optional_time(record.completed_at),
            finished_at=optional_time(record.finished_at),
            reason=reason_of(record),
            trace_parent=record.trace_parent,
            links=attachment_links(record, base),
        )


class AttachmentSummary(BaseModel):
    """An attachment in the list of its message."""

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
            links=attachment_links(record, base),
        )


def reason_of(record: AttachmentRecord) -> Reason | None:
    return None if record.reason_code is None else Reason(code=record.reason_code, text=shown(record.reason or ""))


def attachment_links(record: AttachmentRecord, base: str) -> Links:
    links = {"self": f"{base}/attachments/{record.id}"}
    if record.state is AttachmentState.FINISHED:
        links["content"] = f"{links['self']}/content"
        if record.kind is AttachmentKind.DATA_SET:
            links["schema"] = f"{links['self']}/schema"
    if record.message_id:
        links["message"] = f"{base}/messages/{record.message_id}"
    return links
