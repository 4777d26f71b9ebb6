"""Add the journal that a catalog is bound to.

Revision 0021, after 0011.
"""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("progress", sa.Column("journal_id", sa.Text(), comment="of the journal that this catalog belongs to"))
    op.add_column("progress", sa.Column("journal_epoch", sa.BigInteger(), comment="of the gateway that bound it last"))


def downgrade() -> None:
    op.drop_column("progress", "journal_epoch")
    op.drop_column("progress", "journal_id")
