"""AFS: apathetic future share (Hwang et al., NSDI'21, "Elastic Resource Sharing for DNN training").

Everybody who can be served gets one GPU; each further GPU goes to the winner of one pass over the jobs.
Of two jobs the shorter, l, beats the longer, h, where

    r_l(n) / r_l(n + 1)  +  r_h(m + 1) / r_h(m)  >  2

with r(n) the time left on n GPUs: what l gains weighs more, since h will have l's GPUs afterwards, and
neither counts on anybody who comes later (hence "apathetic"). A job at the most it can use leaves the
contest. Where there are more jobs than GPUs:

- **AFS-L** knows lengths: those with the least time left on one GPU have one each. ``ties``: which of
  two with the same time left (default the earlier submission; PCS' simulator takes the later).
- **AFS-P** does not: jobs keep what they hold for a turn (``turn``, default 2 h), then wait behind
  those who had fewer turns (then by first start, then by submission). Of two jobs one wins a further GPU
  where it would win as the longer of the two; where either would win only as the shorter, the one with
  fewer GPUs does. ``ties=coin`` tosses a coin (with ``seed``), anew at every decision, as the authors'
  simulator does, where GPUs change hands for nothing.

Departures: a job that needs several GPUs gets its minimum or nothing, also as its first step. On several
GPU types jobs grow on the type they got, by their believed rates there. Rates are those on one node.
"""

from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from volvelle.core.columns import COUNT, CURVE, FIRST_START, HELD, LEAST, NUMBER, POOL
from volvelle.core.compiled import compiled_later, kernel
from volvelle.core.fill import TARGET, ClusterNow, serve_all, work_left
from volvelle.core.forward.rates import rate_on
from volvelle.core.orders import all_rounded, rounded
from volvelle.core.policy import Allocation, Kernel, Policy, interpreted, policies
from volvelle.core.state import INFINITY
from volvelle.core.view import View
from volvelle.model.arrays import Floats, Ints
from volvelle.model.tolerances import SAME_SHARE
from volvelle.model.validation import Seconds
from volvelle.policies.growth import give_least, may_grow, seconds_on_least, served_on, then_by

_FACTOR, _MODULUS = 48271, 2**31 - 1
"""Coins: Park and Miller, "Random number generators: good ones are hard to find" (1988, revised 1993)."""

TURNS, SINCE = COUNT, COUNT + 1
"""AFS-P's own columns: turns had; when the present one began, NaN for who has none.

Infinity after a turn in which nobody could be placed: there is no use in asking again when time passes."""


@policies.register
class AfsL(Policy):
    """Apathetic future share with known lengths: one GPU each, more to whoever makes most of them."""

    name: ClassVar[str] = "afs-l"
    goes_by_rates: ClassVar[bool] = True
    source: ClassVar[str] = "AFS (NSDI'21)"
    optimises: ClassVar[str] = "mean JCT of elastic jobs"

    ties: Literal["earlier", "later"] = Field(
        "earlier", description="which submission goes first where equally much is left"
    )

    def kernel(self, *, named: bool) -> Kernel:
        """The shortest first where there are too many; else growth, GPU by GPU."""
        return Kernel(decide_by_length, np.array([float(self.ties == "later")]), serves_all=True)


@policies.register
class AfsP(Policy):
    """Apathetic future share with unknown lengths: turns where there are too many jobs."""

    name: ClassVar[str] = "afs-p"
    goes_by_rates: ClassVar[bool] = True
    needs_durations: ClassVar[bool] = False
    source: ClassVar[str] = "AFS (NSDI'21)"
    optimises: ClassVar[str] = "mean JCT of elastic jobs without knowing durations"
    time_varying: ClassVar[bool] = True
    columns: ClassVar[int] = 2

    turn: Annotated[Seconds, Field(gt=0)] = Field(
        7200.0, description="how long a job keeps its GPUs where there are too many jobs"
    )

    ties: Literal["narrower", "coin"] = Field(
        "narrower", description="who wins a GPU where lengths would have to say"
    )
    seed: int = Field(0, description="of the coins")

    def allocate(self, view: View) -> Allocation:
        """Turns where there are too many jobs; else growth, GPU by GPU."""
        coin = 0
        if self.ties == "coin":  # the same wherever this decision is repeated
            moment = int(np.float64(view.now).view(np.uint64))
            coin = int(np.random.default_rng((self.seed, moment)).integers(1, _MODULUS))
        return interpreted(self._tossing(coin), view)

    def kernel(self, *, named: bool) -> Kernel | None:
        """The same; None where coins are tossed."""
        return None if self.ties == "coin" else self._tossing(0)

    def _tossing(self, coin: int) -> Kernel:
        return Kernel(decide_by_turns, np.array([self.turn, float(coin)]))


