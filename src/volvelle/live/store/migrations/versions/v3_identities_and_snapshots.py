"""Jobs have an identity; snapshots; digests that chain the entries of the journal; tokens expire."""

import sqlalchemy as sa
from alembic import op

revision = "3"
down_revision = "2"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add all four; jobs so far have no identity and keep their folders, entries have no digests."""
    op.add_column("jobs", sa.Column("identity", sa.String(32), nullable=False, server_default=""))
    op.add_column("entries", sa.Column("digest", sa.String(32), nullable=False, server_default=""))
    op.add_column("tokens", sa.Column("expires", sa.Double))
    op.create_table(
        "snapshots",
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("format", sa.Integer, nullable=False),
        sa.Column("entry", sa.String(32), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
