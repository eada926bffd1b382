"""Sia (SOSP'23): GPU types and counts by an integer program over configurations."""

from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from pydantic import Field, PrivateAttr

from volvelle.core.forward.rates import rate_on
from volvelle.core.policy import Allocation, Period, Policy, SolverGaps, policies
from volvelle.core.state import Reason
from volvelle.core.view import View
from volvelle.model.arrays import BoolColumn, FloatColumn, IntColumn
from volvelle.model.tolerances import SAME_AMOUNT
from volvelle.model.validation import Seconds
from volvelle.plan.programs import Program, Rows, maximise

_MOST_HELD, _RESTARTS = 0, 1  # own columns
_LEAST_FACTOR = 0.01
"""The least that restarts leave of a goodput."""


class _Choices(NamedTuple):
    """Configurations of all jobs, one row each: the job, GPUs, their type, goodput over the job's least."""

    job: IntColumn
    gpus: FloatColumn
    gpu_type: IntColumn
    goodput: FloatColumn


@policies.register
class Sia(Policy):
    """Goodput over GPU types: one configuration for each job, by an integer program."""

    name: ClassVar[str] = "sia"
    goes_by_rates: ClassVar[bool] = True
    needs_durations: ClassVar[bool] = False
    source: ClassVar[str] = "Sia (SOSP'23)"
    optimises: ClassVar[str] = "mean JCT and fairness of elastic jobs over GPU types"
    time_varying: ClassVar[bool] = True
    work_conserving: ClassVar[bool] = False
    columns: ClassVar[int] = 2

    round: Period | None = Field(60.0, description="decide only at multiples of this period")
    power: Annotated[float, Field(lt=0, ge=-10)] = Field(
        -0.5, description="of goodputs: the lower, the more the worst off count"
    )
    unserved: Annotated[float, Field(gt=1)] = Field(
        1.1, description="what a job without GPUs costs; one on its least goodput costs 1"
    )
    change: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.01, description="what a change of configuration costs beside its delay"
    )
    delay: Annotated[Seconds, Field(ge=0)] = Field(
        30.0, description="what a restart is believed to cost a job, seconds"
    )
    gap: Annotated[float, Field(ge=0, lt=1)] = Field(
        1e-4, description="how far from the best an answer may be, relative to its value"
    )
    work: Annotated[Seconds, Field(gt=0)] = Field(
        15.0, description="seconds of work of the solver, at most"
    )

    _gaps: SolverGaps = PrivateAttr(default_factory=SolverGaps)
    _all_run: bool = PrivateAttr(True)

    def allocate(self, view: View) -> Allocation:
        """The configurations with the greatest gain."""
        jobs = view.jobs
        self._all_run = True
        if not len(jobs):
            return Allocation(np.zeros(0), np.zeros(0))
        held, held_type = jobs.held, jobs.column("type").astype(np.int64)
        fixed = jobs.running & ((jobs.column("pinned") == 1) | (jobs.column("preemptible") == 0))
        most_held = jobs.own[_MOST_HELD]
        np.maximum(most_held, held, out=most_held)
        choices = self._choices(view, fixed)
        same = (choices.gpus == held[choices.job]) & (choices.gpu_type == held_type[choices.job])
        gain = self._gain(view, choices, same)
        rows = self._rows(view, choices, fixed)
        chosen = self._solved(view, choices, gain, same, fixed, rows)
        gpus, types = np.zeros(len(jobs)), np.full(len(jobs), -1.0)
        gpus[choices.job[chosen]] = choices.gpus[chosen]
        types[choices.job[chosen]] = choices.gpu_type[chosen]
        self._all_run = bool((gpus >= jobs.max_gpus).all())
        jobs.own[_RESTARTS] += (gpus > 0) & (gpus != held) & ~np.isnan(jobs.first_start)
        reason = np.where(gpus > 0, 0.0, float(Reason.POLICY))
        return Allocation(gpus, types, reason)

    def next_wake(self, view: View) -> float | None:
        """A round later, unless all jobs have as many GPUs as they can use."""
        return None if self._all_run else view.now + (self.round or self.delay or 1.0)

    def _choices(self, view: View, fixed: BoolColumn) -> _Choices:
        """The configurations of each job; of one that is ``fixed`` the one it has."""
        jobs, resources = view.jobs, view.resources
        rates, wished = view.rates(), jobs.column("types").astype(np.int64)
        sizes = np.diff(resources.first_slot)
        counts = [
            _counts(
                int(sizes[resources.node_type == kind].max(initial=0)), float(view.capacity[kind])
            )
            for kind in range(len(view.capacity))
        ]
        found: list[tuple[int, float, int, float]] = []
        reach = np.maximum(2.0 * jobs.own[_MOST_HELD], jobs.min_gpus)
        for row in range(len(jobs)):
            if fixed[row]:
                found.append((row, float(jobs.held[row]), int(jobs.column("type")[row]), 1.0))
                continue
            curve, least = int(jobs.curve[row]), float(jobs.min_gpus[row])
            most = min(float(jobs.max_gpus[row]), float(reach[row]))
            mine = []
            for kind, known in enumerate(counts):
                if not wished[row] >> kind & 1:
                    continue
                fit = known[(known >= least) & (known <= most)]
                if not len(fit) or fit[0] > least:
                    fit = np.append(fit, least)
                for gpus in fit[fit <= view.capacity[kind] + SAME_AMOUNT].tolist():
                    rate = rate_on(rates, curve, kind, gpus)
                    if rate > 0.0:
                        mine.append((row, gpus, kind, rate))
            lowest = min((rate for *_, rate in mine), default=1.0)
            found += [(*which, rate / lowest) for *which, rate in mine]
        columns = np.array(found, dtype=np.float64).reshape(-1, 4).T
        return _Choices(
            columns[0].astype(np.int64), columns[1], columns[2].astype(np.int64), columns[3]
        )

    def _gain(self, view: View, choices: _Choices, same: BoolColumn) -> FloatColumn:
        """The gain of each configuration over none."""
        jobs = view.jobs
        age = view.now - jobs.submit_time
        lost = np.maximum(age - self.delay * jobs.own[_RESTARTS], 0.0)
        factor = lost / np.maximum(age + self.delay, 1e-9)
        factor = np.where(age < self.delay, 1.0, np.maximum(factor, _LEAST_FACTOR))
        left = np.where(same, 1.0, factor[choices.job])
        moves = ~same & jobs.running[choices.job]
        gain = self.unserved - (left * choices.goodput) ** self.power - self.change * moves
        return np.maximum(gain, 1e-4)

    def _rows(self, view: View, choices: _Choices, fixed: BoolColumn) -> Rows:
        """One configuration for each job; no more GPUs of a type, or of a pool, than there are."""
        rows, pool = Rows(), view.jobs.pool[choices.job]
        for row in range(len(view.jobs)):
            mine = np.flatnonzero(choices.job == row)
            if len(mine):
                rows.add(mine, np.ones(len(mine)), 1.0 if fixed[row] else -np.inf, 1.0)
        for kind, capacity in enumerate(view.capacity.tolist()):
            mine = np.flatnonzero(choices.gpu_type == kind)
            if len(mine):
                rows.add(mine, choices.gpus[mine], upper=capacity)
        for place, quota in enumerate(view.quota.tolist()):
            mine = np.flatnonzero(pool == place)
            if len(mine) and np.isfinite(quota):
                rows.add(mine, choices.gpus[mine], upper=quota)
        return rows

    def _solved(
        self,
        view: View,
        choices: _Choices,
        gain: FloatColumn,
        same: BoolColumn,
        fixed: BoolColumn,
        rows: Rows,
    ) -> IntColumn:
        """The places of the configurations that are chosen."""
        first = self._greedy(view, choices, gain, fixed[choices.job], same)
        best = np.zeros(len(view.jobs))
        np.maximum.at(best, choices.job, gain)
        incumbent = np.zeros(len(gain))
        incumbent[first] = 1.0
        whole = np.ones(len(gain), dtype=np.bool_)
        program = Program(gain, np.ones(len(gain)), rows, whole)
        answer = maximise(program, incumbent, float(best.sum()), self.work, self.gap)
        self._gaps.note(answer.gap)
        return np.flatnonzero(answer.x > 0.5)

    @staticmethod
    def _greedy(
        view: View, choices: _Choices, gain: FloatColumn, fixed: BoolColumn, same: BoolColumn
    ) -> list[int]:
        """A choice that fits: jobs that are fixed, then by gain over GPUs."""
        free, left = view.capacity.astype(np.float64), view.quota.astype(np.float64)
        served: set[int] = set()
        taken: list[int] = []
        for place in np.lexsort((-gain / choices.gpus, ~same, ~fixed)).tolist():
            job, kind, gpus = (
                int(choices.job[place]),
                int(choices.gpu_type[place]),
                choices.gpus[place],
            )
            pool = int(view.jobs.pool[job])
            within = free[kind] if pool < 0 else min(free[kind], left[pool])
            if job in served or not (fixed[place] or gpus <= within + SAME_AMOUNT):
                continue
            served.add(job)
            taken.append(place)
            free[kind] -= gpus
            if pool >= 0:
                left[pool] -= gpus
        return taken


def _counts(node: int, gpus: float) -> FloatColumn:
    """The numbers of GPUs that configurations have: powers of two on a node, then whole nodes."""
    if node < 1:
        return np.zeros(0)
    powers = 2.0 ** np.arange(int(np.log2(node)) + 1)
    nodes = node * np.arange(1.0, gpus // node + 1.0)
    return np.unique(np.concatenate([powers, nodes]))
