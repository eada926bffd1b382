"""``volvelle submit``: a job, from flags or from a YAML file, and what will become of it."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from volvelle.cli import options
from volvelle.cli.options import Form

if TYPE_CHECKING:
    from volvelle.live.http.client import Server
    from volvelle.live.job_request import JobRequest

_GPUS, _TIME, _RUN = "What it needs", "How long", "How it runs"
_FORESEEN_WITHIN_SECONDS = 2.0
_LOOK_SECONDS = 0.5
_FILES = (".yaml", ".yml", ".json")


def submit(
    words: Annotated[
        list[str],
        typer.Argument(metavar="FILE.yaml | COMMAND...", help="A job's file, or its command."),
    ],
    gpus: Annotated[
        int | None, typer.Option("--gpus", "-g", help="All or nothing.", rich_help_panel=_GPUS)
    ] = None,
    min_gpus: Annotated[
        int | None, typer.Option("--min-gpus", help="Fewest it runs on.", rich_help_panel=_GPUS)
    ] = None,
    max_gpus: Annotated[
        int | None, typer.Option("--max-gpus", help="Most it can use.", rich_help_panel=_GPUS)
    ] = None,
    gpu_types: Annotated[
        list[str] | None,
        typer.Option("--gpu-type", help="A type that will do; repeatable.", rich_help_panel=_GPUS),
    ] = None,
    pool: Annotated[
        str | None, typer.Option("--pool", help="Whose quota it uses.", rich_help_panel=_GPUS)
    ] = None,
    estimate: Annotated[
        str | None,
        typer.Option(
            "--estimate", metavar="TIME", help="Run time on these GPUs.", rich_help_panel=_TIME
        ),
    ] = None,
    deadline: Annotated[
        str | None,
        typer.Option(
            "--deadline",
            metavar="WHEN",
            help="4h30m, 18:00, 'tomorrow 09:00', 'friday 18:00'.",
            rich_help_panel=_TIME,
        ),
    ] = None,
    soft: Annotated[
        bool,
        typer.Option("--soft", help="The deadline may be missed.", rich_help_panel=_TIME),
    ] = False,
    name: Annotated[
        str | None, typer.Option("--name", "-n", help="For people.", rich_help_panel=_RUN)
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option("--directory", help="Where it starts.  [default: here]", rich_help_panel=_RUN),
    ] = None,
    environment: Annotated[
        list[str] | None,
        typer.Option(
            "--env", "-e", metavar="NAME[=VALUE]", help="A variable, or mine.", rich_help_panel=_RUN
        ),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option("--checkpoint", metavar="PATH", help="Where it saves.", rich_help_panel=_RUN),
    ] = None,
    grace: Annotated[
        str | None,
        typer.Option("--grace", metavar="TIME", help="To save and end.", rich_help_panel=_RUN),
    ] = None,
    retries: Annotated[
        int | None, typer.Option("--retries", help="After failures.", rich_help_panel=_RUN)
    ] = None,
    array: Annotated[
        int | None, typer.Option("--array", help="So many alike.", rich_help_panel=_RUN)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would get.")] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Until it is over; exit status 0 if it finished.")
    ] = False,
    output: options.Output = Form.TABLE,
) -> None:
    """Submit a job: a command, or a file with one. Options come before it.

    volvelle submit --gpus 8 --deadline "tomorrow 09:00" -- python train.py

    volvelle submit job.yaml
    """
    from volvelle.live.http.client import Server

    given = {
        "gpus": gpus,
        "min_gpus": min_gpus,
        "max_gpus": max_gpus,
        "gpu_types": gpu_types or None,
        "pool": pool,
        "estimate": estimate,
        "deadline": _deadline(deadline, soft=soft),
        "name": name,
        "directory": None if directory is None else str(directory.absolute()),
        "environment": _environment(environment or []) or None,
        "retries": retries,
        "array": array,
    }
    saving = {"path": checkpoint, "grace": grace}
    request = _request(words, given, {k: v for k, v in saving.items() if v is not None})
    server = Server.find()
    if dry_run:
        _say_forecast(server.post("/v1/forecast", request.as_json()), request, output)
        return
    share = _share_in_time(server, request)
    numbers = _submitted(server, request)
    _say_submitted(server, numbers, request, share, output)
    if wait and not _all_finish(server, numbers, output):
        raise typer.Exit(1)


def _request(words: list[str], given: dict[str, Any], saving: dict[str, Any]) -> "JobRequest":
    """The job of a file or a command, with what is given in place of its own. Raises `Problem`."""
    from pydantic import ValidationError

    from volvelle.live.job_request import JobRequest
    from volvelle.model.problems import Problem
    from volvelle.model.validation import describe_validation

    from_file = len(words) == 1 and Path(words[0]).suffix in _FILES
    document: dict[str, Any] = read_job(Path(words[0])) if from_file else {"command": words}
    document.setdefault("directory", str(Path.cwd()))
    changed = {key: value for key, value in given.items() if value is not None}
    if saving:
        changed["checkpoint"] = {**document.get("checkpoint", {}), **saving}
    try:
        return JobRequest.model_validate(document | changed)
    except ValidationError as error:
        place = f"{words[0]}: " if from_file else ""
        raise Problem(f"{place}{describe_validation(error, JobRequest)}", usage=True) from None


def read_job(path: Path) -> dict[str, Any]:
    """What stands in a job's file. Raises `Problem` where it is none."""
    from volvelle.model.problems import Problem

    try:
        import yaml
    except ImportError:
        raise Problem("job files need PyYAML", mend="pip install 'volvelle[live]'") from None
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Problem(f"there is no file {path}", mend="check the path", usage=True) from None
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        said = " ".join(str(error).split())
        raise Problem(f"{path} is not a YAML file: {said}", usage=True) from None
    if not isinstance(document, dict):
        raise Problem(
            f"{path} is not a job", mend="write keys and values: command: ...", usage=True
        )
    return document


