"""Harm as a dial (ours): how much of its unused GPUs each pool keeps, so that few of its jobs are late.

``harm`` is the share of a pool's jobs that may be later than alone, which is known in hindsight (`alone`).
Each pool has a level: that share of what it does not use is kept. From 1 on it lends nothing. With every job
of which it is known the level moves by step x (1 if it was late, else 0, minus harm). That is rolling risk
control (Feldman, Ringel, Bates, Romano: Achieving Risk Control in Online Learning Settings, TMLR 2023; after
Gibbs and Candes, NeurIPS 2021; the batch form is conformal risk control, Angelopoulos et al., ICLR 2024). A
level begins at 1 and is never below 0, so that, whatever comes, late jobs are at most harm x jobs, plus those
that loans made before it reached 1 still make late.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from volvelle.core.compiled import compiled, kernel
from volvelle.core.view import View
from volvelle.systems.anticipatory.alone import Alone

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass
class HarmDial:
    """Levels of pools that own ``owned`` GPUs.

    harm: the share of jobs that may be late. step: how far one late job moves a level. within: seconds that
    are no delay.
    """

    names: tuple[str, ...]
    owned: Floats
    harm: float
    step: float
    within: float
    levels: Floats = field(init=False)
    seen: Floats = field(init=False)
    """Jobs later than alone, and all of which that is known, (2, pools)."""
    _alone: list[Alone] = field(init=False)
    _pool_of: dict[int, int] = field(default_factory=dict)
    _numbers: Floats = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        if not hasattr(self, "levels"):
            self.levels, self.seen = np.ones(len(self.owned)), np.zeros((2, len(self.owned)))
            self._alone = [Alone(each) for each in self.owned.tolist()]

    def start(self, number: int, pool: int, now: float) -> None:
        """A job of a pool starts."""
        self._alone[pool].start(number, now)

    def follow(self, view: View) -> list[str]:
        """Move levels by what becomes known since the last look; what there is to say of it."""
        jobs = view.jobs
        came, gone = came_and_gone(self._numbers, jobs.number)
        left, self._numbers = self._numbers[gone], jobs.number
        columns = (jobs.number, jobs.pool, jobs.gpus, jobs.submit_time)
        touched, notices = set(), []
        for number, pool, gpus, submit in zip(
            *(each[came].tolist() for each in columns), strict=True
        ):
            if pool >= 0:
                self._alone[pool].come(int(number), gpus, submit)
                self._pool_of[int(number)] = pool
                touched.add(pool)
        for number in left.tolist():
            if (pool := self._pool_of.pop(int(number), -1)) >= 0:
                self._alone[pool].end(int(number), view.now)
                touched.add(pool)
        for pool in sorted(touched):
            late, known = self._alone[pool].judge(view.now, self.within)
            self.seen[:, pool] += late, known
            notices += self._move(pool, late - self.harm * known)
        return notices

    def _move(self, pool: int, by: float) -> list[str]:
        before = float(self.levels[pool])
        level = self.levels[pool] = max(before + self.step * by, 0.0)
        if (before >= 1.0) == (level >= 1.0):
            return []
        late, known = self.seen[:, pool].tolist()
        return [
            f"pool {self.names[pool]} lends {'nothing' if level >= 1.0 else 'again'}: "
            f"{late:g} of {known:g} jobs were later than alone, {self.harm:g} of them may be"
        ]


@compiled
def came_and_gone(before: Floats, after: Floats) -> tuple[Ints, Ints]:
    """Where new jobs stand among those that are there ``after``, and where who left stood ``before``."""
    return not_in(after, before), not_in(before, after)


@kernel
def not_in(numbers: Floats, others: Floats) -> Ints:
    """Where the ``numbers`` stand that are not among the ``others``; both are distinct, in any order.

    Those in both mostly come in the same order: then it is one pass.
    """
    found = np.zeros(len(numbers), dtype=np.int64)
    count = at = 0
    for place in range(len(numbers)):
        looked = 0
        while looked < len(others) and others[(at + looked) % len(others)] != numbers[place]:
            looked += 1
        if looked == len(others):
            found[count] = place
            count += 1
        else:
            at += looked + 1
    return found[:count]
