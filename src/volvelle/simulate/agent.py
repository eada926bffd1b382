"""The agent inside a job that tunes its own batch size (PolluxAgent, OSDI'21), as the world runs it.

It measures the seconds of a step and of its exchange wherever the job runs, without error, and fits the
seven parameters of `StepParameters` to all it has seen, by bounded minimisation of

    rms(log compute error) + rms(log step error)
        + 0.001 (gamma - 1)^2 + 0.01 ((beta_n / alpha_n)^2 + (beta_r / alpha_r)^2)

What was not seen is believed to cost nothing: exchange across nodes until the job ran on several (yet at
least 1.1 times that within a node), within a node until it had several GPUs on one, and growth with the
GPUs until it had more than two. While one local batch was seen, half of the computing time is taken as
constant. The noise of the gradient is measured exactly. Priors, bounds and penalties are those of the
artifact's simulator. It minimises with scipy's L-BFGS-B; ours is a projected BFGS over the parameters'
logarithms, compiled, because a run makes thousands of fits of seven numbers each.
"""

import numpy as np

from volvelle.core.compiled import compiled
from volvelle.core.goodput import arrays_of, best_batch
from volvelle.model.arrays import Floats
from volvelle.model.goodput import Goodput, StepParameters
from volvelle.model.training import Application, Passes

_LEAST = 1e-8
_START = np.array([1e-1, 1e-2, 1e-1, 1e-2, 1e-1, 1e-2, 1.0 + 1e-3])
_LOWER = np.array([_LEAST] * 6 + [1.0])
_UPPER = np.array([1e6] * 6 + [10.0])  # seconds; the artifact has no bound
_MOST_STEPS = 300  # of the minimisation
_OPTIMISM = 1.1  # exchange across nodes is at least this many times that within one


