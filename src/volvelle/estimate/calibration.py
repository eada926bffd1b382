"""Conformal calibration: from raw quantiles of a time to quantiles that hold as often as they say.

A past job i has a raw quantile of its duration, raw_i, and a duration, took_i. Its score is
log(took_i / raw_i). The next raw quantile is multiplied by exp of the ``share``-quantile of past scores,
the (n + 1) share-th smallest (split conformal prediction). Jobs of a trace are not exchangeable, hence:

- the past is the latest ``window`` scores, those of the same ``kind`` where they suffice (Mondrian conformal
  prediction, Vovk, Gammerman and Shafer, 2005);
- it is that of jobs of all lengths: of the jobs that are as long as those of a burst only the lucky ones are
  over when it comes, and a past of likenesses alone says that they take less than reckoned;
- jobs that take longer than reckoned count while they go on, whatever their kind: otherwise the past would
  be that of jobs that finished quickly;
- the share is steered by what came of earlier statements, by ``gain`` times (aim - held) each, as soon as
  a statement has held or not (adaptive conformal inference, Gibbs and Candes, 2021), within ``within``;
- the aim is the share, and more by what is missing of it in all statements so far (an integral, as in the
  conformal PID control of Angelopoulos, Candes and Tibshirani, 2023): the cost of a burst is made up for;
- up to ``slack`` is added, relative to the time: more by `_TRACKING` times (aim - held) each (their quantile
  tracking). Past scores say nothing of events that make many jobs a thousandth late at once;
- a job that takes just as long as was stated counts as held by ``tie``: where most jobs do, a median has half
  of them on either side.

The defaults were chosen on the trace 0e4a51 of PCS' simulator, under srsf and pcs; that lengths are left out
on a window of 6c71a0 and on ee9e8c too.
"""

import math
from collections import deque

import numpy as np

from volvelle.core.view import FloatColumn
from volvelle.model.tolerances import SAME_MOMENT


class Calibration:
    """Quantiles of one ``share`` (0.9: nine of ten jobs take no longer)."""

    def __init__(
        self,
        share: float,
        *,
        window: int = 1000,
        gain: float = 0.02,
        within: float = 0.09,
        least: int = 20,
        slack: float = 0.0,
        tie: float = 1.0,
    ) -> None:
        self._share = self._steered = share
        self._gain, self._within, self._least = gain, within, least
        self._slack, self._added = slack, 1.0
        self._tie = tie
        self._judged, self._held = _BEFOREHAND, _BEFOREHAND * share
        self._scores: FloatColumn = np.empty(window)
        self._kinds = np.empty(window, dtype=bool)
        self._learnt = 0

    def stated(
        self,
        raw_seconds: float,
        late: FloatColumn,
        *,
        kind: bool = False,
        asked: float | None = None,
    ) -> float:
        """The quantile to state for ``raw_seconds``; NaN before there are enough scores.

        late: of the jobs that go on and take longer than reckoned, the seconds taken so far or foreseen over
        those reckoned. asked: the share that is to hold of this ``kind``, where it is not that of all.
        """
        known = self._known
        if known < self._least or raw_seconds <= 0.0:
            return math.nan
        level, scores = self._steered, self._scores[:known]
        alike = self._kinds[:known] == kind
        if alike.sum() >= self._least:
            scores = scores[alike]
            level += 0.0 if asked is None else asked - self._share
        scores = np.concatenate([scores, np.log(late)])
        rank = min(math.ceil((len(scores) + 1) * level), len(scores))
        score = float(np.partition(scores, rank - 1)[rank - 1])
        return raw_seconds * math.exp(score) * (1.0 + self._added * self._slack)

    def share_within(self, raw_seconds: float, seconds: float) -> float | None:
        """The share of jobs like one for which ``raw_seconds`` are reckoned that take ``seconds`` at most.

        None before there are enough scores.
        """
        if self._known < self._least or raw_seconds <= 0.0 or seconds <= 0.0:
            return None
        return float(np.mean(self._scores[: self._known] <= math.log(seconds / raw_seconds)))

    def learn(self, raw_seconds: float, took_seconds: float, *, kind: bool = False) -> None:
        """A job for which ``raw_seconds`` were reckoned took so long; both above 0, or not learnt."""
        if raw_seconds > 0.0 and took_seconds > 0.0:
            at = self._learnt % len(self._scores)
            self._scores[at] = math.log(took_seconds / raw_seconds)
            self._kinds[at] = kind
            self._learnt += 1

    @property
    def _known(self) -> int:
        """How many scores there are."""
        return min(self._learnt, len(self._scores))

    def steer(self, stated: float, ended: float) -> None:
        """A job that was stated to be through by ``stated`` ended at ``ended``; infinite: it goes on."""
        held = self._tie if abs(ended - stated) <= SAME_MOMENT else float(ended < stated)
        self._judged, self._held = self._judged + 1.0, self._held + held
        aim = self._bounded(2.0 * self._share - self._held / self._judged)
        self._steered = self._bounded(self._steered + self._gain * (aim - held))
        self._added = min(max(self._added + _TRACKING * (aim - held), 0.0), 1.0)

    def _bounded(self, share: float) -> float:
        return min(max(share, self._share - self._within), self._share + self._within)


_TRACKING = 0.5
"""Parts of the slack."""

_BEFOREHAND = 100.0
"""Statements that held as often as they should, taken for made before the first."""


class Agreement:
    """On how many of the latest ``window`` jobs futures agreed, and what that asks of the others."""

    def __init__(self, *, window: int = 500) -> None:
        self._agreed: deque[bool] = deque(maxlen=window)

    def saw(self, *, agreed: bool) -> None:
        """Of a job the futures agreed, or they did not."""
        self._agreed.append(agreed)

    def asked(self, share: float) -> float:
        """Of the jobs on which futures differ, the share that is to hold so that ``share`` of all do.

        A time on which they agree holds for nearly all jobs. At least one half, and at most ``share``.
        """
        certain = sum(self._agreed) / max(len(self._agreed), 1)
        left = (share - certain) / (1.0 - certain) if certain < share else 0.0
        return min(max(left, _LEAST_ASKED), share)


_LEAST_ASKED = 0.5
"""A time that more jobs pass than not is no bound."""
