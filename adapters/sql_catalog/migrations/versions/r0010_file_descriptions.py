"""Add the descriptions of files by their senders, and contradictions to them."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    says = "of a file, as its sender says"
    op.add_column("attachments", sa.Column("record_length", sa.BigInteger(), comment=says))
    op.add_column("attachments", sa.Column("announced_size", sa.BigInteger(), comment=says))
    comment = "what contradicts the sender, in sentences"
    warnings = sa.Column("warnings", sa.JSON(), nullable=False, server_default="[]", comment=comment)
    op.add_column("attachments", warnings)


def downgrade() -> None:
    for name in ("warnings", "announced_size", "record_length"):
        op.drop_column("attachments", name)
