"""When jobs will start and finish: the forecast of a fork of the scheduler, made in a thread of its own.

The scheduler is played out in a world of its beliefs (PCS, OSDI'24, section 4); P50 and P90 are that forecast
as past forecasts have erred (`volvelle.estimate.calibration`): what is left of a job counts as many times as
jobs like it took longer than was foreseen at their submission.
"""

import math
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from volvelle.core.columns import Column
from volvelle.core.scheduler import Scheduler
from volvelle.core.state import FloatColumn
from volvelle.estimate.calibration import Calibration
from volvelle.live.status.reasons import reasons
from volvelle.live.store.rows import Promise
from volvelle.simulate.forecast import forecast

_GRID = np.geomspace(1.0, 1e8, 33)
"""Seconds at which corrections are worked out; between them they are interpolated."""
_AT_ONCE = 250
_BETWEEN_PARTS = 0.02
_LEAST_PAUSE = 2.0
_PAUSE_PER_SECOND = 4.0
"""Of rest after each second of work: the forecast is never more than a fifth of a core."""


@dataclass(frozen=True)
class Expected:
    """Of one job, seconds on the journal's clock."""

    start: float | None
    p50: float | None
    p90: float | None


@dataclass(frozen=True)
class Foreseen:
    """What becomes of the jobs, and why they wait.

    promises: of those foreseen for the first time. seconds: that it took; None where that is told already.
    """

    expected: dict[int, Expected]
    reasons: dict[int, str]
    promises: tuple[Promise, ...]
    seconds: float | None

    def parts(self) -> Iterable["Foreseen"]:
        """The same in parts of a few hundred jobs, so that whoever takes it over is not kept long."""
        numbers = list(self.expected)
        for first in range(0, len(numbers), _AT_ONCE):
            these = numbers[first : first + _AT_ONCE]
            wanted = set(these)
            yield Foreseen(
                {number: self.expected[number] for number in these},
                {number: self.reasons[number] for number in these if number in self.reasons},
                tuple(promise for promise in self.promises if promise.number in wanted),
                self.seconds if first == 0 else None,
            )


@dataclass
class _Scene:
    """What is to be looked at: a scheduler that is nobody else's."""

    scheduler: Scheduler
    now: float


class Outlook:
    """Forecasts and how they erred. ``epoch``: time 0 of the journal, for what is promised."""

    def __init__(self, epoch: float) -> None:
        self._epoch = epoch
        self._p50, self._p90 = Calibration(0.5), Calibration(0.9, slack=0.005)
        self._first: dict[int, tuple[float, float]] = {}
        """Submission, and the finish first foreseen, of jobs that are not over."""
        self.took = 0.0
        """Seconds that the last look took."""

    def recall(self, foreseen_seconds: float, took_seconds: float) -> None:
        """Learn from a job that is over."""
        for calibration in (self._p50, self._p90):
            calibration.learn(foreseen_seconds, took_seconds)

    def promised(self, number: int, submitted: float, finish: float) -> None:
        """Know what was foreseen at a job's submission, on the journal's clock."""
        self._first[number] = (submitted, finish)

    def ended(self, number: int, time: float, *, finished: bool) -> None:
        """A job is over."""
        first = self._first.pop(number, None)
        if first is not None and finished:
            submitted, finish = first
            self.recall(finish - submitted, time - submitted)

    def look(self, scheduler: Scheduler, now: float) -> Foreseen:
        """What becomes of all jobs of ``scheduler``, as it stands ``now``."""
        began = time.perf_counter()
        scheduler.now = max(scheduler.now, now)
        seen = forecast(scheduler)
        corrections = self._corrections(scheduler.now)
        numbers = [*scheduler.known, *(event.number for event in scheduler.at_the_door)]
        expected: dict[int, Expected] = {}
        for number in numbers:
            finish = seen.finish.get(number)
            p50, p90 = self._stated(finish, scheduler.now, corrections)
            expected[number] = Expected(seen.upcoming.get(number), p50, p90)
        promises = []
        for number, submitted in _submissions(scheduler):
            finish = seen.finish.get(number)
            if finish is not None and number not in self._first:
                self.promised(number, submitted, finish)
                told = expected[number]
                promises.append(self._promise(number, finish, told))
        said = reasons(scheduler, seen.upcoming)
        self.took = time.perf_counter() - began
        return Foreseen(expected, said, tuple(promises), self.took)

    def stated(self, finish: float | None, now: float) -> tuple[float | None, float | None]:
        """P50 and P90 of a finish that is foreseen."""
        return self._stated(finish, now, self._corrections(now))

    def share_within(self, foreseen_seconds: float, seconds: float) -> float | None:
        """The share of jobs like it that would take no longer; None where too little is known."""
        return self._p50.share_within(foreseen_seconds, seconds)

    def _promise(self, number: int, finish: float, told: Expected) -> Promise:
        on_the_wall = [None if t is None else self._epoch + t for t in (told.p50, told.p90)]
        return Promise(number, self._epoch + finish, *on_the_wall)

    def _corrections(self, now: float) -> tuple[FloatColumn | None, FloatColumn | None]:
        """By what to multiply what is left, by the seconds left, for P50 and P90."""
        firsts = np.array(list(self._first.values())).reshape(-1, 2)
        raw, so_far = firsts[:, 1] - firsts[:, 0], now - firsts[:, 0]
        late = (so_far > raw) & (raw > 0.0)
        found = []
        for calibration in (self._p50, self._p90):
            stated = [calibration.stated(each, raw[late], so_far[late]) for each in _GRID.tolist()]
            factors = np.array(stated) / _GRID
            found.append(None if np.isnan(factors).any() else factors)
        return found[0], found[1]

    @staticmethod
    def _stated(
        finish: float | None, now: float, corrections: tuple[FloatColumn | None, FloatColumn | None]
    ) -> tuple[float | None, float | None]:
        if finish is None:
            return None, None
        left = max(finish - now, 0.0)
        at = math.log(max(left, 1.0))
        times = [
            None if factors is None else now + left * float(np.interp(at, np.log(_GRID), factors))
            for factors in corrections
        ]
        p50 = finish if times[0] is None else times[0]
        p90 = None if times[1] is None else max(times[1], p50)
        return p50, p90


