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


_BEFORE = "the first 16 bytes of message_correl_id"
_AFTER = "the 20 bytes of message_correl_id that are compared"


def upgrade() -> None:
    _find_by(compared)
    _describe(_AFTER, _BEFORE)


def downgrade() -> None:
    _find_by(lambda correl_id: correl_id[:16])
    _describe(_BEFORE, _AFTER)


def _describe(comment: str, before: str) -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.alter_column(
            "messages", "correl_key", comment=comment, existing_type=sa.LargeBinary(), existing_comment=before
        )


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
