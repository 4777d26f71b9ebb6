"""Add the checksums of stored content. Content that was stored before has none.

Revision 0023, after 0022.
"""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

_COMMENT = "of stored content: the CRC-32C of each MiB, little-endian"


def upgrade() -> None:
    op.add_column("attachments", sa.Column("checksums", sa.LargeBinary(), comment=_COMMENT))


def downgrade() -> None:
    op.drop_column("attachments", "checksums")
