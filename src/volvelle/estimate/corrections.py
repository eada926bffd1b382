"""Corrections of the shares whose quantiles are told, one for each class of observable state.

Adaptive conformal inference (Gibbs and Candes, 2021) with one indicator for each class of a job: a miss
raises the terms of its classes, a hit lowers them, so that each class approaches its share. Terms decay by
`_DECAY` at each step.
"""

import math
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Mapping

import numpy as np

from volvelle.estimate.likeness import Observed
from volvelle.model.arrays import FloatColumn, IntColumn

SHARES = (0.5, 0.9)
"""Shares of jobs that are to keep their P50 and their P90."""

STATE_CLASSES: Mapping[str, tuple[float, ...]] = {
    "load": (4.0, 16.0, 64.0, 256.0),
    "arrivals": (1.0, 4.0, 16.0, 64.0, 256.0),
    "service": (300.0, 3600.0, 8 * 3600.0, 64 * 3600.0),
    "width": (1.0, 2.0, 4.0, 8.0),
}
"""Classes of observable state: upper bounds of each attribute, in jobs, seconds or GPUs; the last is open."""

KINDS = 3
"""The most classes by name that an `Observed` has."""
TERMS = 1 + len(STATE_CLASSES) + KINDS
"""Of a job: one of all jobs, and one of each class to which it belongs."""

_STEP = 0.05
"""Share by which a miss raises a term, times the share that is told; a hit lowers it by as much less."""
_FURTHEST = np.array((0.3, 0.09))
"""The largest corrections of the shares."""
_MOST_LEARNED = (0.3, math.inf)
"""The largest term that outcomes bring. P50's is bounded, so that after many misses hits tell at once; P90's
is not: it stays late until hits have made up for what was missed."""
_DECAY = 0.005


def state_classes(observed: Observed) -> tuple[int, ...]:
    """The number of the job's class in each attribute of `STATE_CLASSES`."""
    values = observed.load, observed.arrivals, observed.service, observed.width
    return tuple(map(bisect_left, STATE_CLASSES.values(), values))


class Corrections:
    """Terms of P50 and of P90, from outcomes and, anew at each time, from expectations. Term 0 is no term."""

    def __init__(self) -> None:
        self._names: dict[Hashable, int] = {}
        self._learned, self._provisional = np.zeros((2, len(SHARES), 64))
        self._terms_of: dict[Hashable, IntColumn] = {}
        """By classes and kinds."""

    def terms(self, observed: Observed) -> IntColumn:
        """(TERMS,) the terms of a job's correction; 0 where it has fewer."""
        classes, kinds = state_classes(observed), observed.kinds[:KINDS]
        terms = self._terms_of.get((classes, kinds))
        if terms is None:
            numbered: Iterable[Hashable] = zip(STATE_CLASSES, classes, strict=True)
            found = [self._term(name) for name in ("all", *numbered, *kinds)]
            terms = self._terms_of[classes, kinds] = np.array(found + [0] * (TERMS - len(found)))
        return terms

    def _term(self, name: Hashable) -> int:
        found = self._names.setdefault(name, 1 + len(self._names))
        if found == self._learned.shape[1]:
            self._learned = np.pad(self._learned, ((0, 0), (0, found)))
            self._provisional = np.pad(self._provisional, ((0, 0), (0, found)))
        return found

    def of(self, terms: IntColumn) -> FloatColumn:
        """(shares,) what is added to the shares for a job with these terms."""
        both = self._learned[:, terms] + self._provisional[:, terms]
        total: FloatColumn = np.minimum(np.maximum(both.sum(axis=1), -_FURTHEST), _FURTHEST)
        return total

    def learn(self, which: int, terms: IntColumn, held: float) -> None:
        """Count an outcome of a job: 1 where the ``which``-th told time held, 0 where it did not."""
        self._learned[which, terms] *= 1.0 - _DECAY
        self._learned[which, terms] += _STEP * (SHARES[which] - held)
        most = _MOST_LEARNED[which]
        self._learned[which] = np.clip(self._learned[which], -most, most)
        self._learned[which, 0] = 0.0

    def expect(self, which: int, terms: IntColumn, held: FloatColumn, weight: FloatColumn) -> None:
        """Count what is expected of jobs now, in place of what was: (TERMS, jobs) terms, chances, weights."""
        steps = _STEP * (SHARES[which] - held) * weight
        size = self._provisional.shape[1]
        self._provisional[which] = np.bincount(terms.ravel(), np.tile(steps, TERMS), size)
        self._provisional[which, 0] = 0.0
