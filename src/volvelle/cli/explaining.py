"""An answer to why a job waits, or how it ended, as sentences."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from volvelle.cli import formatting
from volvelle.cli.moments import format_moment
from volvelle.dashboard.sentences import NO_NODE, NOT_ALL_TRIED, UNDERTAKEN
from volvelle.model.job import JobSpec
from volvelle.model.job_schema import SECONDS, with_key
from volvelle.model.units import format_duration


def explained(
    found: Mapping[str, Any], titles: Callable[[], Mapping[str, str]], now: datetime
) -> Iterator[str]:
    """The sentences for the server's answer ``found``. titles: words of an attached cluster's scheduler."""
    job = found["job"]
    if job["state"] in formatting.OVER:
        yield f"{formatting.format_job(job)} {formatting.format_end(job)}."
        yield course(job, now)
        if job["guarantee"] is not None:
            yield f"{formatting.format_kept(job, now).capitalize()}."
        yield from _facts(found, now)
        return
    waits = job["state"] in ("waiting", "held")
    said = [] if waits and found["reason"] else [f"it is {job['state']}"]
    said += [found["reason"]] if found["reason"] else []
    yield f"{formatting.format_job(job)}: {', '.join(said)}."
    if found["ahead"]:
        count, numbers = formatting.counted(len(found["ahead"]), "job"), found["ahead"]
        yield f"{count} waiting before it: {formatting.format_numbers(numbers)}."
    if job["attached"] is not None:
        yield f"{formatting.format_attached(job['attached'], titles(), now)}."
    if job["grants"]:
        yield f"It runs on {formatting.format_grants(job['grants'])}."
    if job["first_started"] is not None:
        yield f"It {_first_start(job, now)}{_stops(job)}."
    expected = formatting.still_to_start(job, now)
    forecast = {key: expected[f"predicted_{key}"] for key in ("start", "p50", "p90")}
    forecast |= {"guessed": job["guessed"], "waits": waits}
    forecast["overrun"] = formatting.format_overrun(job, now)
    if job["started"] is not None:
        forecast["start"] = None
    if forecast["start"] or forecast["p50"]:
        request = job["request"]
        estimated = not request or request.get("estimate") is not None
        yield f"It {formatting.format_forecast(forecast, now, estimated=estimated)}."
    for notice in found["notices"]:
        yield f"{notice[0].upper()}{notice[1:]}."
    if job["guarantee"] is not None:
        yield f"{formatting.format_guarantee(job['guarantee'], now).capitalize()}."
        if job["guarantee"]["finish_by"] is not None:
            yield UNDERTAKEN
    yield from _facts(found, now)
    if after := [number for number in found["after"] if number not in found["ahead"]]:
        ends, which = ("ends", "jobs") if len(after) > 1 else ("end", "job")
        yield f"It waits for the {ends} of {which} {formatting.format_numbers(after)}."
    for change in found["changes"]:
        yield _change(change, now)
    helpless = job["attached"] is not None or found["reason"].startswith(NO_NODE)
    if waits and found["complete"] and not found["changes"] and not helpless:
        yield "No change that was tried would let it finish sooner."
    if not found["complete"]:
        yield NOT_ALL_TRIED


def course(job: formatting.Job, now: datetime) -> str:
    """The course of a job that is over: its wait, its nodes, its stops, and the finish told at first."""
    if job["first_started"] is None:
        return "It never started."
    nodes = [*job["ran_on"]]
    more = f" and {len(nodes) - formatting.NAMED:,} more" if len(nodes) > formatting.NAMED else ""
    ran = f" and ran on {', '.join(nodes[: formatting.NAMED])}{more}" if nodes else ""
    text = f"It {_first_start(job, now)}{ran}{_stops(job)}."
    told = job["first_p50"]
    if told is None or job["state"] != "finished":
        return text
    late = round(job["ended"] - told)
    off = (
        f"{format_duration(abs(late))} {'later' if late > 0 else 'earlier'} than" if late else "as"
    )
    return f"{text} It finished {off} told at its submission ({format_moment(told, now)})."


def _first_start(job: formatting.Job, now: datetime) -> str:
    """``waited 5m (waits for 8 GPUs: 2 free), started 14:20``, or ``started at once (14:20)``."""
    started = format_moment(job["first_started"], now)
    waited = round(job["first_started"] - job["submitted"])
    if waited <= 0:
        return f"started at once ({started})"
    why = f" ({job['waited_for']})" if job["waited_for"] else ""
    return f"waited {format_duration(waited)}{why}, started {started}"


def _stops(job: formatting.Job) -> str:
    """``, was stopped for others 2 times, failed once``; empty where it never was."""
    stopped = f", was stopped for others {_times(job['preemptions'])}" if job["preemptions"] else ""
    fell = job["failures"] and job["state"] != "failed"  # else its end says it
    return stopped + (f", failed {_times(job['failures'])}" if fell else "")


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _facts(found: Mapping[str, Any], now: datetime) -> Iterator[str]:
    """Sentences on its deadline, its profile, its declarations and its speed."""
    job = found["job"]
    if deadline := formatting.format_deadline(job, now):
        yield f"{deadline.capitalize()}."
    if job["profile"] is not None and job["profile"]["ended"] != job["ended"]:
        yield f"{formatting.format_profile(job).capitalize()}."
    if job["changed"]:
        said = "; ".join(
            f"{key.replace('_', ' ')} {_value(key, new)}, was {_value(key, was)}"
            for key, (was, new) in job["changed"].items()
        )
        yield f"Changed since its submission: {said}."
    if found["measured"]:
        yield f"Measured on jobs of its name: {formatting.format_measured(found['measured'])}."


def _value(key: str, value: float | None) -> str:
    """The value of an attribute that changed, as its user would write it."""
    timed = {one.about.key for one in with_key(JobSpec) if one.about.unit == SECONDS}
    if value is None:
        return "none"
    return format_duration(value) if key in timed else f"{value:g}"


def _change(change: Mapping[str, Any], now: datetime) -> str:
    soon = change["start"] - now.timestamp() < 1.0
    when = "now" if soon else f"about {format_moment(change['start'], now)}"
    done = f" and finish {format_moment(change['p50'], now)}" if change["p50"] else ""
    sooner = f", {format_duration(change['sooner'])} sooner" if change["sooner"] else ""
    return f"With {change['what']} it would start {when}{done}{sooner}."
