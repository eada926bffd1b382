"""Shockwave (Zheng et al., NSDI'23): fair and efficient over time, though jobs change as they train."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import Field, PrivateAttr

from volvelle.core.policy import Allocation, SolverGaps, policies
from volvelle.core.space import Dimension, Space
from volvelle.core.view import View
from volvelle.model.arrays import BoolColumn, FloatColumn, IntColumn
from volvelle.model.cluster import Cluster
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.problems import Problem
from volvelle.model.validation import Seconds
from volvelle.plan.packing import in_turn, wider_first
from volvelle.plan.plan import Plan, Window
from volvelle.plan.policy import PlanPolicy
from volvelle.systems.shockwave.gangs import choose_gangs
from volvelle.systems.shockwave.rounds import RoundJobs, share_rounds
from volvelle.systems.shockwave.run_times import Courses, gangs_of, room, run_times, speeds
from volvelle.systems.shockwave.typed_rounds import share_typed_rounds
from volvelle.systems.shockwave.welfare import (
    OWN_COLUMNS,
    budgets,
    contention,
    count_jobs,
    finish_time_fairness,
    gains,
    less_to_come,
)


@policies.register
class Shockwave(PlanPolicy):
    """Nash social welfare over time: rounds are planned ahead, unfair finishes weigh more."""

    name: ClassVar[str] = "shockwave"
    source: ClassVar[str] = "Shockwave (NSDI'23)"
    optimises: ClassVar[str] = "finish-time fairness and makespan, over time"
    columns: ClassVar[int] = OWN_COLUMNS
    work_conserving: ClassVar[bool] = False  # an elastic job is not given less than it requests

    power: Annotated[float, Field(ge=0)] = Field(
        5.0, description="k: to which power finish-time fairness weighs"
    )
    makespan: Annotated[float, Field(ge=0)] = Field(
        10.0, description="lambda: how much the makespan counts"
    )
    pieces: Annotated[int, Field(ge=0)] = Field(
        5, description="parts in which the logarithm of progress is linear; 0: no parts"
    )
    ending: Annotated[float, Field(ge=0)] = Field(
        0.1, description="what the end of a job counts beside its progress, in logarithms of it"
    )
    reactive: bool = Field(True, description="plan anew when a job changes its batch size")
    elastic: bool = Field(False, description="choose how many GPUs elastic jobs have")
    gap: Annotated[float, Field(ge=0)] = Field(
        5e-4, description="how much better than a plan another might be, relative to it"
    )
    time_limit: Annotated[Seconds, Field(gt=0)] = Field(
        10.0, description="seconds of solver work for each plan, by its steps"
    )

    _courses: Courses = PrivateAttr(default_factory=dict)
    _gaps: SolverGaps = PrivateAttr(default_factory=SolverGaps)
    _waits: bool = PrivateAttr(default=False)
    """Whether anybody does, for GPUs or, it may be, for more, or those of a quicker type."""

    @property
    def resizes(self) -> bool:
        """As the parameter ``elastic`` says."""
        return self.elastic

    @classmethod
    def search_space(cls, jobs: Sequence[Job]) -> Space:
        """k and lambda, in the ranges of section 6.1 and beyond."""
        return Space(
            (
                Dimension("power", 0.0, 15.0, "power of finish-time fairness"),
                Dimension("makespan", 1e-4, 1e2, "weight of the makespan", log=True),
            ),
            lambda point: f"power={point[0]:.12g},makespan={point[1]:.12g}",
        )

    def fork(self) -> Self:
        """A copy that makes its own plans; plans and run times are never changed."""
        copy = self.model_copy()
        copy._courses, copy._gaps = self._courses.copy(), replace(self._gaps)
        return copy

    def refuse(self, cluster: Cluster, jobs: Iterable[tuple[JobSpec, Truth]]) -> None:
        """Raise `Problem` where a job has no budget and is never planned, or ``elastic`` meets types."""
        if self.elastic and len(cluster.kinds) > 1:
            raise Problem(
                f"policy {self.name!r} with elastic=true plans for one GPU type on nodes of the same "
                f"labels, and this cluster has {len(cluster.kinds)} kinds of nodes",
                mend="leave elastic out: jobs then have the GPUs that they ask for",
                usage=True,
            )
        for spec, _ in jobs:
            if not spec.weight > 0.0:
                raise Problem(
                    f"job {spec.id!r} has the weight {spec.weight:g}, which is its budget",
                    mend="give it a weight above 0",
                )

    def allocate(self, view: View) -> Allocation:
        """This round of the plan, and idle GPUs for who waits."""
        count_jobs(view.jobs.own, view.jobs.submit_time, view.now)
        allocation = super().allocate(view)
        waiting = bool((allocation.gpus == 0.0).any())
        fewer = self.elastic and bool((allocation.gpus < view.jobs.max_gpus).any())
        self._waits = waiting or fewer or len(view.gpu_types) > 1
        return allocation

    def next_wake(self, view: View) -> float | None:
        """When the plan has other jobs run, or is over; never while everybody runs."""
        return super().next_wake(view) if self._waits else None

    def plan_basis(self, view: View) -> bytes:
        """The jobs, their batch sizes if reactive, the GPUs."""
        rates = view.rates_basis() if self.reactive else b""
        return view.jobs.number.tobytes() + rates + view.capacity.tobytes()

    def plan(self, view: View, window: Window) -> Plan:
        """The window by equation 11 times N M."""
        jobs, gpus = view.jobs, view.gpus
        several = len(view.gpu_types) > 1
        speed = speeds(view) if several else np.ones((len(jobs), 1))
        gangs = gangs_of(view) if self.elastic else jobs.gpus[:, None].astype(np.float64)
        times = run_times(view, self._courses, gangs, speed.argmax(axis=1) if several else None)
        left, so_far = (one.reshape(gangs.shape) for one in (times.left, times.so_far))
        row = np.arange(len(jobs))
        asked = row, (gangs == jobs.gpus[:, None]).argmax(axis=1)
        whole = so_far[asked] + left[asked]
        factor = contention(jobs.own, jobs.submit_time, view.now, gpus)
        rho = finish_time_fairness(view.now - jobs.submit_time, left[asked], whole, factor)
        weight = np.repeat(budgets(view) * rho**self.power, gangs.shape[1])
        progress = times.progress(self.window, self.round)
        normal = float((whole * factor).sum())
        cost = self.makespan * len(jobs) * gpus / normal if normal else 0.0
        gained = gains(progress, weight, self.pieces, self.ending).reshape(*gangs.shape, -1)
        taken = asked
        if self.elastic:
            sooner = less_to_come(gangs, left, progress.reshape(*gangs.shape, -1)) / gpus
            fits = (gangs <= room(view)[:, None])[:, :, None]
            worth = np.where(fits, gained + cost * sooner, 0.0)
            taken = row, choose_gangs(gangs, worth, gpus * self.window)[0]
        gang, run_time = gangs[taken], (left + times.gap.reshape(gangs.shape))[taken]
        goes_on = jobs.running & (gang == jobs.held)
        sharing = RoundJobs(
            jobs.number.astype(np.int64), gang, gained[taken], run_time, running=goes_on
        )
        ran_on = np.where(jobs.running, jobs.column("type"), -1.0).astype(np.int64)
        how: dict[str, Any] = {
            "makespan_weight": cost,
            "gap": self.gap,
            "seconds": self.time_limit,
        }
        if several:
            share = share_typed_rounds(sharing, speed, ran_on, window, view.capacity, **how)
        else:
            share = share_rounds(sharing, window, gpus, **how)
        self._gaps.note(share.gap)
        return by_priority(share.plan, gang, -left[taken], ran_on, view.capacity)

    def turns(self, view: View, planned: BoolColumn) -> IntColumn:
        """Planned jobs, running ones first; then the others, longest first."""
        jobs = view.jobs
        order: IntColumn = np.lexsort(
            (jobs.number, -jobs.remaining_seconds, ~jobs.running & planned, ~planned)
        )
        return order


def by_priority(
    plan: Plan, gpus: FloatColumn, priority: FloatColumn, ran_on: IntColumn, capacity: FloatColumn
) -> Plan:
    """``plan`` with the rounds of the largest priority first, as far as gangs fit; all columns by its rows.

    A plan that is made anew at every arrival is rarely followed to its end, and rounds at its end may be put
    off for ever: so of all plans with as many rounds for each job this one is taken. (The artifact solves
    another integer program for that, which minimises priority times mean round; the paper does not speak of
    it.)

    ran_on: types held right before the window, -1 for none. capacity: GPUs by type (one number where the
    plan names no types). A job that could not have all its rounds later goes first. Where gangs do not fit
    so, some have fewer rounds: to keep the plan's own order would put jobs off again.
    """
    ties = wider_first(gpus)
    order = ties[np.lexsort((ran_on[ties] < 0, -priority[ties]))]
    counts = plan.rounds_by_type(len(capacity))
    held = in_turn(order, gpus, counts, plan.window.slots, capacity, ran_on)
    return Plan.of_cells(plan.window, plan.number, gpus, held)
