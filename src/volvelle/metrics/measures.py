"""Measures, how many numbers become one: ``mean``, ``p50``, ``p99.9``, ``min``, ``max``, ``total``.

Percentiles of jobs interpolate linearly between ranks, as NumPy, pandas and the papers' artifacts
do; percentiles of a series over time are time-weighted and do not interpolate.
"""

import re
from collections.abc import Callable

import numpy as np

from volvelle.metrics import series
from volvelle.metrics.outcomes import FloatColumn, Steps
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
