"""Queues by job size: thresholds by variation, weights by disparity (PCS, OSDI'24, section 3.3)."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from volvelle.model.problems import Problem
from volvelle.model.units import parse_duration


class PcsQueues(NamedTuple):
    """Queue i takes sizes up to ``thresholds[i]``, the last takes the rest; weights add up to 1."""

    thresholds: tuple[float, ...]
    weights: tuple[float, ...]

    @property
    def written(self) -> str:
        """The parameters of the policy, as in ``thresholds=1627/969473,weights=0.95/0.048/0.002``."""
        thresholds, weights = ("/".join(f"{x:.12g}" for x in part) for part in self)
        return f"thresholds={thresholds},weights={weights}" if thresholds else ""


def create_queues(sizes: Iterable[float], variation: float, disparity: float) -> PcsQueues:
    """Queues for jobs of ``sizes`` such that C^2 within each is at most ``variation``, T in the paper.

    C^2 is the squared coefficient of variation (population variance over squared mean), taken over
    ascending sizes; a queue ends before the size with which it would exceed T, at the size before.
    ``disparity`` is W: queue i weighs exp(-i W). As in PCS' simulator, except that a size that would
    exceed T opens the next queue and counts in it. Raises `Problem` for sizes that are not positive.
    """
    thresholds: list[float] = []
    count, mean, squares = 0, 0.0, 0.0
    largest = 0.0
    for size in sorted(sizes):
        if not 0 < size < math.inf:
            raise Problem(f"a job's size is {size!r}", mend="sizes are GPU-seconds, above 0")
        step = size - mean
        new_mean = mean + step / (count + 1)
        new_squares = squares + step * (size - new_mean)
        if new_squares / (count + 1) > variation * new_mean**2 and size > largest:
            thresholds.append(largest)
            count, mean, squares = 1, size, 0.0
        else:
            count, mean, squares = count + 1, new_mean, new_squares
        largest = size
    return PcsQueues(tuple(thresholds), decaying(len(thresholds) + 1, disparity))


def one_queue_variation(sizes: Iterable[float]) -> float:
    """A T with which there is one queue, the upper end of its range (0 where there are no sizes).

    The greatest C^2 of the smallest sizes, however many: that of all may be less.
    """
    ascending = np.sort(np.fromiter(sizes, dtype=np.float64))
    if not len(ascending):
        return 0.0
    scaled, count = ascending / ascending[-1], np.arange(1, len(ascending) + 1)
    mean = np.cumsum(scaled) / count
    variance = np.cumsum(scaled**2) / count - mean**2
    return float(np.max(variance / mean**2)) * (1.0 + 1e-9) + 1e-9


def decaying(queues: int, disparity: float) -> tuple[float, ...]:
    """w_i = exp(-i W), normalised."""
    weights = np.exp(-disparity * np.arange(queues))
    return tuple((weights / weights.sum()).tolist())


def from_disparities(disparities: Sequence[float]) -> tuple[float, ...]:
    """Weights that add up to 1, each exp(-W) times the one before by its own W of ``disparities``."""
    steps = np.concatenate([[0.0], np.cumsum(disparities)])
    weights = np.exp(steps.min() - steps)
    return tuple((weights / weights.sum()).tolist())


def read_sizes(written: str) -> tuple[float, ...]:
    """Ascending sizes written ``1627/969473``, each perhaps with a unit of time for one GPU."""
    sizes = tuple(parse_duration(part) for part in written.split("/") if part)
    if any(np.diff([0.0, *sizes]) <= 0):
        raise ValueError("thresholds must ascend and be greater than 0, as in 1627/969473")
    return sizes


def read_weights(written: str) -> tuple[float, ...]:
    """Weights written ``19/1``, normalised; none where nothing is written."""
    parts = [float(part) for part in written.split("/") if part]
    if any(not 0 < part < math.inf for part in parts):
        raise ValueError("weights must be greater than 0, as in 19/1")
    weights: NDArray[np.float64] = np.array(parts) / sum(parts) if parts else np.zeros(0)
    return tuple(weights.tolist())
