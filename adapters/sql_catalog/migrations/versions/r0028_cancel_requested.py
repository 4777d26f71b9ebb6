"""Add to deliveries whether a client has cancelled one that is being sent."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    says = "it is open, and a client has cancelled it"
    op.add_column(
        "deliveries",
        sa.Column("cancel_requested", sa.Boolean(), nullable=False, server_default=sa.false(), comment=says),
    )


def downgrade() -> None:
    op.drop_column("deliveries", "cancel_requested")
