"""Add the choices between readings, and an index of the attachments that have warnings.

Revision 0032, after 0031.
"""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None

_INDEX = "ix_warned"
_HAS_WARNINGS = sa.text("json_array_length(warnings) > 0")


def upgrade() -> None:
    comment = "the choices between readings"
    op.add_column("attachments", sa.Column("evidence", sa.JSON(), nullable=False, server_default="[]", comment=comment))
    columns = ["first_received_at", "id"]
    op.create_index(_INDEX, "attachments", columns, sqlite_where=_HAS_WARNINGS, postgresql_where=_HAS_WARNINGS)


def downgrade() -> None:
    op.drop_index(_INDEX, "attachments")
    op.drop_column("attachments", "evidence")
