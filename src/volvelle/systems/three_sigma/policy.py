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

from typing import Annotated, ClassVar, Self

import numpy as np
from pydantic import Field, PrivateAttr, model_validator

from volvelle.core.columns import GPUS, NUMBER
from volvelle.core.policy import Allocation, Kernel, Period, SolverGaps, by_kernel, policies
from volvelle.core.view import View
from volvelle.model.arrays import FloatColumn, Floats
from volvelle.model.problems import Problem
from volvelle.model.validation import Seconds
from volvelle.plan.programs import Program, Rows, maximise, relative_gap
from volvelle.policies.deadline_orders import DeadlineOrder
from volvelle.systems.three_sigma.deciding import decide, filled, rounded, too_many, weighed, worths
from volvelle.systems.three_sigma.past import (
    ANSWERED,
    GOES,
    OWN_COLUMNS,
    STARTS,
    WORTH,
    begin,
    learn,
    past_of,
    with_room,
)


@policies.register
class ThreeSigma(DeadlineOrder):
    """Jobs with deadlines by a program over distributions of run times; they preempt best effort only."""

    name: ClassVar[str] = "3sigma"
    source: ClassVar[str] = "3Sigma (EuroSys'18), as in Chronus (SoCC'21), section 4.3"
    optimises: ClassVar[str] = "deadlines kept where run times are uncertain"
    time_varying: ClassVar[bool] = True
    columns: ClassVar[int] = OWN_COLUMNS

    round: Period | None = Field(60.0, description="decide only at multiples of this period")
    ahead: Annotated[Seconds, Field(gt=0)] = Field(14400.0, description="how far it plans starts")
    slots: Annotated[int, Field(ge=1, le=100)] = Field(16, description="into how many slots")

    _memory: Floats = PrivateAttr(default_factory=lambda: np.zeros(0))
    """See `volvelle.systems.three_sigma.past`."""
    _gaps: SolverGaps = PrivateAttr(default_factory=SolverGaps)

    @model_validator(mode="after")
    def _begin(self) -> Self:
        self._memory = begin(self.ahead, self.slots)
        return self

    def kernel(self, *, named: bool) -> Kernel:
        """The decision, and what it learns of ends."""
        return Kernel(decide, self._memory, rates=False, yields=True, learn=learn)

    def allocate(self, view: View) -> Allocation:
        """As the kernel decides."""
        return by_kernel(self, view)

    def refresh(self, view: View) -> tuple[str, ...]:
        """Note which deadlines are worth something; solve the program of this moment, where there is one."""
        jobs, matrix = view.jobs, view.jobs.matrix
        for row in np.flatnonzero(matrix[WORTH] == 0.0).tolist():
            rewards = view.spec(int(matrix[NUMBER, row])).rewards
            matrix[WORTH, row] = max((reward.value for reward in rewards), default=0.0) or -1.0
        self._memory = with_room(self._memory, len(jobs))
        _, _, first, rest, needs, in_time, gain, free = weighed(
            matrix, view.now, view.gpus, self._memory
        )
        gpus = matrix[GPUS, rest]
        if too_many(needs, gpus, free):
            worth = worths(matrix[WORTH, first], in_time)
            shares, bound = np.zeros(worth.size + len(rest)), np.inf
            try:
                solved = maximise(_program(worth, needs, gain, gpus, free), shares, np.inf, np.inf)
                shares, bound = solved.x, solved.bound
            except Problem:  # no solver
                pass
            x = shares[: worth.size].reshape(worth.shape)
            starts, used, value = rounded(x, worth, needs, free)
            goes, more = filled(shares[worth.size :], gain, gpus, float(free[0] - used))
            gains = value + more
            if np.isfinite(bound) and gains > 0.0:  # nothing is relative to a gain of 0
                self._gaps.note(relative_gap(gains, bound))
            answer = past_of(self._memory).answer
            answer[:] = 0.0
            answer[first[starts]], answer[rest[goes]] = STARTS, GOES
            self._memory[ANSWERED] = view.now
        return ()


def _program(
    worth: Floats, needs: Floats, gain: FloatColumn, gpus: FloatColumn, free: FloatColumn
) -> Program:
    """As HiGHS takes it: a start for each job and slot, then who of the others runs."""
    many, columns = worth.shape
    slots, count = columns - 1, many * columns
    place = np.arange(count).reshape(many, columns)
    rows = Rows()
    sizes, unbound = np.full(many, columns), np.full(many, -np.inf)
    rows.extend(sizes, place.ravel(), np.ones(count), unbound, np.ones(many))
    also = count + np.arange(len(gpus))
    for slot in range(slots):
        mine = place[:, : slot + 1].ravel()
        of_slot = needs[:, slot::-1].ravel()
        if slot == 0:
            mine, of_slot = np.concatenate([mine, also]), np.concatenate([of_slot, gpus])
        rows.add(mine, of_slot, upper=float(free[slot]))
    gains = np.concatenate([worth.ravel(), gain])
    return Program(gains, np.ones(len(gains)), rows)
