"""The catalog's tables.

Their columns have the names of the fields of `app.model.records`. More columns exist for searching. Times are
microseconds since 1970-01-01 UTC, positions are packed (`Position.pack`).
"""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    TextClause,
    UniqueConstraint,
    column,
    false,
    func,
    literal_column,
    text,
)

from adapters.sql_catalog.schema.bounded_types import AnyText, BitMask, Octets, RowNumber, Tuples
from app.model.evidence import Choice
from app.model.records import ContainedFile

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

# Conditions of partial indexes. A query uses such an index only if it has the same condition, with literals. SQLite
# prefers an index on a column with an equality condition, so these queries compare no state in addition.
IS_UNSETTLED = text("storage = 'journal'")
IS_OPEN = text("state IN ('queued', 'sending')")
IS_OVER = text("state NOT IN ('queued', 'sending')")
IS_HOLDING = text("holds_content")
HAS_CONTENT = text("storage IS NOT NULL")
IS_ENDED = text("state != 'receiving' AND state != 'complete' AND state != 'finished'")
IS_TO_REMOVE = text("storage IS NULL AND object_name IS NOT NULL")
HAS_PENDING = text("pending_position IS NOT NULL")
HAS_WARNINGS = text("json_array_length(warnings) > 0")
HAS_NO_WARNINGS = text("json_array_length(warnings) = 0")
IS_IN_JOURNAL = text("in_journal")
IS_ASKED = text("is_open")
HAS_WAITED = text("waited_as IS NOT NULL")
IS_INCOMPLETE = text("complete_at IS NULL")

# Keys of orders. Queries use the same expressions as the indexes.
SIZE_KEY: ColumnElement[int] = func.coalesce(column("size", BigInteger), literal_column("-1", BigInteger))
NAME_KEY: ColumnElement[str] = func.substr(
    column("name_folded", AnyText), literal_column("1", Integer), literal_column("200", Integer), type_=AnyText
)
"""The beginning of a name: PostgreSQL refuses rows whose entry in an index is longer than a third of a page."""


def _index_where(name: str, condition: TextClause, *columns: str) -> Index:
    return Index(f"ix_{name}", *columns, sqlite_where=condition, postgresql_where=condition)


progress = Table(
    "progress",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("position", BigInteger, comment="of the last physical message that the catalog includes"),
    Column("journal_id", AnyText, comment="of the journal that this catalog belongs to"),
    Column("journal_epoch", BigInteger, comment="of the gateway that bound it last"),
    Column("restarts", BigInteger, nullable=False, server_default="0", comment="how many attachments were begun anew"),
    Column(
        "published",
        BigInteger,
        nullable=False,
        server_default="0",
        comment="of the last message in the journal that receivers share",
    ),
    comment="one row",
)

receiving_journals = Table(
    "receiving_journals",
    metadata,
    Column("id", AnyText, primary_key=True),
    Column("receiver", AnyText, nullable=False, comment="the process that opened it last"),
    Column("published", BigInteger, nullable=False, comment="its last segment that the shared journal has"),
    Column("opened_at", BigInteger, nullable=False),
    Column("seen_at", BigInteger, nullable=False, comment="when it counted its receiving time last"),
    Column("in_archive", Boolean, nullable=False, comment="its segments are in the place of the archive"),
    Column("has_left", Boolean, nullable=False, comment="it does not come back: nothing waits for it"),
    Column("is_leaving", Boolean, nullable=False, comment="a client has asked for it"),
    Column("sessions", JSON(none_as_null=True), comment="what brokers keep for it alone, by source"),
    Column(
        "asked",
        BigInteger,
        nullable=False,
        server_default="0",
        comment="how often it was asked to publish all that it has",
    ),
    Column(
        "answered",
        BigInteger,
        server_default="0",
        comment="the last of these requests after which it did; null: it has stopped, and nothing is left",
    ),
    comment="the own journals of receivers that share one",
)

combined_archives = Table(
    "combined_archives",
    metadata,
    Column("journal", AnyText, primary_key=True),
    Column("place", AnyText, nullable=False, comment="where its archive was last"),
    comment="the archives whose segments have one order, if the catalog is of several",
)

