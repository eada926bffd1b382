"""``/v1/jobs``: submitting, looking, changing."""

import asyncio
import time
from bisect import bisect_right
from collections import Counter
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Header, Path, Query, Request, Response
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema
from starlette.concurrency import run_in_threadpool

from volvelle.live.control.controller import Controller
from volvelle.live.control.requests import Ask, Cancel, Hold, Release, Submit
from volvelle.live.http.authentication import Anybody, Live, Stored, Who
from volvelle.live.http.errors import Refusal, described, later, no_such_job
from volvelle.live.http.responses import JobPage, Submitted, answer, seen_by
from volvelle.live.job_request import JobRequest
from volvelle.live.status.view import JobState, JobStatusView
from volvelle.live.store import JobRecord, Store

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

MOST = 10_000
PATIENCE_SECONDS = 10.0
BLINK_SECONDS = 1.0
"""So long a store may be away before anybody is sent away: nothing is queued for a store that is down."""
BIGGEST = 2**63 - 1

Number = Annotated[int, Path(ge=0, le=BIGGEST, description="the job's number")]
Limit = Annotated[int, Query(ge=1, le=MOST, description="at most so many")]
Key = Annotated[
    Annotated[str, Field(min_length=1, max_length=200)] | SkipJsonSchema[None],
    Header(
        alias="Idempotency-Key",
        description="the same key again answers with the jobs of the first time",
    ),
]
User = Annotated[
    Annotated[str, Field(max_length=200)] | SkipJsonSchema[None],
    Query(description="only of this user"),
]
After = Annotated[
    Annotated[int, Field(ge=0, le=BIGGEST)] | SkipJsonSchema[None],
    Query(description="``next`` of the page before"),
]
States = Annotated[list[JobState], Query(description="only in these states")]
Over = Annotated[bool, Query(description="those that are over, the latest first")]


@router.post("", status_code=201, response_model=Submitted, responses=described(409, 429))
async def submit(
    wanted: JobRequest, request: Request, who: Anybody, controller: Live, key: Key = None
) -> Response:
    """Submit a job, or an array of them. What is answered is kept for good."""
    request.app.state.room.check(controller, who, wanted.array)
    numbers = await done(controller, Submit(who.user, wanted, key))
    return answer(Submitted(tuple(numbers)), 201)


@router.get("", response_model=JobPage, responses=described())
async def look(
    who: Anybody,
    controller: Live,
    store: Stored,
    over: Over = False,
    state: States = [],  # noqa: B006
    user: User = None,
    after: After = None,
    limit: Limit = 500,
) -> Response:
    """The jobs that are not over, by number; or those that are: one's own, for operators everybody's."""
    time = controller.status.time
    if over:
        records = await _past(store, who, state, user, after, limit)
        found = [picture_of(record) for record in records]
        return answer(
            JobPage(time, tuple(found), found[-1].number if len(found) == limit else None)
        )
    found = []
    jobs = controller.status.jobs
    numbers = sorted(jobs)
    for number in numbers[bisect_right(numbers, after) if after is not None else 0 :]:
        job = jobs[number]
        if (user is None or job.user == user) and (not state or job.state in state):
            found.append(seen_by(who, job))
            if len(found) > limit:
                break
    page, more = found[:limit], len(found) > limit
    return answer(JobPage(time, tuple(page), page[-1].number if more else None))


async def _past(
    store: Store,
    who: Who,
    state: list[JobState],
    user: str | None,
    before: int | None,
    limit: int,
) -> list[JobRecord]:
    if not who.operates:
        if user not in (None, who.user):
            return []
        user = who.user
    states = [one.value for one in state or JobState if one.over]
    return await run_in_threadpool(
        lambda: store.jobs(user=user, states=states, before=before, limit=limit)
    )


@router.get("/{number}", response_model=JobStatusView, responses=described(404))
async def one(number: Number, who: Anybody, controller: Live, store: Stored) -> Response:
    """One job, over or not."""
    return answer(await visible(number, who, controller, store))


@router.post("/{number}/cancel", status_code=204, responses=described(404, 409))
async def cancel(number: Number, who: Anybody, controller: Live, store: Stored) -> Response:
    """End a job and forget about its work."""
    return await _change(Cancel(number), who, controller, store)


@router.post("/{number}/hold", status_code=204, responses=described(404, 409))
async def hold(number: Number, who: Anybody, controller: Live, store: Stored) -> Response:
    """Keep a job from running, at a checkpoint if it runs, until it is released."""
    return await _change(Hold(number), who, controller, store)


@router.post("/{number}/release", status_code=204, responses=described(404, 409))
async def release(number: Number, who: Anybody, controller: Live, store: Stored) -> Response:
    """Let a held job run again."""
    return await _change(Release(number), who, controller, store)


async def _change(
    ask: Cancel | Hold | Release, who: Who, controller: Controller, store: Store
) -> Response:
    job = await visible(ask.number, who, controller, store)
    if job.state.over:
        raise Refusal(409, f"job {job.number} is {job.state}", place=f"job {job.number}")
    await done(controller, ask)
    return Response(status_code=204)


async def done(controller: Controller, ask: Ask) -> Any:
    """Ask, and wait until it is kept for good; what is answered."""
    patience = time.monotonic() + BLINK_SECONDS
    while not (health := controller.health).ready:
        if time.monotonic() > patience:
            raise later("; ".join(health.trouble) or "the controller has ended")
        await asyncio.sleep(0.05)
    answered = asyncio.shield(asyncio.wrap_future(controller.ask(ask)))
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await answered
    except TimeoutError:
        raise later("the controller does not answer; what was asked may still be done") from None


async def visible(number: int, who: Who, controller: Controller, store: Store) -> JobStatusView:
    """The job, if it is there and is theirs to see; a `Refusal` that does not say which otherwise."""
    job = controller.status.jobs.get(number)
    if job is None:
        record = await run_in_threadpool(store.job, number)
        job = controller.status.jobs.get(number) if record is None else picture_of(record)
    if job is None or not who.may_see(job):
        raise no_such_job(number)
    return job


def picture_of(record: JobRecord) -> JobStatusView:
    """A job of the store: as it was last shown, or as it was accepted a moment ago."""
    if record.picture is not None:
        return msgspec.convert(record.picture, JobStatusView)
    return JobStatusView(
        number=record.number,
        name=record.name,
        user=record.user,
        state=JobState.WAITING,
        gpus=float(record.request.get("gpus", 1)),
        submitted=record.submitted,
        request=record.request,
    )


class Room:
    """How many jobs there may be that are not over: of all, and of one user."""

    def __init__(self, jobs: int, jobs_of_a_user: int) -> None:
        self._most = jobs
        self._most_of_a_user = jobs_of_a_user
        self._version = -1
        self._of: Counter[str] = Counter()

    def check(self, controller: Controller, who: Who, more: int) -> None:
        """Raise `Refusal` where there is no room for so many ``more`` jobs."""
        picture = controller.status
        if picture.version != self._version:
            self._version = picture.version
            self._of = Counter(picture.jobs_of)
        for there, most, whose in (
            (self._of.total(), self._most, "in the queue"),
            (self._of[who.user], self._most_of_a_user, f"of user {who.user} in the queue"),
        ):
            if there + more > most:
                raise Refusal(
                    429,
                    f"there are {there:,} jobs {whose}, {more:,} more would be over {most:,}",
                    place="queue",
                    mend="wait until some are over, or ask the operator for larger limits",
                    headers={"Retry-After": "60"},
                )
        self._of[who.user] += more
