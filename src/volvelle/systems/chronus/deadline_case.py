"""Jobs with deadlines in one window: what is possible, what a schedule is worth, schedules by lists."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from volvelle.model.arrays import BoolColumn, Bools, FloatColumn, Floats, IntColumn, Ints
from volvelle.plan.packing import complete, finish_slots, pack, restarts, wider_first
from volvelle.plan.plan import Plan, Window
from volvelle.plan.programs import relative_gap

FEW_JOBS = 50
WIDE = 4.0
"""The direct program pays up to so many jobs, or with fewer GPUs than so many of the widest gang."""
DIRECT_VARIABLES = 20_000
"""Beyond which the direct program finds nothing in seconds."""


class DeadlineJobs(NamedTuple):
    """Jobs with deadlines, by row. Deadlines and values are (jobs, steps).

    gpus: the gang. slots: how many it needs, at least 1. deadline: within how many slots of the window it
    must end for each step (0 or less: impossible; more than the window: its end). value: what each step is
    worth, not negative; one of 0 is no step. fixed: the step that is guaranteed, -1 for none (None: nobody).
    running: whether it runs right before the window (None: nobody).
    """

    number: IntColumn | FloatColumn
    gpus: FloatColumn
    slots: IntColumn
    deadline: NDArray[np.int64]
    value: NDArray[np.float64]
    fixed: IntColumn | None = None
    running: BoolColumn | None = None


class Case(NamedTuple):
    """One selection: the steps that are possible at all; a fixed job has no later ones than that.

    worths: (jobs, steps), 0 where impossible. ranked: steps of each job from the most valuable on. A
    schedule is who holds its GPUs in which slot, (jobs, slots).
    """

    jobs: DeadlineJobs
    window: Window
    capacity: Floats
    deadline: Ints
    worths: Floats
    ranked: Ints
    fixed: BoolColumn
    running: BoolColumn

    @classmethod
    def of(cls, jobs: DeadlineJobs, window: Window, capacity: Floats) -> "Case":
        """Raises ValueError where the jobs cannot be such."""
        _check(jobs)
        count, steps = jobs.deadline.shape
        deadline = np.clip(jobs.deadline, 0, window.slots).astype(np.int64)
        possible = deadline >= jobs.slots[:, None]
        possible &= (jobs.gpus <= capacity.max(initial=0.0))[:, None]
        promised = np.full(count, -1) if jobs.fixed is None else jobs.fixed
        fixed: BoolColumn = promised >= 0
        if steps:
            latest = np.take_along_axis(deadline, np.maximum(promised, 0)[:, None], 1)
            possible &= ~fixed[:, None] | (deadline <= latest)
        worths = np.where(possible, jobs.value, 0.0)
        return cls(
            jobs._replace(gpus=jobs.gpus.astype(np.float64), slots=jobs.slots.astype(np.int64)),
            window,
            capacity,
            deadline,
            worths,
            np.argsort(-worths, axis=1, kind="stable").astype(np.int64),
            fixed,
            np.zeros(count, dtype=np.bool_) if jobs.running is None else jobs.running,
        )

    @property
    def pays_direct(self) -> bool:
        """Whether packing may be coarse here, and the direct program small enough."""
        useful = self.worths.any(axis=1)
        jobs = int(np.count_nonzero(useful))
        widest = self.jobs.gpus[useful].max(initial=0.0)
        coarse = jobs <= FEW_JOBS or self.capacity.max(initial=0.0) < WIDE * widest
        return bool(coarse and jobs * self.window.slots <= DIRECT_VARIABLES)

    def is_open(self, held: Bools, bound: float, gap: float) -> bool:
        """Whether a schedule is not known to be good enough."""
        return self.kept(held) < self.fixed.sum() or relative_gap(self.value(held), bound) > gap

    def steps(self, held: Bools) -> IntColumn:
        """The most valuable step that each job reaches, -1 for none."""
        if not self.worths.size:
            return np.full(len(self.jobs.number), -1, dtype=np.int64)
        reached = (held.sum(axis=1) >= self.jobs.slots)[:, None]
        reached = reached & (finish_slots(held)[:, None] <= self.deadline)
        worth = np.where(reached, self.worths, 0.0)
        step: IntColumn = np.where(worth.any(axis=1), worth.argmax(axis=1), -1)
        return step

    def value(self, held: Bools) -> float:
        """The worth of a schedule."""
        step = self.steps(held)
        rows = np.flatnonzero(step >= 0)
        return float(self.worths[rows, step[rows]].sum())

    def kept(self, held: Bools) -> int:
        """How many fixed jobs end by their step."""
        return int(np.count_nonzero(self.fixed & (self.steps(held) >= 0)))

    def worth(self, held: Bools) -> tuple[int, float, int]:
        """By which schedules are compared: guarantees, then value, then restarts."""
        return self.kept(held), self.value(held), -restarts(held, self.running)

    def carried(self, plan: Plan) -> Bools:
        """The schedule of an earlier plan, completed."""
        gpus = plan.over(self.window, self.jobs.number)
        held = (gpus >= self.jobs.gpus[:, None]) & (gpus > 0.0)
        if ((held * self.jobs.gpus[:, None]).sum(axis=0) > self.capacity).any():
            held[:] = False  # there are fewer GPUs now
        return self.completed(held)

    def greedy(self) -> Bools:
        """Fixed jobs by slack, then each in order of value for a GPU and slot, where it fits."""
        latest = np.where(self.worths > 0.0, self.deadline, 0).max(axis=1, initial=0)
        held = self._packed(np.flatnonzero(self.fixed), latest, self.capacity)
        return self.completed(held)

    def by_slack(self, step: IntColumn) -> Bools:
        """Jobs with a step by slack, completed; fixed jobs before the others, should one not be kept else."""
        rows = np.flatnonzero(step >= 0)
        target = np.zeros(len(self.jobs.number), dtype=np.int64)
        target[rows] = self.deadline[rows, step[rows]]
        together = self.completed(self._packed(rows, target, self.capacity))
        if self.kept(together) == self.fixed.sum():
            return together
        first = self._packed(rows[self.fixed[rows]], target, self.capacity)
        room = self.capacity - (first * self.jobs.gpus[:, None]).sum(axis=0)
        return self.completed(first | self._packed(rows[~self.fixed[rows]], target, room))

    def completed(self, held: Bools) -> Bools:
        """A schedule without jobs that end too late, and with all that fit beside the others."""
        jobs = self.jobs
        density = self.worths.max(axis=1, initial=0.0) / (jobs.gpus * jobs.slots)
        order = np.lexsort((-density, ~self.fixed)).astype(np.int64)
        held = held.copy()
        arrays = (jobs.gpus, jobs.slots, self.deadline, self.worths, self.ranked, order)
        complete(held, self.capacity, *arrays)
        return held

    def _packed(self, rows: IntColumn, target: Ints, capacity: Floats) -> Bools:
        """These jobs by slack, with and without keeping those that run: the better of the two."""
        jobs = self.jobs
        order = rows[wider_first(jobs.gpus[rows])]
        packed = [
            pack(order, jobs.gpus, jobs.slots, target, capacity, self.running, keep, True)
            for keep in (True, False)
        ]
        return max(packed, key=self.worth)


def _check(jobs: DeadlineJobs) -> None:
    count = len(jobs.number)
    for name in ("gpus", "slots", "fixed", "running"):
        column = getattr(jobs, name)
        if column is not None and column.shape != (count,):
            raise ValueError(f"{name} of {count} jobs has the shape {column.shape}")
    if jobs.deadline.ndim != 2 or len(jobs.deadline) != count:
        raise ValueError(f"deadline of {count} jobs has the shape {jobs.deadline.shape}")
    if jobs.value.shape != jobs.deadline.shape:
        raise ValueError(
            f"value has the shape {jobs.value.shape}, deadline the shape {jobs.deadline.shape}"
        )
    if not (jobs.gpus > 0.0).all():
        raise ValueError("gpus: each job needs more than none")
    if not (jobs.slots >= 1).all():
        raise ValueError("slots: each job needs at least one")
    if not ((jobs.value >= 0.0) & np.isfinite(jobs.value)).all():
        raise ValueError("value: a step cannot be worth less than nothing, nor infinitely much")
    if jobs.fixed is not None and not (jobs.fixed < jobs.deadline.shape[1]).all():
        raise ValueError(f"fixed: a job has the steps 0 to {jobs.deadline.shape[1] - 1}")
