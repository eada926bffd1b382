"""3Sigma (Park et al., EuroSys'18), as Chronus compares itself with it (SoCC'21, section 4.3).

Run times are distributions, from the past: the believed run time of a job times a factor that is
distributed as the run times of finished jobs against what was believed of them. Of a job that runs the part
is left that is not over yet; one that ran longer than any of it is taken to run as long again (3Sigma's
exponential increments). Every ``round`` a program chooses who starts in which slot of the ``ahead`` to come::

    maximise   sum V[i] P(i ends in time | starts in k) x[i, k]  +  sum b[j] y[j]
    where      sum over i, l <= k  G[i] P(i still runs after k - l) x[i, l]  <=  M - R[k]  for each slot k,
                                   and for the first + sum over j  G[j] y[j]
               sum over k          x[i, k]                                   <=  1         for each job i

Jobs i with a deadline wait, V is what their most valuable step is worth (of two that keep it the earlier
start counts a little more), and starts after the last slot need nothing. Jobs j have none, or theirs is out
of reach, and may be preempted by those: they are asked about for the first slot only, b is the share of what
is left of them that fits into it, half as much again where they run. There are M GPUs, and R of them is what
jobs with deadlines that run are expected to need: they are not preempted, which is what limits 3Sigma as
Chronus says.

Departures: the paper's program is a mixed integer one with a limit on the clock. Here its linear relaxation
is solved and rounded, so that equal runs get equal answers. 3Sigma chooses one of several predictors of a
distribution by features of a job; here the estimator says what is believed, and the factor is that of all
jobs. Cluster partitions and preferences of jobs for them are left out, GPU types are added up. Where the
solver is not installed jobs are taken in by the latest start that keeps their deadline.
"""

from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from pydantic import Field, PrivateAttr

from volvelle.core.columns import (
    DEADLINE,
    FULL_RATE,
    GPUS,
    HELD,
    NUMBER,
    PREEMPTIBLE,
    REQUEST_RATE,
    SCALE,
    TOTAL,
)
from volvelle.core.compiled import compiled
from volvelle.core.fill import (
    TARGET,
    TARGET_REASON,
    TARGET_TYPE,
    attained_seconds,
    fill,
    seconds_left,
)
from volvelle.core.policy import Allocation, Period, SolverGaps, policies
from volvelle.core.state import Reason
from volvelle.core.view import View
from volvelle.model.arrays import BoolColumn, FloatColumn, Floats, IntColumn, Ints
from volvelle.model.job import JobSpec
from volvelle.model.problems import Problem
from volvelle.model.tolerances import SAME_AMOUNT, SAME_END
from volvelle.model.validation import Seconds
from volvelle.plan.programs import Program, Rows, maximise, relative_gap
from volvelle.policies.deadline_orders import DeadlineOrder
from volvelle.policies.growth import then_by

_QUANTILES, _ENOUGH, _REMEMBERED = 10, 20, 1000
"""Values by which a distribution is told; jobs from which on the past says something; those remembered."""
_MOST = 64
"""Jobs with deadlines in a program: those that have to start first."""
_SOONER = 1e-3
"""The share of its value that a job loses with each slot that it starts later."""


