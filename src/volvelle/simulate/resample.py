"""The recent past, and futures drawn from it: who else may come, and how far off beliefs may be.

Arrivals are resampled in blocks of consecutive ones with their gaps, so that bursts stay bursts. How long
jobs really take, over what was believed of them, is drawn from what was seen of those that finished; of a
job under way only what is still possible.
"""

import math
from collections import deque

import numpy as np

from volvelle.core.columns import Column
from volvelle.core.scheduler import Scheduler
from volvelle.core.state import FloatColumn
from volvelle.simulate.gear import Gear
from volvelle.simulate.gear.loop import Input

_BLOCK = 20  # arrivals drawn together
_LEAST = 20  # arrivals, or ends, before anything is drawn from them
_OVERDUE = 1.05  # what a job that did more than ever was seen is believed to take, over that


class RecentPast:
    """The latest ``window`` arrivals and ends of a run. ``most``: arrivals drawn at a time."""

    def __init__(self, *, window: int = 500, most: int = 300) -> None:
        self._columns: deque[FloatColumn] = deque(maxlen=window)
        self._times: deque[float] = deque(maxlen=window)
        self._ratios: deque[float] = deque(maxlen=window)
        self._most = most

    def arrived(self, column: FloatColumn, time: float) -> None:
        """A job came; ``column`` of it as the compiled loop knows it (`Input`)."""
        self._columns.append(column)
        self._times.append(time)

    def finished(self, ratio: float) -> None:
        """A job took ``ratio`` times as long as was believed at its submission, where that is known."""
        if 0.0 < ratio < math.inf:
            self._ratios.append(ratio)

    def quantiles(
        self,
        scheduler: Scheduler,
        gear: Gear,
        position: int,
        horizon: float,
        play_outs: int,
        rng: np.random.Generator,
        shares: tuple[float, ...],
    ) -> list[float] | None:
        """When, by ``shares`` of the play-outs, the job at ``position`` (by number) is through.

        horizon: seconds that it takes if nobody comes. None where the gear cannot say, or where there
        is no past yet.
        """
        jobs = gear.columns(scheduler)
        if jobs is None or len(self._times) < _LEAST:
            return None
        present = jobs.shape[1]
        past, gaps = np.array(self._columns).T, np.diff(self._times, prepend=self._times[0])
        gaps[0] = gaps[1:].mean()
        coming = min(int(2.0 * horizon / max(gaps.mean(), 1e-9)) + _BLOCK, self._most)
        reached = _reached(scheduler)
        finishes = np.empty(play_outs)
        for i in range(play_outs):
            drawn = self._blocks(coming, rng)
            future = past[:, drawn].copy()
            future[Input.SUBMIT] = scheduler.now + np.cumsum(gaps[drawn])
            whole = np.concatenate([jobs, future], axis=1)
            self._err(whole, np.concatenate([reached, np.zeros(coming)]), rng)
            played = gear.play_columns(whole, present, scheduler, position)
            finishes[i] = played.finish[position]
        return [float(time) for time in np.quantile(finishes, shares)]

    def _blocks(
        self, count: int, rng: np.random.Generator
    ) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        length = min(_BLOCK, len(self._times))
        starts = rng.integers(0, len(self._times) - length + 1, -(-count // length))
        drawn = (starts[:, None] + np.arange(length)).ravel()[:count]
        return np.asarray(drawn, dtype=np.int64)

    def _err(self, jobs: FloatColumn, reached: FloatColumn, rng: np.random.Generator) -> None:
        """Let what is truly left differ from what is believed as it did in the past, in place."""
        if len(self._ratios) < _LEAST:
            return
        ratios = np.sort(np.array(self._ratios))
        if ratios[-1] - ratios[0] < 1e-9:
            return
        believed = jobs[Input.SIZE]
        possible = np.searchsorted(ratios, reached / believed, side="right")
        drawn = possible + (rng.random(len(believed)) * (len(ratios) - possible)).astype(np.int64)
        ratio = ratios[np.minimum(drawn, len(ratios) - 1)]
        ratio = np.where(possible == len(ratios), _OVERDUE * reached / believed, ratio)
        done = believed - jobs[Input.LEFT]
        jobs[Input.TRULY_LEFT] = np.maximum(ratio * believed - done, 0.0)


def _reached(scheduler: Scheduler) -> FloatColumn:
    """Units of work done by each job in the system, by number."""
    matrix = scheduler.jobs.matrix[:, : scheduler.jobs.count]
    matrix = matrix[:, np.argsort(matrix[Column.NUMBER])]
    progress = np.maximum(scheduler.now - matrix[Column.PROGRESS_FROM], 0.0)
    done: FloatColumn = matrix[Column.DONE] + progress * matrix[Column.RATE]
    return done
