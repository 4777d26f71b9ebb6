"""Add to deliveries whether anybody was subscribed."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    says = "what the broker said of subscribers: none, unknown, or null where it reported no lack"
    op.add_column("deliveries", sa.Column("subscribers", sa.Text(), comment=says))


def downgrade() -> None:
    op.drop_column("deliveries", "subscribers")
