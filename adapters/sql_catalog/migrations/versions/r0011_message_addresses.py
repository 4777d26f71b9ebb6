"""Find application messages by 20 bytes of their correlid, not by 16."""

from collections.abc import Callable

import sqlalchemy as sa
from alembic import op

from app.codecs.sas.correlid import compared

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_MESSAGES = sa.table(
    "messages", sa.column("id"), sa.column("message_correl_id", sa.LargeBinary), sa.column("correl_key", sa.LargeBinary)
)
_AT_ONCE = 1000


def upgrade() -> None:
    _find_by(compared)


def downgrade() -> None:
    _find_by(lambda correl_id: correl_id[:16])


def _find_by(key: Callable[[bytes], bytes]) -> None:
    connection = op.get_bind()
    rows = connection.execute(sa.select(_MESSAGES.c.id, _MESSAGES.c.message_correl_id)).all()
    change = (
        sa.update(_MESSAGES).where(_MESSAGES.c.id == sa.bindparam("message")).values(correl_key=sa.bindparam("key"))
    )
    for at in range(0, len(rows), _AT_ONCE):
        connection.execute(
            change, [{"message": row.id, "key": key(row.message_correl_id)} for row in rows[at : at + _AT_ONCE]]
        )
