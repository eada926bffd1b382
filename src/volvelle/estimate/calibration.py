"""Conformal calibration: from raw quantiles of a time to some that hold as often as they say.

Of a quantile of durations that was reckoned for past jobs, raw_i, and what they took, took_i, the score is
log(took_i / raw_i). The next raw quantile is multiplied by exp of the ``share``-quantile of past scores,
the (n + 1) share-th smallest (split conformal prediction). Jobs of a trace are not exchangeable, hence:

- the past is the latest ``window`` scores, and of these the ``nearest`` with raw durations like this one:
  long jobs are overtaken more often than short ones;
- jobs that have already taken longer than reckoned count with what they took so far: otherwise the past
  would be that of jobs that finished quickly;
- the share is steered by what came of earlier statements, by ``gain`` times (share - held) each, as soon as
  a statement has held or not (adaptive conformal inference, Gibbs and Candes, 2021), within ``within``;
- a correction finer than ``finest`` is taken as that: what errs by a thousandth errs all the same.

The defaults were chosen on the trace 0e4a51 of PCS' simulator, under srsf and pcs.
"""

import math

import numpy as np

from volvelle.core.state import FloatColumn


class Calibration:
    """Quantiles of one ``share`` (0.9: nine of ten jobs take no longer)."""

    def __init__(
        self,
        share: float,
        *,
        window: int = 1000,
        nearest: int = 150,
        gain: float = 0.02,
        within: float = 0.09,
        least: int = 20,
        finest: float = 0.0,
    ) -> None:
        self._share = self._steered = share
        self._nearest, self._gain, self._within, self._least = nearest, gain, within, least
        self._finest = math.log1p(finest)
        self._raw: FloatColumn = np.empty(window)  # logarithms of seconds
        self._scores: FloatColumn = np.empty(window)
        self._learnt = 0

    def stated(
        self, raw_seconds: float, overdue_raw: FloatColumn, overdue_by_now: FloatColumn
    ) -> float:
        """The quantile to state for ``raw_seconds``; NaN before there are enough scores.

        overdue_raw, overdue_by_now: of the jobs that have taken longer than reckoned and go on, the
        seconds reckoned and those taken so far.
        """
        known = min(self._learnt, len(self._raw))
        if known < self._least or raw_seconds <= 0.0:
            return math.nan
        logs = np.concatenate([self._raw[:known], np.log(overdue_raw)])
        scores = np.concatenate([self._scores[:known], np.log(overdue_by_now / overdue_raw)])
        if len(logs) > self._nearest:
            apart = np.abs(logs - math.log(raw_seconds))
            scores = scores[np.argpartition(apart, self._nearest)[: self._nearest]]
        rank = min(math.ceil((len(scores) + 1) * self._steered), len(scores))
        score = float(np.partition(scores, rank - 1)[rank - 1])
        if abs(score) < self._finest:
            score = self._finest
        return raw_seconds * math.exp(score)

    def learn(self, raw_seconds: float, took_seconds: float) -> None:
        """A job for which ``raw_seconds`` were reckoned took so long; both above 0, or not learnt."""
        if raw_seconds > 0.0 and took_seconds > 0.0:
            at = self._learnt % len(self._raw)
            self._raw[at] = math.log(raw_seconds)
            self._scores[at] = math.log(took_seconds / raw_seconds)
            self._learnt += 1

    def steer(self, *, held: bool) -> None:
        """An earlier statement has held, or its time is over."""
        steered = self._steered + self._gain * (self._share - held)
        lowest, highest = self._share - self._within, self._share + self._within
        self._steered = min(max(steered, lowest), highest)
