"""The bodies of responses besides status views, and their JSON."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from operator import itemgetter
from typing import Annotated, Any

import msgspec
from fastapi import Response
from pydantic import Field

from volvelle.live.http.authentication import Principal
from volvelle.live.status.view import ForecastPoint, JobStatusView, NodeStatusView


@dataclass(frozen=True)
class SubmittedJobs:
    """The numbers of the accepted jobs, one for each of the array.

    notices: what the user should know of what was asked for.
    """

    numbers: tuple[int, ...]
    notices: tuple[str, ...] = ()


@dataclass(frozen=True)
class ChangedJob:
    """The answer to a change. notices: what the user should know of what was declared anew."""

    notices: tuple[str, ...] = ()


@dataclass(frozen=True)
class JobPage:
    """A page of jobs. ``next``: the ``after`` of the next page; null on the last page.

    problems: of the server, for operators.
    """

    time: float
    jobs: tuple[JobStatusView, ...]
    next: int | None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class ChosenPage:
    """A page of jobs, each with the fields that were asked for."""

    time: float
    jobs: tuple[dict[str, Any], ...]
    next: int | None
    problems: tuple[str, ...] = ()


JobField = Annotated[
    str, Field(pattern=f"^({'|'.join(each.name for each in fields(JobStatusView))})$")
]
"""The name of a field of a job's view."""


def job_page(
    time: float,
    jobs: Sequence[JobStatusView],
    following: int | None,
    problems: tuple[str, ...] = (),
    names: Sequence[JobField] = (),
) -> JobPage | ChosenPage:
    """A page of ``jobs`` with the fields ``names`` alone; with all where there are none."""
    if not names:
        return JobPage(time, tuple(jobs), following, problems)
    row = _row_of(tuple(dict.fromkeys(names)))
    return ChosenPage(time, tuple(map(row, jobs)), following, problems)


@lru_cache(maxsize=32)
def _row_of(names: tuple[str, ...]) -> Callable[[JobStatusView], dict[str, Any]]:
    """The function that gives a job's fields ``names``, as a struct, made and encoded in half the time."""
    make: Any = msgspec.defstruct("ChosenFields", [(name, Any) for name in names])
    values = itemgetter(*names)
    if len(names) == 1:
        return lambda job: make(values(job.__dict__))
    return lambda job: make(*values(job.__dict__))


@dataclass(frozen=True)
class NodeList:
    """All nodes. ``problems``: of the server, for operators."""

    time: float
    nodes: tuple[NodeStatusView, ...]
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class CurrentPolicy:
    """The policy and the admission, as they are written everywhere."""

    policy: str
    admission: str


@dataclass(frozen=True)
class NamedPart:
    """A part that a server could be given, and what it does."""

    name: str
    summary: str


@dataclass(frozen=True)
class NamedPolicy(NamedPart):
    """A policy, as `volvelle list policies` describes it; texts are empty where nothing is declared."""

    optimises: str
    source: str
    needs_durations: bool
    goes_by_rates: bool
    incumbent: bool


@dataclass(frozen=True)
class PartList:
    """The policies and admissions that are installed."""

    policies: tuple[NamedPolicy, ...]
    admissions: tuple[NamedPart, ...]


@dataclass(frozen=True)
class IssuedToken:
    """A new token. It is never shown again."""

    token: str
    user: str
    role: str


@dataclass(frozen=True)
class ListedToken:
    """A token as operators see it. ``id``: the first characters of its digest. expires: None: never."""

    id: str
    user: str
    role: str
    label: str
    created: float
    expires: float | None


@dataclass(frozen=True)
class UploadView:
    """Whether a working directory is ``kept``."""

    kept: bool


@dataclass(frozen=True)
class SessionView:
    """A user and a role. ``expires``: of a session that was just begun, in seconds since the Unix epoch.

    reads: the scheduler that decides, where its cluster is attached and nothing is changed; else empty.
    titles: that scheduler's words for the fields of a job's ``attached``, by field, and for ``node``.
    """

    user: str
    role: str
    expires: float | None
    reads: str = ""
    titles: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class StartedSession:
    """A session. ``key``: goes with each of its requests, in the header ``Volvelle-Session-Key``."""

    session: SessionView
    key: str


@dataclass(frozen=True)
class QueueTable:
    """Jobs and nodes as rows. ``seq``: of the last frame of changes that is in them.

    ``job_titles``: headings of the columns that the page shows as they stand. ``forecast_columns``: of the
    forecasts in frames.
    """

    seq: int
    time: float
    policy: str
    admission: str
    job_columns: tuple[str, ...]
    job_titles: dict[str, str]
    jobs: tuple[tuple[Any, ...], ...]
    forecast_columns: tuple[str, ...]
    node_columns: tuple[str, ...]
    nodes: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class HoldingTable:
    """Past holdings of GPUs as rows, by their ends."""

    time: float
    columns: tuple[str, ...]
    holdings: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class LoadTable:
    """GPUs held and jobs waiting as rows, each from its time to the next; since the server started.

    p90_held, p90_missed: jobs that finished by, and after, the P90 that they were told at submission.
    """

    time: float
    columns: tuple[str, ...]
    points: tuple[tuple[Any, ...], ...]
    p90_held: int
    p90_missed: int


@dataclass(frozen=True)
class ToldTable:
    """Whether times told at submission hold: in a sentence, and by what could be observed then, as rows.

    Of the latest finished jobs; rows have the percentages of jobs that kept their P50 and their P90.
    """

    time: float
    sentence: str
    columns: tuple[str, ...]
    classes: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class UserShare:
    """GPUs that a user holds and waits for. ``gpu_seconds``: within the last day; null: not shown."""

    user: str
    running_jobs: int
    waiting_jobs: int
    held_gpus: float
    waiting_gpus: float
    gpu_seconds: float | None


@dataclass(frozen=True)
class PoolShare:
    """GPUs that a pool's jobs hold and wait for, beside its quota."""

    pool: str
    quota: float
    lends: bool
    held_gpus: float
    waiting_gpus: float


@dataclass(frozen=True)
class ShareList:
    """Shares of users and of pools."""

    time: float
    users: tuple[UserShare, ...]
    pools: tuple[PoolShare, ...]


@dataclass(frozen=True)
class ForecastHistoryView:
    """Forecasts of a job, the earliest first. Times are seconds since the Unix epoch."""

    number: int
    points: tuple[ForecastPoint, ...]


def json_response(body: Any, status: int = 200) -> Response:
    """``body`` as JSON; numbers that are not finite are null."""
    return Response(msgspec.json.encode(body), status, media_type="application/json")


def visible_to(principal: Principal, job: JobStatusView) -> JobStatusView:
    """A row of the queue: of other users' jobs without command, environment, metrics, and how they ended."""
    return job if principal.owns(job) else job.public()
