"""Arrivals and ends of jobs by pool: features that predict whether jobs come next, and how many (table 9).

Table 9 of anticipatory scheduling (5.4) counts recent arrivals, arrivals at the same time of earlier hours
and days, jobs that ended, and jobs that will end. ``NewLoadEstimate`` is the most that came in the recent
quanta.

No feature looks ahead. Table 9 counts jobs in (-xp, -xp + k], which for k > xp reaches beyond now; here such
a window ends now.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from volvelle.core.compiled import compiled, kernel
from volvelle.model.arrays import Floats, Ints
from volvelle.policies.growth import count_down_to, count_up_to

_HOUR, _DAY = 3600.0, 86400.0
_AGO = np.array([_HOUR, 2 * _HOUR, 3 * _HOUR, _DAY, 2 * _DAY, 3 * _DAY])
_SPANS = np.array([1.0, 10.0, 100.0])
LONGEST_SPAN = float(_SPANS.max())
"""Quanta: the longest that a feature looks back."""
PERIODIC, RECENT, COMPLETIONS, FUTURE = slice(0, 6), slice(6, 9), slice(9, 12), slice(12, 14)
"""Where table 9's groups of features stand."""
FEATURES = (
    *(f"new {ago} ago" for ago in ("1 h", "2 h", "3 h", "1 d", "2 d", "3 d")),
    *(f"new in {span} quanta" for span in (1, 10, 100)),
    *(f"ended in {span} quanta" for span in (1, 10, 100)),
    "to end within the quantum",
    "to end later",
)


class Earlier(NamedTuple):
    """A pool's time before a run: its beginning, arrivals and ends, seconds up to 0."""

    since: float
    came: list[float]
    gpus: list[float]
    ended: list[float]


class Past(NamedTuple):
    """Arrivals and ends by pool; times are seconds, ascending in each pool.

    began: since when each pool is known. came, ended: (pools, room) times, of which the first
    ``arrivals[pool]`` and ``ends[pool]`` count. load: (pools, room + 1) running sums of the GPUs that came.
    """

    began: Floats
    arrivals: Floats
    ends: Floats
    came: Floats
    ended: Floats
    load: Floats

    @classmethod
    def of(cls, pools: int, began: float, room: int) -> "Past":
        """Nothing yet, of so many pools."""
        times, none = np.zeros((pools, room)), np.zeros(pools)
        load = np.zeros((pools, room + 1))
        return cls(np.full(pools, began), none, none.copy(), times, times.copy(), load)

    def begin(self, pool: int, earlier: "Earlier", now: float) -> None:
        """Add the time of a pool before ``now``, before any other arrival."""
        self.began[pool] = now + earlier.since
        for time, gpus in zip(earlier.came, earlier.gpus, strict=True):
            arrive(self, pool, now + time, gpus)
        for time in earlier.ended:
            end(self, pool, now + time, 1)

    def features(
        self, now: float, quanta: Floats, running: Ints, expected: Floats
    ) -> NDArray[np.float64]:
        """(quanta, pools, features) as of ``now``.

        running: pools of the jobs that run; expected: seconds until each is believed to end.
        """
        found = np.zeros((len(quanta), len(self.arrivals), len(FEATURES)))
        _features(
            found,
            now,
            quanta,
            _AGO,
            _SPANS,
            self.came,
            self.arrivals,
            self.ended,
            self.ends,
            running,
            expected,
        )
        return found

    def came_within(self, start: float, end: float) -> Ints:
        """How many jobs came to each pool after ``start`` and no later than ``end``."""
        return _came_within(self.came, self.arrivals, start, end)

    def recent(self, now: float, quanta: Floats, windows: int) -> tuple[Floats, Floats]:
        """Statistics of the last ``windows`` quanta, or of as many as are known, each (quanta, pools).

        The share of quanta in which jobs came, 1 where not one quantum is known; and the most GPUs that came
        in one, where windows overlap by half (NewLoadEstimate), infinite where not one is known.
        """
        return recent_loads(self, now, quanta, windows)


@kernel
def arrive(past: Past, pool: int, time: float, gpus: float) -> None:
    """Add an arrival; one that is reported late counts as of the last before it."""
    at = int(past.arrivals[pool])
    past.came[pool, at] = max(time, past.came[pool, at - 1]) if at > 0 else time
    past.load[pool, at + 1] = past.load[pool, at] + gpus
    past.arrivals[pool] += 1.0


@kernel
def end(past: Past, pool: int, time: float, jobs: int) -> None:
    """So many jobs ended."""
    at = int(past.ends[pool])
    past.ended[pool, at : at + jobs] = time
    past.ends[pool] += jobs


@compiled
def _features(
    found: Floats,
    now: float,
    quanta: Floats,
    ago: Floats,
    spans: Floats,
    came: Floats,
    arrivals: Floats,
    ended: Floats,
    ends: Floats,
    running: Ints,
    expected: Floats,
) -> None:
    """`Past.features`, written to ``found``."""
    for at in range(len(quanta)):
        quantum = quanta[at]
        for pool in range(len(arrivals)):
            here, count = came[pool], int(arrivals[pool])
            known = count_up_to(here, count, now)
            for which in range(len(ago)):
                start = now - ago[which]
                first = count_up_to(here, known, start)
                found[at, pool, which] = count_up_to(here, known, min(start + quantum, now)) - first
            for which in range(len(spans)):
                start = now - spans[which] * quantum
                found[at, pool, 6 + which] = known - count_up_to(here, known, start)
                over = count_up_to(ended[pool], int(ends[pool]), now)
                found[at, pool, 9 + which] = over - count_up_to(ended[pool], over, start)
        for job in range(len(running)):
            if running[job] >= 0:
                found[at, running[job], 12 + int(expected[job] > quantum)] += 1.0


@compiled
def _came_within(came: Floats, arrivals: Floats, start: float, end: float) -> Ints:
    found = np.zeros(len(arrivals), dtype=np.int64)
    for pool in range(len(arrivals)):
        last = count_up_to(came[pool], int(arrivals[pool]), end)
        found[pool] = last - count_up_to(came[pool], last, start)
    return found


@compiled
def recent_loads(past: Past, now: float, quanta: Floats, windows: int) -> tuple[Floats, Floats]:
    """`Past.recent`."""
    pools = len(past.arrivals)
    rates, most = np.ones((len(quanta), pools)), np.full((len(quanta), pools), np.inf)
    for at in range(len(quanta)):
        quantum = quanta[at]
        for pool in range(pools):
            known = min(int((now - past.began[pool]) // quantum), windows)
            if known < 1:
                continue
            busy, largest, here, load = 0, 0.0, past.came[pool], past.load[pool]
            last = first = int(past.arrivals[pool])
            for half in range(2 * known - 1):
                ends = now - 0.5 * half * quantum
                last = count_down_to(here, last, ends)
                first = count_down_to(here, min(first, last), ends - quantum)
                largest = max(largest, load[last] - load[first])
                if half % 2 == 0 and last > first:
                    busy += 1
            rates[at, pool], most[at, pool] = busy / known, largest
    return rates, most
