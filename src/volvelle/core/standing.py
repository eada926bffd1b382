"""How things stand: the state that the scheduler's events and decisions change.

Beside the columns of jobs (`JobColumns`) and the nodes (`Resources`) that is what is known of each job and
who holds which GPUs, CPUs and memory. `volvelle.core.scheduler` says how it changes.
"""

import math
from collections import Counter, deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from volvelle.core.columns import Column, Reason
from volvelle.core.composition import Composition
from volvelle.core.curves import RateCurves, RateTable
from volvelle.core.decision import NO_INTS, IntArray
from volvelle.core.demand import Amounts
from volvelle.core.eligibility import Eligibility, mean_rate
from volvelle.core.events import JobSubmitted
from volvelle.core.kernels import apply
from volvelle.core.parts import KnownJob
from volvelle.core.policy import View
from volvelle.core.state import FloatColumn, JobColumns, JobView, Resources
from volvelle.model.cluster import Cluster
from volvelle.model.job import JobSpec, Truth, rate_of
from volvelle.model.overheads import Overheads
from volvelle.model.throughput import Linear

if TYPE_CHECKING:
    from volvelle.core.snapshot import Snapshot


class Stopping(NamedTuple):
    """GPUs on which a stopped job is believed to write its checkpoint until ``free_at``."""

    free_at: float
    gpus: float
    gpu_type: int
    slots: IntArray


class Aside(NamedTuple):
    """A job that its user holds: its columns, what is known of it, how often it failed."""

    values: tuple[float, ...]
    known: KnownJob
    failures: int

    def having_done(self, work: float) -> "Aside":
        """The same with ``work`` units done."""
        at = Column.DONE
        return self._replace(values=(*self.values[:at], work, *self.values[at + 1 :]))


class Neighbour(NamedTuple):
    """The job with which another shares its GPUs."""

    number: int
    name: str


