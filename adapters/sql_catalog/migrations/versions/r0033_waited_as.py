"""Add to messages the identifier under which their application message waited for its header.

Messages from before have none.

Revision 0033, after 0032.
"""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None

_COMMENT = "the attachment as which its application message waited for the header"
_HAS_WAITED = sa.text("waited_as IS NOT NULL")


def upgrade() -> None:
    op.add_column("messages", sa.Column("waited_as", sa.Text(), comment=_COMMENT))
    columns = ["waited_as", "header_position", "id"]
    op.create_index("ix_waited", "messages", columns, sqlite_where=_HAS_WAITED, postgresql_where=_HAS_WAITED)


def downgrade() -> None:
    op.drop_index("ix_waited", "messages")
    op.drop_column("messages", "waited_as")
