"""Add the log of receipts.

Revision 0003.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "receipt_log",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False, comment="the number of its statements"),
        sa.Column("event", sa.BigInteger(), nullable=False, comment="the number of the last event that it includes"),
        sa.Column("sent_back", sa.BigInteger(), comment="the place before which receipts were sent back to senders"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_receipt_log")),
        comment="one row, once receipts are made",
    )
    op.create_table(
        "receipt_statements",
        sa.Column(
            "number", sa.BigInteger(), autoincrement=False, nullable=False, comment="its place in the log, from 0"
        ),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("statement", sa.LargeBinary(), nullable=False, comment="a JSON object"),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_receipt_statements")),
        comment="the entries of the log of receipts, which are never changed nor removed",
    )
    op.create_index(op.f("ix_receipt_statements_subject"), "receipt_statements", ["subject"])
    op.create_table(
        "receipt_tiles",
        sa.Column("level", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("hashes", sa.LargeBinary(), nullable=False, comment="up to 256 nodes, 32 bytes each"),
        sa.PrimaryKeyConstraint("level", "number", name=op.f("pk_receipt_tiles")),
        comment="the Merkle tree of the log of receipts",
    )
    op.create_table(
        "receipt_heads",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False, comment="of the tree"),
        sa.Column("protected", sa.LargeBinary(), nullable=False, comment="the signed header, in CBOR"),
        sa.Column("root", sa.LargeBinary(), nullable=False),
        sa.Column("signature", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_receipt_heads")),
        comment="the signed heads of the log of receipts",
    )
    op.create_table(
        "receipt_replies",
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("place", sa.BigInteger(), nullable=False, comment="of the log, before which its receipts were sent"),
        sa.PrimaryKeyConstraint("source", name=op.f("pk_receipt_replies")),
        comment="sources whose receipts go to the senders of their messages",
    )
    op.create_table(
        "receipt_retries",
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("place", sa.BigInteger(), autoincrement=False, nullable=False, comment="of the log"),
        sa.Column("refusals", sa.BigInteger(), nullable=False, comment="how often its address refused it"),
        sa.Column("next_at", sa.BigInteger(), nullable=False, comment="not sent again before, in µs"),
        sa.PrimaryKeyConstraint("source", "place", name=op.f("pk_receipt_retries")),
        comment="receipts that were refused for now, and are sent again",
    )
    op.create_index(op.f("ix_receipt_retries_source_next_at"), "receipt_retries", ["source", "next_at"])
    op.create_table(
        "receipt_tables",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=False, comment="that of its attachments, in µs"),
        sa.Column("versions", sa.JSON(), nullable=False, comment="by the name of a table, the version with its rows"),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_receipt_tables")),
        comment="batches of the pipeline whose attachments the log of receipts may not have yet",
    )


def downgrade() -> None:
    for table in ("tables", "retries", "replies", "heads", "tiles", "statements", "log"):
        op.drop_table(f"receipt_{table}")