def _submissions(scheduler: Scheduler) -> Iterable[tuple[int, float]]:
    """Every job that is not held, and when it was submitted."""
    matrix = scheduler.jobs.matrix[:, : scheduler.jobs.count]
    numbers = matrix[Column.NUMBER].astype(np.int64).tolist()
    yield from zip(numbers, matrix[Column.SUBMIT].tolist(), strict=True)
    yield from ((event.number, event.time) for event in scheduler.at_the_door)


class Forecaster:
    """A thread that looks ahead, again and again, and tells what it saw.

    It rests in between, the longer the longer it took: the controller does not wait for it.
    """

    def __init__(self, outlook: Outlook, tell: Callable[[Foreseen], None]) -> None:
        self.outlook = outlook
        self._tell = tell
        self._scene: _Scene | None = None
        self._ended: list[tuple[int, float, bool]] = []
        self._rested_at = 0.0
        self._busy = False
        self._closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="forecaster", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """End, without waiting for the forecast that is under way."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def pause(self) -> float | None:
        """Seconds until it would look at something new; None while it looks."""
        with self._changed:
            if self._busy or self._scene is not None:
                return None
            return max(self._rested_at - time.monotonic(), 0.0)

    def over(self, number: int, time: float, *, finished: bool) -> None:
        """A job is over."""
        with self._changed:
            self._ended.append((number, time, finished))

    def show(self, scheduler: Scheduler, now: float) -> None:
        """Let it look at a scheduler that nobody else has."""
        with self._changed:
            self._scene = _Scene(scheduler, now)
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closing or self._scene is not None)
                if self._closing:
                    return
                scene, self._scene = self._scene, None
                ended, self._ended = self._ended, []
                self._busy = True
            assert scene is not None
            for number, when, finished in ended:
                self.outlook.ended(number, when, finished=finished)
            began = time.perf_counter()
            foreseen = self.outlook.look(scene.scheduler, scene.now)
            took = time.perf_counter() - began
            with self._changed:
                self._busy = False
                rest = max(_LEAST_PAUSE, _PAUSE_PER_SECOND * took)
                self._rested_at = time.monotonic() + rest
            for part in foreseen.parts():
                self._tell(part)
                time.sleep(_BETWEEN_PARTS)
