"""PAL and PM-First: the GPUs of all jobs of a decision, class after class (SC'24)."""

from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar

import numpy as np

from volvelle.core.facets import PlacesAllAnew
from volvelle.core.parts import Gang, Placement, placements
from volvelle.core.resources import Resources
from volvelle.model.arrays import BoolColumn, FloatColumn, IntColumn
from volvelle.model.job import JobSpec
from volvelle.placement.basic import consolidate


@placements.register
class PMFirst(Placement, PlacesAllAnew):
    """The GPUs of the best scores for a job's variability class, wherever they are."""

    name: ClassVar[str] = "pm-first"
    source: ClassVar[str] = "PAL (SC'24)"

    def lacks(self, spec: JobSpec) -> str:
        """The variability class of a job."""
        if spec.variability:
            return ""
        return (
            f"placement {self.name!r} goes by its variability class, and it declares none: "
            "GPUs are taken to be alike for it"
        )

    def choose(self, free: IntColumn, gpus: int, resources: Resources) -> IntColumn | None:
        """The place of a job of which nothing is known: the fewest nodes."""
        return consolidate(free, gpus)

    def choose_gpus(
        self, gangs: Sequence[Gang], free: BoolColumn, resources: Resources
    ) -> list[IntColumn | None]:
        """Gangs of the class that varies most choose first, then those of the next."""
        varies = {name: float(each.std()) for name, each in resources.slowdowns.items()}
        score = {name: scores(tuple(each.tolist())) for name, each in resources.slowdowns.items()}
        alike = np.ones(len(free))
        order = sorted(
            range(len(gangs)), key=lambda i: -varies.get(gangs[i].job.spec.variability, -1.0)
        )
        left, found = free.copy(), dict[int, IntColumn | None]()
        for i in order:
            slots = np.flatnonzero(left)
            if len(slots) < gangs[i].gpus:
                found[i] = None
                continue
            of_class = score.get(gangs[i].job.spec.variability, alike)[slots]
            taken = self.best(gangs[i], of_class, resources.slot_node[slots], resources)
            found[i] = np.sort(slots[taken])
            left[slots[taken]] = False
        return [found[i] for i in range(len(gangs))]

    def best(
        self, gang: Gang, score: FloatColumn, node: IntColumn, resources: Resources
    ) -> IntColumn:
        """Which of the free GPUs, by the score and the node of each, a gang has."""
        return best_scores(gang.gpus, score, node)


@placements.register
class PAL(PMFirst):
    """Locality and variability: the least product of the worst score and the slowdown on several nodes."""

    name: ClassVar[str] = "pal"
    goes_by_spread: ClassVar[bool] = True

    def lacks(self, spec: JobSpec) -> str:
        """The variability class of a job, or else the slowdown of a gang on several nodes."""
        return super().lacks(spec) or Placement.lacks(self, spec)

    def best(
        self, gang: Gang, score: FloatColumn, node: IntColumn, resources: Resources
    ) -> IntColumn:
        """The first entry of the matrix, by its product, that has enough GPUs.

        The entry of a score and one node: GPUs of a node that are no worse; of several nodes: as `PMFirst`.
        """
        if gang.gpus == 1 or gang.gpus > int(resources.node_gpus.max()):
            return best_scores(gang.gpus, score, node)
        apart = 1.0 + gang.job.believed.spread_slowdown
        entries = [
            (worst * factor, several, worst)
            for worst in np.unique(score).tolist()
            for several, factor in ((False, 1.0), (True, apart))
        ]
        for _, several, worst in sorted(entries):
            there = np.flatnonzero(score <= worst)
            if several and len(there) >= gang.gpus:
                return there[best_scores(gang.gpus, score[there], node[there])]
            if not several:
                together = best_on_one(gang.gpus, score[there], node[there])
                if together is not None:
                    return there[together]
        raise AssertionError("a gang fits where as many GPUs are free")


def best_scores(gpus: int, score: FloatColumn, node: IntColumn) -> IntColumn:
    """The GPUs of the best scores; of equal ones those of which their node has about as many as wanted."""
    _, alike, count = np.unique(
        np.stack([score, node]), axis=1, return_inverse=True, return_counts=True
    )
    misfit = np.abs(count[alike.ravel()] - gpus)
    return np.lexsort((node, misfit, score))[:gpus]


def best_on_one(gpus: int, score: FloatColumn, node: IntColumn) -> IntColumn | None:
    """The GPUs of the best scores on the node where the worst of them is best; None where none has enough.

    Of equal nodes: that with the fewest GPUs.
    """
    order = np.lexsort((score, node))
    _, first, count = np.unique(node[order], return_index=True, return_counts=True)
    enough = count >= gpus
    if not enough.any():
        return None
    first, count = first[enough], count[enough]
    worst = score[order[first + gpus - 1]]
    at = first[np.lexsort((count, worst))[0]]
    return order[at : at + gpus]


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
