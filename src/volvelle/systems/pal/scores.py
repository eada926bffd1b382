"""Scores of GPUs: their slowdowns by bins, as K-means finds them."""

from functools import lru_cache

import numpy as np

from volvelle.model.arrays import FloatColumn, IntColumn

MOST_BINS = 10
OUTLIER = 3.0
"""Standard deviations above the mean from which on a GPU has a bin of its own."""


@lru_cache(maxsize=64)
def scores(slowdowns: tuple[float, ...]) -> FloatColumn:
    """The mean slowdown of each GPU's bin, over the median of all bins' means."""
    values = np.array(slowdowns)
    distinct = len(np.unique(values))
    if distinct == 1:
        return np.ones(len(values))
    outlying = values > values.mean() + OUTLIER * values.std(ddof=1)
    bins = _best_number(values[~outlying]) + int(outlying.sum())
    labels = binned(values, min(bins, distinct))[-1]
    means = np.bincount(labels, weights=values) / np.bincount(labels)
    found: FloatColumn = (means / np.median(means))[labels]
    return found


def _best_number(values: FloatColumn) -> int:
    """The number of bins with the greatest mean silhouette, 2 to `MOST_BINS`; 1 where values are alike."""
    distinct = len(np.unique(values))
    most = min(MOST_BINS, distinct, len(values) - 1)
    if most < 2:
        return distinct
    return 2 + int(np.argmax([silhouette(values, labels) for labels in binned(values, most)[1:]]))


def binned(values: FloatColumn, most: int) -> list[IntColumn]:
    """The bins of ``values`` that K-means with 1, 2, ... ``most`` of them should find, by the least squares.

    In one dimension a bin is an interval, so that the optimum follows from those of shorter prefixes.
    """
    order = np.argsort(values, kind="stable")
    there, count = values[order], len(values)
    sums = np.concatenate([[0.0], np.cumsum(there)])
    squares = np.concatenate([[0.0], np.cumsum(there**2)])
    first, end = np.arange(count)[:, None], np.arange(count + 1)[None, :]
    width = np.maximum(end - first, 1)
    within = squares[end] - squares[first] - (sums[end] - sums[first]) ** 2 / width
    within[end <= first] = np.inf
    least = np.concatenate([[0.0], within[0, 1:]])
    cuts, found = [np.zeros(count + 1, dtype=np.int64)], []
    for bins in range(1, most + 1):
        if bins > 1:
            total = least[:-1, None] + within
            total[0] = np.inf
            cuts.append(np.argmin(total, axis=0))
            least = total.min(axis=0)
        labels, until = np.empty(count, dtype=np.int64), count
        for label in range(bins - 1, -1, -1):
            start = int(cuts[label][until])
            labels[order[start:until]] = label
            until = start
        found.append(labels)
    return found


def silhouette(values: FloatColumn, labels: IntColumn) -> float:
    """The mean silhouette of ``values`` in these bins; 0 for a value alone in its bin."""
    sizes = np.bincount(labels)
    distances = np.abs(values[:, None] - values) @ np.eye(len(sizes))[labels]
    own = np.arange(len(values)), labels
    inside = distances[own] / np.maximum(sizes[labels] - 1, 1)
    to_others = distances / sizes
    to_others[own] = np.inf
    outside = to_others.min(axis=1)
    apart = np.where(sizes[labels] > 1, outside - inside, 0.0)
    widest = np.maximum(outside, inside)
    return float(np.mean(np.divide(apart, widest, out=np.zeros_like(apart), where=widest > 0.0)))
