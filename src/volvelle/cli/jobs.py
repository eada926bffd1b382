"""What users do with jobs: ``queue``, ``why``, ``cancel``, ``hold``, ``release``, ``logs``, ``history``."""

import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from volvelle.cli import options
from volvelle.cli.options import Form
from volvelle.cli.rows import Head, Row, show_rows, watch_rows

if TYPE_CHECKING:
    from datetime import datetime

    from volvelle.live.http.client import Server

_KEYS = (
    "number", "name", "user", "state", "gpus", "submitted", "started", "ended", "predicted_start",
    "predicted_p50", "predicted_p90", "promised", "iterations", "total_iterations", "preemptions",
    "failures", "reason",
)  # fmt: skip

_WHAT = (
    Head("job", lambda job: str(job["number"]), right=True),
    Head("name", lambda job: job["name"]),
    Head("user", lambda job: job["user"]),
    Head("GPUs", lambda job: f"{job['gpus']:g}", right=True),
    Head("state", lambda job: job["state"]),
)
"""Which job it is, before what is said of it."""

Number = Annotated[int, typer.Argument(metavar="JOB", help="The job's number.", min=0)]
Numbers = Annotated[list[int], typer.Argument(metavar="JOB...", help="Numbers of jobs.", min=0)]
User = Annotated[str | None, typer.Option("--user", "-u", help="Only jobs of this user.")]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Look again and again, until Ctrl-C.")]


def queue(
    user: User = None,
    state: Annotated[
        list[str] | None,
        typer.Option("--state", "-s", help="Only jobs in this state, as waiting; repeatable."),
    ] = None,
    watch: Watch = False,
    output: options.Output = Form.TABLE,
) -> None:
    """The jobs that are not over: where they are, when they start and finish, why they wait.

    volvelle queue --watch
    """
    server = _server()

    def read() -> list[Row]:
        return list(server.pages("/v1/jobs", "jobs", user=user, state=state or None))

    _show(read, _queue_heads, output, watch, "No job waits or runs.")


def history(
    user: User = None,
    state: Annotated[
        list[str] | None,
        typer.Option("--state", "-s", help="Only jobs that ended so, as failed; repeatable."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="How many.")] = 20,
    output: options.Output = Form.TABLE,
) -> None:
    """The jobs that are over, the latest first: how long they waited and took, how they ended."""
    server = _server()

    def read() -> list[Row]:
        found = server.get("/v1/jobs", over="true", user=user, state=state or None, limit=limit)
        return list(found["jobs"])

    _show(read, _history_heads, output, False, "No job is over yet.")


def _show(
    read: Callable[[], list[Row]],
    heads: Callable[["datetime"], list[Head]],
    output: Form,
    watch: bool,
    empty: str,
) -> None:
    from volvelle.cli.moments import here

    if watch and output is Form.TABLE:
        watch_rows(read, lambda: heads(here()), empty)
    else:
        show_rows(read(), heads(here()), _KEYS, output, empty)


def _queue_heads(now: "datetime") -> list[Head]:
    from volvelle.cli import formatting

    return [
        *_WHAT,
        Head("start", lambda job: formatting.start(job, now)),
        Head("finish (P50-P90)", lambda job: formatting.finish(job, now)),
        Head("done", formatting.progress, right=True),
        Head("reason", lambda job: job["reason"]),
    ]


def _history_heads(now: "datetime") -> list[Head]:
    from volvelle.cli.moments import say_moment

    return [
        *_WHAT,
        Head("ended", lambda job: say_moment(job["ended"], now)),
        Head("wait", lambda job: _lasted(job, "submitted", "first_started"), right=True),
        Head("JCT", lambda job: _lasted(job, "submitted", "ended"), right=True),
        Head("told", lambda job: _lasted(job, "submitted", "promised"), right=True),
        Head("preempted", lambda job: str(job["preemptions"] or ""), right=True),
        Head("reason", lambda job: "" if job["state"] == "finished" else job["reason"]),
    ]


def _lasted(job: Row, since: str, until: str) -> str:
    from volvelle.model.units import format_duration

    return "-" if job[until] is None else format_duration(max(job[until] - job[since], 0.0))


def why(number: Number, output: options.Output = Form.TABLE) -> None:
    """Why a job waits, or how it ended; and what would start it sooner.

    volvelle why 12
    """
    found = _server().get(f"/v1/jobs/{number}/why")
    if output is Form.JSON:
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return
    from volvelle.cli import formatting
    from volvelle.cli.moments import here

    now = here()
    job = found["job"]
    if job["state"] in formatting.OVER:
        print(f"{formatting.label(job)} {formatting.ended(job)}.")
        return
    reason = f": {found['reason']}" if found["reason"] else f" is {job['state']}"
    print(f"{formatting.label(job)}{reason}.")
    if found["ahead"]:
        print(f"Ahead of it: {_several(found['ahead'])}.")
    foreseen = {key: job[f"predicted_{key}"] for key in ("start", "p50", "p90")}
    if job["started"] is not None:
        foreseen["start"] = None
    if foreseen["start"] or foreseen["p50"]:
        print(f"It {formatting.foreseen(foreseen, now)}.")
    if found["after"] is not None:
        print(f"It waits for the end of job {found['after']}.")
    for change in found["changes"]:
        print(_would(change, now))
    if not found["complete"]:
        print("Not looked further: with so many jobs that takes too long.")


def _several(numbers: list[int]) -> str:
    shown = ", ".join(f"job {number}" for number in numbers[:5])
    return f"{shown} and {len(numbers) - 5:,} more" if len(numbers) > 5 else shown


def _would(change: Row, now: "datetime") -> str:
    from volvelle.cli.moments import say_moment

    soon = change["start"] - now.timestamp() < 1.0
    when = "now" if soon else f"about {say_moment(change['start'], now)}"
    done = f" (finish {say_moment(change['p50'], now)})" if change["p50"] else ""
    return f"With {change['what']} it would start {when}{done}."


def cancel(numbers: Numbers) -> None:
    """End jobs and forget about their work."""
    _each(numbers, "cancel", "cancelled")


def hold(numbers: Numbers) -> None:
    """Keep jobs from running, at a checkpoint if they do, until they are released."""
    _each(numbers, "hold", "held")


def release(numbers: Numbers) -> None:
    """Let held jobs run again."""
    _each(numbers, "release", "released")


def _each(numbers: list[int], ask: str, done: str) -> None:
    server = _server()
    for number in numbers:
        server.post(f"/v1/jobs/{number}/{ask}")
        print(f"job {number} {done}")


def logs(
    number: Number,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the job is over.")
    ] = False,
) -> None:
    """What a job's processes wrote, attempt by attempt."""
    for chunk in _server().stream(f"/v1/jobs/{number}/logs", follow="true" if follow else None):
        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()


def _server() -> "Server":
    from volvelle.live.http.client import Server

    return Server.find()