def _deadline(when: str | None, *, soft: bool) -> dict[str, Any] | None:
    from volvelle.cli.moments import here, seconds_until
    from volvelle.model.problems import Problem

    if when is None:
        return None
    try:
        within = seconds_until(when, here())
    except ValueError as error:
        raise Problem(f"--deadline: {error}", usage=True) from None
    return {"kind": "soft" if soft else "strict", "within": within}


def _environment(given: list[str]) -> dict[str, str]:
    """``NAME=VALUE`` as it is, ``NAME`` with the value it has here. Raises `Problem`."""
    import os

    from volvelle.model.problems import Problem

    found: dict[str, str] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals and name not in os.environ:
            raise Problem(
                f"--env: there is no variable {name!r} here", mend="say NAME=VALUE", usage=True
            )
        found[name] = value if equals else os.environ[name]
    return found


def _submitted(server: "Server", request: "JobRequest") -> list[int]:
    """The numbers of the jobs. Tried again with the same key, it is still submitted once."""
    import secrets

    answered = server.post("/v1/jobs", request.as_json(), key=secrets.token_hex(16))
    return list(answered["numbers"])


def _say_submitted(
    server: "Server",
    numbers: list[int],
    request: "JobRequest",
    share: float | None,
    output: Form,
) -> None:
    import json

    job = _foreseen(server, numbers[0])
    if output is Form.JSON:
        print(json.dumps({"numbers": numbers, "first": job}, indent=2, ensure_ascii=False))
        return
    if output is Form.CSV:
        print("number", *numbers, sep="\n")
        return
    from volvelle.cli import formatting
    from volvelle.cli.moments import here

    last = f" to {numbers[-1]}" if len(numbers) > 1 else ""
    if job["state"] in formatting.OVER:
        print(f"job {numbers[0]}{last}  {formatting.ended(job)}")
        return
    waits = job["reason"] or f"waits for {formatting.gpus(job['gpus'])}"
    print(f"job {numbers[0]}{last}  {waits if job['state'] == 'waiting' else job['state']}")
    at = job["started"] or job["predicted_start"]
    foreseen = {"start": at, "p50": job["predicted_p50"], "p90": job["predicted_p90"]}
    if at is not None or foreseen["p50"] is not None:
        print(
            formatting.foreseen(foreseen, here()) + _deadline_said(share, request, job["submitted"])
        )


def _foreseen(server: "Server", number: int) -> dict[str, Any]:
    """The job once there is a forecast for it, or without one if that takes long."""
    patience = time.monotonic() + _FORESEEN_WITHIN_SECONDS
    while True:
        job: dict[str, Any] = server.get(f"/v1/jobs/{number}")
        told = job["predicted_p50"] is not None or job["ended"] is not None
        if told or time.monotonic() > patience:
            return job
        time.sleep(0.05)


def _say_forecast(forecast: dict[str, Any], request: "JobRequest", output: Form) -> None:
    import json

    if output is not Form.TABLE:
        print(json.dumps(forecast, indent=2, ensure_ascii=False))
        return
    from volvelle.cli import formatting
    from volvelle.cli.moments import here

    now = here()
    share = forecast["deadline_share"]
    print(f"{formatting.foreseen(forecast, now)}{_deadline_said(share, request, now.timestamp())}")
    if forecast["reason"]:
        print(forecast["reason"])


def _share_in_time(server: "Server", request: "JobRequest") -> float | None:
    """The share of forecasts in which a job with a deadline keeps it."""
    if request.deadline is None:
        return None
    forecast = server.post("/v1/forecast", request.as_json())
    share: float | None = forecast["deadline_share"]
    return share


def _deadline_said(share: float | None, request: "JobRequest", submitted: float) -> str:
    from volvelle.cli.moments import here, say_moment

    if request.deadline is None:
        return ""
    due = submitted + request.deadline.rewards[-1].deadline_seconds
    kept = "" if share is None else f": kept in {share:.0%} of forecasts"
    return f"; deadline {say_moment(due, here())}{kept}"


def _all_finish(server: "Server", numbers: list[int], output: Form) -> bool:
    """Wait for the ends of all; whether each finished."""
    from volvelle.cli import formatting
    from volvelle.cli.output import remark

    finished = True
    try:
        for number in numbers:
            while (job := server.get(f"/v1/jobs/{number}"))["state"] not in formatting.OVER:
                time.sleep(_LOOK_SECONDS)
            finished &= job["state"] == "finished"
            if output is Form.TABLE:
                print(f"{formatting.label(job)} {formatting.ended(job)}")
    except KeyboardInterrupt:
        remark(f"job {numbers[0]} goes on; to end it: volvelle cancel {numbers[0]}")
        raise
    return finished
