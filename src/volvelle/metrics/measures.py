"""Measures, how many numbers become one: ``mean``, ``p50``, ``p99.9``, ``min``, ``max``, ``total``.

Percentiles of jobs interpolate linearly between ranks, as NumPy, pandas and the papers' artifacts
do; percentiles of a series over time are time-weighted and do not interpolate.
"""

import re
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from volvelle.metrics import series
from volvelle.metrics.outcomes import Steps
from volvelle.model.arrays import FloatColumn, IntColumn
from volvelle.model.problems import Problem, nearest

STANDARD = ("mean", "p50", "p90", "p99", "max")
"""The measures of a summary."""

_PERCENTILE = re.compile(r"p(\d{1,2}(?:\.\d+)?|100)")
_REDUCTIONS: dict[str, Callable[[FloatColumn], float]] = {
    "mean": np.mean,
    "min": np.min,
    "max": np.max,
    "total": np.sum,
}
_NAMED = tuple(_REDUCTIONS)
_ALSO = {"avg": "mean", "average": "mean", "median": "p50", "sum": "total", "worst": "max"}


def read_measure(text: str) -> str:
    """The measure's own name. Raises `Problem` where there is no such measure."""
    name = _ALSO.get(text, text)
    if name in _NAMED or _PERCENTILE.fullmatch(name):
        return name
    known = (*_NAMED, *_ALSO, "p50", "p90", "p99")
    raise Problem(
        f"unknown measure {text!r}{nearest(text, known)}",
        mend="measures are mean, min, max, total and percentiles p0 to p100",
        usage=True,
    )


def of_jobs(values: FloatColumn, *measures: str) -> list[float]:
    """``measures`` over the values that are not NaN; NaN (``total``: 0) where none is left."""
    known = values[~np.isnan(values)]
    if len(known) == 0:
        return [0.0 if measure == "total" else float("nan") for measure in measures]
    ranks = [_rank(measure) for measure in measures if measure not in _NAMED]
    at_rank = iter(np.percentile(known, ranks).tolist() if ranks else [])
    return [
        float(_REDUCTIONS[measure](known)) if measure in _NAMED else next(at_rank)
        for measure in measures
    ]


def of_groups(values: FloatColumn, bounds: IntColumn) -> dict[str, FloatColumn]:
    """The `STANDARD` measures of many groups of values, equal to `of_jobs` of each.

    Group ``i`` is ``values[bounds[i]:bounds[i + 1]]``, without NaN; an empty one measures NaN. Each is
    sorted in place, once for all its measures.
    """
    first, count = bounds[:-1], np.diff(bounds)
    total = np.zeros(len(count))
    for number, (begin, end) in enumerate(pairwise(bounds.tolist())):
        group = values[begin:end]
        total[number] = np.add.reduce(group)  # in their own order, which decides how sums round
        group.sort()
    mean = total / np.where(count > 0, count, np.nan)
    at_rank = _at_ranks(np.append(values, np.nan), first, count)
    return dict(zip(STANDARD, (mean, *at_rank), strict=True))


def _at_ranks(ordered: FloatColumn, first: IntColumn, count: IntColumn) -> NDArray[np.float64]:
    """A row for each standard percentile, a column for each group, rounded as `np.percentile` does.

    Behind the groups' sorted values ``ordered`` has a NaN, at which empty groups look.
    """
    position = np.maximum(count - 1, 0) * _STANDARD_SHARES[:, np.newaxis]
    below = np.floor(position).astype(np.int64)
    share = position - below
    low = ordered[np.where(count > 0, first + below, -1)]
    high = ordered[np.where(count > 0, first + np.minimum(below + 1, count - 1), -1)]
    return np.where(share < 0.5, low + (high - low) * share, high - (high - low) * (1 - share))


def over_time(steps: Steps, start: float, end: float, *measures: str) -> list[float]:
    """``measures`` of ``steps`` from ``start`` to ``end``; ``total`` is the integral."""
    ranks = [_rank(measure) for measure in measures if measure not in ("mean", "total")]
    at_rank = iter(series.percentiles(steps, ranks, start, end) if ranks else [])
    areas = {"mean": series.mean, "total": series.integral}
    return [
        areas[measure](steps, start, end) if measure in areas else next(at_rank)
        for measure in measures
    ]


def _rank(measure: str) -> float:
    return float({"min": "0", "max": "100"}.get(measure, measure.removeprefix("p")))


_STANDARD_SHARES = np.array([_rank(measure) for measure in STANDARD[1:]]) / 100.0
