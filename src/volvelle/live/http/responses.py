"""What the API answers with, beside pictures, and how it is put into JSON."""

from dataclasses import dataclass
from typing import Any

import msgspec
from fastapi import Response

from volvelle.live.forecasts.suggestions import Change
from volvelle.live.http.authentication import Who
from volvelle.live.status.view import JobStatusView


@dataclass(frozen=True)
class Submitted:
    """The numbers of the jobs that were accepted, one for each of the array."""

    numbers: tuple[int, ...]


@dataclass(frozen=True)
class JobPage:
    """Some jobs. ``next``: what to give as ``after`` to see those that follow; null at the end."""

    time: float
    jobs: tuple[JobStatusView, ...]
    next: int | None


@dataclass(frozen=True)
class Why:
    """Why a job is where it is: the one reason that counts, and what would change it.

    ahead: waiting jobs that are believed to start before it. after: the job whose end it waits for.
    complete: whether all changes that could help were tried.
    """

    job: JobStatusView
    reason: str
    ahead: tuple[int, ...] = ()
    after: int | None = None
    changes: tuple[Change, ...] = ()
    complete: bool = True


@dataclass(frozen=True)
class Policy:
    """Who gets how many GPUs, and who may enter, as they are written everywhere."""

    policy: str
    admission: str


@dataclass(frozen=True)
class Issued:
    """A token that was just made. It is never shown again."""

    token: str
    user: str
    role: str


@dataclass(frozen=True)
class KnownToken:
    """A token as operators see it. ``id``: the first characters of its digest."""

    id: str
    user: str
    role: str
    label: str
    created: float


def answer(thing: Any, status: int = 200) -> Response:
    """``thing`` as JSON; numbers that are none are null."""
    return Response(msgspec.json.encode(thing), status, media_type="application/json")


def seen_by(who: Who, job: JobStatusView) -> JobStatusView:
    """A row of the queue: of others' jobs without command, environment, metrics, and how they ended."""
    return job if who.may_see(job) else job.public()