@policies.register
class ThreeSigma(DeadlineOrder):
    """Jobs with deadlines by a program over distributions of run times; they preempt best effort only."""

    name: ClassVar[str] = "3sigma"
    source: ClassVar[str] = "3Sigma (EuroSys'18), as in Chronus (SoCC'21), section 4.3"
    optimises: ClassVar[str] = "deadlines kept where run times are uncertain"
    time_varying: ClassVar[bool] = True
    columns: ClassVar[int] = 1
    """1 once it is noted what was believed of the job."""

    round: Period | None = Field(60.0, description="decide only at multiples of this period")
    ahead: Annotated[Seconds, Field(gt=0)] = Field(14400.0, description="how far it plans starts")
    slots: Annotated[int, Field(ge=1, le=100)] = Field(16, description="into how many slots")

    _believed: dict[str, float] = PrivateAttr(default_factory=dict)
    """Seconds that were believed of each job when it came."""
    _factors: list[float] = PrivateAttr(default_factory=list)
    _quantiles: FloatColumn | None = PrivateAttr(default=None)
    """Of the factors; None where these have changed."""
    _gaps: SolverGaps = PrivateAttr(default_factory=SolverGaps)
    _holds_back: bool = PrivateAttr(default=False)

    @property
    def solver_gaps(self) -> SolverGaps | None:
        """The gap of each program to the starts that were made of it."""
        return self._gaps

    def learn(self, spec: JobSpec, gpu_seconds: float) -> None:
        """See how long the job took against what was believed."""
        believed = self._believed.pop(spec.id, 0.0)
        if believed > 0.0 and gpu_seconds > 0.0:
            factor = gpu_seconds / spec.gpus / believed
            self._factors = [*self._factors, factor][-_REMEMBERED:]
            self._quantiles = None

    def allocate(self, view: View) -> Allocation:
        """Running jobs with a deadline go on; then starts of this slot, and best effort on the GPUs left."""
        matrix, due = view.jobs.matrix, view.jobs.deadline
        self._note_beliefs(view)
        left = self._left(view)
        running = matrix[HELD] > 0.0
        may_keep = np.isfinite(due) & (view.now + left <= due[:, None] + SAME_END).any(axis=1)
        stays = running & (may_keep | (matrix[PREEMPTIBLE] == 0.0))
        wanted = ~running & may_keep
        others = ~stays & ~wanted
        mean = left.mean(axis=1)
        slot_seconds = self.ahead / self.slots
        case = _Case.of(view, left, mean, stays, wanted, others, slot_seconds, self.slots)
        starts, goes, gap = case.solved()
        if gap is not None:
            self._gaps.note(gap)
        held_back = wanted.copy()
        held_back[starts] = False
        self._holds_back = bool(held_back.any())
        rank = np.select([stays, wanted], [0.0, 1.0], 3.0)
        rank[goes] = 2.0
        service = np.where(others, mean * matrix[GPUS], 0.0)
        order: IntColumn = np.lexsort((matrix[NUMBER], service, rank))
        gpus = matrix[GPUS]
        most = np.where(held_back, 0.0, gpus)
        given = fill(matrix, order, gpus, most, view.capacity, view.quota, True, False)
        reason = np.where(held_back, float(Reason.ORDER), given[TARGET_REASON])
        return Allocation(given[TARGET], given[TARGET_TYPE], reason, order)

    def next_wake(self, view: View) -> float | None:
        """A slot later, where jobs are held back."""
        return view.now + self.ahead / self.slots if self._holds_back else None

    def _note_beliefs(self, view: View) -> None:
        """Remember what is believed of jobs that are seen for the first time; forget those that went."""
        jobs = view.jobs
        new = np.flatnonzero(jobs.own[0] == 0.0)
        jobs.own[0] = 1.0
        seconds = jobs.matrix[TOTAL, new] * jobs.matrix[SCALE, new] / jobs.matrix[REQUEST_RATE, new]
        for row, each in zip(new.tolist(), seconds.tolist(), strict=True):
            self._believed[view.spec(int(jobs.number[row])).id] = each
        if len(self._believed) > 2 * len(jobs) + _ENOUGH:
            ids = {view.spec(number).id for number in jobs.number.astype(np.int64).tolist()}
            self._believed = {one: each for one, each in self._believed.items() if one in ids}

    def _left(self, view: View) -> Floats:
        """(jobs, quantiles) seconds until each job ends, if it had its GPUs from now on."""
        if self._quantiles is None:
            self._quantiles = np.ones(1)
            if len(self._factors) >= _ENOUGH:
                shares = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
                self._quantiles = np.quantile(np.array(self._factors), shares)
        return seconds_by_quantile(view.jobs.matrix, view.now, self._quantiles)


