"""Slurm's accounting, ``sacct --parsable2``: columns are picked by their header.

GPUs are read from ``ReqTRES`` (``gres/gpu=4``, ``gres/gpu:a100=4``), where it has none from
``AllocTRES``, and in old Slurm from ``ReqGRES`` (``gpu:a100:4``), which is of each of ``NNodes`` nodes. Job
steps (``123.batch``) are dropped; so are jobs without GPUs, jobs that never ran, and jobs still running. The
account becomes the pool, the partition the queue, ``TimelimitRaw`` (minutes) the estimate; ``NNodes``, on how
many nodes it ran, are what it asks for. A job comes when it could start first (``Eligible``), where the table
says. Times are local to the cluster.

``sacct --duplicates`` has a row for each run of a job that was requeued. Such rows are one job, submitted
when the first of them was; its duration is the sum of its runs. Its record is the last run, since it held no
GPUs between two of them.
"""

import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from volvelle.model.job import Job, JobSpec
from volvelle.model.problems import Problem, nearest
from volvelle.model.units import MINUTE
from volvelle.workload.readers.base import ColumnFormat, formats, rigid_jobs
from volvelle.workload.readers.columns import Columns, jobs_of, rows_of
from volvelle.workload.readers.ledger import Broken, Ledger, Unfit
from volvelle.workload.readers.rows import (
    ABSENT,
    MOST_GPUS,
    MOST_SECONDS,
    read_duration,
    read_number,
)
from volvelle.workload.readers.text import Sample, csv_columns

_MEMORY_GB = {"K": 1024.0**-2, "M": 1024.0**-1, "G": 1.0, "T": 1024.0, "P": 1024.0**2}
_STILL = frozenset(("RUNNING", "SUSPENDED", "COMPLETING", "STOPPED"))
_REQUEUED = frozenset(("REQUEUED", "PREEMPTED", "NODE_FAIL"))
"""States of a run after which the job may run again."""
_TRES = ("ReqTRES", "AllocTRES")
_IDS = ("JobIDRaw", "JobID")
_NO_GRES = ABSENT | {"(null)", "0"}


class Tres(NamedTuple):
    """The resources in a trackable-resources string."""

    gpus: float = 0.0
    gpu_types: tuple[str, ...] = ()
    cpus: float = 0.0
    memory_gb: float = 0.0


_UNREAD = Tres(gpus=1.0)
"""Stands for what could not be read, which is noted: no other column is asked."""


_OF_GPUS = frozenset(("reqtres", "alloctres", "reqgres", "allocgres"))


@formats.register
class Sacct(ColumnFormat):
    """One row a job or a step of one."""

    name = "sacct"
    title = "Slurm accounting, sacct --parsable2"
    required = ("Submit",)
    state = "State"

    def matches(self, sample: Sample) -> float:
        """Sure of a table with Slurm's column names; of one without ``|`` only where it says the GPUs so."""
        if "submit" not in sample.header or not (
            sample.delimiter == "|" or sample.header & _OF_GPUS
        ):
            return 0.0
        return 0.95 if sample.header & {"jobid", "jobidraw"} else 0.0

    def read(self, path: Path, ledger: Ledger, options: Any) -> Iterator[Job]:
        """A job for each row that is no step."""
        sample = Sample.of(path)
        mark = sample.delimiter
        ledger.headings["id"] = _IDS["jobidraw" not in sample.header]
        blocks = csv_columns(
            path, ledger, required=self.required, delimiter=mark, quoted=mark != "|"
        )

        requeued: dict[str, Job] = {}

        def jobs(columns: Columns) -> Sequence[Job | None]:
            found = self.jobs(columns)
            _note_nodes(columns, found, ledger)
            return _joined(columns, found, requeued, ledger)

        ended = set()
        for job in jobs_of(blocks, jobs, ledger, self.states):
            ended.add(job.spec.id)
            yield job
        never_again = [job for number, job in requeued.items() if number not in ended]
        ledger.report.kept += len(never_again)
        yield from never_again

    def jobs(self, columns: Columns) -> Sequence[Job | None]:
        """Rigid jobs. Raises `Problem` where the table lacks the columns that say of how many GPUs."""
        numbers = _numbers(columns)
        rows = [row for row, number in enumerate(numbers) if number and "." not in number]
        found: list[Job | None] = [None] * len(columns)
        for row, job in zip(
            rows, _jobs(columns.part(rows), [numbers[row] for row in rows]), strict=True
        ):
            found[row] = job
        return found


