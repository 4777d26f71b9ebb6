"""Add the progress of IBM MQ groups.

Revision 0002, after 0001.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_COLUMNS = (
    ("group_last", "MsgSeqNumber of a group's last logical message"),
    ("group_ended", "logical messages whose end has come; null of what is no group"),
    ("group_size", "bytes of those logical messages"),
)


def upgrade() -> None:
    for name, comment in _COLUMNS:
        op.add_column("attachments", sa.Column(name, sa.BigInteger(), comment=comment))


def downgrade() -> None:
    for name, _ in _COLUMNS:
        op.drop_column("attachments", name)