class Standing:
    """The state of a scheduler: jobs in the system and at the door, who holds what, what is believed.

    cluster: what there is to give. overheads: what starts and stops are believed to cost.
    seed: of every random choice. All times are seconds on the world's clock.
    """

    def __init__(
        self,
        cluster: Cluster,
        composition: Composition,
        *,
        overheads: Overheads | None = None,
        seed: int = 0,
    ) -> None:
        self.cluster = cluster
        self.composition = composition.fork()
        self.overheads = overheads or Overheads()
        self.seed = seed
        self.now = 0.0
        self.jobs = JobColumns(composition.policy.columns)
        self.resources = Resources(cluster, named=composition.placement.names_gpus)
        self.known: dict[int, KnownJob] = {}
        self.slots: dict[int, IntArray] = {}
        self.stopping: dict[tuple[int, int], Stopping] = {}
        """By number and attempt, until the world says that it is over."""
        self.aside: dict[int, Aside | JobSubmitted] = {}
        """Jobs that their users hold, from the system or from the door."""
        self._checkpoints = False  # whether any job's stop takes time
        self.sharing: dict[int, Neighbour] = {}
        self.failures: Counter[int] = Counter()
        self._door: deque[JobSubmitted] = deque()
        self._pools = {pool.name: index for index, pool in enumerate(cluster.pools)}
        self._quota = np.array([pool.quota for pool in cluster.pools])
        self._capacity = self.resources.gpus_by_type(up_only=True)
        self._eligibility = self._judge_nodes()
        self._curves = RateCurves()
        self._demand = 0.0
        self._dirty = False
        self._named_wake: float | None = None
        self.amounts: dict[int, Amounts] = {}
        """CPUs and memory per GPU of the jobs that have GPUs, where the policy divides them."""

    def view(self) -> View:
        """What a policy sees now."""
        jobs = JobView(self.jobs, self.now)
        return View(
            self.now,
            jobs,
            self.resources.types,
            self._capacity,
            self._quota,
            self._rates,
            self._spec,
            self.resources,
            self._rates_beside,
        )

    @property
    def at_the_door(self) -> tuple[JobSubmitted, ...]:
        """Jobs that wait to be admitted, in order."""
        return tuple(self._door)

    def obstacle(self, spec: JobSpec) -> str:
        """Why a job could not run here even on an empty cluster; nothing if it could."""
        return self._eligibility.obstacle(spec)

    def stand_at(
        self,
        now: float,
        columns: FloatColumn,
        known: Sequence[KnownJob],
        door: Sequence[JobSubmitted],
        *,
        undecided: bool,
    ) -> None:
        """Take over the state at ``now``, reached otherwise than by `handle`: by a direct run.

        columns: (Column.COUNT, jobs), of GPUs that are only counted. known: for each of them. door:
        who waits to be admitted. undecided: something happened that the policy was not asked about.
        """
        self.now = now
        self.jobs = JobColumns(self.composition.policy.columns)
        for job, values in zip(known, columns.T.tolist(), strict=True):
            number = int(values[Column.NUMBER])
            self.jobs.add(number, values)
            self.known[number] = job
        self._door = deque(door)
        self._demand = sum(job.spec.gpus for job in known)
        self._dirty = undecided

    def take_over(self, snapshot: "Snapshot") -> None:
        """Stand where ``snapshot`` was taken; nothing has happened here before."""
        self.now = snapshot.now
        for node, state in snapshot.nodes:
            self.resources.change(node.name, state, node)
        for job in snapshot.jobs:
            number, slots = job.number, np.array(job.slots, dtype=np.int64)
            self.jobs.add(number, job.values)
            self.known[number] = KnownJob(job.spec, job.believed)
            self.failures[number] = job.failures
            self._demand += job.spec.gpus
            self._checkpoints |= self.overheads.checkpoint_seconds(job.spec) > 0.0
            if self.composition.placement.names_gpus:
                self.slots[number] = slots
                self.resources.take(slots, number)
        self.sharing = snapshot.sharing.copy()
        self.amounts = snapshot.amounts.copy()
        for number, amounts in self.amounts.items():
            if number in self.slots:
                self.resources.given[:, self.slots[number]] = np.array([amounts]).T
        for job in snapshot.held:
            self.aside[job.number] = Aside(
                job.values, KnownJob(job.spec, job.believed), job.failures
            )
        self.aside.update((event.number, event) for event in snapshot.held_at_the_door)
        self._door = deque(snapshot.door)
        for stop in snapshot.stopping:
            slots = np.array(stop.slots, dtype=np.int64)
            self.stopping[stop.number, stop.attempt] = Stopping(
                stop.free_at, stop.gpus, stop.gpu_type, slots
            )
        self._eligibility = self._judge_nodes()
        self._count_capacity()
        self._dirty = True

    def fork(self) -> Self:
        """One in the same state that can run ahead; its parent never notices."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy.composition = self.composition.fork()
        copy.jobs = self.jobs.fork()
        copy.resources = self.resources.fork()
        copy.known = self.known.copy()
        copy.slots = self.slots.copy()
        copy.sharing = self.sharing.copy()
        copy.stopping = self.stopping.copy()
        copy.aside = self.aside.copy()
        copy.amounts = self.amounts.copy()
        copy._curves = self._curves.fork()
        copy.failures = self.failures.copy()
        copy._door = self._door.copy()
        return copy

    # ------------------------------------------------------------------ coming and going

    def _judge_nodes(self) -> Eligibility:
        return Eligibility(
            self.resources,
            self.cluster.pools,
            whole_gpus=self.composition.placement.names_gpus,
            elastic=self.composition.policy.resizes,
        )

    def newcomer(self, event: JobSubmitted) -> tuple[list[float], KnownJob] | str:
        """A job as it enters: its columns and what is known of it; or why it never will."""
        spec = event.spec
        belief = self.composition.estimator.believe(event, self.seed)
        types = self._eligibility.useful_types(spec, belief.truth)
        if not types:
            kinds = " or ".join(filter(None, self.resources.types)) or "its"
            if belief.truth.sensitivity is None:
                return f"makes no progress on {kinds} GPUs"
            return f"makes no progress on {kinds} GPUs with the CPUs and memory that go with them"
        gpus, most = spec.gpus, spec.most_gpus
        gpu_type = self._first_type(types)
        full_rate = self._mean_rate(belief.truth, most, gpu_type, 0.0)
        values = _NEWCOMER.copy()
        values[Column.NUMBER] = event.number
        values[Column.SUBMIT] = spec.submit_time
        values[Column.GPUS] = gpus
        values[Column.LEAST] = spec.least_gpus
        values[Column.MOST] = most
        values[Column.TYPES] = types
        values[Column.POOL] = self._pools.get(spec.pool, -1)
        values[Column.WEIGHT] = spec.weight
        values[Column.PREEMPTIBLE] = spec.preemptible
        values[Column.TOTAL] = belief.truth.work
        values[Column.SCALE] = belief.scale
        values[Column.FULL_RATE] = values[Column.REQUEST_RATE] = full_rate
        if gpus != most:
            values[Column.REQUEST_RATE] = self._mean_rate(belief.truth, gpus, gpu_type, 0.0)
        values[Column.UNIT_RATE] = _unit_rate(belief.truth)
        values[Column.START_GAP] = self.overheads.start
        values[Column.RESTORE] = self.overheads.restore_seconds(spec)
        values[Column.RESIZE] = self.overheads.resize_seconds(spec)
        return values, KnownJob(spec, belief.truth)

    def _vacate(self, number: int) -> None:
        """Take a job's GPUs from it, in the state alone."""
        row = self.jobs.row_of[number]
        self._release(number)
        self.sharing.pop(number, None)
        nothing = np.zeros(1)
        apply(self.jobs.matrix, np.array([row]), nothing, nothing - 1.0, nothing, self.now)
        self.jobs.matrix[Column.REASON, row] = Reason.ROUND
        if self.jobs.matrix[Column.PINNED, row]:
            self._count_capacity()

    def _remove(self, number: int) -> None:
        pinned = self.jobs.get(number, Column.PINNED)
        self._demand -= self.known.pop(number).spec.gpus
        self._release(number)
        self.sharing.pop(number, None)
        self.failures.pop(number, None)
        self.jobs.remove(number)
        self._dirty = True
        if pinned:
            self._count_capacity()

    def _set_aside(self, number: int) -> None:
        """Take a job that holds nothing out of the system, with all it has attained."""
        values = self.jobs.matrix[: Column.COUNT, self.jobs.row_of[number]].tolist()
        self.aside[number] = Aside(tuple(values), self.known[number], self.failures[number])
        self._remove(number)

    def _take_back(self, number: int, aside: Aside) -> None:
        """Let a job that was set aside be in the system again; the policy has forgotten it."""
        self.jobs.add(number, aside.values)
        self.known[number] = aside.known
        self.failures[number] = aside.failures
        self._demand += aside.known.spec.gpus
        self._dirty = True

    def _release(self, number: int) -> None:
        slots = self.slots.pop(number, None)
        if slots is not None and len(slots):
            self.resources.release(slots)

    def _count_capacity(self) -> None:
        """GPUs by type that take jobs, plus those that jobs still hold on draining nodes.

        Jobs with a GPU on a draining node are pinned: they stay until they end.
        """
        resources, jobs = self.resources, self.jobs
        capacity = resources.gpus_by_type(up_only=True)
        draining = ~resources.schedulable[resources.slot_node] & (resources.owner >= 0)
        jobs.matrix[Column.PINNED] = 0.0
        for slot in np.flatnonzero(draining):
            capacity[resources.node_type[resources.slot_node[slot]]] += 1
            jobs.matrix[Column.PINNED, jobs.row_of[int(resources.owner[slot])]] = 1.0
        self._capacity = capacity

    def _note_stops(self, rows: IntArray) -> None:
        """Keep what the jobs in ``rows``, about to be stopped, still hold for their checkpoints."""
        matrix = self.jobs.matrix
        for row in rows.tolist():
            number = int(matrix[Column.NUMBER, row])
            cost = self.overheads.checkpoint_seconds(self.known[number].spec)
            if cost > 0.0 and self.now >= matrix[Column.PROGRESS_FROM, row]:
                self.stopping[number, int(matrix[Column.ATTEMPT, row])] = Stopping(
                    self.now + cost,
                    float(matrix[Column.HELD, row]),
                    int(matrix[Column.TYPE, row]),
                    self.slots.get(number, NO_INTS),
                )

    # ------------------------------------------------------------------ what is believed

    def _rate(self, number: int, known: KnownJob, row: int, gpus: float, gpu_type: int) -> float:
        """Units of work per second believed of the job in ``row`` on these GPUs."""
        if gpus <= 0:
            return 0.0
        spec, believed = known
        done = 0.0
        if believed.regimes:
            m = self.jobs.matrix
            worked = max(self.now - m[Column.PROGRESS_FROM, row], 0.0)
            done = float(m[Column.DONE, row] + worked * m[Column.RATE, row])
        slots = self.slots.get(number)
        if slots is None:
            beside = self.beside(number)
            rate = rate_of(spec, believed, gpus, self.resources.types[gpu_type], 1, done, beside)
        else:
            nodes = len(self.resources.nodes_of(slots))
            rate = rate_of(spec, believed, gpus, self.resources.types[gpu_type], nodes, done)
            rate *= self.resources.spread_factor(believed.spread_slowdown, int(gpus), nodes)
        if believed.sensitivity is None:
            return rate
        amounts = self.amounts.get(number)
        if amounts is None:
            amounts = self.resources.share_of(NO_INTS if slots is None else slots, gpu_type)
        return rate * believed.sensitivity.share(*amounts)

    def _mean_rate(self, believed: Truth, gpus: float, gpu_type: str, done: float) -> float:
        """Units per second believed to the end, with the CPUs and memory there are at best."""
        rate = mean_rate(believed, gpus, gpu_type, done)
        if believed.sensitivity is None:
            return rate
        at_most = self.composition.policy.divides
        amounts = self.resources.best_amounts(self.resources.types.index(gpu_type), gpus, at_most)
        return rate * believed.sensitivity.share(*amounts)

    def _rates(self) -> RateTable:
        """What `View.rates` promises."""
        return self._curves.table(
            self.jobs,
            lambda number: self.known[number].believed,
            self.resources.types,
            self._capacity,
        )

    def _rates_beside(self, number: int, other: int) -> list[float]:
        """What `View.beside` promises."""
        spec, believed = self.known[number]
        model = believed.beside.get(self.known[other].spec.name)
        if model is None or believed.regimes:
            return [0.0] * len(self.resources.types)
        return [model.rate(spec.gpus, gpu_type) for gpu_type in self.resources.types]

    def beside(self, number: int) -> str:
        """The name of the job with which a job shares its GPUs, if it does."""
        neighbour = self.sharing.get(number)
        return "" if neighbour is None else neighbour.name

    def _settle_work(self, row: int) -> None:
        """Count the work that the job in ``row`` is believed to have done up to now."""
        matrix = self.jobs.matrix
        worked = max(self.now - matrix[Column.PROGRESS_FROM, row], 0.0)
        matrix[Column.DONE, row] += worked * matrix[Column.RATE, row]
        matrix[Column.PROGRESS_FROM, row] = max(self.now, matrix[Column.PROGRESS_FROM, row])

    def _spec(self, number: int) -> JobSpec:
        """What `View.spec` promises."""
        return self.known[number].spec

    def _first_type(self, types: int) -> str:
        """The first GPU type of a set of bits."""
        return self.resources.types[(types & -types).bit_length() - 1]


def _newcomer() -> list[float]:
    """The columns of a job that has just come, as far as they are alike for all."""
    values = [0.0] * Column.COUNT
    values[Column.TYPE] = values[Column.CURVE] = -1.0
    values[Column.FIRST_START] = math.nan
    values[Column.REASON] = Reason.ROUND
    return values


_NEWCOMER = _newcomer()


def _unit_rate(believed: Truth) -> float:
    """The rate per GPU of a job that scales linearly wherever it runs; NaN for others."""
    throughput = believed.throughput
    plain = not (
        believed.regimes or believed.spread_slowdown or believed.beside or believed.sensitivity
    )
    if type(throughput) is Linear and plain:
        return throughput.per_gpu
    return math.nan
