"""Add the places of several files in the content of one attachment, and the checksums of quarantined messages.

Revision 0004.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    comment = "the places of several files in the content"
    files = sa.Column("files", sa.JSON(), server_default="[]", nullable=False, comment=comment)
    op.add_column("attachments", files)
    comment = "the CRC-32C of descriptor and body; null: an older version made the copy"
    op.add_column("quarantine_copies", sa.Column("checksum", sa.BigInteger(), comment=comment))


def downgrade() -> None:
    op.drop_column("quarantine_copies", "checksum")
    op.drop_column("attachments", "files")
