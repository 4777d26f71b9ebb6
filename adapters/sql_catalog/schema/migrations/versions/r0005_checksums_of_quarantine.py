"""Add the checksums of quarantined messages.

Revision 0005.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    comment = "the CRC-32C of descriptor and body; null: an older version made the copy"
    op.add_column("quarantine_copies", sa.Column("checksum", sa.BigInteger(), comment=comment))


def downgrade() -> None:
    op.drop_column("quarantine_copies", "checksum")
