"""Add webhooks: their positions in the event log, and the events that were given up.

Revision 0026, after 0024.
"""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
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
        sa.PrimaryKeyConstraint("name", name=op.f("pk_webhooks")),
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
        sa.PrimaryKeyConstraint("webhook", "number", name=op.f("pk_dead_letters")),
        comment="events that were given up for a webhook",
    )
    op.create_index(op.f("ix_dead_letters_failed_at"), "dead_letters", ["failed_at"])


def downgrade() -> None:
    op.drop_table("dead_letters")
    op.drop_table("webhooks")
