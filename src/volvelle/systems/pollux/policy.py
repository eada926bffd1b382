"""Pollux (OSDI'21): GPUs, nodes and batch sizes for the best goodput of all jobs together."""

from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PrivateAttr

from volvelle.core.events import TrainingReported
from volvelle.core.goodput import arrays_of, goodputs
from volvelle.core.policy import Allocation, Period, Policy, policies
from volvelle.core.view import View
from volvelle.model.arrays import BoolColumn, FloatColumn, IntColumn
from volvelle.model.goodput import Goodput
from volvelle.model.validation import Seconds
from volvelle.systems.pollux.search import AllocationProblem, search

Rows = NDArray[np.int64]

_MOST_HELD, _RESTARTS = 0, 1  # our own columns
_LEAST_FACTOR = 0.01
"""The least that a start leaves of a waiting job's speed-up, lest no job be started at all."""


@policies.register
class Pollux(Policy):
    """Goodput: co-adapts GPUs, nodes and batch sizes, by genetic search."""

    name: ClassVar[str] = "pollux"
    goes_by_rates: ClassVar[bool] = True
    needs_durations: ClassVar[bool] = False
    source: ClassVar[str] = "Pollux (OSDI'21)"
    optimises: ClassVar[str] = "mean JCT and fairness of jobs that adapt their batch size"
    time_varying: ClassVar[bool] = True
    work_conserving: ClassVar[bool] = False
    tunes_batch_size: ClassVar[bool] = True
    columns: ClassVar[int] = 2

    round: Period | None = Field(60.0, description="decide only at multiples of this period")
    delay: Annotated[Seconds, Field(ge=0)] = Field(
        30.0, description="what a restart is believed to cost a job, seconds"
    )
    generations: Annotated[int, Field(ge=1)] = Field(100, description="of the search")
    patience: Annotated[int, Field(ge=1)] = Field(
        25, description="generations without anything better after which the search ends"
    )
    population: Annotated[int, Field(ge=2)] = Field(100, description="allocations kept in each")
    seed: int = Field(0, description="of the search")

    _told: dict[int, Goodput] = PrivateAttr(default_factory=dict)
    _tables: dict[int, tuple[Goodput, FloatColumn]] = PrivateAttr(default_factory=dict)
    """Goodputs by placement that were worked out, and from which goodput function."""
    _all_run: bool = PrivateAttr(True)
    _rows: dict[int, IntColumn] = PrivateAttr(default_factory=dict)
    """The GPUs each job has on each node, by number; only where the placement counts."""
    _numbers: tuple[int, ...] = PrivateAttr(())
    _population: Rows | None = PrivateAttr(None)
    """The last decision's population, (allocations, jobs, nodes), of the jobs ``_numbers``."""

    @property
    def chooses_nodes(self) -> bool:
        """Always."""
        return True

    def hear(self, report: TrainingReported) -> None:
        """Keep a job's goodput function."""
        if report.goodput is not None:
            self._told[report.number] = report.goodput

    def allocate(self, view: View) -> Allocation:
        """Search, and take the best found."""
        jobs = view.jobs
        self._all_run = True
        if not len(jobs):
            return Allocation(np.zeros(0), np.zeros(0))
        here = jobs.row_of
        self._told = {number: told for number, told in self._told.items() if number in here}
        self._tables = {number: table for number, table in self._tables.items() if number in here}
        most_held = jobs.own[_MOST_HELD]
        np.maximum(most_held, jobs.held, out=most_held)
        order: IntColumn = np.lexsort((jobs.number, jobs.attained_gpu_seconds))
        fixed = (jobs.column("pinned") == 1) | (jobs.column("preemptible") == 0)
        fixed &= jobs.running
        order = order[np.argsort(~fixed[order], kind="stable")]
        base = self._base(view)
        problem = self._problem(view, base, fixed, order)
        numbers = tuple(jobs.number[order].astype(np.int64).tolist())
        found = search(
            problem,
            self._adapted(numbers, problem.base),
            self.generations,
            self.patience,
            self.population,
            self.seed * 1_000_003 + round(view.now * 1000),
        )
        self._numbers, self._population = numbers, found
        nodes = np.zeros_like(base)
        nodes[order] = found[0]
        return self._settled(view, base, nodes)

    def next_wake(self, view: View) -> float | None:
        """A period later where somebody waits: another search may find him a place."""
        return None if self._all_run else view.now + (self.round or self.delay or 1.0)

    def _settled(self, view: View, base: Rows, nodes: Rows) -> Allocation:
        """The allocation of GPUs on nodes, and what is to be remembered of it."""
        jobs, resources = view.jobs, view.resources
        gpus = np.minimum(nodes.sum(axis=1).astype(np.float64), jobs.max_gpus)
        given = gpus > 0
        self._all_run = bool(given.all())
        jobs.own[_RESTARTS] += given & (nodes != base).any(axis=1) & ~np.isnan(jobs.first_start)
        if not resources.named:
            numbers = jobs.number.astype(np.int64).tolist()
            self._rows = {number: nodes[row] for row, number in enumerate(numbers) if given[row]}
        types = np.where(given, resources.node_type[np.argmax(nodes > 0, axis=1)], -1)
        places = np.array([*np.nonzero(nodes), nodes[nodes > 0]], dtype=np.int64)
        return Allocation(gpus, types.astype(np.float64), nodes=places if resources.named else None)

    def _base(self, view: View) -> Rows:
        """GPUs that each job has on each node now."""
        jobs, resources = view.jobs, view.resources
        base = np.zeros((len(jobs), len(resources.nodes)), dtype=np.int64)
        if resources.named:
            slots = (resources.owner >= 0).nonzero()[0]
            for slot, owner in zip(slots.tolist(), resources.owner[slots].tolist(), strict=True):
                base[jobs.row_of[owner], resources.slot_node[slot]] += 1
            return base
        for number, row in jobs.row_of.items():
            kept = self._rows.get(number)
            if kept is not None and jobs.held[row] > 0:
                base[row, : len(kept)] = kept
        return base

    def _problem(
        self, view: View, base: Rows, fixed: BoolColumn, order: IntColumn
    ) -> AllocationProblem:
        """The search's problem, jobs in ``order``."""
        jobs, resources = view.jobs, view.resources
        sizes = np.diff(resources.first_slot)
        held_there = base.sum(axis=0)
        capacity = np.where(resources.schedulable, sizes, held_there)
        wished = jobs.column("types").astype(np.int64)
        allowed = (wished[:, None] >> resources.node_type[None, :] & 1).astype(np.bool_)
        allowed &= resources.schedulable[None, :]
        least = np.ceil(jobs.min_gpus).astype(np.int64)
        reach = np.maximum(2 * np.ceil(jobs.own[_MOST_HELD]).astype(np.int64), least)
        most = np.minimum(np.ceil(jobs.max_gpus).astype(np.int64), reach)
        age = view.now - jobs.submit_time
        restarted = np.maximum(age - self.delay * jobs.own[_RESTARTS], 0.0) / np.maximum(
            age + self.delay, 1e-9
        )
        restarted = np.where(jobs.running, restarted, np.maximum(restarted, _LEAST_FACTOR))
        values = self._values(view, most)
        return AllocationProblem(
            values=values[order],
            base=base[order],
            runs=base[order].sum(axis=1) > 0,
            capacity=capacity,
            allowed=allowed[order],
            node_type=resources.node_type,
            least=least[order],
            most=most[order],
            fixed=fixed[order],
            pool=jobs.pool[order],
            quota=np.floor(view.quota).astype(np.int64),
            factor=restarted[order],
        )

    def _values(self, view: View, most: IntColumn) -> FloatColumn:
        """Scaled speed-ups, (jobs, 2, GPUs + 1): on one node, and spread over several."""
        jobs = view.jobs
        total = max(view.gpus, 1.0)
        fair = int(np.ceil(total / len(jobs)))
        width = max(int(most.max()), int(np.ceil(jobs.held).max())) + 1
        values = np.empty((len(jobs), 2, width))
        values[:] = np.arange(width) / fair
        scale = len(view.resources.nodes) / total
        rates = view.rates()
        for row, number in enumerate(jobs.number.astype(np.int64).tolist()):
            told = self._told.get(number)
            if told is not None:
                table = self._goodputs(number, told, max(width - 1, fair))
                yardstick = table[0, fair]
                values[row] = table[:, :width] / yardstick if yardstick > 0 else 0.0
            elif jobs.own[_MOST_HELD, row] > 0:
                gpu_type = int(jobs.column("type")[row])
                if gpu_type < 0:
                    types = int(jobs.column("types")[row])
                    gpu_type = (types & -types).bit_length() - 1
                known = rates[jobs.curve[row], gpu_type]
                believed = known[np.minimum(np.arange(width), len(known) - 1)]
                yardstick = known[min(fair, len(known) - 1)]
                if yardstick > 0:
                    values[row] = believed / yardstick
        return values * scale

    def _goodputs(self, number: int, told: Goodput, most: int) -> FloatColumn:
        """A job's goodputs by placement, worked out once for each goodput function it tells."""
        known = self._tables.get(number)
        if known is None or known[0] is not told or known[1].shape[1] <= most:
            table = goodputs(*arrays_of(told), most)
            known = self._tables[number] = (told, table)
        return known[1]

    def _adapted(self, numbers: tuple[int, ...], base: Rows) -> Rows:
        """The last population for the jobs and nodes there are now."""
        kept = self._population
        if kept is None:
            return base[None]
        adapted = np.zeros((len(kept), *base.shape), dtype=np.int64)
        was = {number: row for row, number in enumerate(self._numbers)}
        rows = [row for row, number in enumerate(numbers) if number in was]
        before = [was[numbers[row]] for row in rows]
        adapted[:, rows, : kept.shape[2]] = kept[:, before]
        return adapted
