"""Chronus' CSV (Gao et al., SoCC'21): Philly jobs with classes and deadlines, in minutes.

``expect_time_list`` and ``expect_value_list`` are joined by ``-``: the reward steps of the job, in
minutes since its submission. For best-effort rows they hold a copy of the submission and mean
nothing. The ``user`` column holds Philly's virtual cluster: it becomes user and pool.
"""

from typing import Any

from volvelle.model.job import Job, JobClass, JobSpec, Reward
from volvelle.model.units import MINUTE
from volvelle.workload.readers.base import RowFormat, required_text, rigid_job
from volvelle.workload.readers.ledger import Broken, Ledger
from volvelle.workload.readers.rows import MOST_SECONDS, Row, in_range

_CLASSES = {"soft": JobClass.SOFT, "strict": JobClass.STRICT, "best": JobClass.BEST_EFFORT}


class Chronus(RowFormat):
    """One row a job; zero-GPU rows are dropped."""

    name = "chronus"
    title = "Chronus CSV: Philly with classes and deadlines (Gao et al., SoCC'21)"
    required = (
        "job_id",
        "user",
        "num_gpu",
        "submit_time",
        "duration",
        "expect_time_list",
        "expect_value_list",
        "job_type",
    )

    def job(self, row: Row, ledger: Ledger, options: Any) -> Job:
        """A rigid job of ``duration`` minutes."""
        job_class = _CLASSES.get(row.text("job_type"))
        if job_class is None:
            raise Broken("unreadable job_type", "job_type", row.text("job_type"))
        user = row.label("user")
        spec = JobSpec(
            id=required_text(row, "job_id"),
            submit_time=row.seconds("submit_time", MINUTE),
            gpus=row.gpus("num_gpu"),
            user=user,
            pool=user,
            name=row.label("model_name"),
            job_class=job_class,
            rewards=() if job_class is JobClass.BEST_EFFORT else _rewards(row),
        )
        return rigid_job(spec, row.seconds("duration", MINUTE))


def _rewards(row: Row) -> tuple[Reward, ...]:
    deadlines = _numbers(row, "expect_time_list")
    values = _numbers(row, "expect_value_list")
    if len(deadlines) != len(values):
        raise Broken(
            "more deadlines than values, or fewer",
            "expect_value_list",
            row.text("expect_value_list"),
        )
    steps = zip(deadlines, values, strict=True)
    return tuple(Reward(minutes * MINUTE, value) for minutes, value in steps)


def _numbers(row: Row, column: str) -> list[float]:
    text = row.text(column)
    try:
        return [in_range(float(part), column, text, MOST_SECONDS) for part in text.split("-")]
    except ValueError:
        raise Broken(f"unreadable {column}", column, text) from None
