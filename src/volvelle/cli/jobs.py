"""Commands on jobs: ``queue``, ``why``, ``cancel``, ``hold``, ``release``, ``change``, ``requeue``,
``logs``, ``history``."""

import json
import sys
from collections.abc import Callable
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from volvelle.cli import options
from volvelle.cli.options import Form
from volvelle.cli.rows import Head, Row, show_rows, warn, watch_rows
from volvelle.model.job_number import full_name, job_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from inspect import Parameter

    from volvelle.live.http.client import ApiClient

_KEYS = (
    "number", "name", "user", "state", "gpus", "submitted", "started", "ended", "predicted_start",
    "predicted_p50", "predicted_p90", "guessed", "believed_end", "first_p50", "iterations",
    "total_iterations", "preemptions", "failures", "array_index", "reason",
)  # fmt: skip
_SHOWN_KEYS = (
    "number", "name", "user", "state", "gpus", "started", "ended", "predicted_start", "predicted_p50",
    "predicted_p90", "guessed", "believed_end", "iterations", "total_iterations", "array_index", "reason",
    "guarantee", "due", "attached",
)  # fmt: skip
"""Read of each job for the table: a queue has thousands."""


_JOB_HEADS = (
    Head("job", lambda job: job_name(job["number"]), right=True),
    Head("name", lambda job: full_name(job["name"], job["array_index"])),
    Head("user", itemgetter("user")),
    Head("GPUs", lambda job: f"{job['gpus']:g}", right=True),
    Head("state", itemgetter("state")),
)
"""The first columns of every list of jobs."""


Which = Annotated[str, typer.Argument(metavar="JOB", help="The job's number or name.")]
Several = Annotated[list[str], typer.Argument(metavar="JOB...", help="Numbers or names of jobs.")]
User = Annotated[str | None, typer.Option("--user", "-u", help="Only jobs of this user.")]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Refresh until Ctrl-C.")]


def queue(
    user: User = None,
    state: Annotated[
        list[str] | None,
        typer.Option("--state", "-s", help="Only jobs in this state, as waiting; repeatable."),
    ] = None,
    watch: Watch = False,
    output: options.Output = Form.TABLE,
) -> None:
    """The active jobs: their states, when they start and finish, why they wait.

    volvelle queue --watch
    """
    client = _client()
    keys = {Form.TABLE: _SHOWN_KEYS, Form.CSV: (*_KEYS, "attached"), Form.JSON: None}[output]
    titles = cache(lambda: _titles(client))

    def read() -> list[Row]:
        return list(client.pages("/v1/jobs", "jobs", keys, user=user, state=state or None))

    def heads(now: "datetime", rows: list[Row]) -> list[Head]:
        attached = bool(rows) and rows[0]["attached"] is not None
        return _queue_heads(now, titles() if attached else {})

    empty = "No such job waits or runs." if user or state else "No job waits or runs."
    _show(read, heads, output, watch, empty)
    warn(client.problems)


def history(
    user: User = None,
    state: Annotated[
        list[str] | None,
        typer.Option("--state", "-s", help="Only jobs that ended so, as failed; repeatable."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="How many.")] = 20,
    output: options.Output = Form.TABLE,
) -> None:
    """The jobs that are over, those submitted last first: how long they waited and took, how they ended."""
    client = _client()

    def read() -> list[Row]:
        found = client.get("/v1/jobs", over="true", user=user, state=state or None, limit=limit)
        return list(found["jobs"])

    empty = "No such job is over." if user or state else "No job is over yet."
    _show(read, _history_heads, output, False, empty)


def _show(
    read: Callable[[], list[Row]],
    heads: Callable[["datetime", list[Row]], list[Head]],
    output: Form,
    watch: bool,
    empty: str,
) -> None:
    from volvelle.cli.moments import local_now

    if watch and output is Form.TABLE:
        watch_rows(read, lambda rows: heads(local_now(), rows), empty)
    else:
        rows = read()
        show_rows(rows, heads(local_now(), rows), _KEYS, output, empty)


def _titles(client: "ApiClient") -> dict[str, str]:
    """The words of an attached cluster's scheduler, by field of ``attached``."""
    found: dict[str, str] = client.get("/v1/session")["titles"]
    return found


def _queue_heads(now: "datetime", titles: dict[str, str]) -> list[Head]:
    from volvelle.cli import formatting

    return [
        *_JOB_HEADS,
        *formatting.attached_heads(titles, now),
        Head("start", lambda job: formatting.format_start(job, now)),
        Head("finish (P50-P90)", lambda job: formatting.format_finish(job, now)),
        Head("done", formatting.format_progress, right=True),
        Head("reason", itemgetter("reason")),
    ]


def _history_heads(now: "datetime", rows: list[Row]) -> list[Head]:
    from volvelle.cli import formatting
    from volvelle.cli.moments import format_moment

    return [
        *_JOB_HEADS,
        Head("ended", lambda job: format_moment(job["ended"], now)),
        Head("first wait", lambda job: _since_submission(job, "first_started"), right=True),
        Head("JCT", lambda job: _since_submission(job, "ended"), right=True),
        Head("told", lambda job: _since_submission(job, "first_p50"), right=True),
        Head("kept or missed", formatting.format_promises),
        Head("preempted", lambda job: str(job["preemptions"] or ""), right=True),
        Head("reason", formatting.format_reason),
    ]


