"""P50 and P90 as they are stated of jobs: from what is reckoned, by what became of those stated before.

Simulated predictions and live forecasts state by this one class. Times are on one clock, in seconds.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from volvelle.core.view import FloatColumn
from volvelle.estimate.calibration import Agreement, Calibration
from volvelle.model.tolerances import SAME_MOMENT

SHARES = (0.5, 0.9)
"""Of jobs that are through by P50, and by P90."""


class Reckoned(NamedTuple):
    """Raw quantiles of the seconds that a job takes from its submission on, by `SHARES`.

    asked: the shares of which they are the quantiles. agreed: whether its futures end alike.
    """

    seconds: tuple[float, ...]
    asked: tuple[float, ...] = SHARES
    agreed: bool = False


@dataclass
class _Open:
    """Of a job that goes on. stated: NaN where nothing was stated."""

    submitted: float
    reckoned: Reckoned
    stated: list[float]


class Statements:
    """States P50 and P90 of jobs, and learns from what becomes of them.

    Scores are those of `volvelle.estimate.calibration`: seconds taken over those reckoned.
    """

    def __init__(self) -> None:
        self._calibrations = (Calibration(0.5, tie=0.5), Calibration(0.9, slack=0.005))
        self._agreement = Agreement()
        self._going_on: dict[int, _Open] = {}
        self._bounds: list[tuple[float, int, int]] = []
        """Times stated, with the job and which quantile it is; a heap."""
        self._unjudged: set[tuple[int, int]] = set()
        """The job and quantile of statements of which it is not known yet whether they hold."""

    def __contains__(self, number: object) -> bool:
        """Whether the job was added and goes on."""
        return number in self._going_on

    def reckon(self, submitted: float, finishes: FloatColumn, *, beliefs_known: bool) -> Reckoned:
        """Quantiles of when a job is through in play-outs of futures.

        beliefs_known: whether these say how far beliefs err. If not, that they end alike says nothing.
        """
        agreed = False
        if beliefs_known:
            agreed = float(np.quantile(finishes, _AGREEING) - finishes.min()) <= SAME_MOMENT
            self._agreement.saw(agreed=agreed)
        asked = SHARES if agreed else tuple(map(self._agreement.asked, SHARES))
        seconds = tuple(float(np.quantile(finishes, share)) - submitted for share in asked)
        return Reckoned(seconds, asked, agreed)

    def reckon_alone(self, seconds: float) -> Reckoned:
        """The same where only a job's duration without later arrivals, by current beliefs, is known."""
        return Reckoned((seconds,) * len(SHARES), tuple(map(self._agreement.asked, SHARES)))

    def stated(
        self, reckoned: Reckoned, now: float, foreseen: Mapping[int, float] | None = None
    ) -> list[float]:
        """The seconds to state for what is ``reckoned``; NaN where too little is known.

        foreseen: when those that go on will finish, as far as that is known.
        """
        found = []
        for which, (raw, asked) in enumerate(zip(reckoned.seconds, reckoned.asked, strict=True)):
            late = self._late(now, which, foreseen or {})
            calibration = self._calibrations[which]
            found.append(calibration.stated(raw, late, kind=reckoned.agreed, asked=asked))
        return found

    def add(
        self, number: int, submitted: float, reckoned: Reckoned, stated: Iterable[float | None]
    ) -> None:
        """A job that goes on was reckoned, and ``stated`` to be through by these times, if by any."""
        times = [math.nan if each is None else each for each in stated]
        self._going_on[number] = _Open(submitted, reckoned, times)
        for which, bound in enumerate(times):
            if not math.isnan(bound):
                heappush(self._bounds, (bound, number, which))
                self._unjudged.add((number, which))

    def ended(self, number: int, time: float, *, finished: bool = True) -> None:
        """A job that was added is over; learn from it if it ``finished``."""
        job = self._going_on.pop(number)
        if finished:
            self.learn(job.reckoned, time - job.submitted)
            for which, stated in enumerate(job.stated):
                self._judge(number, which, stated, time)
        self._unjudged -= {(number, which) for which in range(len(SHARES))}

    def learn(self, reckoned: Reckoned, took_seconds: float) -> None:
        """A job for which this was reckoned took so long."""
        for calibration, raw in zip(self._calibrations, reckoned.seconds, strict=True):
            calibration.learn(raw, took_seconds, kind=reckoned.agreed)

    def judge(self, stated: Iterable[float | None], ended: float) -> None:
        """Steer by a job that was stated to be through by these times, if by any, and was at ``ended``."""
        for calibration, time in zip(self._calibrations, stated, strict=True):
            if time is not None:
                calibration.steer(time, ended)

    def pass_time(self, now: float) -> None:
        """Judge those that go on and were stated to be through before ``now``."""
        while self._bounds and self._bounds[0][0] < now - SAME_MOMENT:
            bound, number, which = heappop(self._bounds)
            job = self._going_on.get(number)
            if job is not None and job.stated[which] == bound:  # not of a number given again
                self._judge(number, which, bound, math.inf)

    def share_within(self, raw_seconds: float, seconds: float) -> float | None:
        """Share of jobs for which so much is reckoned that take at most ``seconds``; None if not known."""
        return self._calibrations[0].share_within(raw_seconds, seconds)

    def _judge(self, number: int, which: int, stated: float, ended: float) -> None:
        """Steer by what came of a statement, if that is not done yet."""
        if (number, which) in self._unjudged:
            self._unjudged.remove((number, which))
            self._calibrations[which].steer(stated, ended)

    def _late(self, now: float, which: int, foreseen: Mapping[int, float]) -> FloatColumn:
        """Seconds taken over those reckoned, of the jobs that go on and take longer than reckoned.

        Taken so far; or as ``foreseen``, while more of the open statements are foreseen not to hold than may:
        then what is over does not speak of what goes on. At other times those that are foreseen to be late
        would count for more than they are.
        """
        raw = np.array([job.reckoned.seconds[which] for job in self._going_on.values()])
        submitted = np.array([job.submitted for job in self._going_on.values()])
        takes = now - submitted
        if foreseen and self._misled(which, foreseen):
            ends = [foreseen.get(number, math.nan) for number in self._going_on]
            takes = np.fmax(takes, np.array(ends) - submitted)
        overdue = (takes > raw + SAME_MOMENT) & (raw > 0.0)
        late: FloatColumn = takes[overdue] / raw[overdue]
        return late

    def _misled(self, which: int, foreseen: Mapping[int, float]) -> bool:
        """Whether fewer of the open statements are foreseen to hold than they say."""
        holds = [
            foreseen[number] <= self._going_on[number].stated[which] + SAME_MOMENT
            for number, each in self._unjudged
            if each == which and number in foreseen
        ]
        return len(holds) >= _LEAST_OPEN and sum(holds) < SHARES[which] * len(holds)


_AGREEING = 0.9
"""Share of the futures of a job that end alike, where they are said to agree."""

_LEAST_OPEN = 20
"""Statements, before it is judged by them whether they hold."""
