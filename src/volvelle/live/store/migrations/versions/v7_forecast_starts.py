"""The start of a first forecast, by which starts are calibrated; its P50 and P90 by names of their own."""

import sqlalchemy as sa
from alembic import op

revision = "7"
down_revision = "6"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column, and name those beside it as what they are."""
    op.add_column("jobs", sa.Column("forecast_start", sa.Double))
    for share in ("p50", "p90"):
        op.execute(f"alter table jobs rename column promised_{share} to first_{share}")
    op.execute("""update jobs set status = replace(status, '"promised":', '"first_p50":')""")
