"""What only Python knows of a job that is really running: what happens to it next, and how it trains."""

from volvelle.model.job import Job
from volvelle.simulate.trainer import Trainer


class Execution:
    """The truth about a job that is neither linear nor a table of rates, or to which more happens.

    milestone: units of work at which something happens next. failures: suffered so far.
    """

    __slots__ = ("failures", "job", "milestone", "trainer")

    def __init__(self, job: Job, *, tuned: bool = False) -> None:
        self.job = job
        self.milestone = 0.0
        self.failures = 0
        self.trainer = None if job.training is None else Trainer(job.training, tuned=tuned)

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
        """Work done in the unit in which it is declared and told."""
        return done if self.trainer is None else self.trainer.training.told(done)
