"""Jobs: what a user declares (`JobSpec`), what is true of it (`Truth`), and the two together (`Job`).

The split is the house's first rule: a scheduler sees specs, only a world sees truths. Everything
here is a frozen value that can be written to a journal as JSON.
"""

import itertools
from bisect import bisect_right
from collections.abc import Sequence
from enum import StrEnum

import msgspec

from volvelle.model.adaptation import Adaptation
from volvelle.model.sensitivity import Sensitivity
from volvelle.model.throughput import LINEAR, AnyThroughput, named_types
from volvelle.model.training import Training


class JobClass(StrEnum):
    """How a job's deadline binds (Chronus, SoCC'21, section 2.2)."""

    BEST_EFFORT = "best-effort"
    SOFT = "soft"
    STRICT = "strict"


class Reward(msgspec.Struct, frozen=True, gc=False):
    """``value`` is earned by finishing within ``deadline_seconds`` of submission."""

    deadline_seconds: float
    value: float


def wrong_steps(steps: Sequence[tuple[float, float]]) -> str:
    """Why these (seconds, value) are no reward steps, in a few words; empty where they are.

    Rewards may not rise: finishing later cannot be worth more (Chronus, SoCC'21, section 3.3.1).
    """
    for seconds, value in steps:
        if not seconds > 0.0:
            return "deadline in the past"
        if not value >= 0.0:
            return "reward below zero"
    ordered = sorted(steps, key=lambda step: (step[0], -step[1]))
    rises = any(later[1] > one[1] for one, later in itertools.pairwise(ordered))
    return "reward that rises" if rises else ""


class Regime(msgspec.Struct, frozen=True):
    """From ``start_work`` units of work on, the job runs at ``batch_size``.

    Its rate is that of its throughput model at this batch size, times ``speed``: the place to turn
    steps of this batch size into the job's unit of work.
    """

    start_work: float
    batch_size: int
    speed: float = 1.0


class LossPoint(msgspec.Struct, frozen=True):
    """The training loss after ``work`` units; between two points it changes linearly."""

    work: float
    loss: float


class Dependency(msgspec.Struct, frozen=True, gc=False):
    """A job comes only once the job with this id has succeeded, or ended at all, and so long after that."""

    job: str
    any_end: bool = False
    think_seconds: float = 0.0


