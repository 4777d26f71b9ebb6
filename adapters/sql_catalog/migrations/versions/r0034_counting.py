"""Add what was learnt of how senders count, and find application messages that no header announces.

Revision 0034, after 0033.
"""

import sqlalchemy as sa
from alembic import op

from app.codecs.sas.correlid import compared
from app.model.identity import addressed

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None

_MESSAGES = sa.table(
    "messages",
    sa.column("id"),
    sa.column("header_correl_id", sa.LargeBinary),
    sa.column("message_correl_id", sa.LargeBinary),
    sa.column("correl_key", sa.LargeBinary),
)
_AT_ONCE = 1000
_BEFORE = "the 20 bytes of message_correl_id that are compared"
_AFTER = "the 20 bytes by which the application message is found"


def upgrade() -> None:
    op.create_table(
        "counting",
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("rules", sa.Text(), nullable=False),
        sa.Column(
            "learned",
            sa.BigInteger(),
            nullable=False,
            comment="a number that grows: the one learnt last has the highest",
        ),
        sa.PrimaryKeyConstraint("source", "subject", name=op.f("pk_counting")),
        comment="how the senders on a subject count, as their messages have shown",
    )
    _find_by(of_header=True)
    _describe(_AFTER, _BEFORE)


def downgrade() -> None:
    _find_by(of_header=False)
    _describe(_BEFORE, _AFTER)
    op.drop_table("counting")


def _describe(comment: str, before: str) -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.alter_column(
            "messages", "correl_key", comment=comment, existing_type=sa.LargeBinary(), existing_comment=before
        )


def _find_by(*, of_header: bool) -> None:
    """Change the keys of messages whose headers announce no application message."""
    connection = op.get_bind()
    change = (
        sa.update(_MESSAGES).where(_MESSAGES.c.id == sa.bindparam("message")).values(correl_key=sa.bindparam("key"))
    )
    changed = []
    for row in connection.execute(sa.select(_MESSAGES)):
        address = addressed(row.header_correl_id, row.message_correl_id)
        if address != row.message_correl_id:
            key = address if of_header else row.message_correl_id
            changed.append({"message": row.id, "key": compared(key)})
    for at in range(0, len(changed), _AT_ONCE):
        connection.execute(change, changed[at : at + _AT_ONCE])