def _since_submission(job: Row, until: str) -> str:
    from volvelle.model.units import format_duration

    if job[until] is None:
        return "-"
    return format_duration(round(max(job[until] - job["submitted"], 0.0)))


def why(which: Which, output: options.Output = Form.TABLE) -> None:
    """Why a job waits, or how it came to its end; and what would let it finish sooner.

    volvelle why 12
    """
    client = _client()
    found = client.get(f"/v1/jobs/{_number(client, which)}/why")
    if output is Form.JSON:
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return
    from volvelle.cli.explaining import explained
    from volvelle.cli.moments import local_now

    print(*explained(found, lambda: _titles(client), local_now()), sep="\n")


def cancel(jobs: Several) -> None:
    """End jobs for good."""
    _change_each(jobs, "cancel", "cancelled")


def hold(jobs: Several) -> None:
    """Keep jobs from running until they are released; running ones stop at a checkpoint."""
    _change_each(jobs, "hold", "held")


def release(jobs: Several) -> None:
    """Let held jobs run again."""
    _change_each(jobs, "release", "released")


def _changeable() -> "Iterator[Parameter]":
    """The options of what may change, each called as its key; hidden, the other ones of a job."""
    from volvelle.cli.submit import option_of
    from volvelle.model.job import JobSpec
    from volvelle.model.job_schema import with_key

    for field in with_key(JobSpec):
        if field.about.flag:
            yield option_of(field, hidden=not field.about.changeable)
    yield options.parameter("deadline", Annotated[str | None, typer.Option(hidden=True)], None)


def _flags(*, changeable: bool) -> dict[str, str]:
    """The options of what may change, or of what may not, by their keys in a request."""
    from volvelle.model.job import JobSpec
    from volvelle.model.job_schema import with_key

    return {
        one.about.key: one.about.flag.split()[0]
        for one in with_key(JobSpec)
        if one.about.flag and one.about.changeable is changeable
    }


@options.besides(_changeable)
def change(jobs: Several, **declared: Any) -> None:
    """Declare anew what waiting jobs declared, as their priority; ``none`` takes a time limit away.

    volvelle change 12 --priority 5 --time-limit 4h
    """
    from volvelle.cli.output import remark
    from volvelle.live.http.client import NotAnswered
    from volvelle.model.problems import Problem

    given = {
        key: value
        for key, value in declared.items()
        if value is not None and value is not False and value != []
    }
    names = ", ".join(_flags(changeable=True).values())
    fixed = _flags(changeable=False) | {"deadline": "--deadline"}
    if asked := [flag for key, flag in fixed.items() if key in given]:
        raise Problem(
            f"{' and '.join(asked)} cannot change once a job is submitted, only {names} can",
            mend=f"cancel it (volvelle cancel {' '.join(jobs)}), and submit it anew",
            usage=True,
        )
    if not given:
        raise Problem(f"nothing changes: give {names}", usage=True)
    values = {key: None if value == "none" else value for key, value in given.items()}
    client = _client()
    for number in _numbers(client, jobs):
        try:
            changed = client.patch(f"/v1/jobs/{number}", values)
        except NotAnswered:
            raise
        except Problem as refused:
            if len(values) > 1:
                refused.args = (f"nothing of job {number} changed: {refused.args[0]}",)
            raise
        for notice in changed["notices"]:
            remark(notice)
        print(f"job {number} changed")


def requeue(jobs: Several) -> None:
    """Stop running jobs at a checkpoint and let them wait again, which costs them no retry."""
    client = _client()
    for number in _numbers(client, jobs):
        attempt = client.get(f"/v1/jobs/{number}")["attempt"]
        client.post(f"/v1/jobs/{number}/requeue" + (f"?attempt={attempt}" if attempt else ""))
        print(f"job {number} requeued")


def _change_each(jobs: list[str], action: str, done: str) -> None:
    """Do it to all jobs to which it can be done; raises the last problem of the others."""
    from volvelle.cli.output import remark
    from volvelle.model.problems import Problem

    client = _client()
    left: Problem | None = None
    for number in _numbers(client, jobs):
        try:
            answer = client.post(f"/v1/jobs/{number}/{action}")
        except Problem as problem:
            if f"job {number}" not in str(problem):
                raise  # it is the server's, and that of all jobs
            if left is not None:
                remark(f"error: {left}")
            left = problem
            continue
        print(f"job {job_name(number)} {done}")
        for notice in answer["notices"] if answer else ():
            remark(notice)
    if left is not None:
        raise left


def logs(
    which: Which,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Follow until the job is over.")
    ] = False,
) -> None:
    """The output of a job's processes, attempt by attempt."""
    from volvelle.cli.output import remark

    client = _client()
    number = _number(client, which)
    job = client.get(f"/v1/jobs/{number}")
    if not (job["first_started"] or job["grants"]):
        not_yet = "never" if job["ended"] else "has not"
        remark(f"job {job_name(number)} {not_yet} started")
    for chunk in client.stream(f"/v1/jobs/{number}/logs", follow="true" if follow else None):
        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()


def _number(client: "ApiClient", written: str) -> int:
    from volvelle.live.http.named_jobs import number_of

    return number_of(client, written)


def _numbers(client: "ApiClient", written: list[str]) -> list[int]:
    """All of them, before anything is done with one."""
    return [_number(client, one) for one in written]


def _client() -> "ApiClient":
    from volvelle.live.http.client import ApiClient

    return ApiClient.find()
