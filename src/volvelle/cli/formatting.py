"""Jobs of a server in words: when they start and finish, why they wait, how they ended."""

from datetime import datetime
from typing import Any

from volvelle.cli.moments import say_moment
from volvelle.model.units import format_duration

Job = dict[str, Any]

WAITING = ("waiting", "held")
OVER = ("finished", "failed", "cancelled", "rejected")


def gpus(count: float) -> str:
    """``1 GPU``, ``8 GPUs``."""
    return f"{count:g} GPU{'' if count == 1 else 's'}"


def start(job: Job, now: datetime) -> str:
    """When it began to run, or ``~`` when it is believed to."""
    if job["started"] is not None:
        return say_moment(job["started"], now)
    if job["state"] in OVER or job["predicted_start"] is None:
        return "-"
    return f"~{say_moment(job['predicted_start'], now)}"


def finish(job: Job, now: datetime) -> str:
    """When it ended; or the times by which it is believed to, with even chances and with nine in ten."""
    if job["ended"] is not None:
        return say_moment(job["ended"], now)
    return span(job["predicted_p50"], job["predicted_p90"], now)


def span(p50: float | None, p90: float | None, now: datetime) -> str:
    """``14:20-15:10``."""
    if p50 is None:
        return "-"
    first, last = say_moment(p50, now), say_moment(p90, now)
    return first if p90 is None or first == last else f"{first}-{last}"


def progress(job: Job) -> str:
    """How far it is, as far as its script says."""
    done, total = job["iterations"], job["total_iterations"]
    if not done:
        return ""
    return f"{done / total:.0%}" if total else f"{done:,} it"


def foreseen(forecast: dict[str, Any], now: datetime) -> str:
    """``starts about 14:20, finishes 19:05 (P50) to 20:40 (P90)``, as far as it is believed."""
    at, p50, p90 = forecast["start"], forecast["p50"], forecast["p90"]
    if at is None and p50 is None:
        return "it is not known when it starts"
    said = []
    if at is not None:
        soon = at - now.timestamp() < 1.0
        said.append("starts now" if soon else f"starts about {say_moment(at, now)}")
    if p50 is not None:
        said.append(f"finishes {say_moment(p50, now)} (P50)")
        if p90 is not None and say_moment(p90, now) != say_moment(p50, now):
            said[-1] += f" to {say_moment(p90, now)} (P90)"
    return ", ".join(said)


def ended(job: Job) -> str:
    """``finished after 3h 20m``, with the reason where it did not."""
    took = format_duration((job["ended"] or job["submitted"]) - job["submitted"])
    reason = f": {job['reason']}" if job["reason"] and job["state"] != "finished" else ""
    return f"{job['state']} after {took}{reason}"


def label(job: Job) -> str:
    """``job 12 (bert)``."""
    return f"job {job['number']}" + (f" ({job['name']})" if job["name"] else "")
