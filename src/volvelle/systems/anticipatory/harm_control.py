"""Harm control (ours): the share of its unused GPUs that each pool keeps, so that few of its jobs are late.

``harm`` is the share of a pool's jobs that may be later than in its isolated reference, which is known in
hindsight (`isolated_reference`). The level of a pool is the share of its unused GPUs that is kept. From 1 on
the pool lends nothing. With every job that is judged the level moves by step x (1 if it was late, else 0,
minus harm). That is rolling risk control (Feldman, Ringel, Bates, Romano: Achieving Risk Control in Online
Learning Settings, TMLR 2023; after Gibbs and Candes, NeurIPS 2021; the batch form is conformal risk control,
Angelopoulos et al., ICLR 2024). A level begins at 1 and is never below 0. So with any arrivals, late jobs are
at most harm x jobs, plus the jobs that loans made before the level reached 1 still delay. For these to be few
no loan may last longer than was believed: borrowers have hard time limits, or may be stopped.
"""

from dataclasses import dataclass, field

import numpy as np

from volvelle.core.compiled import compiled, kernel
from volvelle.core.view import View
from volvelle.model.arrays import Bools, Floats, Ints
from volvelle.model.tolerances import SAME_MOMENT
from volvelle.systems.anticipatory.coming import lasting
from volvelle.systems.anticipatory.memory import KIND_POOL, KIND_STOPS, KIND_WITHIN, Tables


@dataclass
class Ran:
    """A job: GPUs, time of submission, of its real start, and its duration; infinite while unknown."""

    number: int
    gpus: float
    submit: float
    start: float = float("inf")
    seconds: float = float("inf")
    gone: bool = False


@dataclass
class IsolatedReference:
    """When each job of a pool that owns ``owned`` GPUs would start if the pool shared none of them.

    The reference serves jobs first come, first served on these GPUs, with their true durations. The duration
    of a job that started no later than in the reference is known by the time it would end there. If a job
    started later, the clock of the reference waits for its end, as far as that matters. No estimate enters,
    and no verdict is wrong; verdicts are delayed by as much as jobs are late.
    """

    owned: float
    jobs: dict[int, Ran] = field(default_factory=dict)
    _queue: list[Ran] = field(default_factory=list)
    _running: list[tuple[float, Ran]] = field(default_factory=list)
    """Virtual starts and jobs."""
    _head: float = float("-inf")

    def __post_init__(self) -> None:
        self._queue = [self.jobs.get(job.number, job) for job in self._queue]
        self._running = [(at, self.jobs.get(job.number, job)) for at, job in self._running]

    def come(self, number: int, gpus: float, submit: float) -> None:
        """Add a job that was submitted. A job wider than the pool never starts in the reference."""
        if gpus <= self.owned:
            self.jobs[number] = job = Ran(number, gpus, submit)
            self._queue.append(job)

    def start(self, number: int, now: float) -> None:
        """A job starts."""
        if number in self.jobs:
            self.jobs[number].start = now

    def end(self, number: int, now: float) -> None:
        """A job is gone: it ended, or was cancelled."""
        if (job := self.jobs.pop(number, None)) is not None:
            job.gone, job.seconds = True, max(now - job.start, 0.0)

    def judge(self, now: float, within: float = 0.0) -> tuple[int, int]:
        """Count the jobs with a new verdict: (late, all).

        within: the tolerance for a delay, seconds. Jobs that would start at ``now`` are not judged yet.
        """
        late = known = 0
        while self._queue and (start := self._next_start(self._queue[0], now)) is not None:
            job = self._queue.pop(0)
            self._head = start
            self._running = [one for one in self._running if one[0] + one[1].seconds > start]
            self._running.append((start, job))
            if job.gone and job.start == float("inf"):
                self._running.pop()  # cancelled before it started: as if it had not come
                continue
            known += 1
            late += job.start > start + max(within, SAME_MOMENT)
        return late, known

    def _next_start(self, job: Ran, now: float) -> float | None:
        """When the first of the queue would start; None where that is not known, or is to come."""
        start = max(job.submit, self._head)
        left = sorted(
            (at + min(one.seconds, max(now - one.start, 0.0)), one.seconds < float("inf"), one.gpus)
            for at, one in self._running
            if at + one.seconds > start
        )
        free = self.owned - sum(gpus for _, _, gpus in left)
        for end, is_known, gpus in left:
            if free >= job.gpus:
                break
            if not is_known:
                return None
            start, free = max(start, end), free + gpus
        return start if start < now and free >= job.gpus else None


