"""Add the keys of clients of REST."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False, comment="SHA-256 of the key"),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("sources", sa.JSON(none_as_null=True), comment="null: all"),
        sa.Column("destinations", sa.JSON(none_as_null=True), comment="null: all"),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger()),
        sa.Column("revoked_at", sa.BigInteger()),
        sa.Column("last_used_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
        comment="keys of clients of REST; a revoked one stays",
    )


def downgrade() -> None:
    op.drop_table("api_keys")
