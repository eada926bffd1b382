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

Which regimes come in which order follows from the rule by which a job scales its batch size
(`volvelle.model.adaptation`): `declared-regimes` has it from the job itself, live and simulated, or from its
user's file or function. `regimes` is told by the simulated world how much work a job is, how fast at which
batch size, and which regimes come, as the artifact tells its predictor. When they come nobody is told.
"""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, ClassVar, Literal, NamedTuple, Self

import msgspec
from pydantic import AfterValidator, Field, PrivateAttr

from volvelle.core.events import JobSubmitted, ProgressReported
from volvelle.core.facets import FollowsRegimes
from volvelle.core.parts import Belief, Estimator, KnownJob, estimators
from volvelle.core.policy import Period
from volvelle.core.registry import load_file
from volvelle.estimate.basic import disclosed
from volvelle.estimate.measured import Measured
from volvelle.model.adaptation import Adaptation, ScalingRule
from volvelle.model.job import JobSpec, Regime, Truth
from volvelle.model.problems import Problem
from volvelle.model.throughput import PerBatchSize, named_types
from volvelle.model.tolerances import SAME_SHARE

Rule = Literal["restatement", "bayesian", "greedy"]
"""How what was seen of a job's regimes changes what is expected of them."""


class Course(NamedTuple):
    """Observations of a job of ``work`` units and ``regimes`` regimes, ``done`` units into it.

    begins: the work after which each regime so far began, ascending from 0; the last one is ongoing.
    """

    work: float
    regimes: int
    begins: tuple[float, ...] = (0.0,)
    done: float = 0.0

    @property
    def seen(self) -> list[float]:
        """(regimes,) units of work done in each."""
        ends = [*self.begins[1:], max(self.done, self.begins[-1])]
        lasted = [end - begin for begin, end in zip(self.begins, ends, strict=True)]
        return lasted + [0.0] * (self.regimes - len(lasted))


def expected_work(course: Course, rule: Rule) -> list[float]:
    """Units of work that each regime is expected to last, in all: the posterior's mean.

    Plain numbers, since the regimes are few and every job reports every few minutes.
    """
    seen, over = course.seen, len(course.begins) - 1
    if rule == "bayesian":
        posterior = [course.work / course.regimes + one for one in seen]
        total = _total(posterior)
        return [course.work * one / total for one in posterior]
    left, to_come = course.work - course.begins[-1], course.regimes - over - 1
    if rule == "greedy":
        return [*seen[:over], left, *[0.0] * to_come]
    ongoing = max(left / (to_come + 1), seen[over])
    return [*seen[:over], ongoing, *[(left - ongoing) / max(to_come, 1)] * to_come]


def expected_begins(course: Course, rule: Rule) -> list[float]:
    """The work after which each regime begins: those seen as they did, the others as expected.

    The work that is left is split in proportion to what each regime is expected to have left.
    """
    seen, over = course.seen, len(course.begins) - 1
    work = expected_work(course, rule)
    left = [0.0] * over + [
        max(one - done, 0.0) for one, done in zip(work[over:], seen[over:], strict=True)
    ]
    total = _total(left)
    if total <= 0.0:
        left[over] = total = 1.0
    scale = max(course.work - course.done, 0.0) / total
    begins, end = list(course.begins), 0.0
    for regime in range(course.regimes - 1):
        end += seen[regime] + left[regime] * scale
        if regime >= over:
            begins.append(end)
    return begins


def _total(values: Sequence[float]) -> float:
    """From left to right, on every Python."""
    total = 0.0
    for value in values:
        total += value
    return total


def _readable(path: Path | None) -> Path | None:
    """A file of rules that can be read. Raises ValueError."""
    if path is not None:
        try:
            _function(path) if path.suffix == ".py" else _by_name(path)
        except Problem as problem:
            raise ValueError(str(problem)) from None
    return path


def _rules(path: Path, spec: JobSpec) -> Adaptation | None:
    """The regimes of a job by a user's own file. Raises `Problem`."""
    if path.suffix != ".py":
        return _by_name(path).get(spec.name)
    given = _function(path)(spec)
    if given is not None and not isinstance(given, Adaptation):
        raise Problem(f"{path}: adaptation(spec) gave a {type(given).__name__}, not an Adaptation")
    return given


def _function(path: Path) -> Callable[[JobSpec], object]:
    function: Callable[[JobSpec], object] | None = getattr(load_file(path), "adaptation", None)
    if not callable(function):
        raise Problem(f"{path} has no function adaptation(spec)", mend="define one")
    return function


@cache
def _by_name(path: Path) -> dict[str, Adaptation]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Adaptation])
    except (OSError, msgspec.MsgspecError) as error:
        raise Problem(f"{path} cannot be read: {error}", mend="check the file") from None


class Foreseen(NamedTuple):
    """The regimes of a job that is predicted, of which only the order counts, and by what they were foreseen.

    adaptation: what is declared; None where the simulated world told the regimes.
    """

    regimes: tuple[Regime, ...]
    adaptation: Adaptation | None = None


