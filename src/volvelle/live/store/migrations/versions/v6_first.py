"""The tables of the first version whose stores still open."""

import sqlalchemy as sa
from alembic import op

revision = "6"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create all tables."""
    op.create_table(
        "header",
        sa.Column("one", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("epoch", sa.Double, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_table(
        "entries",
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("time", sa.Double, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("records", sa.Text, nullable=False),
        sa.Column("digest", sa.String(32), nullable=False),
    )
    op.create_table(
        "pruned_entries",
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("time", sa.Double, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("records", sa.Text, nullable=False),
        sa.Column("digest", sa.String(32), nullable=False),
    )
    op.create_table(
        "snapshots",
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("format", sa.Integer, nullable=False),
        sa.Column("entry", sa.String(32), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "jobs",
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("user", sa.String(200), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("request", sa.Text, nullable=False),
        sa.Column("submitted", sa.Double, nullable=False),
        sa.Column("forecast_finish", sa.Double),
        sa.Column("promised_p50", sa.Double),
        sa.Column("promised_p90", sa.Double),
        sa.Column("state", sa.String(20)),
        sa.Column("reason", sa.Text),
        sa.Column("ended", sa.Double),
        sa.Column("status", sa.Text),
        sa.Column("identity", sa.String(32), nullable=False),
    )
    op.create_index("jobs_by_user", "jobs", ["user", "number"])
    op.create_index("jobs_by_state", "jobs", ["state", "number"])
    op.create_table(
        "submissions",
        sa.Column("user", sa.String(200), primary_key=True),
        sa.Column("key", sa.String(200), primary_key=True),
        sa.Column("first", sa.BigInteger, nullable=False),
        sa.Column("count", sa.Integer, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
    )
    op.create_table(
        "tokens",
        sa.Column("digest", sa.String(128), primary_key=True),
        sa.Column("user", sa.String(200), nullable=False),
        sa.Column("role", sa.String(20), nullable=False),
        sa.Column("label", sa.String(200), nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("revoked", sa.Boolean, nullable=False),
        sa.Column("expires", sa.Double),
    )
    op.create_table(
        "notifications",
        sa.Column("place", sa.Integer, primary_key=True),
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("event", sa.String(20), nullable=False),
        sa.Column("account", sa.String(200), nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("settled", sa.Double),
    )
    op.create_index("notifications_by_id", "notifications", ["id"])
    op.create_table(
        "writer",
        sa.Column("one", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("token", sa.String(64), nullable=False),
    )
