"""Add receiving time, copies of quarantined messages, and columns and indexes for retention.

Revision 0022, after 0021.
"""

from collections.abc import Iterator
from struct import iter_unpack, pack

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

_AT_ONCE = 1000

_PARTIAL = (
    ("ix_content", "attachments", ["finished_at", "id", "size"], "storage IS NOT NULL"),
    ("ix_ended", "attachments", ["last_received_at", "id"], "state NOT IN ('receiving', 'complete', 'finished')"),
    ("ix_pending", "attachments", ["pending_position"], "pending_position IS NOT NULL"),
    ("ix_in_journal", "quarantine", ["position"], "in_journal"),
    ("ix_over", "deliveries", ["updated_at", "id"], "state NOT IN ('queued', 'sending')"),
)
_BY_SOURCE = "ix_quarantine_source_received_at_id"

_runs = sa.table(
    "part_runs",
    sa.column("number", sa.BigInteger()),
    sa.column("attachment_id", sa.Text()),
    sa.column("runs", sa.LargeBinary()),
    sa.column("segment", sa.BigInteger()),
)


def upgrade() -> None:
    op.add_column(
        "part_runs",
        sa.Column(
            "segment",
            sa.BigInteger(),
            nullable=False,
            server_default="0",
            comment="the journal segment that holds all of them",
        ),
    )
    _split_runs(op.get_bind())
    op.create_index(op.f("ix_part_runs_segment"), "part_runs", ["segment"])
    op.add_column(
        "quarantine",
        sa.Column(
            "object_name",
            sa.Text(),
            comment="the copy of its body in the content store, where it is not in the catalog",
        ),
    )
    op.add_column(
        "quarantine",
        sa.Column(
            "in_journal",
            sa.Boolean(),
            nullable=False,
            server_default=sa.true(),
            comment="its bytes are in the journal only",
        ),
    )
    op.drop_index(_BY_SOURCE, "quarantine")
    op.create_index(
        op.f("ix_quarantine_source_received_at_id_size"), "quarantine", ["source", "received_at", "id", "size"]
    )
    op.create_table(
        "quarantine_copies",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("descriptor", sa.LargeBinary(), nullable=False, comment="the message's fields but its body, in JSON"),
        sa.Column("body", sa.LargeBinary(), comment="null when the content store has it"),
        sa.ForeignKeyConstraint(["id"], ["quarantine.id"], name=op.f("fk_quarantine_copies_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_quarantine_copies")),
    )
    op.create_table(
        "receiving_time",
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("counted", sa.BigInteger(), nullable=False, comment="microseconds in which the source could receive"),
        sa.PrimaryKeyConstraint("source", name=op.f("pk_receiving_time")),
    )
    op.create_table(
        "receiving_marks",
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("counted", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column(
            "position", sa.BigInteger(), nullable=False, comment="all that was journalled when so much had been counted"
        ),
        sa.PrimaryKeyConstraint("source", "counted", name=op.f("pk_receiving_marks")),
    )
    op.create_table(
        "expirations",
        sa.Column("attachment_id", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("counted", sa.BigInteger(), nullable=False, comment="its source's receiving time when it expired"),
        sa.ForeignKeyConstraint(
            ["attachment_id"], ["attachments.id"], name=op.f("fk_expirations_attachment_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("attachment_id", name=op.f("pk_expirations")),
        comment="expired attachments whose parts are still kept",
    )
    op.create_index(op.f("ix_expirations_source_counted"), "expirations", ["source", "counted"])
    op.execute(
        "INSERT INTO expirations (attachment_id, source, counted)"
        " SELECT id, source, 0 FROM attachments WHERE state = 'expired'"
    )
    for name, table, columns, condition in _PARTIAL:
        op.create_index(name, table, columns, sqlite_where=sa.text(condition), postgresql_where=sa.text(condition))


def _split_runs(connection: sa.Connection) -> None:
    """Set the segment of each row's runs. A row with runs in several segments becomes several rows."""
    last = connection.scalar(sa.select(sa.func.max(_runs.c.number)))
    reached = 0
    while last is not None and reached < last:
        some = sa.select(_runs).where(_runs.c.number > reached, _runs.c.number <= last)
        rows = connection.execute(some.order_by(_runs.c.number).limit(_AT_ONCE)).all()
        for row in rows:
            (segment, runs), *others = _by_segment(row.runs)
            its_row = sa.update(_runs).where(_runs.c.number == row.number)
            connection.execute(its_row.values(segment=segment, runs=runs))
            for other, theirs in others:
                new = {"attachment_id": row.attachment_id, "runs": theirs, "segment": other}
                connection.execute(sa.insert(_runs).values(new))
        reached = rows[-1].number


def _by_segment(packed: bytes) -> Iterator[tuple[int, bytes]]:
    found: dict[int, bytes] = {}
    for triplet in iter_unpack("<3q", packed):
        segment = triplet[2] >> 32
        found[segment] = found.get(segment, b"") + pack("<3q", *triplet)
    return iter(found.items() or [(0, b"")])


def downgrade() -> None:
    for name, table, _, _ in _PARTIAL:
        op.drop_index(name, table)
    for gone in ("expirations", "receiving_marks", "receiving_time", "quarantine_copies"):
        op.drop_table(gone)
    op.drop_index(op.f("ix_quarantine_source_received_at_id_size"), "quarantine")
    op.create_index(_BY_SOURCE, "quarantine", ["source", "received_at", "id"])
    op.drop_column("quarantine", "in_journal")
    op.drop_column("quarantine", "object_name")
    op.drop_index(op.f("ix_part_runs_segment"), "part_runs")
    op.drop_column("part_runs", "segment")
