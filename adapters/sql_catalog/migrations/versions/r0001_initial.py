"""Create the first schema.

Revision 0001.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_ROW_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
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
        sa.Column("observations", sa.BigInteger()),
        sa.Column("variables", sa.BigInteger()),
        sa.Column("reason_code", sa.Text()),
        sa.Column("reason", sa.Text()),
        sa.Column("name_folded", sa.Text(), nullable=False, comment="qualifier 2, case folded, for searching"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attachments")),
        sa.UniqueConstraint("source", "correl_id", name=op.f("uq_attachments_source_correl_id")),
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
    op.create_index(
        "ix_unsettled",
        "attachments",
        ["finished_at", "id"],
        sqlite_where=sa.text("storage = 'journal'"),
        postgresql_where=sa.text("storage = 'journal'"),
    )

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
            "holds_content",
            sa.Boolean(),
            nullable=False,
            comment="it has ended and an attachment still names an object",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deliveries")),
        sa.UniqueConstraint("idempotency_key", name=op.f("uq_deliveries_idempotency_key")),
    )
    op.create_index(op.f("ix_deliveries_created_at_id"), "deliveries", ["created_at", "id"])
    op.create_index(op.f("ix_deliveries_destination_created_at_id"), "deliveries", ["destination", "created_at", "id"])
    op.create_index(op.f("ix_deliveries_state_created_at_id"), "deliveries", ["state", "created_at", "id"])
    op.create_index(
        "ix_holding",
        "deliveries",
        ["updated_at", "id"],
        sqlite_where=sa.text("holds_content"),
        postgresql_where=sa.text("holds_content"),
    )
    op.create_index(
        "ix_open",
        "deliveries",
        ["destination", "created_at", "id"],
        sqlite_where=sa.text("state IN ('queued', 'sending')"),
        postgresql_where=sa.text("state IN ('queued', 'sending')"),
    )

    op.create_table(
        "events",
        sa.Column("number", _ROW_NUMBER, autoincrement=True, nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("time", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
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
        sa.Column("complete_at", sa.BigInteger()),
        sa.Column("correl_key", sa.LargeBinary(), nullable=False, comment="the first 16 bytes of message_correl_id"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_messages")),
    )
    op.create_index(op.f("ix_messages_received_at_id"), "messages", ["received_at", "id"])
    op.create_index(
        op.f("ix_messages_source_correl_key_header_position"), "messages", ["source", "correl_key", "header_position"]
    )
    op.create_index(op.f("ix_messages_source_received_at_id"), "messages", ["source", "received_at", "id"])

    op.create_table(
        "progress",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("position", sa.BigInteger(), comment="of the last physical message that the catalog includes"),
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
        sa.PrimaryKeyConstraint("id", name=op.f("pk_quarantine")),
    )
    op.create_index(op.f("ix_quarantine_received_at_id"), "quarantine", ["received_at", "id"])
    op.create_index(op.f("ix_quarantine_source_received_at_id"), "quarantine", ["source", "received_at", "id"])
    op.create_index(op.f("ix_quarantine_state_received_at_id"), "quarantine", ["state", "received_at", "id"])

    op.create_table(
        "source_dialects",
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("dialects", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("source", name=op.f("pk_source_dialects")),
    )
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
        sa.ForeignKeyConstraint(
            ["attachment_id"], ["attachments.id"], name=op.f("fk_part_runs_attachment_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_part_runs")),
        comment="append-only, so that a checkpoint costs what it adds and not what is there",
    )
    op.create_index(op.f("ix_part_runs_attachment_id"), "part_runs", ["attachment_id"])
    op.bulk_insert(sa.table("progress", sa.column("id"), sa.column("position")), [{"id": 1, "position": None}])


def downgrade() -> None:
    for table in (
        "part_runs",
        "extents",
        "source_dialects",
        "quarantine",
        "progress",
        "messages",
        "events",
        "deliveries",
        "attachments",
    ):
        op.drop_table(table)
