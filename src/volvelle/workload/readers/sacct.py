"""Slurm's accounting, ``sacct --parsable2``: columns are picked by their header.

GPUs are read from ``ReqTRES`` (``gres/gpu=4``, ``gres/gpu:a100=4``), where it has none from
``AllocTRES``. Job steps (``123.batch``) are dropped; so are jobs without GPUs, jobs that never
ran, and jobs still running. The account becomes the pool, ``TimelimitRaw`` (minutes) the
estimate. Times are local to the cluster.
"""

from typing import Any, NamedTuple

from volvelle.model.job import Job, JobSpec
from volvelle.model.problems import Problem, nearest
from volvelle.model.units import MINUTE
from volvelle.workload.readers.base import RowFormat, rigid_job
from volvelle.workload.readers.ledger import Broken, Ledger, Unfit, each_job
from volvelle.workload.readers.rows import ABSENT, Row
from volvelle.workload.readers.text import Sample, csv_rows

_MEMORY_GB = {"K": 1024.0**-2, "M": 1024.0**-1, "G": 1.0, "T": 1024.0, "P": 1024.0**2}
_STILL = frozenset(("RUNNING", "SUSPENDED", "COMPLETING", "STOPPED"))
_TRES = ("ReqTRES", "AllocTRES")
_IDS = ("JobIDRaw", "JobID")


class Tres(NamedTuple):
    """What a trackable-resources string asks for."""

    gpus: float = 0.0
    gpu_types: tuple[str, ...] = ()
    cpus: float = 0.0
    memory_gb: float = 0.0


class Sacct(RowFormat):
    """One row a job or a step of one."""

    name = "sacct"
    title = "Slurm accounting, sacct --parsable2"
    required = ("Submit",)

    def matches(self, sample: Sample) -> float:
        """Sure of a ``|`` table with Slurm's column names."""
        if sample.delimiter != "|" or "submit" not in sample.header:
            return 0.0
        return 0.95 if sample.header & {"jobid", "jobidraw"} else 0.0

    def read(self, path: Any, ledger: Ledger, options: Any) -> Any:
        """A job for each row that is no step."""
        rows = csv_rows(path, ledger, required=self.required, delimiter="|", quoted=False)
        return each_job(rows, lambda row: self.job(row, ledger, options), ledger)

    def job(self, row: Row, ledger: Ledger, options: Any) -> Job:
        """A rigid job. Raises `Problem` where the table lacks the columns that say so."""
        number = _first(row, _IDS)
        if not number:
            raise Broken("missing JobID", "JobID")
        if "." in number:
            raise Unfit("job step", "JobID", number)
        tres = _demand(row)
        if tres.gpus == 0:
            raise Unfit("no GPUs", "ReqTRES", row.text("ReqTRES"))
        elapsed = _elapsed(row)
        spec = JobSpec(
            id=number,
            submit_time=row.timestamp("Submit"),
            gpus=tres.gpus,
            gpu_types=tres.gpu_types,
            cpus=tres.cpus,
            memory_gb=tres.memory_gb,
            user=row.label("User"),
            pool=row.label("Account"),
            name=row.label("JobName"),
            estimate_seconds=_time_limit(row),
        )
        return rigid_job(spec, elapsed)


def parse_tres(text: str) -> Tres:
    """Read ``cpu=16,mem=64G,node=2,gres/gpu=4,gres/gpu:a100=4``. Raises ValueError.

    A typed entry is part of the untyped one, which counts where both are there.
    """
    untyped, typed = 0.0, {}
    cpus = memory_gb = 0.0
    for entry in filter(None, text.split(",")):
        key, separator, amount = entry.partition("=")
        if not separator:
            raise ValueError(entry)
        if key == "gres/gpu":
            untyped = float(amount)
        elif key.startswith("gres/gpu:"):
            typed[key.removeprefix("gres/gpu:")] = float(amount)
        elif key == "cpu":
            cpus = float(amount)
        elif key == "mem":
            memory_gb = _memory(amount)
    total = untyped or sum(typed.values())
    if not 0 <= total <= 1e6:
        raise ValueError(text)
    return Tres(total, tuple(kind for kind, amount in typed.items() if amount), cpus, memory_gb)


def _memory(text: str) -> float:
    unit = text[-1:].upper()
    return float(text[:-1]) * _MEMORY_GB[unit] if unit in _MEMORY_GB else float(text) / 1024.0


def _demand(row: Row) -> Tres:
    columns = [column for column in _TRES if column in row.header]
    if not columns:
        raise Problem(
            f"{row.header.file} line 1: there is no column ReqTRES or AllocTRES"
            f"{nearest('ReqTRES', row.header.names)}",
            mend="ask for them: sacct --parsable2 -o JobIDRaw,User,Account,Submit,Start,End,"
            "ElapsedRaw,TimelimitRaw,State,ReqTRES,AllocTRES",
        )
    tres = Tres()
    for column in columns:
        text = row.text(column)
        try:
            tres = parse_tres(text)
        except ValueError:
            raise Broken(f"unreadable {column}", column, text) from None
        if tres.gpus:
            return tres
    return tres


def _elapsed(row: Row) -> float:
    """Seconds the job ran. Raises `Unfit` where it still runs or never did."""
    state = row.text("State").partition(" ")[0].upper()
    if state in _STILL:
        raise Unfit("still running", "State", state)
    if state in ("PENDING", "REQUEUED") or ("Start" in row.header and row.absent("Start")):
        raise Unfit("never ran", "Start", row.text("Start"))
    if not row.absent("ElapsedRaw"):
        return row.seconds("ElapsedRaw")
    if not row.absent("Elapsed"):
        return row.duration("Elapsed")
    if "End" in row.header and row.absent("End"):
        raise Unfit("still running", "End", row.text("End"))
    started, ended = row.timestamp("Start"), row.timestamp("End")
    if ended < started:
        raise Broken("ends before it starts", "End", row.text("End"))
    return ended - started


def _time_limit(row: Row) -> float | None:
    raw = row.text("TimelimitRaw")
    if raw.isdecimal():
        return row.seconds("TimelimitRaw", MINUTE)
    text = row.text("Timelimit")
    if text.lower() in ABSENT or not text[0].isdigit():
        return None
    return row.duration("Timelimit")


def _first(row: Row, columns: tuple[str, ...]) -> str:
    return next((text for column in columns if (text := row.text(column))), "")
