"""Forecasts on show: a table like ``squeue``, a heading, figures for Prometheus, a summary in words."""

import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from volvelle.cli.moments import format_moment
from volvelle.cli.rows import Head, Row
from volvelle.incumbents.attach.accuracy import Told
from volvelle.incumbents.attach.follow import Attached
from volvelle.incumbents.attach.incumbent import Incumbent
from volvelle.model.units import format_duration


def keys(of: Incumbent[Any, Any]) -> tuple[str, ...]:
    """The columns of the table for programs."""
    told = ("start", "start_p90", "end", "end_p90", f"{of.naive.key}_start")
    return ("job", "user", "account", "partition", "qos", "state", "gpus", *told, "reason")


def rows(follower: Attached, told: Sequence[Told], user: str = "") -> list[Row]:
    """The table of told times, one row a job: the waiting by their start, then the running by their end."""
    jobs = {job.key: job for job in follower.snapshot.jobs}
    naive = f"{follower.incumbent.naive.key}_start"
    found = []
    for one in told:
        job = jobs[one.key]
        if user and job.user != user:
            continue
        found.append(
            {
                "job": one.key,
                "user": job.user,
                "account": job.account,
                "partition": job.queue,
                "qos": job.qos,
                "state": job.state,
                "gpus": job.gpus,
                "start": one.start,
                "start_p90": one.start_p90,
                "end": one.end,
                "end_p90": one.end_p90,
                naive: one.naive_start,
                "reason": job.reason,
            }
        )
    return sorted(found, key=lambda row: (row["state"] != "PENDING", row["start"], row["job"]))


def heads(of: Incumbent[Any, Any], now: datetime) -> list[Head]:
    """The columns of the table."""

    def start(row: Row) -> str:
        if row["state"] != "PENDING":
            return format_moment(row["start"], now)
        return f"{format_moment(row['start'], now)}-{format_moment(row['start_p90'], now)}"

    return [
        Head("JOB", lambda row: row["job"]),
        Head("USER", lambda row: row["user"]),
        Head(of.titles["partition"].upper(), lambda row: row["partition"]),
        Head(of.titles["qos"].upper(), lambda row: row["qos"] or "-"),
        Head("GPUS", lambda row: f"{row['gpus']:g}", right=True),
        Head("ST", lambda row: row["state"][:2]),
        Head("START~ (P50-P90)", start),
        Head("END~", lambda row: format_moment(row["end"], now)),
        Head(of.naive.head, lambda row: format_moment(row[f"{of.naive.key}_start"], now)),
        Head("REASON", lambda row: row["reason"] or "-"),
    ]


EFFECTS = ("kind", "name", "jobs", "never", "before", "after", "least", "most")


def effect_heads() -> list[Head]:
    """The columns of a table of effects of a change."""

    def moved(row: Row) -> str:
        low, high = (_signed(row[name]) for name in ("least", "most"))
        middle = _signed(row["after"] - row["before"])
        return middle if low == high else f"{middle} ({low} to {high})"

    return [
        Head("OF", lambda row: row["kind"]),
        Head("NAME", lambda row: row["name"] or "-"),
        Head("JOBS", lambda row: str(row["jobs"]), right=True),
        Head("NEVER", lambda row: str(row["never"] or "-"), right=True),
        Head("WAIT FROM NOW", lambda row: format_duration(row["before"]), right=True),
        Head("CHANGED", lambda row: format_duration(row["after"]), right=True),
        Head("DIFFERENCE (QUICK TO SLOW JOBS)", moved),
    ]


def _signed(seconds: float) -> str:
    if abs(seconds) < 0.5:
        return "0s"
    return f"{'-' if seconds < 0 else '+'}{format_duration(abs(seconds))}"


def heading(follower: Attached) -> str:
    """The cluster in one line."""
    site, snapshot = follower.site, follower.snapshot
    running = sum(job.state == "RUNNING" for job in snapshot.jobs)
    pending = sum(job.pending for job in snapshot.jobs)
    version = f" ({site.title})" if site.title != follower.incumbent.title else ""
    return f"{site.cluster}{version}: {site.about}; {running} running, {pending} pending"


def prometheus(follower: Attached) -> str:
    """Figures in Prometheus' text format."""
    ours, theirs = follower.accuracy.of_starts()
    of, naive = follower.incumbent, follower.incumbent.naive
    figures: list[tuple[str, str, float]] = [
        ("poll_timestamp_seconds", f"When {of.title} was last asked", follower.snapshot.time),
        ("jobs_pending", "Jobs that wait", sum(job.pending for job in follower.snapshot.jobs)),
        ("jobs_running", "Jobs that hold nodes", sum(j.running for j in follower.snapshot.jobs)),
        ("starts_judged", "Told starts that have come", ours.polls if ours else 0),
    ]
    if ours:
        figures += [
            ("start_p90_held_ratio", "Share of starts by their told P90", ours.held),
            ("start_error_mean_seconds", "Mean error of told starts", ours.mean),
            ("start_error_median_seconds", "Median of it", ours.median),
        ]
    if theirs:
        figures += [
            (f"{naive.key}_start_error_mean_seconds", f"The same of {naive.word}", theirs.mean),
            (f"{naive.key}_start_error_median_seconds", "Median of it", theirs.median),
        ]
    lines = []
    for name, help_text, value in figures:
        whole = f"volvelle_attach_{name}"
        lines += [f"# HELP {whole} {help_text}", f"# TYPE {whole} gauge", f"{whole} {value:.6g}"]
    lines[2] = f"volvelle_attach_poll_timestamp_seconds {follower.snapshot.time:.3f}"
    return "\n".join(lines) + "\n"


def summary(follower: Attached, since: float) -> Iterator[str]:
    """Waits by user, limits asked for against what was used, accuracy: of jobs that ended after ``since``."""
    done = [job for job in follower.over if job.start and (job.end or 0.0) >= since]
    yield heading(follower)
    yield f"{len(done):,} jobs ended in the last {format_duration(follower.snapshot.time - since)}."
    waits: dict[str, list[float]] = defaultdict(list)
    asked = used = 0.0
    for job in done:
        if job.start is None or job.end is None:
            continue
        waits[job.user].append(job.start - (job.eligible or job.submit))
        if job.limit_seconds and job.end > job.start:
            asked += job.limit_seconds * max(job.gpus, 1.0)
            used += (job.end - job.start) * max(job.gpus, 1.0)
    for user, found in sorted(waits.items(), key=lambda item: -max(item[1])):
        yield (
            f"{user}: {len(found)} jobs, waits median {format_duration(statistics.median(found))},"
            f" longest {format_duration(max(found))}"
        )
    if asked:
        yield f"Of the time that jobs asked for they used {used / asked:.0%} (weighed by GPUs)."
    yield follower.accuracy.line()