@kernel
def decide_by_length(jobs: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> float:
    """AFS-L's decision (`Kernel`). memory: 1 where of two with equally much left the later goes first."""
    if serve_all(jobs, cluster.capacity, cluster.quota, out):
        return INFINITY
    work = work_left(jobs, jobs.shape[1], cluster.now)
    seconds = all_rounded(seconds_on_least(jobs, cluster.rates, work))
    if memory[0] == 1.0:
        order = len(seconds) - 1 - np.argsort(seconds[::-1], kind="mergesort")
    else:
        order = np.argsort(seconds, kind="mergesort")
    _grow(jobs, order, jobs[LEAST], cluster, out, work, True, 0)
    return INFINITY


@kernel
def decide_by_turns(jobs: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> float:
    """AFS-P's decision (`Kernel`). memory: seconds of a turn; what ties are tossed with, 0 for nothing."""
    now, turn, coin = cluster.now, memory[0], int(memory[1])
    turns, since, running = jobs[TURNS], jobs[SINCE], jobs[HELD] > 0.0
    over = running & ((since + turn <= now) | (since == np.inf))
    kept = running & ~over
    nobody_placed = np.any((since + turn <= now) & (since > 0.0)) and not np.any(running)
    crowded = jobs[LEAST].sum() >= cluster.capacity.sum()  # there are jobs for all GPUs
    if crowded:
        turns += np.where(over, 1.0, 0.0)
    else:
        kept[:] = False
    if not serve_all(jobs, cluster.capacity, cluster.quota, out):
        order = np.argsort(jobs[NUMBER], kind="mergesort")
        first_start = jobs[FIRST_START]
        order = then_by(order, np.where(np.isnan(first_start), np.inf, first_start))
        order = then_by(then_by(order, turns), np.where(kept, 0.0, 1.0))
        least = np.where(kept, jobs[HELD], jobs[LEAST])
        _grow(jobs, order, least, cluster, out, np.ones(jobs.shape[1]), False, coin)
    began = np.where(kept, since, np.inf if nobody_placed else now)
    since[:] = np.where(out[TARGET] > 0.0, began, np.nan)
    ends = since + turn
    coming = ends[(ends > now) & (ends < np.inf)]
    return coming.min() if crowded and len(coming) > 0 else INFINITY


@kernel
def _grow(
    jobs: Floats,
    order: Ints,
    least: Floats,
    cluster: ClusterNow,
    out: Floats,
    work: Floats,
    known: bool,
    coin: int,
) -> None:
    """The ``least`` in ``order``, then growth within each GPU type, as `grow_by_contest` says."""
    left = give_least(jobs, order, least, cluster, out)
    gpus = out[TARGET]
    for gpu_type in range(len(cluster.capacity)):
        mine = served_on(gpu_type, order, out)
        free = cluster.capacity[gpu_type] - gpus[mine].sum()
        if free >= 1.0:
            rates = cluster.rates
            grow_by_contest(jobs, mine, gpus, free, left, rates, gpu_type, work, known, coin)


@compiled_later
def grow_by_contest(
    matrix: Floats,
    rows: Ints,
    gpus: Floats,
    free: float,
    left: Floats,
    table: NDArray[np.float64],
    gpu_type: int,
    work: Floats,
    known: bool,
    coin: int,
) -> float:
    """Hand out ``free`` GPUs one at a time to the winners among ``rows``, in place.

    ``table`` is of rates, ``work`` what is left, in the jobs' units; ``known``: whether it counts.
    ``coin``: what ties that ``known`` does not settle are tossed with, 1 to 2^31 - 2; 0: fewer GPUs win.
    Candidates meet by submission, each the winner so far. Returns what is left of ``free``.
    """
    jobs = len(rows)
    rows = rows[np.argsort(matrix[NUMBER][rows])]
    seconds = np.empty(jobs)  # left with the GPUs it has now
    gain = np.empty(jobs)  # the factor by which one GPU more shortens them
    open_ = np.zeros(jobs, np.bool_)
    for i in range(jobs):
        row = rows[i]
        open_[i] = may_grow(matrix, row, gpus, left)
        seconds[i], gain[i] = _with_one_more(
            table, int(matrix[CURVE, row]), gpu_type, gpus[row], work[row]
        )
    winners = np.full(jobs + 1, -1, np.int64)  # winners[i]: of the first i candidates
    start = 0
    while free >= 1.0:
        for i in range(start, jobs):
            best = winners[i]
            if open_[i]:
                coin = coin * _FACTOR % _MODULUS
                if best < 0 or _beats(i, best, rows, gpus, seconds, gain, known, coin):
                    best = i
            winners[i + 1] = best
        best = winners[jobs]
        if best < 0:
            break
        row, pool = rows[best], int(matrix[POOL, rows[best]])
        gpus[row] += 1.0
        free -= 1.0
        start = (
            0 if coin else best
        )  # whoever met before the winner fares as before, unless tossed for
        open_[best] = may_grow(matrix, row, gpus, left)
        seconds[best], gain[best] = _with_one_more(
            table, int(matrix[CURVE, row]), gpu_type, gpus[row], work[row]
        )
        if pool >= 0:
            left[pool] -= 1.0
            if left[pool] < 1.0:
                start = 0
                for i in range(jobs):
                    open_[i] = may_grow(matrix, rows[i], gpus, left)
    return free


@kernel
def _with_one_more(
    table: NDArray[np.float64], curve: int, gpu_type: int, gpus: float, work: float
) -> tuple[float, float]:
    """Seconds left on ``gpus`` GPUs, and the factor by which one more would shorten them."""
    rate = rate_on(table, curve, gpu_type, gpus)
    more = rate_on(table, curve, gpu_type, gpus + 1.0)
    if rate > 0.0:
        return rounded(work / rate), max(more / rate, 1e-12)
    return np.inf, np.inf if more > 0.0 else 1.0


@kernel
def _beats(
    late: int,
    best: int,
    rows: Ints,
    gpus: Floats,
    seconds: Floats,
    gain: Floats,
    known: bool,
    coin: int,
) -> bool:
    """Whether candidate ``late`` takes the next GPU from ``best``, who met the others before."""
    late_as_shorter = bool(gain[late] + 1.0 / gain[best] > 2.0 + SAME_SHARE)
    best_as_shorter = bool(gain[best] + 1.0 / gain[late] > 2.0 + SAME_SHARE)
    if known:
        return late_as_shorter if seconds[late] < seconds[best] else not best_as_shorter
    if late_as_shorter != best_as_shorter:
        return late_as_shorter
    if coin:
        return coin > _MODULUS // 2
    return bool(gpus[rows[late]] < gpus[rows[best]])