class _Case(NamedTuple):
    """A program: whom it is about, what starts are worth, what is there.

    wanted: places of the jobs that may start; worth: (jobs, slots + 1) of starting in each slot, the last
    after all; needs: (jobs, slots) GPUs that each is expected to hold so many slots after its start. others,
    their gpus and gain: who may run in the first slot. free: (slots,) GPUs that are not taken.
    """

    wanted: IntColumn
    worth: Floats
    needs: Floats
    others: IntColumn
    gpus: FloatColumn
    gain: FloatColumn
    free: FloatColumn

    @classmethod
    def of(
        cls,
        view: View,
        left: Floats,
        mean: FloatColumn,
        stays: BoolColumn,
        wanted: BoolColumn,
        others: BoolColumn,
        slot_seconds: float,
        slots: int,
    ) -> "_Case":
        """The program of this moment."""
        matrix = view.jobs.matrix
        gpus, due = matrix[GPUS], matrix[DEADLINE]
        first = np.flatnonzero(wanted)
        latest = (due - view.now - mean)[first]
        first = first[np.argsort(latest, kind="stable")][:_MOST]
        needs, in_time, taken = expectations(
            matrix, left, view.now, slot_seconds, slots, first, np.flatnonzero(stays)
        )
        specs = [view.spec(number) for number in matrix[NUMBER, first].astype(np.int64).tolist()]
        value = np.array([max(reward.value for reward in spec.rewards) for spec in specs])
        worth = value.reshape(-1, 1) * in_time * (1.0 - _SOONER * np.arange(slots + 1))
        rest = np.flatnonzero(others)
        gain = slot_seconds / np.maximum(mean[rest], slot_seconds)
        gain = np.where(matrix[HELD, rest] > 0.0, 1.5, 1.0) * gain
        return cls(first, worth, needs, rest, gpus[rest], gain, np.maximum(view.gpus - taken, 0.0))

    def solved(self) -> tuple[IntColumn, IntColumn, float | None]:
        """Jobs that start now, others that run (places); the gap, None where nothing was solved."""
        many, columns = self.worth.shape
        count = many * columns
        shares = np.zeros(count + len(self.others))
        bound = np.inf
        if many and (self.needs[:, 0].sum() + self.gpus.sum() > self.free[0]):
            try:
                answer = maximise(self._program(), shares, np.inf, np.inf)
                shares, bound = answer.x, answer.bound
            except Problem:  # no solver
                pass
        x = shares[:count].reshape(self.worth.shape)
        starts, used, value = rounded(x, self.worth, self.needs, self.free)
        goes, more = filled(shares[count:], self.gain, self.gpus, float(self.free[0] - used))
        told = np.isfinite(bound) and value + more > 0.0  # nothing is to be relative to a gain of 0
        gap = relative_gap(value + more, bound) if told else None
        return self.wanted[starts], self.others[goes], gap

    def _program(self) -> Program:
        """As HiGHS takes it: a start for each job and slot, then who of the others runs."""
        many, columns = self.worth.shape
        slots, count = columns - 1, many * columns
        place = np.arange(count).reshape(many, columns)
        rows = Rows()
        sizes, unbound = np.full(many, columns), np.full(many, -np.inf)
        rows.extend(sizes, place.ravel(), np.ones(count), unbound, np.ones(many))
        also = count + np.arange(len(self.others))
        for slot in range(slots):
            mine = place[:, : slot + 1].ravel()
            needs = self.needs[:, slot::-1].ravel()
            if slot == 0:
                mine, needs = np.concatenate([mine, also]), np.concatenate([needs, self.gpus])
            rows.add(mine, needs, upper=float(self.free[slot]))
        gain = np.concatenate([self.worth.ravel(), self.gain])
        return Program(gain, np.ones(len(gain)), rows)


