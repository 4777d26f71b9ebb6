"""The JSON of the gateway. Made by `make docs` from the schemas of its OpenAPI document."""

from typing import Any, Literal, NotRequired, TypedDict

DeliveryState = Literal["queued", "sending", "sent", "failed", "cancelled"]


class Outgoing(TypedDict):
    """One attachment of a delivery."""

    correl_id: str
    kind: Literal["data-set", "text-file", "binary-file"]
    name: str
    qualifier_1: str
    description: str
    minor_version: int
    major_version: int
    size: int
    sha256: str


class FieldError(TypedDict):
    """One error in a request."""

    detail: str
    pointer: NotRequired[str | None]
    parameter: NotRequired[str | None]
    header_field: NotRequired[str | None]
    variable: NotRequired[str | None]
    row: NotRequired[int | None]
    code: NotRequired[str | None]


class AcceptedDelivery(TypedDict):
    """A delivery in the response to the request that created it."""

    id: str
    destination: str
    state: DeliveryState
    header_correl_id: str
    message_correl_id: str
    original_msg_type: int
    original_correl_id: str
    attachments: list[Outgoing]
    messages_sent: int
    messages_total: int | None
    attempts: int
    next_attempt_at: str | None
    reason: str | None
    repeats: str | None
    subscribers: Literal["none", "unknown"] | None
    trace_parent: str | None
    created_at: str
    updated_at: str
    links: dict[str, str]
    warnings: NotRequired[list[FieldError] | None]


class MapValue(TypedDict):
    """One value of a map. It is null for a number that JSON lacks, and for a text that its character set lacks."""

    type: Literal["short", "long", "double", "char"]
    value: int | float | str | None


class ApplicationMessage(TypedDict):
    """The application message. `text` is present if its bytes, or the only value of its map, are text in `charset`."""

    format: str
    ccsid: int
    charset: str | None
    size: int
    text: str | None
    values: list[MapValue] | None
    base64: str


class VariableProposal(TypedDict):
    """One variable as it would be sent."""

    column: str
    name: str
    type: Literal["numeric", "character"]
    length: int
    format: str
    informat: str
    label: str
    origins: dict[str, Literal["given", "file", "inferred"]]


class Index(TypedDict):
    """An index of a data set, with `flags` and `upercmx` as sent."""

    name: str
    variables: list[str]
    flags: int
    upercmx: int


class DataSetProposal(TypedDict):
    """A data set as it would be sent."""

    format: str
    library: str
    member: str
    label: str
    observations: int
    variables: list[VariableProposal]
    indexes: list[Index]
    constraints: int
    value_labels: dict[str, int]
    warnings: list[FieldError]


class AttachmentProposal(TypedDict):
    """One attachment as it would be sent."""

    part: str
    kind: Literal["data-set", "text-file", "binary-file"]
    name: str
    qualifier_1: str
    messages: int
    data_set: NotRequired[DataSetProposal | None]


AttachmentState = Literal["receiving", "complete", "finished", "expired", "quarantined", "deleted"]


class AttachmentSummary(TypedDict):
    """An attachment in the list of its message."""

    id: str
    state: AttachmentState | None
    kind: Literal["data-set", "text-file", "binary-file"] | None
    name: str
    description: str
    size: int | None
    links: dict[str, str]


class Progress(TypedDict):
    """The progress of an attachment."""

    parts_received: int
    parts_expected: int | None
    bytes_received: int
    duplicates: int
    missing_parts: NotRequired[list[list[Any]] | None]


class RequestedParts(TypedDict):
    """What the sender of an attachment was asked for last. It may have come since."""

    requests: int
    asked_at: str
    next_at: str | None
    address: str | None
    parts: list[list[Any]]
    lacks_header: bool
    lacks_count: bool
    text: str
    ended: str | None


class ContainedFile(TypedDict):
    """One of several files in the content of an attachment: bytes `offset` to `offset` + `size` - 1."""

    offset: int
    size: int
    record_length: int
    announced_size: int


