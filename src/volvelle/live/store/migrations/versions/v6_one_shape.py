"""One shape for stores of all earlier commits.

The migrations 1 and 3 were edited after servers had run them. A store of version 1 to 5 therefore lacks
columns or the table of snapshots, or has columns by earlier names, according to the commit that made it.
"""

import sqlalchemy as sa
from alembic import op

revision = "6"
down_revision = "5"
branch_labels = None
depends_on = None

_RENAMED = (
    ("entries", "facts", "records"),
    ("jobs", "foreseen", "forecast_finish"),
    ("jobs", "picture", "status"),
)
_RECORDS = (("drained", "node-drained"), ("vacated", "attempt-lost-node"))
"""Types of records by their earlier names."""


def upgrade() -> None:
    """Rename and add what a store lacks; entries with earlier names have no digests yet."""
    connection = op.get_bind()
    before = sa.inspect(connection)
    columns = {
        table: {column["name"] for column in before.get_columns(table)}
        for table in ("entries", "jobs", "tokens")
    }
    had_snapshots = before.has_table("snapshots")
    for table, name, renamed in _RENAMED:
        if name in columns[table]:
            op.execute(f"alter table {table} rename column {name} to {renamed}")
    if "facts" in columns["entries"]:
        for name, renamed in _RECORDS:
            change = "update entries set records = replace(records, :name, :renamed)"
            values = {"name": f'{{"type":"{name}"', "renamed": f'{{"type":"{renamed}"'}
            connection.execute(sa.text(change), values)
    added = (
        ("jobs", sa.Column("identity", sa.String(32), nullable=False, server_default="")),
        ("entries", sa.Column("digest", sa.String(32), nullable=False, server_default="")),
        ("tokens", sa.Column("expires", sa.Double)),
    )
    for table, column in added:
        if column.name not in columns[table]:
            op.add_column(table, column)
    if not had_snapshots:
        op.create_table(
            "snapshots",
            sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
            sa.Column("format", sa.Integer, nullable=False),
            sa.Column("entry", sa.String(32), nullable=False),
            sa.Column("digest", sa.String(64), nullable=False),
            sa.Column("body", sa.LargeBinary, nullable=False),
        )
