"""Deadlines guaranteed where a look ahead says that they are kept, under any policy.

A job with deadlines is guaranteed the first that it is believed to keep if it enters now: the scheduler is
run ahead with it. A job that would make another break its guarantee waits in the queue, so later arrivals
cannot break a guarantee either; one that is in the way of a guarantee later, since jobs took longer than was
believed, is stopped and waits again (decisions 117, 119). Jobs behind it are judged too, a few of them each
time, and new ones at once: under a steady flow of guaranteed jobs one that would break their guarantees may
wait for long. With true estimates and no failures every guarantee is kept. With wrong ones a guarantee may
break; it is revoked then, and no job waits for the sake of a guarantee that would be broken without it. A
``margin`` adapts to guarantees broken and kept, as that of `volvelle.systems.chronus` does, so that in the
long run at most the share ``broken`` of them is. Guarantees that break together, as those to all jobs of the
first queue, are made before the margin knows of any: so it is never less than the usual error, by which half
of the jobs that ended were off what was believed of them (decision 110). A guarantee that only the margin
doubts is protected: what comes may not delay its job. Finishes later than all deadlines (``accept_later``)
have a slack of their own, which learns from guarantees of that kind alone: without slack one is broken by any
delay, and deadlines have theirs from users. Both begin anew where the journal is followed and not replayed,
and in snapshots.

Deadlines that no user needs cost other jobs their place (Chronus, SoCC'21, section 3.3.2), so what guaranteed
jobs of one user or one pool request together can be limited to a share of the cluster's GPUs.

Each verdict costs a look ahead while there are guarantees, or where the job has deadlines; where guarantees
are at risk, one more for all verdicts up to the next that is not to wait. Each end of a job costs one too
while there are guarantees.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, PrivateAttr

from volvelle.core.decision import Promise
from volvelle.core.events import JobSubmitted
from volvelle.core.forecast import LookAhead
from volvelle.core.parts import Admission, Fate, Verdict, admissions
from volvelle.core.promises import LATENESS, LEAST_SLACK, Margin, keeps, over_share
from volvelle.core.view import View
from volvelle.model.arrays import FloatColumn
from volvelle.model.units import format_duration

_MARGIN_STEP, _SLACK_STEP = 1.0, 2.0
"""How much a broken guarantee adds to the margin, and one later than all deadlines to the slack of such.

