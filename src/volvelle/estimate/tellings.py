"""Tellings of P50 and P90: what is asked and told, those that are remembered in columns, and their scores."""

from collections.abc import Hashable
from typing import Generic, NamedTuple, Self, TypeVar

import numpy as np

from volvelle.estimate.corrections import KINDS, SHARES, TERMS
from volvelle.estimate.likeness import ATTRIBUTES, Observed
from volvelle.model.arrays import BoolColumn, FloatColumn, IntColumn

_SAME_RANK = 1e-9

Key = TypeVar("Key", bound=Hashable)


class Told(NamedTuple):
    """P50 and P90 in seconds from the moment of telling. prior: assumptions are part of them."""

    p50: float
    p90: float
    prior: bool


class Asking(NamedTuple, Generic[Key]):
    """A job whose times are to be told, as `ToldTimes.tell` takes it."""

    key: Key
    observed: Observed
    predicted_seconds: float
    limit_seconds: float | None = None


class Tellings:
    """Tellings that are remembered, in columns by slot; ``weight`` is 0 in unused slots.

    open: the event has not come. judged: whether it is known that the told times held. score: log(took /
    predicted), of an open one as expected.
    """

    def __init__(self, slots: int) -> None:
        self.open: BoolColumn = np.zeros(slots, dtype=np.bool_)
        self.judged: BoolColumn = np.zeros((len(SHARES), slots), dtype=np.bool_)
        self.bound, self.told = np.zeros((2, len(SHARES), slots))
        """Bounds that were told, on the clock, and their scores."""
        self.moment, self.expected, self.score, self.weight = np.zeros((4, slots))
        """The moment of telling, and the event as expected now, on the clock."""
        self.left = np.zeros(slots)
        """The part of the expected time that has not passed; 0 once the event came."""
        self.raw = np.ones(slots)
        """Predicted seconds."""
        self.terms: IntColumn = np.zeros((TERMS, slots), dtype=np.int64)
        self.attributes: FloatColumn = np.zeros((ATTRIBUTES, slots))
        self.free = list(range(slots - 1, -1, -1))

    @property
    def kinds(self) -> IntColumn:
        """Terms of classes by name."""
        return self.terms[-KINDS:]

    def grown(self) -> "Tellings":
        """The same with twice the slots."""
        old, more = len(self.open), Tellings(2 * len(self.open))
        for name, column in vars(self).items():
            if name != "free":
                getattr(more, name)[..., :old] = column
        more.free = more.free[:old]
        return more

    def let_go(self, slot: int) -> None:
        """The slot is unused."""
        self.open[slot], self.weight[slot] = False, 0.0
        self.free.append(slot)


class Scores(NamedTuple):
    """Scores of tellings with their weights; ordered: the scores, ascending, reached: weights up to each."""

    scores: FloatColumn
    weights: FloatColumn
    ordered: FloatColumn
    reached: FloatColumn

    @classmethod
    def of(cls, scores: FloatColumn, weights: FloatColumn) -> Self:
        """Scores in the order of tellings, and sorted."""
        order = np.argsort(scores, kind="stable")
        return cls(scores, weights, scores[order], np.cumsum(weights[order]))

    def quantiles(self, levels: FloatColumn) -> FloatColumn:
        """Weighted quantiles of split conformal prediction: the last score stands for what is beyond."""
        rank = np.searchsorted(self.reached, levels * (self.reached[-1] + 1.0) - _SAME_RANK)
        found: FloatColumn = self.ordered[np.minimum(rank, len(self.ordered) - 1)]
        return found

    def level(self, score: float) -> float:
        """The level of a score as of `quantiles`: 1 where all are within it."""
        within = self.scores <= score + _SAME_RANK
        if within.all():
            return 1.0
        return float(self.weights[within].sum()) / (float(self.weights.sum()) + 1.0)
