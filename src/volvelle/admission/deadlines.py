"""Deadlines guaranteed where a look ahead says that they are kept, under any policy.

A job with deadlines is guaranteed the first that it is believed to keep if it enters now: the scheduler is
run ahead with it. A job that would make another break its guarantee waits in the queue, so later arrivals
cannot break a guarantee either. Jobs behind it are judged too, a few of them each time, and new ones at
once: under a steady flow of guaranteed jobs one that would break their guarantees may wait for long. With
true estimates and no failures every guarantee is kept. With wrong ones a guarantee may break; it is revoked
then, and no job waits for the sake of a guarantee that would be broken without it. A ``margin`` adapts to
guarantees broken and kept, as that of `volvelle.systems.chronus` does, so that in the long run at most the
share ``broken`` of them is. Guarantees that break together, as those to all jobs of the first queue, are made
before the margin knows of any: so it is never less than the usual error, by which half of the jobs that ended
were off what was believed of them (decision 110). A guarantee that only the margin doubts is protected: what
comes may not delay its job. Finishes later than all deadlines (``accept_later``) have a slack of their own,
which learns from guarantees of that kind alone: without slack one is broken by any delay, and deadlines have
theirs from users. Both begin anew where the journal is followed and not replayed, and in snapshots.

Deadlines that no user needs cost other jobs their place (Chronus, SoCC'21, section 3.3.2), so what guaranteed
jobs of one user or one pool request together can be limited to a share of the cluster's GPUs.

Each verdict costs a look ahead while there are guarantees, or where the job has deadlines; where guarantees
are at risk, one more for all verdicts up to the next that is not to wait.
"""

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, PrivateAttr

from volvelle.core.decision import Promise
from volvelle.core.events import JobSubmitted
from volvelle.core.forecast import LookAhead
from volvelle.core.parts import Admission, Fate, Verdict, admissions
from volvelle.core.promises import LEAST_SLACK, Margin, keeps, over_share
from volvelle.core.view import View
from volvelle.model.arrays import FloatColumn
from volvelle.model.units import format_duration

_MARGIN_STEP, _SLACK_STEP = 1.0, 2.0
"""How much a broken guarantee adds to the margin, and one later than all deadlines to the slack of such.

Each unit of margin costs as many broken guarantees as steps go into it (decision 70)."""
_ENOUGH, _LAST = 20, 1000
"""From how many jobs on their error is the usual one, and of how many it is."""


class Otherwise(StrEnum):
    """The fate of a job that is guaranteed none of its deadlines."""

    BEST_EFFORT = "best-effort"
    REJECT = "reject"


