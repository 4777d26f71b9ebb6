"""Add the places up to which receipts were sent to the senders of messages.

Revision 0004.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "receipt_replies",
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("place", sa.BigInteger(), nullable=False, comment="of the log, before which its receipts were sent"),
        sa.PrimaryKeyConstraint("source", name=op.f("pk_receipt_replies")),
        comment="sources whose receipts go to the senders of their messages",
    )


def downgrade() -> None:
    op.drop_table("receipt_replies")
