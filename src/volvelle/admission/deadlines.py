"""Deadlines promised where a look ahead says that they are kept, under any policy.

A job with deadlines is promised the first that it is believed to keep if it enters now: the scheduler is
run ahead with it. A job that would make another break its promise waits in the queue, so later arrivals
cannot break a promise either. Jobs behind it are judged too, a few of them each time, and new ones at
once: under a steady flow of promised jobs one that would break their promises may wait for long. With
true estimates and no failures every promise is kept. With wrong ones a promise may break; it is revoked
then, and no job waits for the sake of a promise that would be broken without it. A ``margin`` adapts to
promises broken and kept, as that of `volvelle.systems.chronus` does, so that in the long run at most the
share ``broken`` of them is. It begins anew where the journal is followed and not replayed, and in snapshots.

Deadlines that no user needs cost other jobs their place (Chronus, SoCC'21, section 3.3.2), so what promised
jobs of one user or one pool request together can be limited to a share of the cluster's GPUs.

Each verdict costs a look ahead while there are promises, or where the job has deadlines.
"""

import math
from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import Field, PrivateAttr

from volvelle.core.decision import Promise
from volvelle.core.events import JobSubmitted
from volvelle.core.fork import Fork
from volvelle.core.parts import Admission, Fate, Verdict, admissions
from volvelle.core.promises import Margin, keeps, over_share
from volvelle.core.view import View


class Otherwise(StrEnum):
    """The fate of a job that is promised none of its deadlines."""

    BEST_EFFORT = "best-effort"
    REJECT = "reject"


@admissions.register
class Deadlines(Admission):
    """Promise the deadlines that a look ahead says are kept; hold back what would break a promise."""

    name: ClassVar[str] = "deadlines"

    looks_past: ClassVar[int] = 16

    margin: Annotated[float, Field(ge=0, lt=10)] = Field(
        0.0, description="share by which jobs may take longer than believed, to begin with"
    )
    broken: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.01, description="share of promises that may be broken where estimates are wrong"
    )
    user_share: Annotated[float, Field(gt=0, le=1)] = Field(
        1.0, description="of the cluster, that promised jobs of one user may request together"
    )
    pool_share: Annotated[float, Field(gt=0, le=1)] = Field(
        1.0, description="of the cluster, that promised jobs of one pool may request together"
    )
    otherwise: Otherwise = Field(
        Otherwise.BEST_EFFORT, description="what becomes of a job that keeps no deadline"
    )

    _adapts: Margin = PrivateAttr()

    def model_post_init(self, _: Any, /) -> None:
        """Begin with the margin that is given."""
        self._adapts = Margin(self.margin, self.broken)

    def learn(self, *, kept: bool) -> None:
        """Adapt the margin."""
        self._adapts.learn(kept=kept)

    def judge(self, job: JobSubmitted, view: View, ahead: Fork) -> Verdict:
        """Admit it with what can be promised to it, unless it would break another's promise."""
        promised = {number: given.finish_by for number, given in ahead.promises.items()}
        if not promised and not job.spec.rewards:
            return Verdict(Fate.ADMIT)
        finishes = ahead.admitting(job).until({job.number, *promised}).completed
        margin = self._adapts.now
        late = _late(promised, finishes, view.now, margin)
        if late and late - _late(promised, ahead.until(promised).completed, view.now, margin):
            return Verdict(Fate.WAIT, self._nothing(job, "would break promises to other jobs"))
        finish = view.now + (finishes.get(job.number, math.inf) - view.now) * (1.0 + margin)
        given = self._promise(job, finish)
        if given is not None and given.finish_by is not None:
            specs = [view.spec(number) for number in promised]
            shares = {"user": self.user_share, "pool": self.pool_share}
            if limit := over_share(job.spec, specs, view.gpus, shares):
                given = Promise(job.number, reason=limit)
        if given is None or given.finish_by is not None or self.otherwise is Otherwise.BEST_EFFORT:
            return Verdict(Fate.ADMIT, given)
        return Verdict(Fate.REJECT, reason=given.reason)

    def _promise(self, job: JobSubmitted, finish: float) -> Promise | None:
        """The best promise to a job that finishes then; None where it has no deadline."""
        if not job.spec.rewards:
            return None
        for step, reward in enumerate(job.spec.rewards):
            if keeps(finish, finish_by := job.spec.submit_time + reward.deadline_seconds):
                return Promise(job.number, finish_by, step)
        if job.spec.accept_later and finish < math.inf:
            return Promise(job.number, finish, reason="accepted later than its deadlines")
        return self._nothing(job, "keeps none of its deadlines", finish)

    @staticmethod
    def _nothing(job: JobSubmitted, reason: str, finish: float = math.inf) -> Promise | None:
        if not job.spec.rewards:
            return None
        return Promise(job.number, earliest=finish if finish < math.inf else None, reason=reason)


def _late(
    promised: dict[int, float | None], finishes: dict[int, float], now: float, margin: float
) -> set[int]:
    """Jobs whose promises would be broken by these finishes, or by finishes later by the margin."""
    return {
        number
        for number, finish_by in promised.items()
        if finish_by is not None
        and not keeps(now + (finishes.get(number, math.inf) - now) * (1.0 + margin), finish_by)
    }
