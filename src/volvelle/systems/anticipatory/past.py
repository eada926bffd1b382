"""Arrivals and ends of jobs by pool: features that predict whether jobs come next, and how many (table 9).

Table 9 of anticipatory scheduling (5.4) counts recent arrivals, arrivals at the same time of earlier hours
and days, jobs that ended, and jobs that will end. ``NewLoadEstimate`` is the most that came in the recent
quanta.

No feature looks ahead. Table 9 counts jobs in (-xp, -xp + k], which for k > xp reaches beyond now; here such
a window ends now.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from volvelle.core.compiled import compiled
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


@dataclass
class Past:
    """Arrivals and ends by pool; times are seconds, ascending in each pool.

    came, ended: (pools, room) times, of which the first ``arrivals[pool]`` and ``ends[pool]`` count. load:
    (pools, room + 1) running sums of the GPUs that came. began: since when each pool is known.
    """

    began: Floats
    came: Floats
    ended: Floats
    load: Floats
    arrivals: Ints
    ends: Ints

    @classmethod
    def of(cls, pools: int, began: float) -> "Past":
        """Nothing yet, of so many pools."""
        times, none = np.zeros((pools, 16)), np.zeros(pools, dtype=np.int64)
        began_at, load = np.full(pools, began), np.zeros((pools, 17))
        return cls(began_at, times, times.copy(), load, none, none.copy())

    def take(self, notes: Floats) -> None:
        """Add arrivals and ends by notes (`volvelle.systems.anticipatory.memory`).

        An arrival that is reported late counts as of the last before it.
        """
        pool, gpus = notes[:, 0].astype(np.int64), notes[:, 2]
        came = self.arrivals + np.bincount(pool[gpus > 0.0], minlength=len(self.arrivals))
        while came.max(initial=0) > self.came.shape[1]:
            self.came, self.load = _wider(self.came), _wider(self.load)
        gone = self.ends + np.bincount(pool, np.maximum(-gpus, 0.0), len(self.ends))
        while gone.max(initial=0) > self.ended.shape[1]:
            self.ended = _wider(self.ended)
        _take(notes, self.came, self.load, self.arrivals, self.ended, self.ends)

    def arrive(self, pool: int, time: float, gpus: float) -> None:
        """Add an arrival."""
        self.take(np.array([[pool, time, gpus]]))

    def end(self, pool: int, time: float) -> None:
        """A job ended."""
        self.take(np.array([[pool, time, -1.0]]))

    def begin(self, pool: int, earlier: "Earlier", now: float) -> None:
        """Add the time of a pool before ``now``, before any other arrival."""
        self.began[pool] = now + earlier.since
        came, ended = now + np.array(earlier.came), now + np.array(earlier.ended)
        for times, gpus in ((came, np.array(earlier.gpus)), (ended, np.full(len(ended), -1.0))):
            self.take(np.stack([np.full(len(times), float(pool)), times, gpus], axis=1))

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
        return _recent(self.came, self.arrivals, self.load, self.began, now, quanta, windows)


def _wider(table: Floats) -> Floats:
    return np.concatenate([table, np.zeros_like(table)], axis=1)


@compiled
def _take(
    notes: Floats, came: Floats, load: Floats, arrivals: Ints, ended: Floats, ends: Ints
) -> None:
    """`Past.take`, where there is room."""
    for i in range(len(notes)):
        pool, time, gpus = int(notes[i, 0]), notes[i, 1], notes[i, 2]
        if gpus > 0.0:
            at = arrivals[pool]
            came[pool, at] = max(time, came[pool, at - 1]) if at > 0 else time
            load[pool, at + 1] = load[pool, at] + gpus
            arrivals[pool] += 1
        for _ in range(int(-gpus)):
            ended[pool, ends[pool]] = time
            ends[pool] += 1


@compiled
def _features(
    found: Floats,
    now: float,
    quanta: Floats,
    ago: Floats,
    spans: Floats,
    came: Floats,
    arrivals: Ints,
    ended: Floats,
    ends: Ints,
    running: Ints,
    expected: Floats,
) -> None:
    """`Past.features`, written to ``found``."""
    for at in range(len(quanta)):
        quantum = quanta[at]
        for pool in range(len(arrivals)):
            here, count = came[pool], arrivals[pool]
            known = count_up_to(here, count, now)
            for which in range(len(ago)):
                start = now - ago[which]
                first = count_up_to(here, known, start)
                found[at, pool, which] = count_up_to(here, known, min(start + quantum, now)) - first
            for which in range(len(spans)):
                start = now - spans[which] * quantum
                found[at, pool, 6 + which] = known - count_up_to(here, known, start)
                over = count_up_to(ended[pool], ends[pool], now)
                found[at, pool, 9 + which] = over - count_up_to(ended[pool], over, start)
        for job in range(len(running)):
            if running[job] >= 0:
                found[at, running[job], 12 + int(expected[job] > quantum)] += 1.0


@compiled
def _came_within(came: Floats, arrivals: Ints, start: float, end: float) -> Ints:
    found = np.zeros(len(arrivals), dtype=np.int64)
    for pool in range(len(arrivals)):
        last = count_up_to(came[pool], arrivals[pool], end)
        found[pool] = last - count_up_to(came[pool], last, start)
    return found


@compiled
def _recent(
    came: Floats,
    arrivals: Ints,
    load: Floats,
    began: Floats,
    now: float,
    quanta: Floats,
    windows: int,
) -> tuple[Floats, Floats]:
    """`Past.recent`."""
    rates = np.ones((len(quanta), len(arrivals)))
    most = np.full((len(quanta), len(arrivals)), np.inf)
    for at in range(len(quanta)):
        quantum = quanta[at]
        for pool in range(len(arrivals)):
            known = min(int((now - began[pool]) // quantum), windows)
            if known < 1:
                continue
            busy, largest, here = 0, 0.0, came[pool]
            last = first = arrivals[pool]
            for half in range(2 * known - 1):
                end = now - 0.5 * half * quantum
                last = count_down_to(here, last, end)
                first = count_down_to(here, min(first, last), end - quantum)
                largest = max(largest, load[pool, last] - load[pool, first])
                if half % 2 == 0 and last > first:
                    busy += 1
            rates[at, pool], most[at, pool] = busy / known, largest
    return rates, most