class Agent:
    """One job's knowledge of itself."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._seen: dict[tuple[int, int, int], tuple[float, float]] = {}
        self.goodput: Goodput | None = None

    def observe(self, counts: tuple[int, ...], how: Passes, epoch: int) -> None:
        """Measure an iteration on ``counts`` GPUs by node; fit anew where it was not seen before."""
        application = self._application
        step, sync = application.steps.at(counts, how.local)
        key = (len(counts), sum(counts), how.local)
        known = self.goodput
        steps = known.steps if known is not None else None
        if key not in self._seen:
            self._seen[key] = (step - sync, step)
            steps = fitted(
                np.array([[*key, *seconds] for key, seconds in self._seen.items()], dtype=float).T
            )
        assert steps is not None
        sqr, var = application.gradient(how.batch_size, epoch)
        self.goodput = Goodput(
            steps,
            sqr,
            var,
            application.initial_batch,
            application.most_batch,
            application.least_local,
            application.most_local,
        )

    def choice(self, nodes: int, gpus: int) -> Passes:
        """The batch believed best; before anything was measured the smallest."""
        application = self._application
        if self.goodput is None:
            smallest = max(application.initial_batch, application.least_local * gpus)
            return application.passes(smallest, gpus)
        _, local, passes = best_batch(*arrays_of(self.goodput), nodes > 1, gpus)
        return application.limited(local, passes, gpus)


def fitted(seen: Floats) -> StepParameters:
    """The parameters that fit measurements ``seen``: rows nodes, GPUs, local batch, compute, step."""
    nodes, gpus, local, compute, _ = seen
    start, lower, upper = _START.copy(), _LOWER.copy(), _UPPER.copy()
    if len(set(local.tolist())) == 1:
        start[0] = lower[0] = upper[0] = compute.mean() / 2
    unseen = np.zeros(7, dtype=np.bool_)
    unseen[[2, 3]] = not (nodes > 1).any()
    unseen[[4, 5]] = not ((nodes == 1) & (gpus > 1)).any()
    unseen[[3, 5]] |= not (gpus > 2).any()
    start[unseen] = upper[unseen] = lower[unseen]
    best = minimised(start, lower, upper, np.ascontiguousarray(seen))
    if unseen[2]:
        best[2] = max(best[2], best[4] * _OPTIMISM)
        best[3] = max(best[3], best[5] * _OPTIMISM)
    return StepParameters(*best.tolist())


@compiled
def minimised(start: Floats, lower: Floats, upper: Floats, seen: Floats) -> Floats:
    """The parameters of the least `fit_error` within bounds, by projected BFGS on their logarithms."""
    low, high = np.log(lower), np.log(upper)
    at = np.log(start)
    size = len(at)
    error, slope = fit_error(np.exp(at), seen)
    slope = slope * np.exp(at)
    curvature = np.eye(size)  # inverse Hessian, as estimated
    fresh, idle = True, 0
    for _ in range(_MOST_STEPS):
        free = np.ones(size, np.bool_)
        for i in range(size):
            stuck = (at[i] <= low[i] and slope[i] >= 0) or (at[i] >= high[i] and slope[i] <= 0)
            free[i] = not stuck
        step = np.zeros(size)
        downhill = 0.0
        for i in range(size):
            if free[i]:
                for k in range(size):
                    if free[k]:
                        step[i] -= curvature[i, k] * slope[k]
                downhill += step[i] * slope[i]
        if downhill > -1e-14:
            if fresh:
                break
            curvature, fresh = np.eye(size), True
            continue
        step *= min(1.0, 1.0 / np.abs(step).max())
        length, moved = 1.0, False
        for _ in range(30):
            other = np.minimum(np.maximum(at + length * step, low), high)
            other_error, other_slope = fit_error(np.exp(other), seen)
            if other_error <= error + 1e-4 * np.sum(slope * (other - at)):
                moved = True
                break
            length *= 0.5
        if not moved:
            if fresh:
                break
            curvature, fresh = np.eye(size), True
            continue
        other_slope = other_slope * np.exp(other)
        by, change = other - at, other_slope - slope
        along = np.sum(by * change)
        if along > 1e-12:
            turned = np.zeros(size)
            for i in range(size):
                for k in range(size):
                    turned[i] += curvature[i, k] * change[k]
            both = np.sum(change * turned)
            for i in range(size):
                for k in range(size):
                    curvature[i, k] += (along + both) * by[i] * by[k] / along**2
                    curvature[i, k] -= (turned[i] * by[k] + by[i] * turned[k]) / along
            fresh = False
        idle = idle + 1 if error - other_error <= 1e-9 * max(error, 1e-3) else 0
        at, error, slope = other, other_error, other_slope
        if idle >= 3:
            break
    return np.exp(at)


@compiled
def fit_error(steps: Floats, seen: Floats) -> tuple[float, Floats]:
    """The error that is minimised, and its gradient, at parameters ``steps``."""
    count = seen.shape[1]
    gamma = steps[6]
    squares, slopes = np.zeros(2), np.zeros((2, 7))
    for i in range(count):
        gpus, local = seen[1, i], seen[2, i]
        beyond = max(gpus - 2.0, _LEAST)
        which = 0
        exchange = _LEAST
        if seen[0, i] > 1:
            which = 2
        elif gpus > 1:
            which = 4
        if which:
            exchange = steps[which] + steps[which + 1] * beyond
        compute = steps[0] + steps[1] * local
        error = np.log(compute) - np.log(seen[3, i])
        squares[0] += error * error
        slopes[0, 0] += error / compute
        slopes[0, 1] += error / compute * local
        one, other = compute**gamma, exchange**gamma
        both = one + other
        logarithm = np.log(both) / gamma
        error = logarithm - np.log(seen[4, i])
        squares[1] += error * error
        by_compute = one / compute / both
        by_exchange = other / exchange / both
        slopes[1, 0] += error * by_compute
        slopes[1, 1] += error * by_compute * local
        if which:
            slopes[1, which] += error * by_exchange
            slopes[1, which + 1] += error * by_exchange * beyond
        within = (one * np.log(compute) + other * np.log(exchange)) / both
        slopes[1, 6] += error * (within - logarithm) / gamma
    total = 1e-3 * (gamma - 1.0) ** 2
    slope = np.zeros(7)
    slope[6] = 2e-3 * (gamma - 1.0)
    for part in range(2):
        rms = np.sqrt(squares[part] / count)
        total += rms
        if rms > 0.0:
            slope += slopes[part] / (count * rms)
    for alpha in (2, 4):
        ratio = steps[alpha + 1] / steps[alpha]
        total += 1e-2 * ratio * ratio
        slope[alpha] -= 2e-2 * ratio * ratio / steps[alpha]
        slope[alpha + 1] += 2e-2 * ratio / steps[alpha]
    return total, slope