class JobSpec(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the user declares. Times are seconds; ``gpus`` is the gang, all or nothing.

    An elastic job runs on anything from ``min_gpus`` to ``max_gpus``; both default to ``gpus``.
    ``gpu_types`` empty means any. ``constraints``: labels that its nodes have to have, all of them.
    ``exclusive``: it has whole nodes, all of whose GPUs are in ``gpus``. Costs left at None are the
    world's defaults. ``skew`` is the share of the model that lies in its largest tensor. ``lowest_loss``
    is the training loss its user expects to reach in the end. ``spread_slowdown`` and ``sensitivity`` are
    as of `Truth`, by its user's word. ``accept_later``: where no deadline can be promised, the earliest
    finish that can will do. ``adaptation``: how it changes its batch size; its ``throughput`` then is
    epochs per second. ``after``: the jobs that have to end before it comes. ``priority``: the higher the
    sooner, where the policy heeds it. It is ended when it has held GPUs for ``time_limit_seconds``.
    """

    id: str
    submit_time: float
    gpus: float = 1.0
    min_gpus: float | None = None
    max_gpus: float | None = None
    gpu_types: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    exclusive: bool = False
    cpus: float = 0.0
    memory_gb: float = 0.0
    user: str = ""
    pool: str = ""
    name: str = ""
    job_class: JobClass = JobClass.BEST_EFFORT
    rewards: tuple[Reward, ...] = ()
    weight: float = 1.0
    preemptible: bool = True
    checkpoint_seconds: float | None = None
    restore_seconds: float | None = None
    max_retries: int = 3
    estimate_seconds: float | None = None
    throughput: AnyThroughput | None = None
    skew: float = 0.0
    spread_slowdown: float = 0.0
    sensitivity: Sensitivity | None = None
    lowest_loss: float | None = None
    accept_later: bool = False
    adaptation: Adaptation | None = None
    after: tuple[Dependency, ...] = ()
    priority: int = 0
    time_limit_seconds: float | None = None

    @property
    def least_gpus(self) -> float:
        """The fewest GPUs the job runs on."""
        return self.gpus if self.min_gpus is None else self.min_gpus

    @property
    def most_gpus(self) -> float:
        """The most GPUs the job can use."""
        return self.gpus if self.max_gpus is None else self.max_gpus

    @property
    def elastic(self) -> bool:
        """Whether the job runs on more than one number of GPUs."""
        return self.least_gpus < self.most_gpus

    @property
    def first_type(self) -> str:
        """The GPU type on which it takes the time that it is said to take; empty: types are alike to it."""
        return (self.gpu_types or named_types(self.throughput or LINEAR))[0]

    def declared(self, work: float) -> "Truth":
        """A job of so much work that runs as its user says."""
        return Truth(
            work=work,
            throughput=self.throughput or LINEAR,
            spread_slowdown=self.spread_slowdown,
            sensitivity=self.sensitivity,
        )


class Truth(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What only a world knows: how much work there is and how fast it really goes.

    ``work`` is in the unit of ``throughput``. ``failures`` are amounts of work done at which the job
    crashes, once each. ``spread_slowdown`` is the share by which every node beyond the fewest
    possible lengthens an iteration. ``sensitivity`` is what a job loses with too few CPUs or too little
    memory; None for one that needs no more than it gets. ``beside`` says how fast it goes while it shares
    its GPUs with another job, by that job's name.
    """

    work: float
    throughput: AnyThroughput = LINEAR
    regimes: tuple[Regime, ...] = ()
    failures: tuple[float, ...] = ()
    loss_curve: tuple[LossPoint, ...] = ()
    spread_slowdown: float = 0.0
    sensitivity: Sensitivity | None = None
    beside: dict[str, AnyThroughput] = {}

    def rate(
        self, gpus: float, gpu_type: str = "", nodes: int = 1, work_done: float = 0.0
    ) -> float:
        """Units of work per second once ``work_done`` units are done, with CPUs and memory enough."""
        if not self.regimes:
            return self.throughput.rate(gpus, gpu_type, nodes)
        regime = self.regime_at(work_done)
        if regime is None:
            return self.throughput.rate(gpus, gpu_type, nodes)
        return regime.speed * self.throughput.rate(gpus, gpu_type, nodes, regime.batch_size)

    def loss_at(self, work_done: float) -> float:
        """The training loss after ``work_done`` units, by a curve that is not empty."""
        curve = self.loss_curve
        after = bisect_right(curve, work_done, key=lambda point: point.work)
        if after == 0 or after == len(curve):
            return curve[max(after - 1, 0)].loss
        left, right = curve[after - 1], curve[after]
        share = (work_done - left.work) / (right.work - left.work)
        return left.loss + share * (right.loss - left.loss)

    def regime_at(self, work_done: float) -> Regime | None:
        """The regime in force after ``work_done`` units, or None where the job has none."""
        current = None
        for regime in self.regimes:
            if regime.start_work > work_done:
                break
            current = regime
        return current


def rate_of(
    spec: JobSpec,
    truth: Truth,
    gpus: float,
    gpu_type: str = "",
    nodes: int = 1,
    work_done: float = 0.0,
    beside: str = "",
) -> float:
    """`Truth.rate`; below the fewest GPUs the job runs on it has these for that share of the time.

    Unless it shares them, half being its own, with a job called ``beside``.
    """
    if beside:
        return truth.beside[beside].rate(2.0 * gpus, gpu_type, nodes)
    least = spec.least_gpus
    if gpus < least:
        return truth.rate(least, gpu_type, nodes, work_done) * gpus / least
    return truth.rate(gpus, gpu_type, nodes, work_done)


class Recorded(msgspec.Struct, frozen=True, gc=False):
    """When a trace says that a job first started and that it ended: seconds, as its submission."""

    start: float
    end: float


class Job(msgspec.Struct, frozen=True, gc=False):
    """One row of a workload: what is declared and what is true.

    Where there is a ``training``, that is how the job really runs in a simulated world, and ``truth``
    the simple account of it that is disclosed. ``recorded`` is what became of it where it ran before; no
    simulation looks at it.
    """

    spec: JobSpec
    truth: Truth
    training: Training | None = None
    recorded: Recorded | None = None

    def seconds_on(self, gpus: float, gpu_type: str = "", nodes: int = 1) -> float:
        """Seconds the whole job takes on ``gpus`` GPUs of so many nodes, without interruption."""
        done, seconds = 0.0, 0.0
        ends = [regime.start_work for regime in self.truth.regimes if regime.start_work > 0]
        for end in [*ends, self.truth.work]:
            stop = min(end, self.truth.work)
            if stop > done:
                rate = self.truth.rate(gpus, gpu_type, nodes, done)
                seconds += (stop - done) / rate if rate > 0 else float("inf")
                done = stop
        return seconds
