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
- up to ``slack`` is added, relative to the time: more by `_TRACKING` times (share - held) each (quantile
  tracking, Angelopoulos, Candes and Tibshirani, 2023). What makes many jobs a thousandth late at once is not
  among past scores;
- a job that takes just as long as was stated counts as held by ``tie``: where most do, a median has half of
  them on either side.

The defaults were chosen on the trace 0e4a51 of PCS' simulator, under srsf and pcs.
"""

import math

import numpy as np

from volvelle.core.state import FloatColumn
from volvelle.model.units import ROUNDING_SECONDS


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
        slack: float = 0.0,
        tie: float = 1.0,
    ) -> None:
        self._share = self._steered = share
        self._nearest, self._gain, self._within, self._least = nearest, gain, within, least
        self._slack, self._added = slack, 1.0
        self._tie = tie
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
        return raw_seconds * math.exp(score) * (1.0 + self._added * self._slack)

    def share_within(self, raw_seconds: float, seconds: float) -> float | None:
        """The share of jobs like one for which ``raw_seconds`` are reckoned that took ``seconds`` at most.

        None before there are enough scores.
        """
        known = min(self._learnt, len(self._raw))
        if known < self._least or raw_seconds <= 0.0 or seconds <= 0.0:
            return None
        apart = np.abs(self._raw[:known] - math.log(raw_seconds))
        near = np.argsort(apart)[: self._nearest]
        return float(np.mean(self._scores[near] <= math.log(seconds / raw_seconds)))

    def learn(self, raw_seconds: float, took_seconds: float) -> None:
        """A job for which ``raw_seconds`` were reckoned took so long; both above 0, or not learnt."""
        if raw_seconds > 0.0 and took_seconds > 0.0:
            at = self._learnt % len(self._raw)
            self._raw[at] = math.log(raw_seconds)
            self._scores[at] = math.log(took_seconds / raw_seconds)
            self._learnt += 1

    def steer(self, stated: float, ended: float) -> None:
        """A job that was stated to be through by ``stated`` ended at ``ended``; infinite: it goes on."""
        held = self._tie if abs(ended - stated) <= ROUNDING_SECONDS else float(ended < stated)
        steered = self._steered + self._gain * (self._share - held)
        lowest, highest = self._share - self._within, self._share + self._within
        self._steered = min(max(steered, lowest), highest)
        self._added = min(max(self._added + _TRACKING * (self._share - held), 0.0), 1.0)


_TRACKING = 0.5
"""Parts of the slack."""
