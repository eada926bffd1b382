"""The store: what must survive the controller, in SQLite or PostgreSQL. README.md describes the package."""

from volvelle.live.store.database import StoreFailed
from volvelle.live.store.rows import (
    CycleBatch,
    JobEnd,
    JobRecord,
    Promise,
    StoredEntry,
    Submission,
    Token,
)
from volvelle.live.store.store import Store, Superseded

__all__ = [
    "CycleBatch",
    "JobEnd",
    "JobRecord",
    "Promise",
    "Store",
    "StoreFailed",
    "StoredEntry",
    "Submission",
    "Superseded",
    "Token",
]
