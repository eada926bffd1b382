"""The store: what must survive the controller. SQLite in a file by default, PostgreSQL by URL, one schema.

One `Store.append` is one transaction is one cycle of the controller. `volvelle.live.store.schema` says what
is kept; `migrations` bring an older store up to date when it is opened.
"""

from volvelle.live.store.rows import (
    Batch,
    Ended,
    JobRecord,
    Promise,
    StoredEntry,
    Submission,
    Token,
)
from volvelle.live.store.store import Store, StoreFailed, Superseded

__all__ = [
    "Batch",
    "Ended",
    "JobRecord",
    "Promise",
    "Store",
    "StoreFailed",
    "StoredEntry",
    "Submission",
    "Superseded",
    "Token",
]
