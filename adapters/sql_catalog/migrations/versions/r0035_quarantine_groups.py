"""Add what the reasons of quarantine entries have in common, by which they are grouped.

Revision 0035, after 0034.
"""

import sqlalchemy as sa
from alembic import op

from adapters.sql_catalog.column_types import AnyText
from app.model.errors import kind_of_reason

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None

_QUARANTINE = sa.table(
    "quarantine", sa.column("id", AnyText), sa.column("why", AnyText), sa.column("why_kind", AnyText)
)
_AT_ONCE = 1000


def upgrade() -> None:
    comment = "why, without its numbers: what a group has in common"
    op.add_column("quarantine", sa.Column("why_kind", sa.Text(), nullable=False, server_default="", comment=comment))
    connection = op.get_bind()
    of_entry = _QUARANTINE.c.id == sa.bindparam("entry", type_=AnyText)
    change = sa.update(_QUARANTINE).where(of_entry).values(why_kind=sa.bindparam("kind", type_=AnyText))
    entries = connection.execute(sa.select(_QUARANTINE.c.id, _QUARANTINE.c.why)).all()
    for at in range(0, len(entries), _AT_ONCE):
        some = entries[at : at + _AT_ONCE]
        connection.execute(change, [{"entry": row.id, "kind": kind_of_reason(row.why)} for row in some])


def downgrade() -> None:
    op.drop_column("quarantine", "why_kind")
