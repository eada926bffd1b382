"""The rows of the store. Times are seconds since the Unix epoch, but for those in journal entries."""

from dataclasses import dataclass, field
from typing import Any

from volvelle.core.journal import Entry
from volvelle.live.records import ControlRecord


@dataclass(frozen=True)
class StoredEntry:
    """One cycle: its sequence number, its journal entry, and its records."""

    seq: int
    entry: Entry
    records: tuple[ControlRecord, ...] = ()


@dataclass(frozen=True)
class StoredSnapshot:
    """The state after entry ``seq``, encoded in ``format``."""

    seq: int
    format: int
    body: bytes


@dataclass(frozen=True, kw_only=True)
class JobRecord:
    """An accepted job. ``state``, ``reason``, ``ended`` and ``status`` are set once it is over.

    identity: random. position: in its array. request: as submitted, JSON.
    forecast_start, forecast_finish, first_p50, first_p90: see `FirstForecast`.
    status: its last status, JSON.
    """

    number: int
    user: str
    name: str
    position: int
    request: dict[str, Any]
    submitted: float
    identity: str = ""
    forecast_start: float | None = None
    forecast_finish: float | None = None
    first_p50: float | None = None
    first_p90: float | None = None
    state: str | None = None
    reason: str | None = None
    ended: float | None = None
    status: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class JobEnd:
    """The end of a job."""

    number: int
    state: str
    reason: str
    ended: float
    status: dict[str, Any]


@dataclass(frozen=True)
class Submission:
    """The jobs ``first`` to ``first + count - 1``, submitted under idempotency key ``key``.

    digest: of the request.
    """

    user: str
    key: str
    first: int
    count: int
    digest: str = ""


@dataclass(frozen=True)
class FirstForecast:
    """The first forecast of a job: its finish, and the calibrated P50 and P90 shown to its user.

    start: as forecast, not calibrated; None if the job ran already.
    """

    number: int
    finish: float
    p50: float | None
    p90: float | None
    start: float | None = None


@dataclass(frozen=True)
class Token:
    """An access token, of which only the digest is kept. expires: None: never."""

    digest: str
    user: str
    role: str
    label: str = ""
    created: float = 0.0
    revoked: bool = False
    expires: float | None = None

    def valid(self, now: float) -> bool:
        """Whether it opens anything at ``now``, in seconds since the Unix epoch."""
        return not self.revoked and (self.expires is None or now < self.expires)


@dataclass(frozen=True, kw_only=True)
class Notification:
    """A notification to ``target``, a web address or a mail address.

    id: the same at every try, and for the same news. account: the user who asked for it; empty: operators.
    key: of a user, signs a webhook. body: JSON. created: seconds since the Unix epoch.
    """

    id: str
    event: str
    account: str
    target: str
    key: str
    body: str
    created: float


@dataclass(frozen=True)
class CycleBatch:
    """All changes of one cycle, for one transaction."""

    entry: StoredEntry
    accepted: tuple[JobRecord, ...] = ()
    submissions: tuple[Submission, ...] = ()
    ended: tuple[JobEnd, ...] = field(default=())
    notifications: tuple[Notification, ...] = ()
