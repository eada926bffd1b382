"""Formats jobs of a server for people: when they start and finish, and how they ended."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from volvelle.cli.moments import format_moment, reader_at, seconds_of
from volvelle.cli.rows import Head
from volvelle.model.tolerances import SAME_END
from volvelle.model.units import format_duration

Job = dict[str, Any]

NAMED = 5
"""Jobs that are named by their numbers where there are many."""
OVER = ("finished", "failed", "cancelled", "rejected")
"""Final states of jobs."""


def format_gpus(count: float) -> str:
    """``1 GPU``, ``8 GPUs``."""
    return f"{count:g} GPU{'' if count == 1 else 's'}"


def counted(count: int, noun: str) -> str:
    """``1 job``, ``1,200 jobs``, ``3 policies``."""
    several = noun.removesuffix("y") + "ies" if noun.endswith("y") else noun + "s"
    return f"{count:,} {noun if count == 1 else several}"


def format_numbers(numbers: Sequence[int]) -> str:
    """The first of some jobs: ``1, 2, 3, 4, 5 and 7 more``."""
    shown = ", ".join(map(str, numbers[:NAMED]))
    return shown + (f" and {len(numbers) - NAMED:,} more" if len(numbers) > NAMED else "")


def format_grants(grants: Sequence[tuple[str, Sequence[int]]]) -> str:
    """``node-0 (GPUs 0, 1) and node-1 (GPU 3), its command once on each``."""
    each = [
        f"{node} (GPU{'' if len(gpus) == 1 else 's'} {', '.join(map(str, gpus))})"
        for node, gpus in grants
    ]
    if len(each) == 1:
        return each[0]
    return f"{', '.join(each[:-1])} and {each[-1]}, its command once on each"


def format_start(job: Job, now: datetime) -> str:
    """When it started, or with ``~`` the predicted start."""
    if job["started"] is not None:
        return format_moment(job["started"], now)
    if job["state"] in OVER or job["predicted_start"] is None:
        return "-"
    start, attached = max(job["predicted_start"], seconds_of(now)), job.get("attached")
    if not attached:
        return f"~{format_moment(start, now)}"
    return "~" + format_interval(start, max(start, attached["start_p90"]), now)


def attached_heads(titles: Mapping[str, str], now: datetime) -> Iterator[Head]:
    """The columns of jobs of an attached cluster. titles: its scheduler's words by field."""
    shown: dict[str, Callable[[Job], str]] = {
        "partition": lambda job: job["attached"]["partition"],
        "qos": lambda job: job["attached"]["qos"] or "-",
        "start": lambda job: format_moment(job["attached"]["start"], now),
    }
    return (Head(titles[name], text) for name, text in shown.items() if name in titles)


def format_attached(attached: Job, titles: Mapping[str, str], now: datetime) -> str:
    """``Account vision, partition a100, QOS normal; its scheduler says QOSMaxJobsPerUserLimit, no start``."""
    place = ", ".join(
        f"{titles[name]} {attached[name]}"
        for name in ("account", "partition", "qos")
        if name in titles and attached[name]
    )
    start = f"start {format_moment(attached['start'], now)}" if attached["start"] else "no start"
    said = ", ".join(filter(None, (attached["reason"], start * ("start" in titles))))
    return f"{place[:1].upper()}{place[1:]}" + (f"; its scheduler says {said}" if said else "")


def format_finish(job: Job, now: datetime) -> str:
    """When it ended, or the predicted P50 and P90, with what is guaranteed and whether that is at risk.

    Predictions that have passed are now: the job takes longer than expected, as it is said to do where it has
    run longer than was believed of it.
    """
    if job["ended"] is not None:
        return format_moment(job["ended"], now)
    job = still_to_start(job, now)
    p50, p90, late = _to_come(job["predicted_p50"], job["predicted_p90"], now)
    late = format_overrun(job, now) or late
    finish = format_interval(p50, p90, now) + (" (a guess)" if job["guessed"] else "") + late
    guarantee = job["guarantee"]
    if guarantee is None and job.get("due") is None:
        return finish  # as most of thousands of rows
    if guarantee is not None and guarantee["finish_by"] is not None:
        finish += f", {format_guarantee(guarantee, now)}"
    elif guarantee is not None and guarantee.get("revoked") is not None:
        finish += f", guarantee of {format_moment(guarantee['revoked'], now)} revoked"
    return finish + format_risk(job)


