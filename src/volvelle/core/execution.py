"""Python's knowledge of a job that is really running: its next events, and how it trains."""

from typing import Protocol

from volvelle.core.decision import IntArray
from volvelle.core.resources import Resources
from volvelle.model.goodput import Goodput
from volvelle.model.job import Job
from volvelle.model.training import Training


class Trainer(Protocol):
    """How one job trains on the GPUs that it is given; progress counts in the units of its `Training`."""

    training: Training

    @property
    def goodput(self) -> Goodput | None:
        """The reports of the job on itself."""

    def place(self, gpus: int, slots: IntArray, resources: Resources) -> None:
        """From now on the job has these GPUs."""

    def rate(self, done: float) -> float:
        """Progress a second after ``done``."""

    def next_boundary(self, done: float) -> float:
        """Progress at the end of the epoch that is going on."""

    def next_tuning(self, since: float) -> float:
        """When the job tunes its batch size next, in seconds; infinity where never."""

    def tune(self, done: float, *, epoch_over: bool) -> None:
        """Measure the progress since ``done``, and choose the batch size for what follows."""


class Execution:
    """The truth about a job that is neither linear nor a table of rates, or to which more happens.

    milestone: units of work at which something happens next. failures: suffered so far.
    """

    __slots__ = ("failures", "job", "milestone", "trainer")

    def __init__(self, job: Job, trainer: Trainer | None = None) -> None:
        self.job = job
        self.milestone = 0.0
        self.failures = 0
        self.trainer = trainer

    @property
    def work(self) -> float:
        """Units of work in all."""
        return self.job.truth.work if self.trainer is None else self.trainer.training.work

    def next_milestone(self, done: float) -> float:
        """Units of work at which the job ends, changes its batch size or fails, ``done`` so far."""
        if self.trainer is not None:
            return self.trainer.next_boundary(done)
        truth = self.job.truth
        milestone = truth.work
        for regime in truth.regimes:
            if done < regime.start_work < milestone:
                milestone = regime.start_work
        if self.failures < len(truth.failures):
            milestone = min(milestone, max(truth.failures[self.failures], done))
        return milestone

    def told(self, done: float) -> float:
        """Work done in the unit in which it is declared and reported."""
        return done if self.trainer is None else self.trainer.training.told(done)
