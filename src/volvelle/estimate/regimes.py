"""When a job will change its batch size: Shockwave's predictor (Zheng et al., NSDI'23, section 5).

A **regime** is a stretch of training at one batch size. How batch sizes are scaled says which regimes a
job goes through, one after another; when each of them ends is not known before it has ended. Of a job
with N epochs and K regimes the predictor holds the prior Dir(N/K, ..., N/K) and takes the mean of the
posterior, by one of three rules:

- ``restatement``: regimes that are over lasted as long as they did; the ongoing one and those to come
  split what is left of the epochs evenly. (An ongoing one that has outlasted its part ends now.)
- ``bayesian``, the standard rule: every epoch counts as an independent draw, so that a regime of which m
  epochs were seen is expected to last N (N/K + m) / (N + epochs seen).
- ``greedy``: no change is expected, as by schedulers that only react.

Epochs here are units of work, of which an epoch of a job has always as many, so that N is the job's work
and rules hold between the ends of epochs too. Only the mean of the posterior is used, as in the paper.

How much work a job is, how fast at which batch size, and which regimes come in which order is told by the
simulated world, as the artifact tells its predictor; when they come is not.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal, NamedTuple, Self

import msgspec
import numpy as np
from pydantic import Field, PrivateAttr

from volvelle.core.events import JobSubmitted
from volvelle.core.parts import Belief, Estimator, KnownJob, estimators
from volvelle.core.policy import Period
from volvelle.core.view import FloatColumn
from volvelle.estimate.basic import told
from volvelle.model.job import JobSpec, Regime, Truth
from volvelle.model.throughput import PerBatchSize

Rule = Literal["restatement", "bayesian", "greedy"]
"""How what was seen of a job's regimes changes what is expected of them."""


_ROUNDING = 1e-9
"""Of a job's work: how far two beginnings may be apart to be the same."""


class Course(NamedTuple):
    """What was seen of a job of ``work`` units and ``regimes`` regimes, ``done`` units into it.

    begins: the work after which each regime so far began, ascending from 0; the last one is ongoing.
    """

    work: float
    regimes: int
    begins: tuple[float, ...] = (0.0,)
    done: float = 0.0

    @property
    def seen(self) -> FloatColumn:
        """(regimes,) units of work done in each."""
        lasted = np.zeros(self.regimes)
        lasted[: len(self.begins)] = np.diff([*self.begins, max(self.done, self.begins[-1])])
        return lasted


def expected_work(course: Course, rule: Rule) -> FloatColumn:
    """(regimes,) units of work that each regime is expected to last, in all: the posterior's mean."""
    seen, over = course.seen, len(course.begins) - 1
    if rule == "bayesian":
        posterior = course.work / course.regimes + seen
        mean: FloatColumn = course.work * posterior / posterior.sum()
        return mean
    expected = seen.copy()
    left, to_come = course.work - course.begins[-1], course.regimes - over - 1
    if rule == "greedy":
        expected[over] = left
        return expected
    expected[over] = max(left / (to_come + 1), seen[over])
    expected[over + 1 :] = (left - expected[over]) / max(to_come, 1)
    return expected


def expected_begins(course: Course, rule: Rule) -> FloatColumn:
    """(regimes,) the work after which each regime begins: those seen as they did, the others as expected.

    What is left of the work is split in proportion to what each regime is expected to have left.
    """
    seen, over = course.seen, len(course.begins) - 1
    left = np.maximum(expected_work(course, rule) - seen, 0.0)
    left[:over] = 0.0
    if left.sum() <= 0.0:
        left[over] = 1.0
    left *= max(course.work - course.done, 0.0) / left.sum()
    begins = np.concatenate([[0.0], np.cumsum(seen + left)[:-1]])
    begins[: over + 1] = course.begins
    return begins


@estimators.register
class Regimes(Estimator):
    """All but when a job changes its batch size, which is predicted from what it did so far."""

    name: ClassVar[str] = "regimes"
    source: ClassVar[str] = "Shockwave (NSDI'23) section 5"
    needs_truth: ClassVar[bool] = True

    rule: Rule = Field("restatement", description="how regimes that were seen count for others")
    every: Period = Field(120.0, description="time between a job's reports of how far it is")

    _courses: dict[str, tuple[float, ...]] = PrivateAttr(default_factory=dict)
    """When the regimes so far began, of jobs that have changed, by their ids."""
    _ahead: dict[str, tuple[Regime, ...]] = PrivateAttr(default_factory=dict)
    """The regimes of each job, of which only the order counts."""

    @property
    def progress_every(self) -> float | None:
        """As the parameter ``every`` says."""
        return self.every

    def believe(self, job: JobSubmitted, seed: int) -> Belief:
        """The job as it is, its regimes as the prior has them."""
        truth = told(job, self.name)
        ahead = _ordered(truth)
        if len(ahead) < 2:
            return Belief(truth)
        self._ahead[job.spec.id] = ahead
        return Belief(self._with_regimes(job.spec.id, truth, (0.0,), 0.0))

    def adapt(self, job: KnownJob, work_done: float, batch_size: int | None) -> Belief | None:
        """Restate what is believed of its regimes, where that is news.

        A size that is none of those to come changes nothing.
        """
        spec, believed = job
        ahead = self._ahead.get(spec.id)
        if ahead is None:
            return None
        # One that failed is back where it was at its last checkpoint.
        before = self._courses.get(spec.id, (0.0,))
        begins = (0.0, *(one for one in before[1:] if one < work_done))
        if batch_size is not None:
            sizes = [regime.batch_size for regime in ahead[len(begins) :]]
            if batch_size in sizes:
                begins += (work_done,) * (sizes.index(batch_size) + 1)
        self._courses[spec.id] = begins
        restated = self._with_regimes(spec.id, believed, begins, work_done)
        return None if _alike(restated, believed) else Belief(restated)

    def learn(self, spec: JobSpec, run_seconds: float) -> None:
        """Forget a job that is done."""
        self._courses.pop(spec.id, None)
        self._ahead.pop(spec.id, None)

    def fork(self) -> Self:
        """A copy that hears its own news."""
        copy = self.model_copy()
        copy._courses, copy._ahead = self._courses.copy(), self._ahead.copy()
        return copy

    def _with_regimes(
        self, job: str, believed: Truth, begins: Sequence[float], done: float
    ) -> Truth:
        ahead = self._ahead[job]
        course = Course(believed.work, len(ahead), tuple(begins), done)
        regimes = tuple(
            Regime(begin, regime.batch_size, regime.speed)
            for begin, regime in zip(
                expected_begins(course, self.rule).tolist(), ahead, strict=True
            )
            if begin < believed.work
        )
        return msgspec.structs.replace(believed, regimes=regimes)


def _alike(truth: Truth, other: Truth) -> bool:
    """Whether regimes are the same, but for rounding."""
    begins, others = (
        np.array([regime.start_work for regime in one.regimes]) for one in (truth, other)
    )
    return len(begins) == len(others) and bool(
        np.allclose(begins, others, rtol=0.0, atol=_ROUNDING * truth.work)
    )


def _ordered(truth: Truth) -> tuple[Regime, ...]:
    """The regimes, with that from the start on, where nothing is said of it."""
    regimes = tuple(regime for regime in truth.regimes if regime.start_work < truth.work)
    if regimes and regimes[0].start_work > 0.0:
        model = truth.throughput
        first = model.default if isinstance(model, PerBatchSize) else 0
        return (Regime(0.0, first), *regimes)
    return regimes
