"""``/v1/jobs``: submitting, listing and changing jobs."""

from bisect import bisect_right
from collections.abc import Iterable
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema
from starlette.concurrency import run_in_threadpool

from volvelle.live.control.controller import Controller
from volvelle.live.control.requests import Cancel, Change, Hold, Release, Requeue, Submit
from volvelle.live.http.authentication import Principal
from volvelle.live.http.controller_requests import execute
from volvelle.live.http.dependencies import AnyPrincipal, TheCluster, TheController, TheStore
from volvelle.live.http.errors import HttpError, error_responses
from volvelle.live.http.job_checks import (
    begins_again,
    check_targets,
    notices_of,
    starts_several_times,
)
from volvelle.live.http.job_lookup import MAX_NUMBER, JobNumber, find_job, view_of_record
from volvelle.live.http.quick_submissions import MAX_KEY
from volvelle.live.http.responses import (
    ChangedJob,
    ChosenPage,
    JobField,
    JobPage,
    SubmittedJobs,
    job_page,
    json_response,
    visible_to,
)
from volvelle.live.http.shown_cluster import ShownCluster, on_absent_nodes
from volvelle.live.http.uploads import is_kept
from volvelle.live.job_change import JobChange
from volvelle.live.job_request import JobRequest
from volvelle.live.status.view import JobState, JobStatusView
from volvelle.live.store import JobRecord, Store

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

_MAX_PAGE = 10_000
_MOST_NAMED = 10

Limit = Annotated[int, Query(ge=1, le=_MAX_PAGE, description="at most so many")]
IdempotencyKey = Annotated[
    Annotated[str, Field(min_length=1, max_length=MAX_KEY)] | SkipJsonSchema[None],
    Header(
        alias="Idempotency-Key",
        description="the same key again answers with the jobs of the first time; 422 with another job",
    ),
]
User = Annotated[
    Annotated[str, Field(max_length=200)] | SkipJsonSchema[None],
    Query(description="only of this user"),
]
After = Annotated[
    Annotated[int, Field(ge=0, le=MAX_NUMBER)] | SkipJsonSchema[None],
    Query(description="``next`` of the page before"),
]
States = Annotated[list[JobState], Query(description="only in these states")]
Attempt = Annotated[
    Annotated[int, Field(ge=1, le=MAX_NUMBER)] | SkipJsonSchema[None],
    Query(description="only this attempt, so that the request may be repeated"),
]
Fields = Annotated[list[JobField], Query(description="of each job these alone; without: all")]
Over = Annotated[bool, Query(description="those that are over, the highest number first")]


@router.post(
    "", status_code=201, response_model=SubmittedJobs, responses=error_responses(403, 404, 409, 429)
)
async def submit(
    job: JobRequest,
    request: Request,
    principal: AnyPrincipal,
    controller: TheController,
    store: TheStore,
    key: IdempotencyKey = None,
) -> Response:
    """Submit a job, or an array of them. The answer is given once the jobs are stored."""
    for number in sorted(job.waits_for):
        await find_job(number, principal, controller, store)
    if job.upload is not None and not await is_kept(request, job.upload):
        raise HttpError(
            409,
            "its working directory was not uploaded",
            place="upload",
            hint="put it at /v1/uploads",
        )
    request.app.state.quota.check_priority(principal, job.priority)
    check_targets(job, controller)
    request.app.state.quota.reserve(controller, principal, job.array)
    of_user = (job, principal.user, controller)
    notices = notices_of(*of_user) + starts_several_times(*of_user)
    warned: set[str] = request.app.state.warned
    if principal.user not in warned and (said := begins_again(*of_user)):
        warned.add(principal.user)
        notices += said
    numbers = await execute(controller, Submit(principal.user, job, key))
    return json_response(SubmittedJobs(tuple(numbers), notices), 201)


@router.get("", response_model=JobPage | ChosenPage, responses=error_responses())
async def list_jobs(
    principal: AnyPrincipal,
    cluster: TheCluster,
    store: TheStore,
    over: Over = False,
    state: States = [],  # noqa: B006
    user: User = None,
    after: After = None,
    limit: Limit = 500,
    fields: Fields = [],  # noqa: B006
) -> Response:
    """The jobs that are not over, by number, or past jobs: a user's own, for operators those of all users.

    With ``fields=number&fields=name`` each job has these fields alone, which is less to encode and to read.
    """
    time = cluster.status.time
    if over:
        records = await _ended_jobs(store, principal, state, user, after, limit)
        found = [view_of_record(record) for record in records]
        following = found[-1].number if len(found) == limit else None
        return json_response(job_page(time, found, following, names=fields))
    found = _live_jobs(cluster, principal, state, user, after, limit + 1)
    found = [on_absent_nodes(cluster, job) if job.grants else job for job in found]
    page, more = found[:limit], len(found) > limit
    problems = cluster.health.problems if principal.is_operator else ()
    following = page[-1].number if more else None
    return json_response(job_page(time, page, following, problems, fields))


