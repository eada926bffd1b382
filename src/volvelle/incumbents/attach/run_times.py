"""How long jobs run, as a share of their limit: learned from those that ended and those that still run.

Groups of a job say which others are like it (`Site.groups`): the narrowest counts most. Runs that were cut
short (preempted, cancelled) and runs that go on are lower bounds. Before anything is known, half of the jobs
are taken to use at most ``_PRIOR``'s median. For jobs without a limit a day stands for it, and does not bind.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from volvelle.incumbents.attach.incumbent import Group
from volvelle.model.arrays import Floats

_PRIOR = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Ratios of jobs of which nothing is known; together they weigh as one job."""
_PRIOR_WITHOUT_LIMIT = (0.002, 0.01, 0.04, 0.2, 0.7)
"""The same of jobs without a limit, as shares of a day: from minutes to most of it, half of them an hour."""
_KEPT = 200
"""Runs of each group that count: the latest that are over, and of those that go on an even part."""
_TRUST = 3.0
"""So many jobs of a group weigh as much as all that is known of larger groups."""
_WITHOUT_LIMIT = 86400.0
"""Seconds that stand for the limit of a job that has none."""

Seen = tuple[float, bool]
"""Ratio to the limit, and whether the run ended by itself."""


class Curve:
    """The survival curve of weighted values; those that are not ``ended`` are lower bounds.

    Source: the product-limit estimator (Kaplan and Meier, 1958).
    """

    def __init__(self, values: Floats, ended: NDArray[np.bool_], weights: Floats) -> None:
        order = np.lexsort((~ended, values))
        self._values, ends, weight = values[order], ended[order], weights[order]
        at_risk = np.cumsum(weight[::-1])[::-1]
        self._survival = np.cumprod(1.0 - np.where(ends, weight / at_risk, 0.0))

    def quantile(self, share: float, above: float = -np.inf) -> float:
        """The least value that ``share`` do not exceed, among those that exceed ``above``.

        Infinite where too few ended for that share.
        """
        past = int(np.searchsorted(self._values, above, side="right"))
        there = self._survival[past - 1] if past else 1.0
        reached = np.flatnonzero(self._survival[past:] <= there * (1.0 - share) + 1e-12)
        return float(self._values[past + reached[0]]) if there > 1e-9 and len(reached) else np.inf


class RunTimes:
    """Ratios of run time to limit, by groups."""

    def __init__(self) -> None:
        self._seen: dict[Group, deque[Seen]] = defaultdict(lambda: deque(maxlen=_KEPT))
        self._going: dict[Group, list[Seen]] = {}
        self._curves: dict[Group, Curve] = {}
        self._columns: dict[Group, tuple[Floats, NDArray[np.bool_]]] = {}
        """Ratios of groups, and whether these runs ended; with the curves, as long as nothing is learned."""

    def add(
        self, groups: Iterable[Group], seconds: float, limit: float | None, *, ended: bool
    ) -> None:
        """Learn from a run that is over. ended: it was not cut short."""
        ratio = _ratio(seconds, limit)
        for group in groups:
            self._seen[group].append((ratio, ended))
            self._columns.pop(group, None)
        self._curves.clear()

    def now(self, running: Iterable[tuple[Iterable[Group], float, float | None]]) -> None:
        """The runs that go on, each with its groups, its seconds so far and its limit."""
        going: dict[Group, list[Seen]] = defaultdict(list)
        for groups, seconds, limit in running:
            ratio = _ratio(seconds, limit)
            for group in groups:
                going[group].append((ratio, False))
        self._going = {group: seen[:: -(-len(seen) // _KEPT)] for group, seen in going.items()}
        self._curves.clear()
        self._columns.clear()

    def believed(
        self,
        groups: Sequence[Group],
        limit: float | None,
        so_far: float = 0.0,
        share: float = 0.5,
    ) -> float:
        """Seconds of a whole run that ``share`` of such jobs do not exceed, of those that ran ``so_far``."""
        if groups[0] not in self._curves:
            self._curves[groups[0]] = self._curve(groups, _PRIOR if limit else _PRIOR_WITHOUT_LIMIT)
        unit = limit or _WITHOUT_LIMIT
        ratio = self._curves[groups[0]].quantile(share, so_far / unit)
        if limit is None:
            return ratio * unit if ratio < np.inf else max(2.0 * so_far, unit)
        return max(min(ratio, 1.0) * unit, so_far + 1.0)

    def _curve(self, groups: Iterable[Group], prior: tuple[float, ...]) -> Curve:
        columns, weights, have = [self._column(group) for group in groups], [], 0.0
        for ratios, _ in columns:
            each = (
                min(1.0, _TRUST / max(len(ratios), 1)) * _TRUST / (_TRUST + have) if have else 1.0
            )
            weights.append(np.full(len(ratios), each))
            have += each * len(ratios)
        last = (1.0 if not have else _TRUST / (_TRUST + have)) / len(prior)
        columns.append((np.array(prior), np.ones(len(prior), dtype=np.bool_)))
        weights.append(np.full(len(prior), last))
        ratios, ended = (np.concatenate(parts) for parts in zip(*columns, strict=True))
        return Curve(ratios, ended, np.concatenate(weights))

    def _column(self, group: Group) -> tuple[Floats, NDArray[np.bool_]]:
        if group not in self._columns:
            seen = [*self._seen.get(group, ()), *self._going.get(group, ())]
            ratios = np.array([ratio for ratio, _ in seen], dtype=np.float64)
            self._columns[group] = ratios, np.array([over for _, over in seen], dtype=np.bool_)
        return self._columns[group]


def _ratio(seconds: float, limit: float | None) -> float:
    return seconds / _WITHOUT_LIMIT if limit is None else min(seconds / limit, 1.0)
