"""``volvelle submit``: submits a job, from flags or from a YAML file."""

import time
from collections.abc import Iterator
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from volvelle.cli import options
from volvelle.cli.options import Form

if TYPE_CHECKING:
    from volvelle.live.http.client import ApiClient
    from volvelle.model.job_schema import JobField

_time, _run = options.under("How long"), options.under("How it runs")
_POLL_SECONDS = 0.5


def _gpus(text: str) -> int:
    from volvelle.model.units import refuse_part

    try:
        return int(refuse_part(text))
    except ValueError as error:
        part = "." in text
        raise typer.BadParameter(str(error) if part else f"{text!r} is no number of GPUs") from None


def option_of(field: "JobField", *, hidden: bool = False) -> Parameter:
    """The option for an attribute of a job, called as its key in a request."""
    from volvelle.model.job_schema import GPUS, SECONDS

    about = field.about
    several = field.type == tuple[str, ...]
    said = f"{about.meaning}: no" if field.default is True else about.meaning
    kind: Any = {SECONDS: str, GPUS: int}.get(about.unit, field.type)
    option = typer.Option(
        *about.flag.split(),
        metavar=about.metavar or {SECONDS: "TIME", GPUS: "N"}.get(about.unit),
        parser=_gpus if about.unit == GPUS else None,
        help=f"{said[0].upper()}{said[1:]}{'; repeatable' if several else ''}.",
        rich_help_panel=about.panel,
        hidden=hidden,
    )
    kind = bool if kind is bool else (list[str] if several else kind) | None
    default = False if kind is bool else None
    return options.parameter(about.key, Annotated[kind, option], default)


def _declared() -> Iterator[Parameter]:
    """The options that follow from the schema of a job."""
    from volvelle.model.job import JobSpec
    from volvelle.model.job_schema import with_key

    yield from (option_of(field) for field in with_key(JobSpec) if field.about.flag)


def _keys(declared: dict[str, Any]) -> dict[str, Any]:
    """The keys of a request with what is declared; texts that a comma joins are several."""
    from volvelle.model.job import JobSpec
    from volvelle.model.job_schema import with_key

    found: dict[str, Any] = {}
    for field in with_key(JobSpec):
        value = declared.get(field.about.key)
        if field.about.separator == "," and value:
            value = ",".join(value).split(",")
        if value is True:
            value = not field.default
        elif value is False or value == []:
            value = None
        found[field.about.key] = value
    return found


@options.besides(_declared)
def submit(
    words: Annotated[
        list[str],
        typer.Argument(metavar="FILE.yaml | COMMAND...", help="A job's file, or its command."),
    ],
    deadline: Annotated[
        str | None, _time(metavar="WHEN", help="4h30m, 18:00, 'tomorrow 09:00', 'friday 18:00'.")
    ] = None,
    soft: Annotated[bool, _time("--soft", help="The deadline may be missed.")] = False,
    accept_later: Annotated[
        bool,
        _time(
            "--accept-later", help="If it cannot be guaranteed, take the earliest finish that can."
        ),
    ] = False,
    directory: Annotated[Path | None, _run(help="Where it starts.  [default: here]")] = None,
    setup: Annotated[
        list[str] | None,
        _run(metavar="COMMAND", help="Run before it, as in 'pip install -r r.txt'; repeatable."),
    ] = None,
    container: Annotated[
        str | None, _run(metavar="IMAGE", help="Run in it, by Podman or Apptainer there.")
    ] = None,
    workdir: Annotated[
        Path | None,
        _run(metavar="DIR", help="Send these files along, and start there. Not those of Git."),
    ] = None,
    environment: Annotated[
        list[str] | None, _run("--env", "-e", metavar="NAME[=VALUE]", help="A variable, or mine.")
    ] = None,
    secret: Annotated[
        list[str] | None, _run(metavar="NAME[=VALUE]", help="A variable that is stored encrypted.")
    ] = None,
    checkpoint: Annotated[str | None, _run(metavar="PATH", help="Where it saves.")] = None,
    grace: Annotated[str | None, _run(metavar="TIME", help="Time to save and exit.")] = None,
    after: Annotated[
        list[str] | None,
        _time(
            metavar="JOB",
            help="Wait for its success: 12, NAME, 12-20; 12:any end; 12-20:each of an array.",
        ),
    ] = None,
    array: Annotated[
        str | None, _run(metavar="N[%M]", help="So many jobs, with an index; at most M at once.")
    ] = None,
    notify: Annotated[
        list[str] | None,
        _run(
            metavar="URL|ADDRESS",
            help="Tell a webhook, or by mail, what becomes of it; repeatable.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print its forecast.")] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until it is over; exit status 0 if it finished.")
    ] = False,
    output: options.Output = Form.TABLE,
    **declared: Any,
) -> None:
    """Submit a job: a command, or a file with one. Options come before it.

    volvelle submit --gpus 8 --deadline "tomorrow 09:00" -- python train.py

    volvelle submit job.yaml
    """
    from volvelle.cli import submitted
    from volvelle.cli.output import remark
    from volvelle.live.http import submission
    from volvelle.live.http.client import ApiClient
    from volvelle.live.uploads import digest_of, pack
    from volvelle.model.problems import Problem

    packed = b"" if workdir is None else pack(workdir)
    checkpoint_options = {"path": checkpoint, "grace": grace}
    saving = {key: value for key, value in checkpoint_options.items() if value is not None}
    given = {
        "deadline": _deadline(deadline, soft=soft, accept_later=accept_later),
        "directory": None if directory is None else _directory(directory, workdir),
        "setup": setup or None,
        "container": container,
        "upload": None if workdir is None else digest_of(packed),
        "environment": _variables("--env", environment or []) or None,
        "secrets": _variables("--secret", secret or []) or None,
        "checkpoint": saving or None,
        "after": _numbered(after or []) or None,
        "notify": notify or None,
        **_array(array),
        **_keys(declared),
    }
    request = submission.requested(words, given)
    client = ApiClient.find()
    if dry_run:
        forecast = submission.forecast(client, request)
        for notice in forecast["notices"]:
            remark(notice)
        submitted.print_forecast(forecast, request, output)
        return
    if request.upload is not None and packed:
        client.upload(request.upload, packed)
    share: float | None = None
    if request.deadline is not None:
        share = submission.forecast(client, request)["deadline_share"]
    answered = submission.submit(client, request)
    for notice in answered["notices"]:
        remark(notice)
    numbers = answered["numbers"]
    rejected: dict[int, str] = {}
    job: dict[str, Any] | None = None
    try:
        rejected = submission.rejected(client, numbers)
        shown = [number for number in numbers if number not in rejected] or numbers
        if output is not Form.CSV:
            first = shown if output is Form.TABLE else numbers
            job = submission.with_forecast(client, first[0])
    except Problem as problem:
        shown = numbers
        remark(f"its forecast is not known: {problem}")
    if output is Form.TABLE:
        submitted.print_submitted(shown, job, request, share)
    else:
        submitted.print_numbers(numbers, job, output)
    if rejected and len(numbers) > 1:
        reasons = "; ".join(dict.fromkeys(rejected.values()))
        remark(f"{len(rejected)} of {len(numbers)} rejected: {reasons}")
    if (wait and not _wait_for_all(client, numbers, output)) or rejected:
        raise typer.Exit(1)