Question = Literal[
    "dialect",
    "count",
    "character-set",
    "float-format",
    "row-layout",
    "record-ends",
    "last-line-end",
    "headers",
    "file-kind",
    "messages",
]


Ground = Literal["only-reading", "descriptor", "announced", "source", "setting", "values", "preference"]


class Choice(TypedDict):
    """A question about the bytes that allows several answers, and the reading that was taken."""

    question: Question
    reading: str
    ground: Ground
    others: list[str]


class Reason(TypedDict):
    """The reason why something expired, was quarantined or failed: `code` for programs, `text` for people."""

    code: str
    text: str


class Attachment(TypedDict):
    """One attachment. `name` is the sender's (a path, a fileref, a member); `file_name` is a safe file name."""

    id: str
    source: str
    state: AttachmentState
    kind: Literal["data-set", "text-file", "binary-file"] | None
    name: str
    qualifier_1: str
    file_name: str
    description: str
    minor_version: int
    major_version: int
    correl_id: str
    message: str | None
    ordinal: int
    progress: Progress
    requested: NotRequired[RequestedParts | None]
    receipt: NotRequired[Literal["made", "coming"] | None]
    size: int | None
    sha256: str | None
    content_type: str | None
    observations: int | None
    variables: int | None
    record_length: int | None
    announced_size: int | None
    files: list[ContainedFile]
    warnings: list[str]
    warnings_count: int
    evidence: list[Choice]
    first_received_at: str
    last_received_at: str
    completed_at: str | None
    finished_at: str | None
    reason: Reason | None
    trace_parent: str | None
    links: dict[str, str]


class Delivery(TypedDict):
    """One outgoing message and its progress."""

    id: str
    destination: str
    state: DeliveryState
    header_correl_id: str
    message_correl_id: str
    original_msg_type: int
    original_correl_id: str
    attachments: list[Outgoing]
    messages_sent: int
    messages_total: int | None
    attempts: int
    next_attempt_at: str | None
    reason: str | None
    repeats: str | None
    subscribers: Literal["none", "unknown"] | None
    trace_parent: str | None
    created_at: str
    updated_at: str
    links: dict[str, str]


class MessageSummary(TypedDict):
    """One message, and the identifiers of its attachments in the header's order."""

    id: str
    source: str
    header_correl_id: str
    message_correl_id: str
    original_msg_type: int
    original_correl_id: str
    received_at: str
    complete_at: str | None
    links: dict[str, str]
    attachments: list[str]


class Message(TypedDict):
    """One message, its application message and its attachments in the header's order."""

    id: str
    source: str
    header_correl_id: str
    message_correl_id: str
    original_msg_type: int
    original_correl_id: str
    received_at: str
    complete_at: str | None
    links: dict[str, str]
    application_message: ApplicationMessage | None
    attachments: list[AttachmentSummary]


class Quarantine(TypedDict):
    """A physical message that the gateway cannot read."""

    id: str
    source: str
    state: Literal["kept", "replayed", "dismissed"]
    code: str
    row: str
    at: int | None
    why: str
    msg_type: int
    correl_id: str
    size: int
    received_at: str
    preview: NotRequired[str | None]
    properties: NotRequired[dict[str, str] | None]
    links: dict[str, str]


class Rehearsal(TypedDict):
    """A message as it would be sent."""

    destination: str
    messages: int
    attachments: list[AttachmentProposal]


class TableSummary(TypedDict):
    """A table in a listing."""

    name: str
    row_count: int
    files: int
    size: int
    version: int
    modified_at: str
    links: dict[str, str]
    column_count: int


class Upload(TypedDict):
    """One resumable upload."""

    id: str
    owner: str
    offset: int
    size: int | None
    is_complete: bool
    name: str | None
    content_type: str
    created_at: str
    expires_at: str
    links: dict[str, str]
