"""The log of receipts as the catalog keeps it: what statements are made of, tiles of hashes, and signed tree heads."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from app.model.attachment import AttachmentKind
from app.model.records import DeliveryRecord

ATTACHMENT_FINISHED, DELIVERY_SENT = "attachment.finished", "delivery.sent"
"""The events about which statements are made."""


class ReceiptLog(NamedTuple):
    """The log: its name, the number of its statements, and the last event that these include."""

    name: str
    size: int
    event: int


class FinishedFacts(NamedTuple):
    """What the catalog knows of a finished attachment beyond its event, with the correlids of its message.

    Warnings, and the choices between readings, are in JSON, as they are stored. Positions are packed."""

    kind: AttachmentKind | None
    qualifier_1: str
    qualifier_2: str
    description: str
    content_type: str | None
    correl_id: bytes
    message_id: str | None
    ordinal: int
    minor_version: int
    major_version: int
    parts_received: int
    first_position: int
    last_position: int
    first_received_at: int
    last_received_at: int
    completed_at: int | None
    observations: int | None
    variables: int | None
    warnings: str
    evidence: str
    header_position: int | None
    header_correl_id: bytes | None
    message_correl_id: bytes | None


class CommittedTables(NamedTuple):
    """The tables that a batch of the pipeline has changed, each with the version that has its rows, and the number of
    the batch among those that the catalog knows."""

    number: int
    versions: Mapping[str, int]


class ReceiptCause(NamedTuple):
    """An event about which a statement is made, with its data in JSON, as they are stored. The facts are None where the
    catalog has no others any more, or those of what became of the subject later. `tables` are those of the batch that
    finished it, None if it was no batch, or if they are not known."""

    number: int
    type: str
    subject: str
    time: int
    data: str
    finished: FinishedFacts | None = None
    sent: DeliveryRecord | None = None
    tables: CommittedTables | None = None


class NewReceipt(NamedTuple):
    """A statement about to be appended to the log, with its subject."""

    subject: str
    statement: bytes


class KeptStatement(NamedTuple):
    """A statement in the log, with its place and its subject."""

    place: int
    subject: str
    statement: bytes


class ReceiptRetry(NamedTuple):
    """A receipt that the address of its sender has refused for now, so many times; it is sent again at `next_at`, µs
    since 1970."""

    refusals: int
    next_at: int


NO_RETRIES: Mapping[int, ReceiptRetry | None] = MappingProxyType({})


class KeptHead(NamedTuple):
    """A signed tree head: the size of its tree, the bytes of its signed header, its root, and the signature."""

    size: int
    protected: bytes
    root: bytes
    signature: bytes
