"""The start of a job's first forecast, by which starts are calibrated."""

import sqlalchemy as sa
from alembic import op

revision = "7"
down_revision = "6"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("jobs", sa.Column("forecast_start", sa.Double))
