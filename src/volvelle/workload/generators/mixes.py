"""How long and how wide jobs are: the published mixes, as vectorised draws.

- Gavel (OSDI'20): 80 % 10^U(1.5, 3) min, 20 % 10^U(3, 4) min; 70/10/15/5 % on
  1/2/4/8 GPUs.
- Anticipatory scheduling (appendices A.1 and C): uniform on ranges of minutes.
- PCS (OSDI'24, simulator): points of a distribution function, uniform between.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from volvelle.model.arrays import FloatColumn
from volvelle.model.units import MINUTE

GAVEL_WIDTHS: dict[float, float] = {1: 0.70, 2: 0.10, 4: 0.15, 8: 0.05}
"""Share of jobs by GPUs (Gavel's scale factors; the anticipatory paper's base widths)."""


def discrete(rng: np.random.Generator, count: int, shares: Mapping[float, float]) -> FloatColumn:
    """``count`` of the keys, drawn with the values as relative frequencies."""
    values = np.fromiter(shares, dtype=np.float64, count=len(shares))
    cumulated = np.cumsum(np.fromiter(shares.values(), dtype=np.float64, count=len(shares)))
    bins = np.searchsorted(cumulated / cumulated[-1], rng.random(count), side="right")
    drawn: FloatColumn = values[np.minimum(bins, len(values) - 1)]
    return drawn


def gavel_durations(rng: np.random.Generator, count: int, long_share: float = 0.2) -> FloatColumn:
    """Seconds: 10^U(1.5, 3) minutes, or with ``long_share`` 10^U(3, 4) minutes."""
    long = rng.random(count) < long_share
    uniform = rng.random(count)
    exponents: FloatColumn = np.where(long, 3.0 + uniform, 1.5 + 1.5 * uniform)
    seconds: FloatColumn = np.power(np.full(count, 10.0), exponents) * MINUTE
    return seconds


def uniform_ranges(
    rng: np.random.Generator, count: int, ranges: Sequence[tuple[float, float, float]]
) -> FloatColumn:
    """Uniform on one of the ranges ``(share, low, high)``, each chosen with its share."""
    shares, lows, highs = (
        np.array(column, dtype=np.float64) for column in zip(*ranges, strict=True)
    )
    chosen = discrete(rng, count, dict(enumerate(shares.tolist()))).astype(np.intp)
    drawn: FloatColumn = lows[chosen] + (highs - lows)[chosen] * rng.random(count)
    return drawn


def log_uniform(rng: np.random.Generator, low: FloatColumn, high: FloatColumn) -> FloatColumn:
    """One draw for each pair of bounds, uniform on the logarithm."""
    return low * (high / low) ** rng.random(len(low))


def lognormal(rng: np.random.Generator, count: int, median: float, sigma: float) -> FloatColumn:
    """Log-normal with this median and this deviation of the logarithm."""
    return median * np.exp(sigma * rng.standard_normal(count))


def from_distribution_points(
    rng: np.random.Generator, count: int, points: Sequence[tuple[float, float]]
) -> FloatColumn:
    """PCS' sampler: whole numbers from the points ``(value, share at or below it)``.

    Two uniform draws for each sample: the first chooses the interval, the second the place in it;
    the value is truncated (../shared/golden/pcs, section 1.6). So the last value is never drawn.
    """
    values, shares = np.array(points, dtype=np.float64).T
    chooses, places = rng.random((count, 2)).T
    bins = np.clip(np.searchsorted(shares, chooses), 1, len(values) - 1)
    low, high = values[bins - 1], values[bins]
    whole: FloatColumn = np.floor(low + (high - low) * places)
    return whole