def format_overrun(job: Job, now: datetime) -> str:
    """``, has run 3.2 times what was believed``, of a job that runs longer; else empty."""
    if (end := job.get("believed_end")) is None or not job["started"] < end < seconds_of(now):
        return ""
    times = (seconds_of(now) - job["started"]) / (end - job["started"])
    return f", has run {times:.1f} times what was believed"


def still_to_start(job: Job, now: datetime) -> Job:
    """The job; if it waits though its predicted start has passed, with P50 and P90 as much later."""
    start = job["predicted_start"] if job["state"] == "waiting" else None
    later = 0.0 if start is None else seconds_of(now) - start
    if later <= 0.0:
        return job
    finish = {name: job[name] for name in ("predicted_p50", "predicted_p90")}
    return job | {name: None if at is None else at + later for name, at in finish.items()}


def _to_come(
    p50: float | None, p90: float | None, now: datetime
) -> tuple[float | None, float | None, str]:
    """P50 and P90, of those that have passed now, and what is to be said of that."""
    since = seconds_of(now)
    if p90 is not None and p90 < since:
        p90 = since
    if p50 is not None and p50 < since:
        return since, p90, ", longer than expected"
    return p50, p90, ""


def format_interval(p50: float | None, p90: float | None, now: datetime) -> str:
    """``14:20-15:10``; ``14:20-?`` where P90 is not known yet."""
    if p50 is None:
        return "-"
    written = reader_at(now)
    first, last = written(p50), "?" if p90 is None else written(p90)
    return first if first == last else f"{first}-{last}"


def format_progress(job: Job) -> str:
    """The share of its iterations that is done, or their number."""
    done, total = job["iterations"], job["total_iterations"]
    if not done:
        return ""
    return f"{done / total:.0%}" if total else f"{done:,} it"


def format_forecast(forecast: dict[str, Any], now: datetime, *, estimated: bool = True) -> str:
    """``starts about 14:20 (P50), finishes 19:05 (P50) to 20:40 (P90)``, as far as it is known.

    forecast: ``start``, ``p50``, ``p90``, ``guessed``, and of a job that waits ``waits``. estimated: whether
    the job's user declared an estimate.
    """
    start = forecast["start"]
    p50, p90, late = _to_come(forecast["p50"], forecast["p90"], now)
    late = forecast.get("overrun") or late
    if start is None and p50 is None:
        return "it is not known when it starts"
    parts = []
    if start is not None:
        soon = start - now.timestamp() < 1.0
        at_once = "starts at any moment" if forecast.get("waits") else "starts now"
        parts.append(at_once if soon else f"starts about {format_moment(start, now)} (P50)")
    if p50 is not None:
        parts.append(f"finishes {format_moment(p50, now)} (P50)")
        if format_moment(p90, now) != format_moment(p50, now):
            parts[-1] += f" to {format_moment(p90, now)} (P90)"
        parts[-1] += late
    guess = "P90 is a guess" if estimated else "guesses without --estimate"
    return ", ".join(parts) + (f"; {guess}" if forecast["guessed"] else "")


def format_guarantee(guarantee: dict[str, Any], now: datetime) -> str:
    """``guaranteed by fri 18:00``, ``guaranteed until fri 18:00, then revoked: ...``, or ``no finish is
    guaranteed: ...`` with the earliest that could be.
    """
    if guarantee["finish_by"] is not None:
        return f"guaranteed by {format_moment(guarantee['finish_by'], now)}"
    until = guarantee.get("revoked")
    held = "" if until is None else f"guaranteed until {format_moment(until, now)}, then revoked"
    text = f"{held or 'no finish is guaranteed'}: {guarantee['reason']}"
    if guarantee["earliest"] is None:
        return text
    earliest = format_moment(math.ceil(guarantee["earliest"]), now)
    return f"{text}; earliest about {earliest}, an estimate"


def format_profile(job: Job) -> str:
    """``it was profiled for 5m, and was to take 2h from then on``, or what is believed instead."""
    from volvelle.model.units import format_duration

    profile = job["profile"]
    text = f"it was profiled for {format_duration(profile['ended'] - profile['started'])}"
    if profile["seconds"] is not None:
        return f"{text}, and was to take {format_duration(profile['seconds'])} from then on"
    declared = job["request"].get("estimate") is not None
    takes = "what its user declared" if declared else "what jobs like it took"
    nothing = "its script did no iteration, or did not say how many it has"
    return f"{text}; {nothing}: it is believed to take {takes}"


_MAX_MEASURES = 6


