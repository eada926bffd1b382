"""The answer of ``volvelle submit``: numbers of jobs, forecast, deadline and guarantee."""

import json
import math
from typing import Any

from volvelle.cli import formatting
from volvelle.cli.moments import format_moment, local_now
from volvelle.cli.options import Form
from volvelle.live.job_request import JobRequest
from volvelle.model.units import format_duration


def print_numbers(numbers: list[int], first: dict[str, Any] | None, output: Form) -> None:
    """Print numbers of jobs for programs. first: the first of them, as the server shows it."""
    if output is Form.CSV:
        print("number", *numbers, sep="\n")
        return
    print(json.dumps({"numbers": numbers, "first": first}, indent=2, ensure_ascii=False))


def print_submitted(
    numbers: list[int], job: dict[str, Any] | None, request: JobRequest, share: float | None
) -> None:
    """Print what became of a submission. job: the first, None: not known; ``share``: see `JobForecast`."""
    others = len(numbers) - 1
    in_a_row = numbers[-1] - numbers[0] == others
    last = (f" to {numbers[-1]}" if in_a_row else f" and {others} others") if others else ""
    if job is None:
        print(f"job {numbers[0]}{last}  accepted")
        return
    if job["state"] in formatting.OVER:
        print(f"job {numbers[0]}{last}  {formatting.format_end(job)}")
        return
    waits = job["reason"] or f"waits for {formatting.format_gpus(job['gpus'])}"
    if job["profiling"]:
        print(f"job {numbers[0]}{last}  {waits}; when it finishes is said after its profile")
        return
    print(f"job {numbers[0]}{last}  {waits if job['state'] == 'waiting' else job['state']}")
    at = job["started"] or job["predicted_start"]
    forecast = {
        "start": at,
        "p50": job["predicted_p50"],
        "p90": job["predicted_p90"],
        "guessed": job["guessed"],
        "waits": job["state"] == "waiting",
    }
    if at is not None or forecast["p50"] is not None:
        estimated = request.estimate is not None
        text = formatting.format_forecast(forecast, local_now(), estimated=estimated)
        first = "the first " if others else ""
        guarantee = job["guarantee"]
        print(
            first + text + _format_deadline(share, guarantee, request, forecast, job["submitted"])
        )
    _print_guarantee(job["guarantee"])


def print_forecast(forecast: dict[str, Any], request: JobRequest, output: Form) -> None:
    """Print the forecast of a dry run."""
    if output is not Form.TABLE:
        print(json.dumps(forecast, indent=2, ensure_ascii=False))
        return
    now = local_now()
    waits = forecast | {"waits": bool(forecast["reason"])}
    text = formatting.format_forecast(waits, now, estimated=request.estimate is not None)
    if request.array > 1:
        text = f"an array of {request.array}, from its first start to its last finish: {text}"
    share, guarantee = forecast["deadline_share"], forecast["guarantee"]
    print(text + _format_deadline(share, guarantee, request, forecast, now.timestamp()))
    if 0 < forecast["rejected"] < request.array:
        print(f"{forecast['rejected']} of its {request.array} would be rejected")
    if 0 < forecast["guaranteed"] < request.array:
        print(
            f"{forecast['guaranteed']} of its {request.array} would be guaranteed, at least one would not:"
        )
    if forecast["reason"]:
        before = formatting.counted(forecast["ahead"], "job")
        print(forecast["reason"] + (f"; {before} before it" if forecast["ahead"] else ""))
    _print_guarantee(forecast["guarantee"])


def _format_deadline(
    share: float | None,
    guarantee: dict[str, Any] | None,
    request: JobRequest,
    forecast: dict[str, Any],
    submitted: float,
) -> str:
    """Whether its last deadline holds by its forecast; if not, by how much, and which ones would.

    A guarantee is said in place of a share of jobs like it.
    """
    if request.deadline is None:
        return ""
    due, p50, p90 = (
        submitted + request.deadline.rewards[-1].deadline_seconds,
        forecast["p50"],
        forecast["p90"],
    )
    text = f"; deadline {format_moment(due, local_now())}"
    guaranteed = guarantee is not None and guarantee["finish_by"] is not None
    kept = "" if share is None or guaranteed else f"{share:.0%} of jobs like it would be in time"
    if p50 is None or p50 <= due:
        return f"{text}: {kept}" if kept else text
    late, half, most = (
        format_duration(math.ceil(seconds))
        for seconds in (p50 - due, p50 - submitted, (p90 or p50) - submitted)
    )
    text += f": missed by {late} (P50){f', {kept}' if kept else ''}"
    ninth = f", one of {most} by nine of ten" if p90 else ""
    return f"{text}\na deadline of {half} is kept by half of such jobs{ninth}"


def _print_guarantee(guarantee: dict[str, Any] | None) -> None:
    if guarantee is None:
        return
    print(formatting.format_guarantee(guarantee, local_now()))
    if guarantee["earliest"] is not None:
        print("without one it runs as best effort; to take the earliest finish: --accept-later")