@dataclass
class HarmControl:
    """Levels of pools that own ``owned`` GPUs.

    harm: the share of jobs that may be late. step: how far one late job moves a level. within: the tolerance
    for a delay, seconds.
    """

    names: tuple[str, ...]
    owned: Floats
    harm: float
    step: float
    within: float
    levels: Floats = field(init=False)
    seen: Floats = field(init=False)
    """Jobs later than in the isolated reference, and all judged jobs, (2, pools)."""
    _excluded: Bools = field(init=False)
    """By pool, the last for jobs of no pool: whether a notice says that jobs borrow nothing."""
    _references: list[IsolatedReference] = field(init=False)
    _pool_of: dict[int, int] = field(default_factory=dict)
    _numbers: Floats = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        if not hasattr(self, "levels"):
            self.levels, self.seen = np.ones(len(self.owned)), np.zeros((2, len(self.owned)))
            self._excluded = np.zeros(len(self.owned) + 1, dtype=np.bool_)
            self._references = [IsolatedReference(each) for each in self.owned.tolist()]

    def start(self, number: int, pool: int, now: float) -> None:
        """A job of a pool starts."""
        self._references[pool].start(number, now)

    def follow(self, view: View) -> list[str]:
        """Move levels by the verdicts since the last call. Returns notices for the journal."""
        jobs = view.jobs
        came, gone = came_and_gone(self._numbers, jobs.number)
        left, self._numbers = self._numbers[gone], jobs.number
        columns = (jobs.number, jobs.pool, jobs.gpus, jobs.submit_time)
        touched, notices = set(), []
        for number, pool, gpus, submit in zip(
            *(each[came].tolist() for each in columns), strict=True
        ):
            if pool >= 0:
                self._references[pool].come(int(number), gpus, submit)
                self._pool_of[int(number)] = pool
                touched.add(pool)
        for number in left.tolist():
            if (pool := self._pool_of.pop(int(number), -1)) >= 0:
                self._references[pool].end(int(number), view.now)
                touched.add(pool)
        for pool in sorted(touched):
            late, known = self._references[pool].judge(view.now, self.within)
            self.seen[:, pool] += late, known
            notices += self._move(pool, late - self.harm * known)
        return notices

    def exclude(self, known: Tables, kinds: Ints) -> list[str]:
        """Notices on pools with jobs, of these ``kinds``, that nothing bounds: they borrow nothing."""
        each, last = known.kinds[np.unique(kinds)], len(known.quanta) - 1
        endless = each[(each[:, KIND_WITHIN] >= last) & (each[:, KIND_STOPS] == 0.0), KIND_POOL]
        new = [pool for pool in set(endless.astype(int).tolist()) if not self._excluded[pool]]
        self._excluded[new] = True
        return [
            f"jobs of {f'pool {self.names[pool]}' if pool >= 0 else 'no pool'} that have no time limit of "
            f"at most {lasting(float(known.quanta[last - 1]))} borrow nothing: harm={self.harm:g} could not "
            "be kept"
            for pool in sorted(new)
        ]

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
    """Places of arrivals in ``after``, and of departures in ``before``."""
    return not_in(after, before), not_in(before, after)


@kernel
def not_in(numbers: Floats, others: Floats) -> Ints:
    """Places of the ``numbers`` that are not among the ``others``; both are distinct, in any order.

    One pass suffices where the numbers in both come in the same order, as they mostly do.
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
