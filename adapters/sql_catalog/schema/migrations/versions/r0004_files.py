"""Add the places of several files in the content of one attachment.

Revision 0004.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "attachments",
        sa.Column(
            "files",
            sa.JSON(),
            server_default="[]",
            nullable=False,
            comment="the places of several files in the content",
        ),
    )


def downgrade() -> None:
    op.drop_column("attachments", "files")
