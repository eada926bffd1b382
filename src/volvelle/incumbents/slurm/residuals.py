"""From a replica's times to times that hold: quantiles of its residuals by class, with what still waits.

The score of a told time is (real - told) / (told - moment of telling + ``scale``): errors grow with how far
ahead a time lies. Told times whose event has not come yet are lower bounds of their score. Scores of the
narrowest class weigh most; those of wider classes stand in where it has few.
"""

from collections import defaultdict, deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from volvelle.incumbents.slurm.survival import Curve

_PRIOR = (-0.5, -0.2, 0.0, 0.2, 0.5, 1.0, 2.0, 4.0, 4.0)
"""Scores before any is known; together they weigh as one."""
_KEPT = 100
_TRUST = 20.0
"""So many scores of a class weigh as much as all of wider classes."""

Class = tuple[str, ...]


class _Open(NamedTuple):
    moment: float
    raw: float
    classes: tuple[Class, ...]


class Residuals:
    """Scores of one kind of event (starts, or ends), and the told times that still wait for theirs."""

    def __init__(self, scale: float) -> None:
        self._scale = scale
        self._scores: dict[Class, deque[float]] = defaultdict(lambda: deque(maxlen=_KEPT))
        self._open: dict[str, list[_Open]] = {}
        self._waiting: dict[Class, list[float]] = {}
        self._curves: dict[Class, Curve] = {}

    def told(self, key: str, classes: Sequence[Class], moment: float, raw: float) -> None:
        """A time ``raw`` was told at ``moment`` for the event of a job; classes: the narrowest first.

        Of one job times are kept at growing distances: half as many again for each doubling of its wait.
        """
        waits = self._open.setdefault(key, [])
        if waits and moment - waits[-1].moment < (moment - waits[0].moment) / _EACH:
            return
        waits.append(_Open(moment, raw, tuple(classes)))

    def came(self, key: str, moment: float) -> None:
        """The event came at ``moment``; times told after it say nothing."""
        for one in self._open.pop(key, ()):
            if one.moment <= moment + 1.0:
                for each in one.classes:
                    self._scores[each].append(self._score(one, moment))

    def forget(self, key: str | None = None) -> None:
        """The event will not come, or nobody can say when it came; without a key: none of those told."""
        if key is None:
            self._open.clear()
        else:
            self._open.pop(key, None)

    def now(self, moment: float) -> None:
        """Take what is still open at ``moment`` as lower bounds."""
        waiting: dict[Class, list[float]] = defaultdict(list)
        for told in self._open.values():
            for one in told:
                for each in one.classes:
                    waiting[each].append(self._score(one, moment))
        self._waiting = waiting
        self._curves.clear()

    def stated(
        self, classes: Sequence[Class], moment: float, raw: float, share: float = 0.9
    ) -> float:
        """The time by which the event comes in ``share`` of cases, neither before ``raw`` nor ``moment``."""
        narrowest = classes[0]
        if narrowest not in self._curves:
            self._curves[narrowest] = self._curve(classes)
        ahead = max(raw - moment, 0.0) + self._scale
        above = (moment - raw) / ahead
        score = self._curves[narrowest].quantile(share, above)
        return max(raw + max(min(score, _MOST), 0.0) * ahead, moment)

    def _score(self, one: _Open, moment: float) -> float:
        return (moment - one.raw) / (max(one.raw - one.moment, 0.0) + self._scale)

    def _curve(self, classes: Sequence[Class]) -> Curve:
        values: list[float] = []
        ended: list[bool] = []
        weights: list[float] = []
        for each in classes:
            came, waits = self._scores.get(each, ()), self._waiting.get(each, [])[-_KEPT:]
            many, have = len(came) + len(waits), sum(weights)
            weight = min(1.0, _TRUST / max(many, 1)) * _TRUST / (_TRUST + have) if have else 1.0
            values += [*came, *waits]
            ended += [*([True] * len(came)), *([False] * len(waits))]
            weights += [weight] * many
        last = _TRUST / (_TRUST + sum(weights)) / len(_PRIOR)
        values += _PRIOR
        ended += [True] * len(_PRIOR)
        weights += [last] * len(_PRIOR)
        return Curve(np.array(values), np.array(ended), np.array(weights))


_EACH = 40.0
_MOST = 4.0
"""Score that stands for a share that too few have reached."""
