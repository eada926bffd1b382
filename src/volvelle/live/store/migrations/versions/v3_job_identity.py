"""Jobs have an identity besides their number."""

import sqlalchemy as sa
from alembic import op

revision = "3"
down_revision = "2"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add identities; jobs so far have none, and keep their folders."""
    op.add_column("jobs", sa.Column("identity", sa.String(32), nullable=False, server_default=""))
