"""Add what was learnt of how senders count.

Revision 0032, after 0030.
"""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "counting",
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("rules", sa.Text(), nullable=False),
        sa.Column("learned", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("source", "subject", name=op.f("pk_counting")),
        comment="how the senders on a subject count, as their messages have shown",
    )


def downgrade() -> None:
    op.drop_table("counting")