def format_measured(measured: list[dict[str, Any]]) -> str:
    """``2 A100 3.2 iterations/s, 4 A100 over 2 nodes 5.1 iterations/s``: the latest first."""
    told = []
    for one in measured[: -_MAX_MEASURES - 1 : -1]:
        where = f"{one['gpus']} {one['gpu_type']}" if one["gpu_type"] else format_gpus(one["gpus"])
        over = f" over {one['nodes']} nodes" if one["nodes"] > 1 else ""
        rate = 3600.0 * one["rate"] if one["epochs"] else one["rate"]
        unit = "epochs/h" if one["epochs"] else "iterations/s"
        told.append(f"{where}{over} {float(f'{rate:.3g}'):,g} {unit}")
    return ", ".join(told)


def format_risk(job: Job) -> str:
    """How much later than guaranteed, or else than its deadline, a job is expected; empty if it is not."""
    needed = (job["guarantee"] or {}).get("finish_by") or job.get("due")
    if needed is None:
        return ""
    for expected, how in (("predicted_p50", "expected"), ("predicted_p90", "at risk: up to")):
        if expected == "predicted_p90" and job["guessed"]:
            continue
        if job[expected] is not None and job[expected] > needed:
            return f", {how} {format_duration(math.ceil(job[expected] - needed))} too late"
    return ""


def format_deadline(job: Job, now: datetime) -> str:
    """``deadline 14:20``, of a job that is over ``deadline 14:20: missed by 1m 18s``; empty without one."""
    if job.get("due") is None:
        return ""
    if job["state"] not in OVER:
        return f"deadline {format_moment(job['due'], now)}{format_risk(still_to_start(job, now))}"
    return ": ".join(
        filter(None, (f"deadline {format_moment(job['due'], now)}", format_missed(job)))
    )


def format_missed(job: Job) -> str:
    """``missed by 1m 18s`` or ``kept``, of a job that is over; empty if it had no deadline."""
    if job.get("due") is None or job["state"] == "cancelled":
        return ""
    return _kept(job, job["due"], "missed")


def format_kept(job: Job, now: datetime) -> str:
    """The last guarantee to a job that is over, and whether it was kept."""
    text, finish_by = format_guarantee(job["guarantee"], now), job["guarantee"]["finish_by"]
    if finish_by is None:
        return text.replace("no finish is", "no finish was")
    return text if job["state"] == "cancelled" else f"{text}: {_kept(job, finish_by, 'broken')}"


def format_promises(job: Job) -> str:
    """``guarantee kept, deadline missed by 39s``, of a job that is over; history.js says the same."""
    guarantee = job["guarantee"] or {}
    if job["state"] == "cancelled":
        return ""
    if guarantee.get("finish_by") is not None:
        said = f"guarantee {_kept(job, guarantee['finish_by'], 'broken')}"
    else:
        said = "" if guarantee.get("revoked") is None else "guarantee revoked"
    missed = format_missed(job)
    return ", ".join(filter(None, (said, f"deadline {missed}" if missed else "")))


def _kept(job: Job, needed: float, missed: str) -> str:
    """Whether a job that is over ended by ``needed``, else how it was ``missed``."""
    if job["state"] != "finished":
        return f"{missed}: it {'was ' * (job['state'] == 'rejected')}{job['state']}"
    late = job["ended"] - needed
    return f"{missed} by {format_duration(round(late))}" if late > SAME_END else "kept"


def format_end(job: Job) -> str:
    """``finished after 3h 20m``; ``failed 2 times after 5s: exit code 1``."""
    jct = format_duration((job["ended"] or job["submitted"]) - job["submitted"])
    what, _, why = job["reason"].partition(": ")
    if not what.startswith(job["state"]):
        what, why = job["state"], job["reason"]
    if job["state"] == "finished" or not why:
        return f"{job['state']} after {jct}"
    return f"{what} after {jct}: {why}"


def format_reason(job: Job) -> str:
    """Why a job ended so, without its state; of one that was profiled first, how long that took."""
    profile, state = job["profile"], str(job["state"])
    reason = "" if job["reason"] == state else str(job["reason"]).removeprefix(f"{state}: ")
    if profile is None or profile["ended"] == job["ended"]:
        return "" if state == "finished" and profile is None else reason
    took = f"profiled {format_duration(profile['ended'] - profile['started'])}"
    return took if state == "finished" or not reason else f"{reason}; {took}"


def format_job(job: Job) -> str:
    """``job 12 (bert)``."""
    return f"job {job['number']}" + (f" ({job['name']})" if job["name"] else "")