@compiled
def seconds_by_quantile(matrix: Floats, now: float, factors: Floats) -> Floats:
    """(jobs, quantiles) seconds until each job ends, if it had its GPUs from ``now`` on.

    factors: ascending, of the believed run time. Quantiles that are over stand for nothing: those that are
    not take their place.
    """
    jobs, many, believed = matrix.shape[1], len(factors), seconds_left(matrix, now)
    left = np.empty((jobs, many))
    for row in range(jobs):
        ran, seconds, some = attained_seconds(matrix, now, row), believed[row], 0
        if not np.isfinite(seconds):
            seconds = matrix[TOTAL, row] * matrix[SCALE, row] / matrix[FULL_RATE, row]
        for factor in factors:
            after = (ran + seconds) * factor - ran
            if after > 0.0:
                left[row, some] = after
                some += 1
        for at in range(some, many):
            left[row, at] = left[row, at % some] if some > 0 else ran
    return left


@compiled
def expectations(
    matrix: Floats,
    left: Floats,
    now: float,
    slot_seconds: float,
    slots: int,
    first: Ints,
    stays: Ints,
) -> tuple[Floats, Floats, Floats]:
    """The expectations of the jobs ``first`` and of those that stay.

    Returns (jobs, slots) GPUs that each of ``first`` holds so many slots after its start, (jobs, slots + 1)
    chances that it ends in time by its start, and (slots,) GPUs that all that stay hold.
    """
    many = left.shape[1]
    needs, in_time = np.empty((len(first), slots)), np.empty((len(first), slots + 1))
    taken = np.zeros(slots)
    for at, row in enumerate(first):
        for slot in range(slots + 1):
            runs, ends = 0, 0
            for seconds in left[row]:
                runs += slot == 0 or seconds > slot * slot_seconds
                ends += now + slot * slot_seconds + seconds <= matrix[DEADLINE, row] + SAME_END
            if slot < slots:
                needs[at, slot] = matrix[GPUS, row] * (runs / many)
            in_time[at, slot] = ends / many
    for row in stays:
        for slot in range(slots):
            runs = 0
            for seconds in left[row]:
                runs += slot == 0 or seconds > slot * slot_seconds
            taken[slot] += matrix[GPUS, row] * (runs / many)
    return needs, in_time, taken


@compiled
def rounded(x: Floats, worth: Floats, needs: Floats, free: Floats) -> tuple[Ints, float, float]:
    """Let each job start in the slot that has most of it and where it fits, those that are surest first.

    Jobs that start now, the GPUs that they use in the first slot, and the value of all.
    """
    jobs, slots = x.shape[0], len(free)
    used, value, surest = np.zeros(slots), 0.0, np.zeros(jobs)
    starts, many = np.empty(jobs, np.int64), 0
    for job in range(jobs):
        surest[job] = max(x[job].max(), 0.0)
    for job in np.argsort(-surest, kind="mergesort"):
        for slot in then_by(np.argsort(-worth[job], kind="mergesort"), -x[job]):
            fits = worth[job, slot] > 0.0
            for at in range(slot, slots):
                fits = fits and used[at] + needs[job, at - slot] <= free[at] + SAME_AMOUNT
            if fits:
                for at in range(slot, slots):
                    used[at] += needs[job, at - slot]
                value += worth[job, slot]
                if slot == 0:
                    starts[many] = job
                    many += 1
                break
    return starts[:many], used[0], value


@compiled
def filled(y: Floats, gain: Floats, gpus: Floats, free: float) -> tuple[Ints, float]:
    """Others that run on the ``free`` GPUs of the first slot, by their shares in the program."""
    value, chosen, many = 0.0, np.empty(len(y), np.int64), 0
    for at in then_by(np.argsort(-gain, kind="mergesort"), -y):
        if gpus[at] <= free + SAME_AMOUNT:
            free -= gpus[at]
            value += gain[at]
            chosen[many] = at
            many += 1
    return chosen[:many], value
