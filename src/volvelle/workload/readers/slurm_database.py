"""Slurm's accounting database as CSV, such as MIT Supercloud's ``slurm-log.csv``.

Times are seconds since 1970 and states are Slurm's numbers. Allocations are in ``tres_alloc``, by
numbers of trackable resources: 1 CPUs, 2 memory (MB); those of GPUs begin at 1001 and differ by site (1001,
1002 at MIT, option ``gpus=1001+1002``). The time limit is in minutes.
"""

from typing import Annotated, Any

from pydantic import BeforeValidator

from volvelle.model.job import Job, JobSpec
from volvelle.model.units import MINUTE
from volvelle.workload.readers.base import (
    ReaderOptions,
    RowFormat,
    formats,
    required_text,
    rigid_job,
)
from volvelle.workload.readers.ledger import Broken, Ledger, Unfit
from volvelle.workload.readers.rows import MOST_SECONDS, Row, read_number

_CPUS, _MEMORY = "1", "2"
_MB_PER_GB = 1024.0
_PENDING, _RUNNING, _SUSPENDED = "0", "1", "2"
"""Job states of Slurm's database that are not over (slurm.h, ``job_states``)."""

_NO_LIMIT = 2**32 - 2
"""The least of Slurm's numbers that mean none or without end (slurm.h, ``NO_VAL``, ``INFINITE``)."""


def _numbers(value: object) -> object:
    return tuple(value.split("+")) if isinstance(value, str) else value


class SlurmDatabaseOptions(ReaderOptions):
    """gpus: the numbers of the trackable resources that are GPUs, joined by +."""

    gpus: Annotated[tuple[str, ...], BeforeValidator(_numbers)] = ("1001", "1002")


@formats.register
class SlurmDatabase(RowFormat):
    """One row a rigid job."""

    name = "slurm-database"
    title = "Slurm's accounting database as CSV (MIT Supercloud's slurm-log.csv)"
    options_type = SlurmDatabaseOptions
    required = ("id_job", "time_submit", "time_start", "time_end", "tres_alloc")
    main_table = ("slurm-log.csv*",)
    headings = (("id", "id_job"), ("duration", "time_end"))

    def job(self, row: Row, ledger: Ledger, options: Any) -> Job:
        """A job from its start to its end."""
        if row.text("state") in (_PENDING, _RUNNING, _SUSPENDED):
            raise Unfit("not over", "state", row.text("state"))
        started, ended = row.seconds("time_start"), row.seconds("time_end")
        if not started:
            raise Unfit("never ran", "time_start", row.text("time_start"))
        if ended < started:
            raise Broken("ends before it starts", "time_end", row.text("time_end"))
        given = _resources(row.text("tres_alloc"))
        gpus = sum(given.get(number, 0.0) for number in options.gpus)
        if not gpus:
            raise Unfit("no GPUs", "tres_alloc", row.text("tres_alloc"))
        limit = row.text("timelimit")
        estimate = None
        if limit.isdecimal() and 0 < int(limit) < _NO_LIMIT:
            estimate = read_number(limit, "timelimit", most=MOST_SECONDS / MINUTE) * MINUTE
        spec = JobSpec(
            id=required_text(row, "id_job"),
            submit_time=row.seconds("time_submit"),
            gpus=gpus,
            cpus=given.get(_CPUS, 0.0),
            memory_gb=given.get(_MEMORY, 0.0) / _MB_PER_GB,
            user=row.label("id_user"),
            pool=row.label("partition"),
            estimate_seconds=estimate,
        )
        return rigid_job(spec, ended - started, started)


def _resources(text: str) -> dict[str, float]:
    """``1=20,2=170000,4=1,1002=2`` as amounts by numbers. Raises `Broken`."""
    found: dict[str, float] = {}
    for entry in filter(None, text.strip('"').split(",")):
        number, equals, amount = entry.partition("=")
        if not equals:
            raise Broken("unreadable tres_alloc", "tres_alloc", text)
        found[number] = read_number(amount, "tres_alloc")
    return found