def _numbers(columns: Columns) -> list[str]:
    """The number of each job; what is no job is noted."""
    given = zip(*(columns.texts(column) for column in _IDS), strict=True)
    numbers = [next(filter(None, texts), "") for texts in given]
    for row, number in enumerate(numbers):
        if not number:
            columns.note(row, Broken("missing JobID", "id"))
        elif "." in number:
            columns.note(row, Unfit("job step", "id", number))
    return numbers


def _jobs(columns: Columns, numbers: Sequence[str]) -> list[Job | None]:
    demands = _demands(columns)
    ran = _seconds(columns)
    specs = rows_of(
        JobSpec,
        id=numbers,
        submit_time=_eligible(columns),
        gpus=[tres.gpus for tres in demands],
        gpu_types=[tres.gpu_types for tres in demands],
        cpus=[tres.cpus for tres in demands],
        memory_gb=[tres.memory_gb for tres in demands],
        user=columns.labels("User"),
        pool=columns.labels("Account"),
        queues=columns.each("Partition", _partitions, _partitions("")),
        qos=columns.labels("QOS"),
        nodes=[int(nodes) for nodes in columns.numbers("NNodes", 0.0, MOST_GPUS)],
        name=columns.labels("JobName"),
        estimate_seconds=_time_limits(columns),
    )
    return rigid_jobs(columns, specs, ran, "Start", "End")


def _joined(
    columns: Columns, jobs: Sequence[Job | None], requeued: dict[str, Job], ledger: Ledger
) -> list[Job | None]:
    """Runs of one job as one, in the place of the last of them.

    requeued: jobs by number, as far as they ran until they were requeued; of later rows as well.
    """
    found: list[Job | None] = [None] * len(jobs)
    states, numbers = _states(columns), _numbers(columns)
    for row, (job, number, line) in enumerate(zip(jobs, numbers, columns.lines, strict=True)):
        earlier = requeued.pop(number, None)
        if job is None or line in columns.wrong:
            continue
        if earlier is not None:
            ledger.assumed("runs of a requeued job", line, "State", states[row])
        whole = job if earlier is None else _both(earlier, job)
        if states[row] in _REQUEUED:
            requeued[number] = whole
        else:
            found[row] = whole
    return found


def _both(earlier: Job, later: Job) -> Job:
    """A job by its run until it was requeued, and the one after that."""
    replace = msgspec.structs.replace
    return replace(
        later,
        spec=replace(later.spec, submit_time=earlier.spec.submit_time),
        truth=replace(later.truth, work=earlier.truth.work + later.truth.work),
    )


def _partitions(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(",")))


def _eligible(columns: Columns) -> list[float]:
    """When each job could start first: when it was submitted, or later where the table says."""
    submitted = columns.timestamps("Submit")
    later = columns.known_timestamps("Eligible")
    return [max(one, other or one) for one, other in zip(submitted, later, strict=True)]


def _note_nodes(columns: Columns, jobs: Sequence[Job | None], ledger: Ledger) -> None:
    """The most GPUs that a job had on each of its nodes, by type, for the report of the import."""
    if "NNodes" not in columns.header:
        return
    most, counts = ledger.report.node_gpus, columns.texts("NNodes")
    for job, nodes in zip(jobs, counts, strict=True):
        if job is not None and nodes.isdecimal() and int(nodes) > 0:
            kind = (job.spec.gpu_types or ("",))[0]
            most[kind] = max(most.get(kind, 0.0), job.spec.gpus / int(nodes))


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


def _demands(columns: Columns) -> list[Tres]:
    """The resources of each job, by the first column that names GPUs. Raises `Problem`."""
    there = [column for column in _TRES if column in columns.header]
    gres = "ReqGRES" in columns.header
    if not there and not gres and len(columns):
        raise Problem(
            f"{columns.header.file} line 1: there is no column ReqTRES or AllocTRES"
            f"{nearest('ReqTRES', columns.header.names)}",
            mend="ask for them: sacct --parsable2 -o JobIDRaw,User,Account,Submit,Start,End,"
            "ElapsedRaw,TimelimitRaw,State,ReqTRES,AllocTRES",
        )
    demands = [Tres()] * len(columns)
    left = list(range(len(columns)))
    for column in there:
        asked = columns.part(left).each(column, partial(_tres, column), _UNREAD)
        for row, tres in zip(left, asked, strict=True):
            demands[row] = tres
        left = [row for row in left if not demands[row].gpus]
    if gres:
        _add_gres(columns.part(left), left, demands)
        left = [row for row in left if not demands[row].gpus]
    shown = there[0] if there else "ReqGRES"
    for row, text in zip(left, columns.part(left).texts(shown), strict=True):
        columns.note(row, Unfit("no GPUs", shown, text))
    return demands


