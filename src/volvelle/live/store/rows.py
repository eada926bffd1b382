"""What goes into the store and comes out of it."""

from dataclasses import dataclass, field
from typing import Any

from volvelle.core.journal import Entry
from volvelle.live.records import Fact


@dataclass(frozen=True)
class StoredEntry:
    """One cycle: its place in the journal, the journal's entry, and what the scheduler was not told."""

    seq: int
    entry: Entry
    facts: tuple[Fact, ...] = ()


@dataclass(frozen=True, kw_only=True)
class JobRecord:
    """A job that was accepted. ``state``, ``reason``, ``ended`` and ``picture`` once it is over.

    position: in its array. request and picture: as JSON has them.
    """

    number: int
    user: str
    name: str
    position: int
    request: dict[str, Any]
    submitted: float
    foreseen: float | None = None
    promised_p50: float | None = None
    promised_p90: float | None = None
    state: str | None = None
    reason: str | None = None
    ended: float | None = None
    picture: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Ended:
    """What became of a job."""

    number: int
    state: str
    reason: str
    ended: float
    picture: dict[str, Any]


@dataclass(frozen=True)
class Submission:
    """The jobs ``first`` to ``first + count - 1`` were submitted under ``key``."""

    user: str
    key: str
    first: int
    count: int


@dataclass(frozen=True)
class Promise:
    """The finish forecast at submission, and what was told: with even chances, and with nine in ten."""

    number: int
    foreseen: float
    p50: float | None
    p90: float | None


@dataclass(frozen=True)
class Token:
    """Who may come in. Only a digest of the token itself is kept."""

    digest: str
    user: str
    role: str
    label: str = ""
    created: float = 0.0
    revoked: bool = False


@dataclass(frozen=True)
class Batch:
    """All that one cycle changes, in one transaction."""

    stored: StoredEntry
    accepted: tuple[JobRecord, ...] = ()
    submissions: tuple[Submission, ...] = ()
    ended: tuple[Ended, ...] = field(default=())