combined_segments = Table(
    "combined_segments",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("journal", AnyText, nullable=False),
    Column("segment", BigInteger, nullable=False, comment="its number in that journal"),
    UniqueConstraint("journal", "segment"),
    comment="the order of the segments of all these archives",
)

source_dialects = Table(
    "source_dialects",
    metadata,
    Column("source", AnyText, primary_key=True),
    Column("dialects", BitMask, nullable=False),
)

attachments = Table(
    "attachments",
    metadata,
    Column("id", AnyText, primary_key=True),
    Column("source", AnyText, nullable=False),
    Column("correl_id", Octets, nullable=False),
    Column("state", AnyText, nullable=False),
    Column("message_id", AnyText),
    Column("ordinal", BigInteger, nullable=False),
    Column("kind", Integer),
    Column("qualifier_1", AnyText, nullable=False),
    Column("qualifier_2", AnyText, nullable=False),
    Column("description", AnyText, nullable=False),
    Column("minor_version", BigInteger, nullable=False),
    Column("major_version", BigInteger, nullable=False),
    Column("dialects", BitMask, nullable=False),
    Column("parts_expected", BigInteger),
    Column("parts_received", BigInteger, nullable=False),
    Column("bytes_received", BigInteger, nullable=False),
    Column("duplicates", BigInteger, nullable=False),
    Column("pending_counts", JSON, nullable=False),
    Column("pending_position", BigInteger),
    Column("first_position", BigInteger, nullable=False),
    Column("last_position", BigInteger, nullable=False),
    Column("first_received_at", BigInteger, nullable=False),
    Column("last_received_at", BigInteger, nullable=False),
    Column("completed_at", BigInteger),
    Column("finished_at", BigInteger),
    Column("size", BigInteger),
    Column("sha256", AnyText),
    Column("content_type", AnyText),
    Column("storage", AnyText),
    Column("object_name", AnyText),
    Column("checksums", Octets, comment="of stored content: the CRC-32C of each MiB, little-endian"),
    Column("observations", BigInteger),
    Column("variables", BigInteger),
    Column("record_length", BigInteger, comment="of a file, as its sender says"),
    Column("announced_size", BigInteger, comment="of a file, as its sender says"),
    Column(
        "files",
        Tuples(ContainedFile._make, "the place of a file"),
        nullable=False,
        server_default="[]",
        comment="the places of several files in the content",
    ),
    Column("warnings", JSON, nullable=False, server_default="[]", comment="what contradicts the sender, in sentences"),
    Column(
        "evidence",
        Tuples(Choice.of, "a choice between readings"),
        nullable=False,
        server_default="[]",
        comment="the choices between readings",
    ),
    Column("settled_at", BigInteger, comment="when content was copied from the journal to the content store"),
    Column("reason_code", AnyText),
    Column("reason", AnyText),
    Column("name_folded", AnyText, nullable=False, comment="qualifier 2, case folded, for searching"),
    Column("group_last", BigInteger, comment="MsgSeqNumber of a group's last logical message"),
    Column("group_ended", BigInteger, comment="logical messages whose end has come; null of what is no group"),
    Column("group_size", BigInteger, comment="bytes of those logical messages"),
    Column("trace_parent", AnyText, comment="W3C traceparent of the message that announced it"),
    UniqueConstraint("source", "correl_id"),
    Index(None, "first_received_at", "id"),
    Index("ix_attachments_size_key", SIZE_KEY, "id", "size"),  # `size`, so that rows are counted without the table
    Index("ix_attachments_name_key", NAME_KEY, "id"),
    Index(None, "state", "first_received_at", "id"),
    Index(None, "kind", "first_received_at", "id"),
    Index(None, "source", "first_received_at", "id"),
    Index(None, "message_id", "state"),
    _index_where("unsettled", IS_UNSETTLED, "finished_at", "id"),
    _index_where("content", HAS_CONTENT, "finished_at", "id", "size"),
    _index_where("ended", IS_ENDED, "last_received_at", "id"),
    _index_where("to_remove", IS_TO_REMOVE, "id"),
    _index_where("pending", HAS_PENDING, "pending_position"),
    _index_where("warned", HAS_WARNINGS, "first_received_at", "id"),
)