def _add_gres(columns: Columns, rows: Sequence[int], demands: list[Tres]) -> None:
    """The resources of these jobs by ``ReqGRES``, which states those of one node."""
    nodes = columns.numbers("NNodes", 1.0, MOST_GPUS)
    cpus = columns.numbers("NCPUS", 0.0)
    for row, asked, count, cores in zip(
        rows, columns.each("ReqGRES", _gres, _UNREAD), nodes, cpus, strict=True
    ):
        demands[row] = asked._replace(gpus=asked.gpus * count, cpus=cores)


def parse_gres(text: str) -> Tres:
    """Read ``gpu:4``, ``gpu:a100:4`` or ``gres:gpu:4(IDX:0-3)``, joined by commas. Raises ValueError."""
    gpus, kinds = 0.0, []
    for entry in filter(None, re.sub(r"\([^)]*\)", "", text).split(",")):
        name, *rest = entry.removeprefix("gres:").removeprefix("gres/").split(":")
        if name != "gpu":
            continue
        amount = rest.pop() if rest and rest[-1].isdecimal() else "1"
        gpus += float(amount)
        kinds += rest
    if gpus > MOST_GPUS:
        raise ValueError(text)
    return Tres(gpus, tuple(dict.fromkeys(kinds)))


def _gres(text: str) -> Tres:
    if text.lower() in _NO_GRES:
        return Tres()
    try:
        return parse_gres(text)
    except ValueError:
        raise Broken("unreadable ReqGRES", "ReqGRES", text) from None


def _tres(column: str, text: str) -> Tres:
    try:
        return parse_tres(text)
    except ValueError:
        raise Broken(f"unreadable {column}", column, text) from None


def _states(columns: Columns) -> list[str]:
    return columns.each("State", lambda text: text.partition(" ")[0].upper(), "")


def _seconds(columns: Columns) -> list[float]:
    """Run times of jobs. Jobs that still run or never ran are noted."""
    states = _states(columns)
    starts, ends = columns.texts("Start"), columns.texts("End")
    no_start = columns.optional("Start", lambda text: False, "Start" in columns.header)
    no_end = columns.optional("End", lambda text: False, "End" in columns.header)
    no_raw, no_elapsed = columns.absent("ElapsedRaw"), columns.absent("Elapsed")
    raw, elapsed, spans = [], [], []
    for row, state in enumerate(states):
        if state in _STILL:
            columns.note(row, Unfit("still running", "State", state))
        elif state == "PENDING" or no_start[row]:
            columns.note(row, Unfit("never ran", "Start", starts[row]))
        elif not no_raw[row]:
            raw.append(row)
        elif not no_elapsed[row]:
            elapsed.append(row)
        elif no_end[row]:
            columns.note(row, Unfit("still running", "End", ends[row]))
        else:
            spans.append(row)
    seconds = [0.0] * len(columns)
    for rows, found in (
        (raw, columns.part(raw).seconds("ElapsedRaw")),
        (elapsed, columns.part(elapsed).durations("Elapsed")),
        (spans, columns.part(spans).spans("Start", "End")),
    ):
        for row, length in zip(rows, found, strict=True):
            seconds[row] = length
    return seconds


def _time_limits(columns: Columns) -> list[float | None]:
    """The run time each user asked for, if any: in minutes, or as Slurm writes durations."""
    limits = columns.each("TimelimitRaw", _minutes, None)
    rows = [row for row, limit in enumerate(limits) if limit is None]
    for row, limit in zip(rows, columns.part(rows).each("Timelimit", _limit, None), strict=True):
        limits[row] = limit
    return limits


def _minutes(text: str) -> float | None:
    if not text.isdecimal():
        return None
    return read_number(text, "TimelimitRaw", most=MOST_SECONDS / MINUTE) * MINUTE


def _limit(text: str) -> float | None:
    if text.lower() in ABSENT or not text[0].isdigit():
        return None
    return read_duration(text, "Timelimit")
