"""The tables. Times are seconds since the Unix epoch; those of entries are since the header's epoch."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

VERSION = "7"
"""The revision of `migrations` that makes these tables."""

metadata = MetaData()

header = Table(
    "header",
    metadata,
    Column("one", Integer, primary_key=True, autoincrement=False),  # there is only one row
    Column("epoch", Double, nullable=False),
    Column("body", Text, nullable=False),  # the first line of the journal
)

entries = Table(
    "entries",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("time", Double, nullable=False),
    Column("body", Text, nullable=False),  # a line of the journal
    Column("records", Text, nullable=False),  # facts that are no input of the scheduler
    Column("digest", String(32), nullable=False),  # of this entry and those before
)

pruned_entries = Table(  # before those of `entries`, the first of which is then only a link to them
    "pruned_entries",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("time", Double, nullable=False),
    Column("body", Text, nullable=False),
    Column("records", Text, nullable=False),
    Column("digest", String(32), nullable=False),  # of this entry alone
)

snapshots = Table(
    "snapshots",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),  # of the last entry in it
    Column("format", Integer, nullable=False),
    Column("entry", String(32), nullable=False),  # that entry's digest
    Column("digest", String(64), nullable=False),  # of the body
    Column("body", LargeBinary, nullable=False),
)

jobs = Table(
    "jobs",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("user", String(200), nullable=False),
    Column("name", String(200), nullable=False),
    Column("position", Integer, nullable=False),  # in its array
    Column("request", Text, nullable=False),
    Column("submitted", Double, nullable=False),
    Column("forecast_start", Double),  # of its first forecast
    Column("forecast_finish", Double),
    Column("first_p50", Double),  # as shown to its user
    Column("first_p90", Double),
    Column("state", String(20)),  # how it ended; null while it is in the system
    Column("reason", Text),
    Column("ended", Double),
    Column("status", Text),  # its last status, JSON
    Column("identity", String(32), nullable=False),  # random, never given again
    Index("jobs_by_user", "user", "number"),
    Index("jobs_by_state", "state", "number"),
)

submissions = Table(
    "submissions",
    metadata,
    Column("user", String(200), primary_key=True),
    Column("key", String(200), primary_key=True),  # idempotency key
    Column("first", BigInteger, nullable=False),
    Column("count", Integer, nullable=False),
    Column("digest", String(64), nullable=False),  # of the request
)

tokens = Table(
    "tokens",
    metadata,
    Column("digest", String(128), primary_key=True),
    Column("user", String(200), nullable=False),
    Column("role", String(20), nullable=False),
    Column("label", String(200), nullable=False),
    Column("created", Double, nullable=False),
    Column("revoked", Boolean, nullable=False),
    Column("expires", Double),  # null: never
)

notifications = Table(
    "notifications",
    metadata,
    Column("place", Integer, primary_key=True),  # in the order of their writing
    Column("id", String(32), nullable=False),  # the same at every try
    Column("event", String(20), nullable=False),
    Column("account", String(200), nullable=False),  # the user who asked; empty: operators
    Column("target", Text, nullable=False),
    Column("key", Text, nullable=False),  # of a user, signs a webhook
    Column("body", Text, nullable=False),  # JSON
    Column("created", Double, nullable=False),
    Column(
        "settled", Double
    ),  # when it was delivered or given up, of notifications that are sent once
    Index("notifications_by_id", "id"),
)

writer = Table(
    "writer",
    metadata,
    Column("one", Integer, primary_key=True, autoincrement=False),  # there is only one row
    Column("token", String(64), nullable=False),  # of the last controller that claimed the store
)
