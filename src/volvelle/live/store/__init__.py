"""The store: what must survive the controller, in SQLite or PostgreSQL. README.md describes the package."""

from volvelle.live.store.database import StoreFailed
from volvelle.live.store.rows import (
    CycleBatch,
    FirstForecast,
    JobEnd,
    JobRecord,
    Notification,
    StoredEntry,
    StoredSnapshot,
    Submission,
    Token,
)
from volvelle.live.store.store import Store, Superseded

__all__ = [
    "CycleBatch",
    "FirstForecast",
    "JobEnd",
    "JobRecord",
    "Notification",
    "Store",
    "StoreFailed",
    "StoredEntry",
    "StoredSnapshot",
    "Submission",
    "Superseded",
    "Token",
]
