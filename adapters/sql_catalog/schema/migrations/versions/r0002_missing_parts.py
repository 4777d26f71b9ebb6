"""Add what was asked of senders, and the deliveries that receivers may ask for.

Revision 0002.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "missing_requests",
        sa.Column("attachment_id", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("requests", sa.BigInteger(), nullable=False, comment="how often its sender was asked"),
        sa.Column("asked_at", sa.BigInteger(), nullable=False, comment="when it was asked last"),
        sa.Column("next_at", sa.BigInteger(), comment="not asked again before; null: not asked again"),
        sa.Column("address", sa.Text(), comment="the topic or queue; null: by an event only"),
        sa.Column("document", sa.LargeBinary(), nullable=False, comment="the last request"),
        sa.Column(
            "parts_received",
            sa.BigInteger(),
            nullable=False,
            comment="parts of the attachment when it was last looked at",
        ),
        sa.Column("is_open", sa.Boolean(), nullable=False, comment="parts that come are counted as asked for"),
        sa.Column("ended", sa.Text(), comment="why its sender sends nothing more"),
        sa.ForeignKeyConstraint(
            ["attachment_id"],
            ["attachments.id"],
            name=op.f("fk_missing_requests_attachment_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("attachment_id", name=op.f("pk_missing_requests")),
        comment="what was asked of the senders of unfinished attachments",
    )
    op.create_index(op.f("ix_missing_requests_source_asked_at"), "missing_requests", ["source", "asked_at"])
    is_asked = sa.text("is_open")
    op.create_index("ix_asked", "missing_requests", ["attachment_id"], sqlite_where=is_asked, postgresql_where=is_asked)
    op.create_table(
        "sent_attachments",
        sa.Column(
            "key",
            sa.LargeBinary(),
            nullable=False,
            comment="the correlid of an attachment, or of an application message",
        ),
        sa.Column("delivery_id", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["delivery_id"], ["deliveries.id"], name=op.f("fk_sent_attachments_delivery_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_sent_attachments")),
        comment="the deliveries in which receivers may miss parts",
    )
    op.create_index(op.f("ix_sent_attachments_delivery_id"), "sent_attachments", ["delivery_id"])


def downgrade() -> None:
    op.drop_table("sent_attachments")
    op.drop_table("missing_requests")
