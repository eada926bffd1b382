"""Chronus' CSV (Gao et al., SoCC'21): Philly jobs with classes and deadlines, in minutes.

``expect_time_list`` and ``expect_value_list`` are joined by ``-``: the reward steps of the job, in
minutes since its submission. For best-effort rows they hold a copy of the submission and mean
nothing. The ``user`` column holds Philly's virtual cluster: it becomes user and pool. ``iterations`` is
only looked at to refuse jobs without any.
"""

from collections.abc import Sequence
from functools import partial

from volvelle.model.job import Job, JobClass, JobSpec, Reward, wrong_steps
from volvelle.model.units import MINUTE
from volvelle.workload.readers.base import ColumnFormat, formats, rigid_jobs
from volvelle.workload.readers.columns import Columns, rows_of
from volvelle.workload.readers.ledger import Broken
from volvelle.workload.readers.rows import MOST_SECONDS, read_number, read_numbers

_CLASSES = {"soft": JobClass.SOFT, "strict": JobClass.STRICT, "best": JobClass.BEST_EFFORT}


@formats.register
class ChronusTrace(ColumnFormat):
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
    headings = (("id", "job_id"), ("gpus", "num_gpu"))

    def jobs(self, columns: Columns) -> list[Job | None]:
        """Rigid jobs of ``duration`` minutes."""
        classes = columns.each("job_type", _class, JobClass.BEST_EFFORT)
        columns.optional("iterations", _iterations, None)
        users = columns.labels("user")
        specs = rows_of(
            JobSpec,
            id=columns.required("job_id"),
            submit_time=columns.seconds("submit_time", MINUTE),
            gpus=columns.gpus("num_gpu"),
            user=users,
            pool=users,
            name=columns.labels("model_name"),
            job_class=classes,
            rewards=_rewards(columns, classes),
        )
        return rigid_jobs(columns, specs, columns.seconds("duration", MINUTE))


def _iterations(text: str) -> None:
    """Refuse what no job has."""
    if read_number(text, "iterations") <= 0.0:
        raise Broken("no iterations", "iterations", text)


def _class(text: str) -> JobClass:
    if text not in _CLASSES:
        raise Broken("unreadable job_type", "job_type", text)
    return _CLASSES[text]


def _rewards(columns: Columns, classes: Sequence[JobClass]) -> list[tuple[Reward, ...]]:
    """The reward steps of each row; none where its deadlines mean nothing."""
    found: list[tuple[Reward, ...]] = [()] * len(columns)
    rows = [row for row, kind in enumerate(classes) if kind is not JobClass.BEST_EFFORT]
    bound = columns.part(rows)
    deadlines = bound.seconds_lists("expect_time_list", "-", MINUTE)
    values = bound.each("expect_value_list", _values, tuple[float, ...]())
    for at, (row, until, worth) in enumerate(zip(rows, deadlines, values, strict=True)):
        if len(until) != len(worth):
            text = bound.texts("expect_value_list")[at]
            bound.note(
                at, Broken("more deadlines than values, or fewer", "expect_value_list", text)
            )
        elif wrong := wrong_steps(list(zip(until, worth, strict=True))):
            bound.note(at, Broken(wrong, "expect_value_list", bound.texts("expect_value_list")[at]))
        else:
            found[row] = tuple(map(Reward, until, worth))
    return found


_values = partial(read_numbers, column="expect_value_list", separator="-", most=MOST_SECONDS)
