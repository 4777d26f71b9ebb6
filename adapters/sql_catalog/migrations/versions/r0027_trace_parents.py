"""Add the contexts of traces to attachments, deliveries and events."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None

_SAYS = {
    "attachments": "W3C traceparent of the message that announced it",
    "deliveries": "W3C traceparent of the request that queued it",
    "events": "W3C traceparent of the subject",
    "dead_letters": "W3C traceparent of the subject",
}


def upgrade() -> None:
    for table, says in _SAYS.items():
        op.add_column(table, sa.Column("trace_parent", sa.Text(), comment=says))


def downgrade() -> None:
    for table in _SAYS:
        op.drop_column(table, "trace_parent")