Each unit of margin costs as many broken guarantees as steps go into it (decision 70)."""
_ENOUGH, _LAST = 20, 1000
"""From how many jobs on their error is the usual one, and of how many it is."""
_BREAKS = (
    "at once it would break the guarantee of job {}{}: it waits, and may be guaranteed a finish when it is "
    "admitted"
)
_TRIED = 16
"""Of jobs that are to be stopped, for how many it is seen whether they need not be."""


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
        away = [one for one in ahead.recalled if one.number != job.number]
        if not ahead.promises and not job.spec.rewards and not away:
            return Verdict(Fate.ADMIT)
        finish = math.inf
        for world in (ahead, ahead.admitting(*away)) if away else (ahead,):
            foreseen = world.admitting(job).until({job.number, *world.promises})
            finish = foreseen.completed.get(job.number, math.inf)
            if delayed := self._delayed(world, foreseen.completed, view.now):
                more = f" and {len(delayed) - 1} more" if delayed[1:] else ""
                takes = finish - foreseen.upcoming.get(job.number, -math.inf) + LATENESS
                after = max(world.undisturbed.completed[each] for each in delayed) + takes
                reason = _BREAKS.format(delayed[0], more)
                return Verdict(Fate.WAIT, self._nothing(job, reason, round(after, 3)))
        given = self._promise(job, view.now, finish - view.now)
        if given is not None and given.finish_by is not None:
            specs = [view.spec(number) for number in ahead.promises]
            shares = {"user": self.user_share, "pool": self.pool_share}
            if limit := over_share(job.spec, specs, view.gpus, shares):
                given = Promise(job.number, reason=limit)
        if given is None or given.finish_by is not None or self.otherwise is Otherwise.BEST_EFFORT:
            return Verdict(Fate.ADMIT, given)
        return Verdict(Fate.REJECT, reason=given.reason)

    def _delayed(self, world: LookAhead, finishes: Mapping[int, float], now: float) -> list[int]:
        """Jobs that a newcomer delays beyond their guarantee, or nearer to it than the margin and `LATENESS`.

        finishes: with the newcomer. Jobs that break their guarantees without it too do not count.
        """
        scale, delayed = 1.0 + self._margin, []
        for number, given in world.promises.items():
            by, finish = given.finish_by or math.inf, finishes.get(number, math.inf)
            if keeps(now + (finish - now) * scale + LATENESS, by):
                continue
            alone = world.undisturbed.completed.get(number, math.inf)
            if keeps(alone, by) and not keeps(finish, alone):
                delayed.append(number)
        return delayed

    def recall(self, view: View, ahead: LookAhead) -> Collection[int]:
        """Jobs in the way of the first guarantee that would be broken and need not be.

        Of one that was stopped itself, jobs without a guarantee for which it may not come back.
        """
        finishes = ahead.undisturbed.completed
        for number, given in sorted(ahead.promises.items()):
            by = given.finish_by or math.inf
            if keeps(finishes.get(number, math.inf), by):
                continue
            if stopped := _in_the_way(number, by, view, ahead):
                return stopped
        for job in ahead.recalled:
            back, free = ahead.admitting(job), _may_be_stopped(view) - ahead.promises.keys()
            if stopped := _fewest([sorted(free)], partial(_all_kept, back)):
                return stopped
        return ()

    def _promise(self, job: JobSubmitted, now: float, takes: float) -> Promise | None:
        """The best guarantee to a job that is to finish in ``takes`` seconds; None if it has no deadline."""
        if not job.spec.rewards:
            return None
        finish = now + takes * (1.0 + self._margin) + LATENESS
        for step, reward in enumerate(job.spec.rewards):
            if keeps(finish, finish_by := job.spec.submit_time + reward.deadline_seconds):
                return Promise(job.number, finish_by, step)
        later = now + takes + max(takes * max(self._slack.now, self._margin), LATENESS)
        if job.spec.accept_later and later < math.inf:
            return Promise(job.number, later, reason="accepted later than its deadlines")
        due = job.spec.submit_time + job.spec.rewards[-1].deadline_seconds
        last = "last deadline" if job.spec.rewards[1:] else "deadline"
        if keeps(now + takes, due):
            longer = f"{100.0 * self._margin:.4g}% longer, the margin of guarantees here"
            if not self._margin:
                longer = f"{format_duration(LATENESS)} longer"
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


def _in_the_way(number: int, by: float, view: View, ahead: LookAhead) -> list[int]:
    """The fewest jobs without which one keeps its guarantee, or nearly so; none where nothing helps.

    Jobs with earlier guarantees stay, and those that may not be stopped. A guarantee to a job that took
    longer than was believed counts as the latest of all. Jobs without a guarantee go first, such jobs next,
    the last to come before the others. Without those that wait others may come first: so stopping those that
    run may help where stopping all does not.
    """
    promises, start = ahead.promises, ahead.undisturbed.upcoming
    end = ahead.undisturbed.finish.get(number, math.inf)
    overdue = set(view.jobs.number[view.jobs.overdue].astype(np.int64).tolist())

    def rank(one: int) -> tuple[bool, bool, int]:
        return one not in promises, one in overdue, one

    others = [one for one in _may_be_stopped(view) if rank(one) > rank(number)]
    others = sorted((one for one in others if start.get(one, math.inf) < end), key=rank)

    def kept(stopped: list[int]) -> bool:
        return keeps(ahead.without(*stopped).until({number}).completed.get(number, math.inf), by)

    running = set(view.jobs.number[view.jobs.running].tolist())
    if len(runs := [one for one in others if one in running]) < len(others):
        return _fewest([others, runs], kept)
    return _fewest([others], kept)


def _may_be_stopped(view: View) -> set[int]:
    jobs = view.jobs
    fixed = jobs.running & ((jobs.column("preemptible") == 0.0) | (jobs.column("pinned") == 1.0))
    return set(jobs.number[~fixed].astype(np.int64).tolist())


def _all_kept(world: LookAhead, stopped: list[int]) -> bool:
    """Whether all guarantees are kept without these jobs, and events that are seen late."""
    finishes = world.without(*stopped).until(world.promises.keys()).completed
    return all(
        keeps(finishes.get(number, math.inf) + LATENESS, given.finish_by or math.inf)
        for number, given in world.promises.items()
    )


def _fewest(choices: list[list[int]], kept: Callable[[list[int]], bool]) -> list[int]:
    """The fewest jobs, or nearly so, that are to be stopped to keep a guarantee, the last first.

    They are of the first of the ``choices`` that keeps it if all of it is stopped. None where the guarantee
    is kept anyway, or where nothing helps.
    """
    if not any(choices) or kept([]):
        return []
    if not (others := next((each for each in choices if each and kept(each)), [])):
        return []
    many = 1 + bisect_left(range(1, len(others)), True, key=lambda many: kept(others[-many:]))
    stopped = others[-many:]
    for one in stopped[:_TRIED]:
        if kept(rest := [each for each in stopped if each != one]):
            stopped = rest
    return stopped