class RegimePredictor(Estimator, FollowsRegimes):
    """The base of estimators of regimes: reports of a job, and their consequences."""

    rule: Rule = Field("restatement", description="how regimes that were seen count for others")
    every: Period = Field(120.0, description="time between a job's reports of how far it is")

    _courses: dict[str, tuple[float, ...]] = PrivateAttr(default_factory=dict)
    """When the regimes so far began, of jobs that have changed, by their ids."""
    _ahead: dict[str, Foreseen] = PrivateAttr(default_factory=dict)

    @property
    def progress_every(self) -> float | None:
        """As the parameter ``every`` says."""
        return self.every

    def adapt(self, job: KnownJob, work_done: float, batch_size: int | None) -> Belief | None:
        """Restate what is believed of its regimes, where that is news.

        A size that is none of those to come changes nothing.
        """
        spec, believed = job
        foreseen = self._foreseen(spec, believed)
        if foreseen is None:
            return None
        before, near = self._courses.get(spec.id, (0.0,)), SAME_SHARE * believed.work
        if batch_size is None and self.rule != "bayesian" and _as_expected(job, before, work_done):
            return None
        # One that failed is back where it was at its last checkpoint.
        begins = (0.0, *(one for one in before[1:] if one <= work_done + near))
        if batch_size is not None:
            foreseen = _having_come(foreseen, len(begins) - 1, batch_size, believed)
            begins += (work_done,) * _passed(foreseen.regimes, len(begins) - 1, batch_size)
        self._ahead[spec.id], self._courses[spec.id] = foreseen, begins
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

    def foresee(self, spec: JobSpec, truth: Truth, foreseen: Foreseen) -> Belief:
        """The job as ``truth`` has it, its regimes as the prior does."""
        if len(foreseen.regimes) < 2 and foreseen.adaptation is None:
            return Belief(truth)
        self._courses.pop(spec.id, None)
        self._ahead[spec.id] = foreseen
        return Belief(self._with_regimes(spec.id, truth, (0.0,), 0.0))

    def _foreseen(self, spec: JobSpec, believed: Truth) -> Foreseen | None:
        """The prediction for a job at its submission; None of one that is not predicted."""
        return self._ahead.get(spec.id)

    def _with_regimes(
        self, job: str, believed: Truth, begins: Sequence[float], done: float
    ) -> Truth:
        ahead, adaptation = self._ahead[job]
        course = Course(believed.work, len(ahead), tuple(begins), done)
        expected = expected_begins(course, self.rule)
        if adaptation is not None and adaptation.rule is ScalingRule.SCHEDULE:
            expected = _scheduled(adaptation, course)
        regimes = tuple(
            Regime(begin, regime.batch_size, regime.speed)
            for begin, regime in zip(expected, ahead, strict=True)
            if begin < believed.work
        )
        return msgspec.structs.replace(believed, regimes=regimes)


@estimators.register
class Regimes(RegimePredictor):
    """All but when a job changes its batch size, which is predicted from what it did so far."""

    name: ClassVar[str] = "regimes"
    source: ClassVar[str] = "Shockwave (NSDI'23) section 5"
    needs_truth: ClassVar[bool] = True

    def believe(self, job: JobSubmitted, seed: int) -> Belief:
        """The job as it is, its regimes as the prior has them."""
        truth = disclosed(job, self.name)
        return self.foresee(job.spec, truth, Foreseen(_ordered(truth)))


@estimators.register
class DeclaredRegimes(RegimePredictor, Measured):
    """Batch sizes to come as jobs declare their rules; jobs that declare none are believed as `measured`."""

    name: ClassVar[str] = "declared-regimes"
    source: ClassVar[str] = "Shockwave (NSDI'23) section 5"

    every: Period = Field(10.0, description="time between a job's reports of how far it is")
    rules: Annotated[Path | None, AfterValidator(_readable)] = Field(
        None,
        description="rules of jobs that declare none: JSON by name, or adaptation(spec) in Python",
    )

    def believe(self, job: JobSubmitted, seed: int) -> Belief:
        """The job's declaration, its regimes as the prior has them. Raises `Problem`."""
        spec = job.spec
        adaptation = self.adaptation(spec)
        if adaptation is None:
            return super().believe(job, seed)
        truth = declared(spec, adaptation)
        regimes = tuple(Regime(0.0, size) for size in adaptation.ahead)
        return self.foresee(spec, truth, Foreseen(regimes, adaptation))

    def adaptation(self, spec: JobSpec) -> Adaptation | None:
        """How a job changes its batch size, by itself or by the file ``rules``."""
        if spec.adaptation is not None or self.rules is None:
            return spec.adaptation
        return _rules(self.rules, spec)

    def measure(self, report: ProgressReported, seconds_left: float) -> float | None:
        """As `measured`; None of predicted jobs, whose iterations get fewer. (Live, ids are numbers.)"""
        predicted = str(report.number) in self._ahead
        return None if predicted else super().measure(report, seconds_left)

    def learn(self, spec: JobSpec, run_seconds: float) -> None:
        """Count a job that is done, and forget what was predicted of it."""
        RegimePredictor.learn(self, spec, run_seconds)
        Measured.learn(self, spec, run_seconds)

    def fork(self) -> Self:
        """A copy that hears its own news."""
        copy = super().fork()
        copy._seen = self._seen.copy()
        return copy

    def _foreseen(self, spec: JobSpec, believed: Truth) -> Foreseen | None:
        """Also of a job whose submission was heard by another, before a snapshot."""
        foreseen = super()._foreseen(spec, believed)
        if foreseen is None and (adaptation := self.adaptation(spec)) is not None:
            regimes = tuple(Regime(0.0, size) for size in adaptation.ahead)
            foreseen = Foreseen(regimes, adaptation)
        return foreseen