def _deadline(when: str | None, *, soft: bool, accept_later: bool) -> dict[str, Any] | None:
    from volvelle.cli.moments import local_now, seconds_until
    from volvelle.model.problems import Problem

    if when is None:
        return None
    try:
        within = seconds_until(when, local_now())
    except ValueError as error:
        raise Problem(f"--deadline: {error}", usage=True) from None
    kind = "soft" if soft else "strict"
    return {"kind": kind, "within": within, "accept_later": accept_later}


def _numbered(after: list[str]) -> list[str]:
    """Dependencies with the numbers of jobs in place of their name. Raises `Problem`."""
    from volvelle.live.http.client import ApiClient
    from volvelle.live.http.named_jobs import after_all_of

    numbered = []
    for one in after:
        job, colon, words = one.partition(":")
        if not job.replace("-", "").isdigit():
            job = after_all_of(ApiClient.find(), job)
        numbered.append(f"{job}{colon}{words}")
    return numbered


def _directory(directory: Path, workdir: Path | None) -> str:
    """Where it starts: within the files that are sent along, if there are any."""
    return str(directory.absolute() if workdir is None else directory)


def _array(given: str | None) -> dict[str, str | None]:
    """``100``, or ``100%5`` for five at once. Raises `Problem`."""
    if given is None:
        return {}
    count, throttled, at_once = given.partition("%")
    if not count.isdigit():
        from volvelle.model.problems import Problem

        problem = f"--array is '{given}', which is not a number of jobs"
        mend = "write 4 for indices 0 to 3, or 4%2 for two of them at once"
        raise Problem(problem, mend=mend, usage=True)
    return {"array": count, "at_once": at_once if throttled else None}


def _variables(option: str, given: list[str]) -> dict[str, str]:
    """Variables of ``NAME=VALUE``, and of ``NAME`` with the value it has here. Raises `Problem`."""
    import os

    from volvelle.model.problems import Problem

    found: dict[str, str] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals and name not in os.environ:
            raise Problem(
                f"{option}: there is no variable {name!r} here",
                mend="say NAME=VALUE",
                usage=True,
            )
        found[name] = value if equals else os.environ[name]
    return found


def _wait_for_all(client: "ApiClient", numbers: list[int], output: Form) -> bool:
    """Wait until all jobs are over; whether each finished."""
    from volvelle.cli import formatting
    from volvelle.cli.output import remark

    finished = True
    try:
        for number in numbers:
            while (job := client.get(f"/v1/jobs/{number}"))["state"] not in formatting.OVER:
                time.sleep(_POLL_SECONDS)
            finished &= job["state"] == "finished"
            if output is Form.TABLE:
                print(f"{formatting.format_job(job)} {formatting.format_end(job)}")
    except KeyboardInterrupt:
        remark(f"job {numbers[0]} goes on; to end it: volvelle cancel {numbers[0]}")
        raise
    return finished
