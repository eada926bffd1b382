"""Submitting from the client's side: a request from a file or a command, its forecast, its numbers."""

import secrets
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from volvelle.live.http.client import ApiClient
from volvelle.live.job_request import JobRequest
from volvelle.model.extras import install
from volvelle.model.problems import Problem
from volvelle.model.validation import describe_validation

_FILES = (".yaml", ".yml", ".json")
_FORECAST_TIMEOUT_SECONDS = 2.0


def requested(words: Sequence[str], changed: Mapping[str, Any]) -> JobRequest:
    """The request of a job's file or of a command, with the keys that are ``changed``.

    Of ``checkpoint`` the keys of the file stay that are not changed. Raises `Problem`.
    """
    from_file = len(words) == 1 and Path(words[0]).suffix in _FILES
    document: dict[str, Any] = read_job(Path(words[0])) if from_file else {"command": [*words]}
    document.setdefault(
        "directory", "" if changed.get("upload") or "upload" in document else str(Path.cwd())
    )
    changed = {key: value for key, value in changed.items() if value is not None}
    if "checkpoint" in changed:
        changed["checkpoint"] = {**document.get("checkpoint", {}), **changed["checkpoint"]}
    try:
        return JobRequest.model_validate(document | changed)
    except ValidationError as error:
        place = f"{words[0]}: " if from_file else ""
        raise Problem(f"{place}{describe_validation(error, JobRequest)}", usage=True) from None


def read_job(path: Path) -> dict[str, Any]:
    """The content of a job's file. Raises `Problem` if it is invalid."""
    try:
        import yaml  # noqa: PLC0415 - an extra
    except ImportError:
        raise Problem("job files need PyYAML", mend=install("live")) from None
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Problem(f"there is no file {path}", mend="check the path", usage=True) from None
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        said, mark = getattr(error, "problem", None) or error, getattr(error, "problem_mark", None)
        place = f" line {mark.line + 1}" if mark else ""
        mend = "write keys and values, a line each, as command: python train.py"
        raise Problem(f"{path}{place} is not YAML: {said}", mend=mend, usage=True) from None
    if not isinstance(document, dict):
        raise Problem(
            f"{path} is not a job", mend="write keys and values: command: ...", usage=True
        )
    return document


def forecast(client: ApiClient, request: JobRequest) -> dict[str, Any]:
    """The forecast of the job if it were submitted now."""
    without = request.model_copy(update={"secrets": {}})
    told: dict[str, Any] = client.post("/v1/forecast", without.as_json())
    return told


def submit(client: ApiClient, request: JobRequest) -> dict[str, Any]:
    """Submit with an idempotency key; ``numbers`` of the jobs, and ``notices`` to the user."""
    answered: dict[str, Any] = client.post("/v1/jobs", request.as_json(), key=secrets.token_hex(16))
    return answered


def rejected(client: ApiClient, numbers: Sequence[int]) -> dict[int, str]:
    """The jobs of an array, its consecutive ``numbers``, that were rejected, with the reasons."""
    query = {"over": True, "state": "rejected", "limit": len(numbers), "after": numbers[-1] + 1}
    latest_first = client.get("/v1/jobs", **query)["jobs"]
    found = {job["number"]: job["reason"] for job in latest_first if job["number"] >= numbers[0]}
    return dict(sorted(found.items()))


def with_forecast(client: ApiClient, number: int) -> dict[str, Any]:
    """The job, once it has a forecast or after a timeout."""
    deadline = time.monotonic() + _FORECAST_TIMEOUT_SECONDS
    while True:
        job: dict[str, Any] = client.get(f"/v1/jobs/{number}")
        known = job["predicted_p50"] is not None or job["ended"] is not None
        known |= job["profiling"]
        if known or time.monotonic() > deadline:
            return job
        time.sleep(0.05)
