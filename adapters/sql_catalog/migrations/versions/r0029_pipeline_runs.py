"""Add the runs of the pipeline.

Revision 0029, after 0028.
"""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "pipeline_runs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("began_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger()),
        sa.Column("messages", sa.BigInteger(), nullable=False),
        sa.Column("attachments", sa.BigInteger(), nullable=False),
        sa.Column("refused", sa.BigInteger(), nullable=False),
        sa.Column("quarantined", sa.BigInteger(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("error", sa.Text()),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pipeline_runs")),
        comment="the newest runs of the pipeline on Spark",
    )
    op.create_index(op.f("ix_pipeline_runs_began_at_id"), "pipeline_runs", ["began_at", "id"])


def downgrade() -> None:
    op.drop_table("pipeline_runs")
