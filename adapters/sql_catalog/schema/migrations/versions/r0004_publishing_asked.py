"""Add that receivers of a shared journal are asked to publish what they have.

Revision 0004.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    asked = "how often it was asked to publish all that it has"
    answered = "the last of these requests after which it did; null: it has stopped, and nothing is left"
    op.add_column(
        "receiving_journals", sa.Column("asked", sa.BigInteger(), nullable=False, server_default="0", comment=asked)
    )
    op.add_column("receiving_journals", sa.Column("answered", sa.BigInteger(), server_default="0", comment=answered))


def downgrade() -> None:
    op.drop_column("receiving_journals", "answered")
    op.drop_column("receiving_journals", "asked")
