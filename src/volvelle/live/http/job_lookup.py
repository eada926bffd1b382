"""Finds jobs, live ones in the status view and others in the store."""

from typing import Annotated

import msgspec
from fastapi import Path
from starlette.concurrency import run_in_threadpool

from volvelle.live.http.authentication import Principal
from volvelle.live.http.errors import no_such_job, not_yours
from volvelle.live.http.shown_cluster import ShownCluster
from volvelle.live.job_request import shown
from volvelle.live.status.view import JobState, JobStatusView
from volvelle.live.store import JobRecord, Store

MAX_NUMBER = 2**63 - 1

JobNumber = Annotated[int, Path(ge=0, le=MAX_NUMBER, description="the job's number")]


async def find_job(
    number: int, principal: Principal, cluster: ShownCluster, store: Store
) -> JobStatusView:
    """A job of the principal. Raises `HttpError`, which names users of jobs that are not over only."""
    job = cluster.status.jobs.get(number)
    if job is None:
        record = await run_in_threadpool(store.jobs.find, number)
        job = cluster.status.jobs.get(number) if record is None else view_of_record(record)
    if job is None:
        raise no_such_job(number)
    if not principal.owns(job):
        raise not_yours(number, "" if job.state.over else job.user)
    return job


def view_of_record(record: JobRecord) -> JobStatusView:
    """A stored job: with its last status, or as it was accepted a moment ago."""
    if record.status is not None:
        return msgspec.convert(record.status, JobStatusView)
    return JobStatusView(
        number=record.number,
        identity=record.identity,
        name=record.name,
        user=record.user,
        state=JobState.WAITING,
        gpus=float(record.request.get("gpus", 1)),
        submitted=record.submitted,
        request=shown(record.request),
        array_index=record.position if record.request.get("array", 1) > 1 else None,
    )
