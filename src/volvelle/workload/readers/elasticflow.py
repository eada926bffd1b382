"""Traces of Microsoft's ITP clusters as ElasticFlow (Gu et al., ASPLOS'23) has them, raw or with deadlines.

The raw tables are ``job_id,submission_time,duration,num_gpu``; the rich ones have the model, the number of
iterations, the batch size and a deadline too. A deadline is a point in time, as the submission is, unless the
option ``deadline=after`` says that it is counted from there; a job with one is strict.
"""

from typing import Any, Literal

from volvelle.model.job import Job, JobClass, JobSpec, Reward
from volvelle.workload.readers.base import (
    ReaderOptions,
    RowFormat,
    formats,
    required_text,
    rigid_job,
)
from volvelle.workload.readers.ledger import Broken, Ledger
from volvelle.workload.readers.rows import Row


class ElasticFlowOptions(ReaderOptions):
    """deadline: a point in time (``at``), or seconds since submission (``after``)."""

    deadline: Literal["at", "after"] = "at"


@formats.register
class ElasticFlow(RowFormat):
    """One row a rigid job of ``duration`` seconds."""

    name = "elasticflow"
    title = "ElasticFlow's tables of Microsoft ITP (Gu et al., ASPLOS'23)"
    options_type = ElasticFlowOptions
    required = ("job_id", "submission_time", "duration", "num_gpu")
    headings = (("id", "job_id"), ("gpus", "num_gpu"))

    def job(self, row: Row, ledger: Ledger, options: Any) -> Job:
        """A job, strict where it has a deadline."""
        submitted = row.timestamp("submission_time")
        rewards = () if row.absent("deadline") else (_reward(row, submitted, options.deadline),)
        spec = JobSpec(
            id=required_text(row, "job_id"),
            submit_time=submitted,
            gpus=row.gpus("num_gpu"),
            name=row.label("model_name"),
            job_class=JobClass.STRICT if rewards else JobClass.BEST_EFFORT,
            rewards=rewards,
        )
        return rigid_job(spec, row.seconds("duration"))


def _reward(row: Row, submitted: float, counted: str) -> Reward:
    after = counted == "after"
    since = row.seconds("deadline") if after else row.timestamp("deadline") - submitted
    if since <= 0.0:
        raise Broken("deadline in the past", "deadline", row.text("deadline"))
    return Reward(since, 1.0)
