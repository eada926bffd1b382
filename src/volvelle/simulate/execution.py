"""The truth about one job in the system, as the simulated world keeps it."""

import numpy as np

from volvelle.core.decision import IntArray
from volvelle.core.demand import Amounts
from volvelle.model.job import Job
from volvelle.model.throughput import Linear
from volvelle.simulate.trainer import Trainer


class Execution:
    """The truth about one job in the system."""

    __slots__ = (
        "amounts",
        "attempt",
        "beside",
        "cadence_from",
        "done",
        "failures",
        "gpu_type",
        "gpus",
        "job",
        "milestone",
        "number",
        "rate",
        "saved",
        "saved_at",
        "since",
        "slots",
        "starts_at",
        "token",
        "trainer",
        "unit_rate",
        "written_at",
    )

    def __init__(self, number: int, job: Job, done: float = 0.0, *, tuned: bool = False) -> None:
        self.number = number
        self.job = job
        self.attempt = 0
        self.gpus = 0.0
        self.gpu_type = -1
        self.slots: IntArray = np.zeros(0, dtype=np.int64)
        self.beside = ""  # the name of the job with which it shares its GPUs
        self.amounts: Amounts | None = None  # CPUs, memory per GPU; None: in proportion to GPUs
        self.done = done  # units of work done at `since`
        self.since = 0.0  # when progress at `rate` began or begins
        self.rate = 0.0
        self.saved = done  # units of work safe in the last checkpoint
        self.saved_at = 0.0  # when that was written (or the run began)
        self.cadence_from = 0.0  # from when the checkpoints of its own accord are counted
        self.starts_at = 0.0  # when it got or gets the GPUs it was given last
        self.written_at = 0.0  # when the checkpoint of its last stop is written
        self.milestone = 0.0  # units of work at which something happens next
        self.failures = 0  # failures suffered so far
        self.token = 0  # outdates what the clock still holds about earlier rates
        self.trainer = None if job.training is None else Trainer(job.training, tuned=tuned)

        truth = job.truth
        plain = not (
            truth.regimes
            or truth.failures
            or truth.spread_slowdown
            or truth.beside
            or truth.sensitivity
        )
        linear = plain and type(truth.throughput) is Linear
        # The rate per GPU where that is all there is to it, else 0: the common case, made quick.
        self.unit_rate = truth.throughput.rate(1) if linear else 0.0

    def next_milestone(self) -> float:
        """Units of work at which the job ends, changes its batch size or fails."""
        truth = self.job.truth
        milestone = truth.work
        for regime in truth.regimes:
            if self.done < regime.start_work < milestone:
                milestone = regime.start_work
        if self.failures < len(truth.failures):
            milestone = min(milestone, max(truth.failures[self.failures], self.done))
        return milestone

    def work_at(self, now: float) -> float:
        """Units of work done at ``now``."""
        return self.done + self.rate * max(now - self.since, 0.0)

    def told(self, done: float) -> float:
        """Work done in the unit in which it is declared and told."""
        return done if self.trainer is None else self.trainer.training.told(done)
