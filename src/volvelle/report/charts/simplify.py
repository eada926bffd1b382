"""Lines with a hundred thousand points, reduced to what a column of pixels can show.

Both reductions keep every extreme: what is left out could not have been seen.
"""

from typing import NamedTuple

import numpy as np

from volvelle.model.arrays import FloatColumn
from volvelle.report.charts.marks import Points


class Envelope(NamedTuple):
    """For each column of pixels: its centre, and the mean, least and largest value in it."""

    x: FloatColumn
    mean: FloatColumn
    low: FloatColumn
    high: FloatColumn


def simplify_line(points: Points, columns: int) -> Points:
    """``points`` (ascending in x) with at most four for each of ``columns`` columns of equal width.

    Kept are the first, the lowest, the highest and the last of each column.
    """
    if len(points) <= 4 * columns:
        return points
    x, y = points[:, 0], points[:, 1]
    width = (x[-1] - x[0]) / columns
    column = np.minimum(((x - x[0]) / (width or 1.0)).astype(np.int64), columns - 1)
    starts = np.flatnonzero(np.diff(column, prepend=-1))
    ends = np.append(starts[1:], len(x)) - 1
    order = np.lexsort((y, column))
    kept = np.zeros(len(x), dtype=np.bool_)
    kept[np.concatenate([starts, ends, order[starts], order[ends]])] = True
    return np.asarray(points[kept], dtype=np.float64)


def step_points(x: FloatColumn, y: FloatColumn, end: float) -> Points:
    """The corners of the step function that has value ``y[i]`` from ``x[i]`` on, up to ``end``."""
    if len(x) == 0:
        return np.empty((0, 2))
    corners = np.empty((2 * len(x), 2))
    corners[0::2, 0] = x
    corners[1:-1:2, 0] = x[1:]
    corners[-1, 0] = max(end, x[-1])
    corners[0::2, 1] = y
    corners[1::2, 1] = y
    return corners


def step_envelope(
    x: FloatColumn, y: FloatColumn, start: float, end: float, columns: int
) -> Envelope:
    """Mean, minimum and maximum of a step function in ``columns`` equal parts of ``start..end``.

    ``x`` is ascending; before ``x[0]`` the function has its first value.
    """
    edges = np.linspace(start, end, columns + 1)
    last_held = len(x) - 1
    first = np.clip(np.searchsorted(x, edges[:-1], side="right") - 1, 0, last_held)
    stop = np.maximum(np.searchsorted(x, edges[1:], side="left"), first + 1)
    padded = np.append(y, y[-1])
    pairs = np.column_stack([first, np.minimum(stop, last_held + 1)]).ravel()
    low = np.minimum.reduceat(padded, pairs)[::2]
    high = np.maximum.reduceat(padded, pairs)[::2]
    knots = np.concatenate([[min(start, x[0])], x[1:], [max(end, x[-1])]])
    integral = np.concatenate([[0.0], np.cumsum(y * np.diff(knots))])
    mean = np.diff(np.interp(edges, knots, integral)) / np.diff(edges)
    return Envelope((edges[:-1] + edges[1:]) / 2, np.clip(mean, low, high), low, high)