def _live_jobs(
    cluster: ShownCluster,
    principal: Principal,
    states: list[JobState],
    user: str | None,
    after: int | None,
    limit: int,
) -> list[JobStatusView]:
    jobs = cluster.status.jobs
    numbers = sorted(jobs)
    following = map(
        jobs.__getitem__, numbers[bisect_right(numbers, after) if after is not None else 0 :]
    )
    wanted: Iterable[JobStatusView] = following
    if user is not None or states:
        wanted = (
            job
            for job in following
            if (user is None or job.user == user) and (not states or job.state in states)
        )
    found = list(islice(wanted, limit))
    return found if principal.is_operator else [visible_to(principal, job) for job in found]


async def _ended_jobs(
    store: Store,
    principal: Principal,
    states: list[JobState],
    user: str | None,
    before: int | None,
    limit: int,
) -> list[JobRecord]:
    if not principal.is_operator:
        if user not in (None, principal.user):
            return []
        user = principal.user
    wanted = [each.value for each in states or JobState if each.over]
    return await run_in_threadpool(
        lambda: store.jobs.list_latest(user=user, states=wanted, before=before, limit=limit)
    )


@router.get("/{number}", response_model=JobStatusView, responses=error_responses(404))
async def show_job(
    number: JobNumber, principal: AnyPrincipal, cluster: TheCluster, store: TheStore
) -> Response:
    """One job, over or not."""
    return json_response(await find_job(number, principal, cluster, store))


@router.post("/{number}/cancel", response_model=ChangedJob, responses=error_responses(404, 409))
async def cancel(
    number: JobNumber, principal: AnyPrincipal, controller: TheController, store: TheStore
) -> Response:
    """End a job for good. Jobs that were to run after its success are rejected, and named."""
    rejected = await _execute(Cancel(number, principal.user), principal, controller, store)
    if not rejected:
        return json_response(ChangedJob())
    named = ", ".join(map(str, rejected[:_MOST_NAMED]))
    if len(rejected) > _MOST_NAMED:
        named += f" and {len(rejected) - _MOST_NAMED:,} more"
    which, verb = (f"job {named}", "was") if len(rejected) == 1 else (f"jobs {named}", "were")
    told = f"{which} {verb} to run after its success, and {verb} rejected"
    return json_response(ChangedJob((told,)))


@router.post("/{number}/hold", status_code=204, responses=error_responses(404, 409))
async def hold(
    number: JobNumber, principal: AnyPrincipal, controller: TheController, store: TheStore
) -> Response:
    """Keep a job from running until it is released; a running one stops at a checkpoint."""
    await _execute(Hold(number, principal.user), principal, controller, store)
    return Response(status_code=204)


@router.post("/{number}/release", status_code=204, responses=error_responses(404, 409))
async def release(
    number: JobNumber, principal: AnyPrincipal, controller: TheController, store: TheStore
) -> Response:
    """Let a held job run again."""
    await _execute(Release(number, principal.user), principal, controller, store)
    return Response(status_code=204)


@router.patch("/{number}", response_model=ChangedJob, responses=error_responses(403, 404, 409))
async def change(
    number: JobNumber,
    change: JobChange,
    request: Request,
    principal: AnyPrincipal,
    controller: TheController,
    store: TheStore,
) -> Response:
    """Declare some attributes of a job anew, while it holds no GPUs."""
    if (priority := change.changes.get("priority")) is not None:
        request.app.state.quota.check_priority(principal, int(priority))
    await _execute(Change(number, change, principal.user), principal, controller, store)
    job = await find_job(number, principal, controller, store)
    declared = JobRequest(**job.request)
    return json_response(ChangedJob(notices_of(declared, job.user, controller)))


@router.post("/{number}/requeue", status_code=204, responses=error_responses(404, 409))
async def requeue(
    number: JobNumber,
    principal: AnyPrincipal,
    controller: TheController,
    store: TheStore,
    attempt: Attempt = None,
) -> Response:
    """Stop a running job at a checkpoint, and let it wait again; that costs it no retry."""
    await _execute(Requeue(number, attempt, principal.user), principal, controller, store)
    return Response(status_code=204)


async def _execute(
    request: Cancel | Hold | Release | Change | Requeue,
    principal: Principal,
    controller: Controller,
    store: Store,
) -> Any:
    """The controller's answer to a request about a job that is not over."""
    job = await find_job(request.number, principal, controller, store)
    if job.state.over:
        raise HttpError(
            409,
            f"job {job.number} {job.state.predicate}",
            place=f"job {job.number}",
            hint="it is over: to run it again, submit it again",
        )
    return await execute(controller, request)
