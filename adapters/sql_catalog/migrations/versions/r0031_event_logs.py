"""Add the logs of events. Those that are there belong to the first one.

Revision 0031, after 0030.
"""

from secrets import token_hex

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    logs = op.create_table(
        "event_logs",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("begins_after", sa.BigInteger(), nullable=False, comment="the number of an event"),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_event_logs")),
        comment="each time that a gateway opened the catalog, and has logged events since",
    )
    op.bulk_insert(logs, [{"name": token_hex(4), "begins_after": 0}])


def downgrade() -> None:
    op.drop_table("event_logs")
