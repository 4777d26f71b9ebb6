"""Add when content was copied to the content store. Content that was copied before has no such time.

Revision 0028, after 0026.
"""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0026"
branch_labels = None
depends_on = None

_COMMENT = "when content was copied from the journal to the content store"


def upgrade() -> None:
    op.add_column("attachments", sa.Column("settled_at", sa.BigInteger(), comment=_COMMENT))


def downgrade() -> None:
    op.drop_column("attachments", "settled_at")
