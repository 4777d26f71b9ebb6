"""Create the schema.

Revision 0001.
"""

from secrets import token_hex

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_ROW_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:  # noqa: PLR0915 - one statement a table
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False, comment="SHA-256 of the key"),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("sources", sa.JSON(), comment="null: all"),
        sa.Column("destinations", sa.JSON(), comment="null: all"),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger()),
        sa.Column("revoked_at", sa.BigInteger()),
        sa.Column("last_used_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
        comment="keys of clients of REST; a revoked one stays",
    )
    op.create_table(
        "attachments",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("correl_id", sa.LargeBinary(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("message_id", sa.Text()),
        sa.Column("ordinal", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Integer()),
        sa.Column("qualifier_1", sa.Text(), nullable=False),
        sa.Column("qualifier_2", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("minor_version", sa.BigInteger(), nullable=False),
        sa.Column("major_version", sa.BigInteger(), nullable=False),
        sa.Column("dialects", sa.Text(), nullable=False),
        sa.Column("parts_expected", sa.BigInteger()),
        sa.Column("parts_received", sa.BigInteger(), nullable=False),
        sa.Column("bytes_received", sa.BigInteger(), nullable=False),
        sa.Column("duplicates", sa.BigInteger(), nullable=False),
        sa.Column("pending_counts", sa.JSON(), nullable=False),
        sa.Column("pending_position", sa.BigInteger()),
        sa.Column("first_position", sa.BigInteger(), nullable=False),
        sa.Column("last_position", sa.BigInteger(), nullable=False),
        sa.Column("first_received_at", sa.BigInteger(), nullable=False),
        sa.Column("last_received_at", sa.BigInteger(), nullable=False),
        sa.Column("completed_at", sa.BigInteger()),
        sa.Column("finished_at", sa.BigInteger()),
        sa.Column("size", sa.BigInteger()),
        sa.Column("sha256", sa.Text()),
        sa.Column("content_type", sa.Text()),
        sa.Column("storage", sa.Text()),
        sa.Column("object_name", sa.Text()),
        sa.Column("checksums", sa.LargeBinary(), comment="of stored content: the CRC-32C of each MiB, little-endian"),
        sa.Column("observations", sa.BigInteger()),
        sa.Column("variables", sa.BigInteger()),
        sa.Column("record_length", sa.BigInteger(), comment="of a file, as its sender says"),
        sa.Column("announced_size", sa.BigInteger(), comment="of a file, as its sender says"),
        sa.Column(
            "warnings",
            sa.JSON(),
            server_default="[]",
            nullable=False,
            comment="what contradicts the sender, in sentences",
        ),
        sa.Column("evidence", sa.JSON(), server_default="[]", nullable=False, comment="the choices between readings"),
        sa.Column(
            "files",
            sa.JSON(),
            server_default="[]",
            nullable=False,
            comment="the places of several files in the content",
        ),
        sa.Column(
            "settled_at", sa.BigInteger(), comment="when content was copied from the journal to the content store"
        ),
        sa.Column("reason_code", sa.Text()),
        sa.Column("reason", sa.Text()),
        sa.Column("name_folded", sa.Text(), nullable=False, comment="qualifier 2, case folded, for searching"),
        sa.Column("group_last", sa.BigInteger(), comment="MsgSeqNumber of a group's last logical message"),
        sa.Column(
            "group_ended", sa.BigInteger(), comment="logical messages whose end has come; null of what is no group"
        ),
        sa.Column("group_size", sa.BigInteger(), comment="bytes of those logical messages"),
        sa.Column("trace_parent", sa.Text(), comment="W3C traceparent of the message that announced it"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attachments")),
        sa.UniqueConstraint("source", "correl_id", name=op.f("uq_attachments_source_correl_id")),
        sa.Index("ix_attachments_name_key", sa.text("substr(name_folded, 1, 200)"), "id"),
        sa.Index("ix_attachments_size_key", sa.text("coalesce(size, -1)"), "id", "size"),
    )
    op.create_index(op.f("ix_attachments_first_received_at_id"), "attachments", ["first_received_at", "id"])
    op.create_index(
        op.f("ix_attachments_kind_first_received_at_id"), "attachments", ["kind", "first_received_at", "id"]
    )
    op.create_index(op.f("ix_attachments_message_id_state"), "attachments", ["message_id", "state"])
    op.create_index(
        op.f("ix_attachments_source_first_received_at_id"), "attachments", ["source", "first_received_at", "id"]
    )
    op.create_index(
        op.f("ix_attachments_state_first_received_at_id"), "attachments", ["state", "first_received_at", "id"]
    )
    _create_index_where("ix_content", "attachments", ["finished_at", "id", "size"], "storage IS NOT NULL")
    _create_index_where(
        "ix_ended",
        "attachments",
        ["last_received_at", "id"],
        "state != 'receiving' AND state != 'complete' AND state != 'finished'",
    )
    _create_index_where("ix_to_remove", "attachments", ["id"], "storage IS NULL AND object_name IS NOT NULL")
    _create_index_where("ix_pending", "attachments", ["pending_position"], "pending_position IS NOT NULL")
    _create_index_where("ix_unsettled", "attachments", ["finished_at", "id"], "storage = 'journal'")
    _create_index_where("ix_warned", "attachments", ["first_received_at", "id"], "json_array_length(warnings) > 0")
    op.create_table(
        "counting",
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("rules", sa.Text(), nullable=False),
        sa.Column(
            "learned",
            sa.BigInteger(),
            nullable=False,
            comment="a number that grows: the one learnt last has the highest",
        ),
        sa.PrimaryKeyConstraint("source", "subject", name=op.f("pk_counting")),
        comment="how the senders on a subject count, as their messages have shown",
    )
    op.create_table(
        "dead_letters",
        sa.Column("webhook", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False, comment="of the event"),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("time", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("failed_at", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("queued_at", sa.BigInteger(), comment="when a client asked to send it again"),
        sa.Column("trace_parent", sa.Text(), comment="W3C traceparent of the subject"),
        sa.PrimaryKeyConstraint("webhook", "number", name=op.f("pk_dead_letters")),
        comment="events that were given up for a webhook",
    )
    op.create_index(op.f("ix_dead_letters_failed_at"), "dead_letters", ["failed_at"])
    op.create_table(
        "deliveries",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("destination", sa.Text(), nullable=False),
        sa.Column("header_correl_id", sa.LargeBinary(), nullable=False),
        sa.Column("message_correl_id", sa.LargeBinary(), nullable=False),
        sa.Column(
            "attachments",
            sa.JSON(),
            nullable=False,
            comment="objects named as OutgoingAttachment's fields, bytes in hexadecimal",
        ),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("original_msg_type", sa.BigInteger(), nullable=False),
        sa.Column("original_correl_id", sa.LargeBinary(), nullable=False),
        sa.Column("application_body", sa.LargeBinary()),
        sa.Column("application_format", sa.Text(), nullable=False),
        sa.Column("application_ccsid", sa.BigInteger(), nullable=False),
        sa.Column("cut", sa.JSON(), comment="named as the fields of FramingOptions; the first attempt sets it"),
        sa.Column("messages_sent", sa.BigInteger(), nullable=False),
        sa.Column("messages_total", sa.BigInteger()),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("next_attempt_at", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text()),
        sa.Column("idempotency_key", sa.Text()),
        sa.Column("fingerprint", sa.Text()),
        sa.Column(
            "subscribers",
            sa.Text(),
            comment="what the broker said of subscribers: none, unknown, or null where it reported no lack",
        ),
        sa.Column(
            "holds_content",
            sa.Boolean(),
            nullable=False,
            comment="it has ended and an attachment still names an object",
        ),
        sa.Column(
            "cancel_requested",
            sa.Boolean(),
            server_default=sa.false(),
            nullable=False,
            comment="it is open, and a client has cancelled it",
        ),
        sa.Column("trace_parent", sa.Text(), comment="W3C traceparent of the request that queued it"),
        sa.Column(
            "claim", sa.BigInteger(), nullable=False, comment="how often a sender has claimed it, of any process"
        ),
        sa.Column(
            "first_claim",
            sa.BigInteger(),
            nullable=False,
            comment="the claim under which the cut was set, or is to be set",
        ),
        sa.Column("claimed_by", sa.Text(), comment="the process that sends it; null if none does"),
        sa.Column(
            "claimed_until",
            sa.BigInteger(),
            comment="the end of its claim in microseconds, by the clock of the database",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deliveries")),
        sa.UniqueConstraint("idempotency_key", name=op.f("uq_deliveries_idempotency_key")),
    )
    op.create_index(op.f("ix_deliveries_created_at_id"), "deliveries", ["created_at", "id"])
    op.create_index(op.f("ix_deliveries_destination_created_at_id"), "deliveries", ["destination", "created_at", "id"])
    op.create_index(op.f("ix_deliveries_state_created_at_id"), "deliveries", ["state", "created_at", "id"])
    _create_index_where("ix_holding", "deliveries", ["updated_at", "id"], "holds_content")
    _create_index_where("ix_open", "deliveries", ["destination", "created_at", "id"], "state IN ('queued', 'sending')")
    _create_index_where("ix_over", "deliveries", ["updated_at", "id"], "state NOT IN ('queued', 'sending')")
    logs = op.create_table(
        "event_logs",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("begins_after", sa.BigInteger(), nullable=False, comment="the number of an event"),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_event_logs")),
        comment="each time that a gateway opened the catalog, and has logged events since",
    )
    op.create_table(
        "events",
        sa.Column("number", _ROW_NUMBER, autoincrement=True, nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("time", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("trace_parent", sa.Text(), comment="W3C traceparent of the subject"),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_events")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_events_time"), "events", ["time"])
    op.create_table(
        "messages",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("header_correl_id", sa.LargeBinary(), nullable=False),
        sa.Column("message_correl_id", sa.LargeBinary(), nullable=False),
        sa.Column("original_msg_type", sa.BigInteger(), nullable=False),
        sa.Column("original_correl_id", sa.LargeBinary(), nullable=False),
        sa.Column("attachments", sa.JSON(), nullable=False, comment="identifiers in the header's order"),
        sa.Column("header_position", sa.BigInteger(), nullable=False),
        sa.Column("received_at", sa.BigInteger(), nullable=False),
        sa.Column("application_body", sa.LargeBinary()),
        sa.Column("application_format", sa.Text(), nullable=False),
        sa.Column("application_ccsid", sa.BigInteger(), nullable=False),
        sa.Column("application_position", sa.BigInteger(), comment="of its application message in the journal"),
        sa.Column("complete_at", sa.BigInteger()),
        sa.Column(
            "correl_key",
            sa.LargeBinary(),
            nullable=False,
            comment="the 20 bytes by which the application message is found",
        ),
        sa.Column(
            "waited_as", sa.Text(), comment="the attachment as which its application message waited for the header"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_messages")),
    )
    op.create_index(op.f("ix_messages_received_at_id"), "messages", ["received_at", "id"])
    op.create_index(
        op.f("ix_messages_source_correl_key_header_position"), "messages", ["source", "correl_key", "header_position"]
    )
    op.create_index(op.f("ix_messages_source_received_at_id"), "messages", ["source", "received_at", "id"])
    _create_index_where("ix_waited", "messages", ["waited_as", "header_position", "id"], "waited_as IS NOT NULL")
    _create_index_where("ix_incomplete", "messages", ["id"], "complete_at IS NULL")
    _create_what_processes_do()
    _create_uploads()
    progress = op.create_table(
        "progress",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("position", sa.BigInteger(), comment="of the last physical message that the catalog includes"),
        sa.Column("journal_id", sa.Text(), comment="of the journal that this catalog belongs to"),
        sa.Column("journal_epoch", sa.BigInteger(), comment="of the gateway that bound it last"),
        sa.Column(
            "restarts",
            sa.BigInteger(),
            server_default="0",
            nullable=False,
            comment="how many attachments were begun anew",
        ),
        sa.Column(
            "published",
            sa.BigInteger(),
            server_default="0",
            nullable=False,
            comment="of the last message in the journal that receivers share",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_progress")),
        comment="one row",
    )
    op.create_table(
        "quarantine",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("row", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("msg_type", sa.BigInteger(), nullable=False),
        sa.Column("correl_id", sa.LargeBinary(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("received_at", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column(
            "object_name",
            sa.Text(),
            comment="the copy of its body in the content store, where it is not in the catalog",
        ),
        sa.Column("in_journal", sa.Boolean(), nullable=False, comment="its bytes are in the journal only"),
        sa.Column(
            "why_kind", sa.Text(), nullable=False, comment="why, without its numbers: what a group has in common"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_quarantine")),
    )
    _create_index_where("ix_in_journal", "quarantine", ["position"], "in_journal")
    op.create_index(op.f("ix_quarantine_received_at_id"), "quarantine", ["received_at", "id"])
    op.create_index(
        op.f("ix_quarantine_source_received_at_id_size"), "quarantine", ["source", "received_at", "id", "size"]
    )
    op.create_index(op.f("ix_quarantine_state_received_at_id"), "quarantine", ["state", "received_at", "id"])
    op.create_table(
        "receiving_journals",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("receiver", sa.Text(), nullable=False, comment="the process that opened it last"),
        sa.Column("published", sa.BigInteger(), nullable=False, comment="its last segment that the shared journal has"),
        sa.Column("opened_at", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False, comment="when it counted its receiving time last"),
        sa.Column("in_archive", sa.Boolean(), nullable=False, comment="its segments are in the place of the archive"),
        sa.Column("has_left", sa.Boolean(), nullable=False, comment="it does not come back: nothing waits for it"),
        sa.Column("is_leaving", sa.Boolean(), nullable=False, comment="a client has asked for it"),
        sa.Column("sessions", sa.JSON(none_as_null=True), comment="what brokers keep for it alone, by source"),
        sa.Column(
            "asked",
            sa.BigInteger(),
            nullable=False,
            server_default="0",
            comment="how often it was asked to publish all that it has",
        ),
        sa.Column(
            "answered",
            sa.BigInteger(),
            server_default="0",
            comment="the last of these requests after which it did; null: it has stopped, and nothing is left",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_receiving_journals")),
        comment="the own journals of receivers that share one",
    )
    op.create_table(
        "receiving_marks",
        sa.Column("journal", sa.Text(), nullable=False, comment="of the receiver; empty for one that receives alone"),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("counted", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False, comment="the end of the journal at that count"),
        sa.PrimaryKeyConstraint("journal", "source", "counted", name=op.f("pk_receiving_marks")),
    )
    op.create_table(
        "receiving_time",
        sa.Column("journal", sa.Text(), nullable=False, comment="of the receiver; empty for one that receives alone"),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("counted", sa.BigInteger(), nullable=False, comment="microseconds in which the source could receive"),
        sa.PrimaryKeyConstraint("journal", "source", name=op.f("pk_receiving_time")),
    )
    op.create_table(
        "combined_archives",
        sa.Column("journal", sa.Text(), nullable=False),
        sa.Column("place", sa.Text(), nullable=False, comment="where its archive was last"),
        sa.PrimaryKeyConstraint("journal", name=op.f("pk_combined_archives")),
        comment="the archives whose segments have one order, if the catalog is of several",
    )
    op.create_table(
        "combined_segments",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("journal", sa.Text(), nullable=False),
        sa.Column("segment", sa.BigInteger(), nullable=False, comment="its number in that journal"),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_combined_segments")),
        sa.UniqueConstraint("journal", "segment", name=op.f("uq_combined_segments_journal_segment")),
        comment="the order of the segments of all these archives",
    )
    op.create_table(
        "source_dialects",
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("dialects", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("source", name=op.f("pk_source_dialects")),
    )
    op.create_table(
        "webhooks",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False, comment="all events up to this one are done"),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False, comment="failures since the last success"),
        sa.Column("failing_since", sa.BigInteger()),
        sa.Column("next_attempt_at", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text()),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("changes", sa.BigInteger(), nullable=False, comment="how often a client has changed it"),
        sa.Column("requeues", sa.BigInteger(), nullable=False, comment="how often a client has queued dead letters"),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_webhooks")),
    )
    op.create_table(
        "expirations",
        sa.Column("attachment_id", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("counted", sa.BigInteger(), nullable=False, comment="its source's receiving time when it expired"),
        sa.ForeignKeyConstraint(
            ["attachment_id"], ["attachments.id"], name=op.f("fk_expirations_attachment_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("attachment_id", name=op.f("pk_expirations")),
        comment="expired attachments whose parts are still kept",
    )
    op.create_index(op.f("ix_expirations_source_counted"), "expirations", ["source", "counted"])
    op.create_table(
        "extents",
        sa.Column("attachment_id", sa.Text(), nullable=False),
        sa.Column("extents", sa.LargeBinary(), nullable=False, comment="triplets of segment, offset, length"),
        sa.ForeignKeyConstraint(
            ["attachment_id"], ["attachments.id"], name=op.f("fk_extents_attachment_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("attachment_id", name=op.f("pk_extents")),
    )
    op.create_table(
        "part_runs",
        sa.Column("number", _ROW_NUMBER, autoincrement=True, nullable=False),
        sa.Column("attachment_id", sa.Text(), nullable=False),
        sa.Column(
            "runs",
            sa.LargeBinary(),
            nullable=False,
            comment="what one checkpoint added: triplets of first, length, position",
        ),
        sa.Column("segment", sa.BigInteger(), nullable=False, comment="the journal segment that holds all of them"),
        sa.ForeignKeyConstraint(
            ["attachment_id"], ["attachments.id"], name=op.f("fk_part_runs_attachment_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_part_runs")),
        comment="append-only, so that a checkpoint costs what it adds and not what is there",
    )
    op.create_index(op.f("ix_part_runs_attachment_id"), "part_runs", ["attachment_id"])
    op.create_index(op.f("ix_part_runs_segment"), "part_runs", ["segment"])
    op.create_table(
        "quarantine_copies",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("descriptor", sa.LargeBinary(), nullable=False, comment="the message's fields but its body, in JSON"),
        sa.Column("body", sa.LargeBinary(), comment="null when the content store has it"),
        sa.Column("checksum", sa.BigInteger(), nullable=False, comment="the CRC-32C of descriptor and body"),
        sa.ForeignKeyConstraint(["id"], ["quarantine.id"], name=op.f("fk_quarantine_copies_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_quarantine_copies")),
    )
    op.bulk_insert(progress, [{"id": 1}])
    op.bulk_insert(logs, [{"name": token_hex(4), "begins_after": 0}])


def _create_index_where(name: str, table: str, columns: list[str], condition: str) -> None:
    """Create an index of the rows that meet a condition."""
    where = sa.text(condition)
    op.create_index(name, table, columns, sqlite_where=where, postgresql_where=where)


def _create_uploads() -> None:
    op.create_table(
        "uploads",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("length", sa.BigInteger(), comment="bytes of the whole content, null until the client tells it"),
        sa.Column("file_name", sa.Text()),
        sa.Column("content_type", sa.Text(), nullable=False),
        sa.Column("metadata", sa.Text(), comment="the client's Upload-Metadata"),
        sa.Column("repr_digest", sa.Text(), comment="the client's digests of the whole content"),
        sa.Column("trace_parent", sa.Text(), comment="W3C traceparent of the request that began it"),
        sa.Column("received", sa.BigInteger(), nullable=False, comment="bytes that are durable"),
        sa.Column("held", sa.BigInteger(), nullable=False, comment="bytes that count for its owner"),
        sa.Column("turn", sa.BigInteger(), nullable=False, comment="the request that may append to it, the newest one"),
        sa.Column(
            "is_checked", sa.Boolean(), nullable=False, comment="its content was compared with the client's digests"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_uploads")),
        comment="resumable uploads",
    )
    op.create_index(op.f("ix_uploads_created_at_id"), "uploads", ["created_at", "id"])
    op.create_index(op.f("ix_uploads_expires_at"), "uploads", ["expires_at"])
    op.create_index(op.f("ix_uploads_owner"), "uploads", ["owner"])
    op.create_table(
        "upload_pieces",
        sa.Column("upload_id", sa.Text(), nullable=False),
        sa.Column("offset", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column(
            "turn",
            sa.BigInteger(),
            nullable=False,
            comment="of the request that brought it; the object's name has it",
        ),
        sa.PrimaryKeyConstraint("upload_id", "offset", name=op.f("pk_upload_pieces")),
        comment="the objects with the bytes of resumable uploads",
    )


def _create_what_processes_do() -> None:
    op.create_table(
        "replay_requests",
        sa.Column("id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_replay_requests")),
        comment="entries of the quarantine that the process which receives is to process again",
    )
    op.create_table(
        "shared_secrets",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_shared_secrets")),
        comment="what all processes of a gateway sign with",
    )
    op.create_table(
        "leases",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False, comment="the process that took it last"),
        sa.Column("epoch", sa.BigInteger(), nullable=False, comment="how often it was taken"),
        sa.Column(
            "until", sa.BigInteger(), nullable=False, comment="its end in microseconds, by the clock of the database"
        ),
        sa.Column("note", sa.BigInteger(), comment="what a holder leaves to the next one"),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_leases")),
        comment="what one process at a time may do; a row stays for ever, as its epoch is a fence",
    )
    op.create_table(
        "pipeline_runs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("began_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger()),
        sa.Column("messages", sa.BigInteger(), nullable=False),
        sa.Column("attachments", sa.BigInteger(), nullable=False),
        sa.Column("refused", sa.BigInteger(), nullable=False),
        sa.Column("quarantined", sa.BigInteger(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("error", sa.Text()),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pipeline_runs")),
        comment="the newest runs of the pipeline on Spark",
    )
    op.create_index(op.f("ix_pipeline_runs_began_at_id"), "pipeline_runs", ["began_at", "id"])


def downgrade() -> None:
    for table in (
        "replay_requests",
        "quarantine_copies",
        "part_runs",
        "extents",
        "expirations",
        "webhooks",
        "source_dialects",
        "combined_segments",
        "combined_archives",
        "receiving_time",
        "receiving_marks",
        "receiving_journals",
        "quarantine",
        "upload_pieces",
        "uploads",
        "progress",
        "pipeline_runs",
        "messages",
        "events",
        "event_logs",
        "deliveries",
        "dead_letters",
        "counting",
        "leases",
        "shared_secrets",
        "attachments",
        "api_keys",
    ):
        op.drop_table(table)