@admissions.register
class Deadlines(Admission):
    """Guarantee the first deadline that a job is forecast to keep; later jobs wait rather than break it."""

    name: ClassVar[str] = "deadlines"

    looks_past: ClassVar[int] = 16
    holds_back: ClassVar[str] = "at once it would break a guarantee that an earlier job has"

    margin: Annotated[float, Field(ge=0, lt=10)] = Field(
        0.0, description="share by which jobs may take longer than believed, to begin with"
    )
    broken: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.01, description="share of guarantees that may be broken where estimates are wrong"
    )
    user_share: Annotated[float, Field(gt=0, le=1)] = Field(
        1.0, description="of the cluster, that guaranteed jobs of one user may request together"
    )
    pool_share: Annotated[float, Field(gt=0, le=1)] = Field(
        1.0, description="of the cluster, that guaranteed jobs of one pool may request together"
    )
    otherwise: Otherwise = Field(
        Otherwise.BEST_EFFORT, description="what becomes of a job that keeps no deadline"
    )

    _adapts: Margin = PrivateAttr()
    _slack: Margin = PrivateAttr()
    _errors: FloatColumn = PrivateAttr(default_factory=lambda: np.zeros(0))
    _usual: float = PrivateAttr(0.0)

    def model_post_init(self, _: Any, /) -> None:
        """Begin with the margin that is given."""
        self._adapts = Margin(self.margin, self.broken, _MARGIN_STEP)
        self._slack = Margin(max(self.margin, LEAST_SLACK), self.broken, _SLACK_STEP)

    def learn(self, promise: Promise, *, kept: bool) -> None:
        """Adapt the margin, or the slack of finishes that are later than all deadlines."""
        (self._slack if promise.step < 0 else self._adapts).learn(kept=kept)

    def learn_pace(self, pace: float) -> None:
        """Know the usual error. Where more guarantees than half may be broken, it is a smaller one."""
        self._errors = np.append(self._errors, abs(pace - 1.0))[-_LAST:]
        if len(self._errors) >= _ENOUGH:
            self._usual = float(np.quantile(self._errors, min(0.5, 1.0 - self.broken)))

    @property
    def _margin(self) -> float:
        return max(self._adapts.now, self._usual)

    def judge(self, job: JobSubmitted, view: View, ahead: LookAhead) -> Verdict:
        """Admit it with what can be guaranteed to it, unless it would break another's guarantee."""
        promised = {number: given.finish_by for number, given in ahead.promises.items()}
        if not promised and not job.spec.rewards:
            return Verdict(Fate.ADMIT)
        finishes = ahead.admitting(job).until({job.number, *promised}).completed
        at_risk = _late(promised, finishes, view.now, self._margin)
        if at_risk and (delayed := _delayed(at_risk, finishes, ahead.promised_ends)):
            more = f" and {len(delayed) - 1} more" if len(delayed) > 1 else ""
            reason = f"at once it would break the guarantee of job {delayed[0]}{more}: it waits"
            return Verdict(Fate.WAIT, self._nothing(job, reason))
        given = self._promise(job, view.now, finishes.get(job.number, math.inf) - view.now)
        if given is not None and given.finish_by is not None:
            specs = [view.spec(number) for number in promised]
            shares = {"user": self.user_share, "pool": self.pool_share}
            if limit := over_share(job.spec, specs, view.gpus, shares):
                given = Promise(job.number, reason=limit)
        if given is None or given.finish_by is not None or self.otherwise is Otherwise.BEST_EFFORT:
            return Verdict(Fate.ADMIT, given)
        return Verdict(Fate.REJECT, reason=given.reason)

    def _promise(self, job: JobSubmitted, now: float, takes: float) -> Promise | None:
        """The best guarantee to a job that is to finish in ``takes`` seconds; None if it has no deadline."""
        if not job.spec.rewards:
            return None
        finish = now + takes * (1.0 + self._margin)
        for step, reward in enumerate(job.spec.rewards):
            if keeps(finish, finish_by := job.spec.submit_time + reward.deadline_seconds):
                return Promise(job.number, finish_by, step)
        later = now + takes * (1.0 + max(self._slack.now, self._margin))
        if job.spec.accept_later and later < math.inf:
            return Promise(job.number, later, reason="accepted later than its deadlines")
        due = job.spec.submit_time + job.spec.rewards[-1].deadline_seconds
        last = "last deadline" if job.spec.rewards[1:] else "deadline"
        if keeps(now + takes, due):
            longer = f"{100.0 * self._margin:.2g}% longer, the margin of guarantees here"
            reason = f"its {last} is kept as forecast, but not if jobs take {longer}"
        elif takes == math.inf:
            reason = "it is not forecast to finish"
        else:
            late = format_duration(math.ceil(now + takes - due))
            reason = f"it would finish {late} after its {last}"
        return self._nothing(job, reason, later)

    @staticmethod
    def _nothing(job: JobSubmitted, reason: str, finish: float = math.inf) -> Promise | None:
        if not job.spec.rewards:
            return None
        return Promise(job.number, earliest=finish if finish < math.inf else None, reason=reason)


def _late(
    promised: dict[int, float | None], finishes: dict[int, float], now: float, margin: float
) -> dict[int, float]:
    """Jobs that break their guarantee, with it, by these finishes, or by ones later by the margin."""
    return {
        number: finish_by
        for number, finish_by in promised.items()
        if finish_by is not None
        and not keeps(now + (finishes.get(number, math.inf) - now) * (1.0 + margin), finish_by)
    }


def _delayed(
    at_risk: dict[int, float], finishes: dict[int, float], without: Mapping[int, float]
) -> list[int]:
    """Jobs at risk that end later than ``without`` the newcomer, and keep their guarantees without it."""
    return [
        number
        for number, finish_by in at_risk.items()
        if keeps(alone := without.get(number, math.inf), finish_by)
        and not keeps(finishes.get(number, math.inf), alone)
    ]
