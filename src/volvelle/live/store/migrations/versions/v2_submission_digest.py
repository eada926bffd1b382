"""Submissions know what was submitted."""

import sqlalchemy as sa
from alembic import op

revision = "2"
down_revision = "1"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add digests; those of submissions so far are not known."""
    op.add_column(
        "submissions", sa.Column("digest", sa.String(64), nullable=False, server_default="")
    )
