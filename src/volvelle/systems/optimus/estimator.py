"""When a job will have converged, from its loss so far (Optimus, Peng et al., EuroSys'18).

Stochastic gradient descent converges as O(1/k), so Optimus fits the training loss after k steps by::

    l(k) = 1 / (a k + b) + c        a, b, c >= 0

with a non-negative least-squares solver, again at every new point, and takes what is left of the job from
where the fitted curve has flattened. Here:

- For a given c the model is linear in 1 / (l - c). a and b then are a weighted non-negative least-squares
  problem of two unknowns, solved exactly; its weights (l - c)^4 make the error that of the loss itself,
  to first order. c is searched between 0 and the lowest loss seen: a grid, then golden sections.
- The loss has flattened where it is within ``threshold`` of the lowest that the user declares, or else of
  its asymptote c, relative to it. Optimus compares successive epochs with a threshold of its user's;
  ours is the one of ``--termination loss``, so that what is believed to end a job is what ends it.
- Until ``least_points`` losses are known, and for jobs that report none, the user's own word counts, as
  under ``declared``. A fit that never flattens, or not before the declared end, changes nothing.
- Speed is as declared: Optimus also fits its own model of speed by workers and parameter servers, which
  collective communication has no use for.

Use it with ``--policy optimus``; any policy that looks at remaining time may have it.
"""

from typing import Annotated, ClassVar, NamedTuple, Self

import msgspec
import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, PrivateAttr

from volvelle.core.events import JobSubmitted
from volvelle.core.facets import FollowsLoss
from volvelle.core.parts import Belief, Estimator, estimators
from volvelle.core.policy import Period
from volvelle.estimate.basic import PositiveSeconds, lasting
from volvelle.model.arrays import FloatColumn
from volvelle.model.job import JobSpec

_GRID = 64
_GOLDEN_STEPS = 40
_GOLDEN = (5**0.5 - 1) / 2


@estimators.register
class Convergence(Estimator, FollowsLoss):
    """The user's word, and once losses come in where their fitted curve flattens."""

    name: ClassVar[str] = "convergence"
    source: ClassVar[str] = "Optimus (EuroSys'18)"

    threshold: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(
        0.001, description="how near to the lowest loss is near enough, as a share of it"
    )
    every: Period = Field(600.0, description="time between a job's reports of its loss")
    least_points: Annotated[int, Field(ge=3)] = Field(
        5, description="losses that must be known before a curve is fitted"
    )
    default: PositiveSeconds = Field(3600.0, description="for jobs that declare no duration")
    _seen: dict[str, tuple[tuple[float, float], ...]] = PrivateAttr(default_factory=dict)

    @property
    def loss_every(self) -> float | None:
        """As the parameter ``every`` says."""
        return self.every

    def believe(self, job: JobSubmitted, seed: int) -> Belief:
        """A job that takes the declared time."""
        return self._declared(job.spec)

    def observe(self, spec: JobSpec, work_done: float, loss: float) -> Belief | None:
        """The job ends where the curve through all its losses flattens."""
        points = (*self._seen.get(spec.id, ()), (work_done, loss))
        self._seen[spec.id] = points
        if len(points) < self.least_points:
            return None
        work, losses = np.array(points).T
        fit = fit_loss(work, losses)
        lowest = fit.c if spec.lowest_loss is None else spec.lowest_loss
        end = fit.reaches(lowest + self.threshold * abs(lowest))
        declared = self._declared(spec)
        if not end < declared.truth.work:
            return declared
        return Belief(msgspec.structs.replace(declared.truth, work=max(end, work_done)))

    def learn(self, spec: JobSpec, run_seconds: float) -> None:
        """Forget a job that is done."""
        self._seen.pop(spec.id, None)

    def fork(self) -> Self:
        """A copy that hears its own news; points are never changed."""
        copy = self.model_copy()
        copy._seen = self._seen.copy()
        return copy

    def _declared(self, spec: JobSpec) -> Belief:
        return Belief(lasting(spec, spec.estimate_seconds or self.default))


class LossFit(NamedTuple):
    """``l(k) = 1 / (a k + b) + c``, and the root mean square of what it misses the losses by."""

    a: float
    b: float
    c: float
    error: float

    def reaches(self, loss: float) -> float:
        """The work after which the loss is down to ``loss``; infinite if never."""
        if self.a <= 0.0 or loss <= self.c:
            return np.inf
        return max((1.0 / (loss - self.c) - self.b) / self.a, 0.0)


def fit_loss(work: ArrayLike, loss: ArrayLike) -> LossFit:
    """The curve through losses by units of work done: one number each for at least three points.

    Losses must be positive. Constant losses are fitted by a curve that is flat (a = 0).
    """
    k, losses = np.asarray(work, dtype=np.float64), np.asarray(loss, dtype=np.float64)
    scale = float(k.max()) or 1.0
    k = k / scale
    lowest = float(losses.min())
    grid = lowest * (1.0 - np.geomspace(1.0, 1e-6, _GRID))
    best = int(np.argmin([_at(k, losses, float(c)).error for c in grid]))
    low, high = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, _GRID - 1)])
    for _ in range(_GOLDEN_STEPS):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        if _at(k, losses, left).error <= _at(k, losses, right).error:
            high = right
        else:
            low = left
    fit = _at(k, losses, (low + high) / 2)
    return fit._replace(a=fit.a / scale)


def _at(k: FloatColumn, losses: FloatColumn, c: float) -> LossFit:
    """The best a and b for this c."""
    above = losses - c
    weight = above**2  # squared in the normal equations: (l - c)^4
    a, b = _non_negative(np.column_stack([k * weight, weight]), above)
    with np.errstate(divide="ignore"):
        missed = np.where(a * k + b > 0, 1.0 / (a * k + b), np.inf) - above
    return LossFit(a, b, c, float(np.sqrt(np.mean(missed**2))))


def _non_negative(columns: FloatColumn, wanted: FloatColumn) -> tuple[float, float]:
    """The x, y >= 0 that bring ``columns @ (x, y)`` nearest to ``wanted`` (least squares)."""
    (xx, xy), (_, yy) = columns.T @ columns
    xw, yw = columns.T @ wanted
    determinant = xx * yy - xy * xy
    if determinant > 1e-14 * xx * yy:
        x, y = (yy * xw - xy * yw) / determinant, (xx * yw - xy * xw) / determinant
        if x >= 0.0 and y >= 0.0:
            return float(x), float(y)
    only_x, only_y = max(xw / xx, 0.0) if xx > 0 else 0.0, max(yw / yy, 0.0)
    gain_x, gain_y = only_x * xw, only_y * yw
    return (float(only_x), 0.0) if gain_x > gain_y else (0.0, float(only_y))