part_runs = Table(
    "part_runs",
    metadata,
    Column("number", RowNumber, primary_key=True, autoincrement=True),
    Column("attachment_id", AnyText, ForeignKey("attachments.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("runs", Octets, nullable=False, comment="what one checkpoint added: triplets of first, length, position"),
    Column("segment", BigInteger, nullable=False, index=True, comment="the journal segment that holds all of them"),
    comment="append-only, so that a checkpoint costs what it adds and not what is there",
)

extents = Table(
    "extents",
    metadata,
    Column("attachment_id", AnyText, ForeignKey("attachments.id", ondelete="CASCADE"), primary_key=True),
    Column("extents", Octets, nullable=False, comment="triplets of segment, offset, length"),
)

messages = Table(
    "messages",
    metadata,
    Column("id", AnyText, primary_key=True),
    Column("source", AnyText, nullable=False),
    Column("header_correl_id", Octets, nullable=False),
    Column("message_correl_id", Octets, nullable=False),
    Column("original_msg_type", BigInteger, nullable=False),
    Column("original_correl_id", Octets, nullable=False),
    Column("attachments", JSON, nullable=False, comment="identifiers in the header's order"),
    Column("header_position", BigInteger, nullable=False),
    Column("received_at", BigInteger, nullable=False),
    Column("application_body", Octets),
    Column("application_format", AnyText, nullable=False),
    Column("application_ccsid", BigInteger, nullable=False),
    Column("application_position", BigInteger, comment="of its application message in the journal"),
    Column("complete_at", BigInteger),
    Column("correl_key", Octets, nullable=False, comment="the 20 bytes by which the application message is found"),
    Column("waited_as", AnyText, comment="the attachment as which its application message waited for the header"),
    Index(None, "source", "correl_key", "header_position"),
    Index(None, "received_at", "id"),
    Index(None, "source", "received_at", "id"),
    _index_where("waited", HAS_WAITED, "waited_as", "header_position", "id"),
    _index_where("incomplete", IS_INCOMPLETE, "id"),
)

quarantine = Table(
    "quarantine",
    metadata,
    Column("id", AnyText, primary_key=True),
    Column("source", AnyText, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("code", AnyText, nullable=False),
    Column("row", AnyText, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("why", AnyText, nullable=False),
    Column("msg_type", BigInteger, nullable=False),
    Column("correl_id", Octets, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("received_at", BigInteger, nullable=False),
    Column("state", AnyText, nullable=False),
    Column("object_name", AnyText, comment="the copy of its body in the content store, where it is not in the catalog"),
    Column("in_journal", Boolean, nullable=False, comment="its bytes are in the journal only"),
    Column("why_kind", AnyText, nullable=False, comment="why, without its numbers: what a group has in common"),
    Index(None, "received_at", "id"),
    Index(None, "source", "received_at", "id", "size"),
    Index(None, "state", "received_at", "id"),
    _index_where("in_journal", IS_IN_JOURNAL, "position"),
)

quarantine_copies = Table(
    "quarantine_copies",
    metadata,
    Column("id", AnyText, ForeignKey("quarantine.id", ondelete="CASCADE"), primary_key=True),
    Column("descriptor", Octets, nullable=False, comment="the message's fields but its body, in JSON"),
    Column("body", Octets, comment="null when the content store has it"),
    Column("checksum", BigInteger, nullable=False, comment="the CRC-32C of descriptor and body"),
)

replay_requests = Table(
    "replay_requests",
    metadata,
    Column("id", AnyText, primary_key=True),
    comment="entries of the quarantine that the process which receives is to process again",
)

receiving_time = Table(
    "receiving_time",
    metadata,
    Column("journal", AnyText, primary_key=True, comment="of the receiver; empty for one that receives alone"),
    Column("source", AnyText, primary_key=True),
    Column("counted", BigInteger, nullable=False, comment="microseconds in which the source could receive"),
)

receiving_marks = Table(
    "receiving_marks",
    metadata,
    Column("journal", AnyText, primary_key=True, comment="of the receiver; empty for one that receives alone"),
    Column("source", AnyText, primary_key=True),
    Column("counted", BigInteger, primary_key=True, autoincrement=False),
    Column("position", BigInteger, nullable=False, comment="the end of the journal at that count"),
)

counting = Table(
    "counting",
    metadata,
    Column("source", AnyText, primary_key=True),
    Column("subject", AnyText, primary_key=True),
    Column("rules", AnyText, nullable=False),
    Column("learned", BigInteger, nullable=False, comment="a number that grows: the one learnt last has the highest"),
    comment="how the senders on a subject count, as their messages have shown",
)

expirations = Table(
    "expirations",
    metadata,
    Column("attachment_id", AnyText, ForeignKey("attachments.id", ondelete="CASCADE"), primary_key=True),
    Column("source", AnyText, nullable=False),
    Column("counted", BigInteger, nullable=False, comment="its source's receiving time when it expired"),
    Index(None, "source", "counted"),
    comment="expired attachments whose parts are still kept",
)

missing_requests = Table(
    "missing_requests",
    metadata,
    Column("attachment_id", AnyText, ForeignKey("attachments.id", ondelete="CASCADE"), primary_key=True),
    Column("source", AnyText, nullable=False),
    Column("requests", BigInteger, nullable=False, comment="how often its sender was asked"),
    Column("asked_at", BigInteger, nullable=False, comment="when it was asked last"),
    Column("next_at", BigInteger, comment="not asked again before; null: not asked again"),
    Column("address", AnyText, comment="the topic or queue; null: by an event only"),
    Column("document", Octets, nullable=False, comment="the last request"),
    Column("parts_received", BigInteger, nullable=False, comment="parts of the attachment when it was last looked at"),
    Column("is_open", Boolean, nullable=False, comment="parts that come are counted as asked for"),
    Column("ended", AnyText, comment="why its sender sends nothing more"),
    Index(None, "source", "asked_at"),
    _index_where("asked", IS_ASKED, "attachment_id"),
    comment="what was asked of the senders of unfinished attachments",
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("id", AnyText, primary_key=True),
    Column("destination", AnyText, nullable=False),
    Column("header_correl_id", Octets, nullable=False),
    Column("message_correl_id", Octets, nullable=False),
    Column(
        "attachments",
        JSON,
        nullable=False,
        comment="objects named as OutgoingAttachment's fields, bytes in hexadecimal",
    ),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("state", AnyText, nullable=False),
    Column("original_msg_type", BigInteger, nullable=False),
    Column("original_correl_id", Octets, nullable=False),
    Column("application_body", Octets),
    Column("application_format", AnyText, nullable=False),
    Column("application_ccsid", BigInteger, nullable=False),
    Column("cut", JSON(none_as_null=True), comment="named as the fields of FramingOptions; the first attempt sets it"),
    Column("messages_sent", BigInteger, nullable=False),
    Column("messages_total", BigInteger),
    Column("attempts", BigInteger, nullable=False),
    Column("next_attempt_at", BigInteger, nullable=False),
    Column("reason", AnyText),
    Column("idempotency_key", AnyText),
    Column("fingerprint", AnyText),
    Column(
        "subscribers",
        AnyText,
        comment="what the broker said of subscribers: none, unknown, or null where it reported no lack",
    ),
    Column("holds_content", Boolean, nullable=False, comment="it has ended and an attachment still names an object"),
    Column(
        "cancel_requested",
        Boolean,
        nullable=False,
        server_default=false(),
        comment="it is open, and a client has cancelled it",
    ),
    Column("trace_parent", AnyText, comment="W3C traceparent of the request that queued it"),
    Column("claim", BigInteger, nullable=False, comment="how often a sender has claimed it, of any process"),
    Column("first_claim", BigInteger, nullable=False, comment="the claim under which the cut was set, or is to be set"),
    Column("claimed_by", AnyText, comment="the process that sends it; null if none does"),
    Column("claimed_until", BigInteger, comment="the end of its claim in microseconds, by the clock of the database"),
    UniqueConstraint("idempotency_key"),
    Index(None, "created_at", "id"),
    Index(None, "state", "created_at", "id"),
    Index(None, "destination", "created_at", "id"),
    _index_where("open", IS_OPEN, "destination", "created_at", "id"),
    _index_where("holding", IS_HOLDING, "updated_at", "id"),
    _index_where("over", IS_OVER, "updated_at", "id"),
)

sent_attachments = Table(
    "sent_attachments",
    metadata,
    Column("key", Octets, primary_key=True, comment="the correlid of an attachment, or of an application message"),
    Column("delivery_id", AnyText, ForeignKey("deliveries.id", ondelete="CASCADE"), nullable=False, index=True),
    comment="the deliveries in which receivers may miss parts",
)

uploads = Table(
    "uploads",
    metadata,
    Column("id", AnyText, primary_key=True),
    Column("owner", AnyText, nullable=False, index=True),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False, index=True),
    Column("length", BigInteger, comment="bytes of the whole content, null until the client tells it"),
    Column("file_name", AnyText),
    Column("content_type", AnyText, nullable=False),
    Column("metadata", AnyText, comment="the client's Upload-Metadata"),
    Column("repr_digest", AnyText, comment="the client's digests of the whole content"),
    Column("trace_parent", AnyText, comment="W3C traceparent of the request that began it"),
    Column("received", BigInteger, nullable=False, comment="bytes that are durable"),
    Column("held", BigInteger, nullable=False, comment="bytes that count for its owner"),
    Column("turn", BigInteger, nullable=False, comment="the request that may append to it, the newest one"),
    Column("is_checked", Boolean, nullable=False, comment="its content was compared with the client's digests"),
    Index(None, "created_at", "id"),
    comment="resumable uploads",
)

upload_pieces = Table(
    "upload_pieces",
    metadata,
    Column("upload_id", AnyText, primary_key=True),
    Column("offset", BigInteger, primary_key=True, autoincrement=False),
    Column("size", BigInteger, nullable=False),
    Column("turn", BigInteger, nullable=False, comment="of the request that brought it; the object's name has it"),
    comment="the objects with the bytes of resumable uploads",
)

events = Table(
    "events",
    metadata,
    Column("number", RowNumber, primary_key=True, autoincrement=True),
    Column("type", AnyText, nullable=False),
    Column("subject", AnyText, nullable=False),
    Column("time", BigInteger, nullable=False, index=True),
    Column("data", JSON, nullable=False),
    Column("trace_parent", AnyText, comment="W3C traceparent of the subject"),
    sqlite_autoincrement=True,
)

event_logs = Table(
    "event_logs",
    metadata,
    Column("name", AnyText, primary_key=True),
    Column("begins_after", BigInteger, nullable=False, comment="the number of an event"),
    comment="each time that a gateway opened the catalog, and has logged events since",
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", AnyText, primary_key=True),
    Column("name", AnyText, nullable=False),
    Column("digest", Octets, nullable=False, comment="SHA-256 of the key"),
    Column("scopes", JSON, nullable=False),
    Column("sources", JSON(none_as_null=True), comment="null: all"),
    Column("destinations", JSON(none_as_null=True), comment="null: all"),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("revoked_at", BigInteger),
    Column("last_used_at", BigInteger),
    comment="keys of clients of REST; a revoked one stays",
)

shared_secrets = Table(
    "shared_secrets",
    metadata,
    Column("name", AnyText, primary_key=True),
    Column("value", Octets, nullable=False),
    comment="what all processes of a gateway sign with",
)

leases = Table(
    "leases",
    metadata,
    Column("name", AnyText, primary_key=True),
    Column("holder", AnyText, nullable=False, comment="the process that took it last"),
    Column("epoch", BigInteger, nullable=False, comment="how often it was taken"),
    Column("until", BigInteger, nullable=False, comment="its end in microseconds, by the clock of the database"),
    Column("note", BigInteger, comment="what a holder leaves to the next one"),
    comment="what one process at a time may do; a row stays for ever, as its epoch is a fence",
)

pipeline_runs = Table(
    "pipeline_runs",
    metadata,
    Column("id", AnyText, primary_key=True),
    Column("kind", AnyText, nullable=False),
    Column("state", AnyText, nullable=False),
    Column("began_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger),
    Column("messages", BigInteger, nullable=False),
    Column("attachments", BigInteger, nullable=False),
    Column("refused", BigInteger, nullable=False),
    Column("quarantined", BigInteger, nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("error", AnyText),
    Index(None, "began_at", "id"),
    comment="the newest runs of the pipeline on Spark",
)

webhooks = Table(
    "webhooks",
    metadata,
    Column("name", AnyText, primary_key=True),
    Column("position", BigInteger, nullable=False, comment="all events up to this one are done"),
    Column("state", AnyText, nullable=False),
    Column("attempts", BigInteger, nullable=False, comment="failures since the last success"),
    Column("failing_since", BigInteger),
    Column("next_attempt_at", BigInteger, nullable=False),
    Column("reason", AnyText),
    Column("updated_at", BigInteger, nullable=False),
    Column("changes", BigInteger, nullable=False, comment="how often a client has changed it"),
    Column("requeues", BigInteger, nullable=False, comment="how often a client has queued dead letters"),
)

dead_letters = Table(
    "dead_letters",
    metadata,
    Column("webhook", AnyText, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False, comment="of the event"),
    Column("type", AnyText, nullable=False),
    Column("subject", AnyText, nullable=False),
    Column("time", BigInteger, nullable=False),
    Column("data", JSON, nullable=False),
    Column("failed_at", BigInteger, nullable=False, index=True),
    Column("reason", AnyText, nullable=False),
    Column("queued_at", BigInteger, comment="when a client asked to send it again"),
    Column("trace_parent", AnyText, comment="W3C traceparent of the subject"),
    comment="events that were given up for a webhook",
)

receipt_log = Table(
    "receipt_log",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("name", AnyText, nullable=False),
    Column("size", BigInteger, nullable=False, comment="the number of its statements"),
    Column("event", BigInteger, nullable=False, comment="the number of the last event that it includes"),
    Column("sent_back", BigInteger, comment="the place before which receipts were sent back to senders"),
    comment="one row, once receipts are made",
)

receipt_replies = Table(
    "receipt_replies",
    metadata,
    Column("source", AnyText, primary_key=True),
    Column("place", BigInteger, nullable=False, comment="of the log, before which its receipts were sent"),
    comment="sources whose receipts go to the senders of their messages",
)

receipt_retries = Table(
    "receipt_retries",
    metadata,
    Column("source", AnyText, primary_key=True),
    Column("place", BigInteger, primary_key=True, autoincrement=False, comment="of the log"),
    Column("refusals", BigInteger, nullable=False, comment="how often its address refused it"),
    Column("next_at", BigInteger, nullable=False, comment="not sent again before, in µs"),
    Index(None, "source", "next_at"),
    comment="receipts that were refused for now, and are sent again",
)

receipt_tables = Table(
    "receipt_tables",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("finished_at", BigInteger, nullable=False, comment="that of its attachments, in µs"),
    Column("versions", JSON, nullable=False, comment="by the name of a table, the version with its rows"),
    comment="batches of the pipeline whose attachments the log of receipts may not have yet",
)

receipt_statements = Table(
    "receipt_statements",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False, comment="its place in the log, from 0"),
    Column("subject", AnyText, nullable=False, index=True),
    Column("statement", Octets, nullable=False, comment="a JSON object"),
    comment="the entries of the log of receipts, which are never changed nor removed",
)

receipt_tiles = Table(
    "receipt_tiles",
    metadata,
    Column("level", Integer, primary_key=True, autoincrement=False),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("hashes", Octets, nullable=False, comment="up to 256 nodes, 32 bytes each"),
    comment="the Merkle tree of the log of receipts",
)

receipt_heads = Table(
    "receipt_heads",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("size", BigInteger, nullable=False, comment="of the tree"),
    Column("protected", Octets, nullable=False, comment="the signed header, in CBOR"),
    Column("root", Octets, nullable=False),
    Column("signature", Octets, nullable=False),
    comment="the signed heads of the log of receipts",
)