def declared(spec: JobSpec, adaptation: Adaptation) -> Truth:
    """A job of ``adaptation.epochs`` units at the throughput that ``spec`` declares.

    Raises `Problem` where it declares none, or none at a batch size to which it comes.
    """
    model = spec.throughput
    if model is None:
        raise Problem(
            f"job {spec.name or spec.id!r} changes its batch size and declares no throughput",
            mend="declare epochs per second for each batch size",
        )
    for size in adaptation.needed:
        try:
            rates = [
                model.rate(spec.gpus, kind, 1, size)
                for kind in spec.gpu_types or named_types(model)
            ]
        except Problem as problem:
            raise Problem(
                f"job {spec.name or spec.id!r}, {adaptation.rule}: {problem.args[0]}",
                mend=problem.mend,
            ) from None
        if not max(rates, default=0.0) > 0.0:
            raise Problem(
                f"job {spec.name or spec.id!r}, {adaptation.rule}: it makes no progress at batch size {size}",
                mend="measure its throughput there",
            )
    return spec.declared(adaptation.epochs)


def _as_expected(job: KnownJob, begins: Sequence[float], done: float) -> bool:
    """Whether a job that began regimes at ``begins`` is in the one in which it is believed to be.

    Rules that do not split what is left in proportion then go on to expect what they did.
    """
    regimes, ongoing = job.believed.regimes, len(begins)
    following = regimes[ongoing].start_work if ongoing < len(regimes) else job.believed.work
    return begins[-1] <= done <= following


def _passed(regimes: Sequence[Regime], ongoing: int, batch_size: int) -> int:
    """How many regimes a job at ``batch_size`` is beyond the ongoing one; 0 where it never comes to it."""
    sizes = [regime.batch_size for regime in regimes[ongoing + 1 :]]
    still = batch_size == regimes[ongoing].batch_size and sizes[:1] != [batch_size]
    return 0 if still or batch_size not in sizes else sizes.index(batch_size) + 1


def _having_come(foreseen: Foreseen, ongoing: int, batch_size: int, believed: Truth) -> Foreseen:
    """With a regime at ``batch_size``, where the job's rule may have it come though it was not expected."""
    regimes, adaptation = foreseen
    if adaptation is None or not adaptation.surprising(batch_size):
        return foreseen
    if adaptation.rule is ScalingRule.UNKNOWN:
        regimes = regimes[: ongoing + 1]
    model = believed.throughput
    known = not isinstance(model, PerBatchSize) or batch_size in model.batch_sizes
    there = regimes[ongoing].batch_size == batch_size
    if known and not there and not _passed(regimes, ongoing, batch_size):
        regimes += (Regime(0.0, batch_size),)
    return Foreseen(regimes, adaptation)


def _scheduled(adaptation: Adaptation, course: Course) -> list[float]:
    """(regimes,) when the regimes of a schedule begin: those seen as they did, others not before now."""
    unit = course.work / adaptation.epochs
    to_come = adaptation.begins[len(course.begins) :]
    return [*course.begins, *(max(epoch * unit, course.done) for epoch in to_come)]


def _alike(truth: Truth, other: Truth) -> bool:
    """Whether regimes are the same, but for rounding."""
    near = SAME_SHARE * truth.work
    return len(truth.regimes) == len(other.regimes) and all(
        one.batch_size == same.batch_size and abs(one.start_work - same.start_work) <= near
        for one, same in zip(truth.regimes, other.regimes, strict=True)
    )


def _ordered(truth: Truth) -> tuple[Regime, ...]:
    """The regimes, with that from the start on, where nothing is said of it."""
    regimes = tuple(regime for regime in truth.regimes if regime.start_work < truth.work)
    if regimes and regimes[0].start_work > 0.0:
        model = truth.throughput
        first = model.default if isinstance(model, PerBatchSize) else 0
        return (Regime(0.0, first), *regimes)
    return regimes
