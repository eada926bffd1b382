"""Jobs: what a user declares (`JobSpec`), what is true of it (`Truth`), and the two together (`Job`).

The split is the house's first rule: a scheduler sees specs, only a world sees truths. Everything
here is a frozen value that can be written to a journal as JSON.
"""

import hashlib
import itertools
import math
import re
from bisect import bisect_right
from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated

import msgspec

from volvelle.model.adaptation import Adaptation
from volvelle.model.job_schema import GPUS, RUNNING, SECONDS, TIMES, Attribute
from volvelle.model.node import LABEL
from volvelle.model.sensitivity import Sensitivity
from volvelle.model.throughput import LINEAR, AnyThroughput, named_types

if TYPE_CHECKING:
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


@lru_cache(maxsize=4096)
def _number_of(name: str) -> float:
    """48 bits of a digest of ``name``, plus 1."""
    return 1.0 + int.from_bytes(hashlib.blake2b(name.encode(), digest_size=6).digest())


class JobSpec(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The user's declaration. Times are seconds; ``gpus`` is the gang, all or nothing.

    An elastic job runs on anything from ``min_gpus`` to ``max_gpus``; both default to ``gpus``.
    Costs left at None are the world's defaults. ``accept_later``: where no deadline can be guaranteed, the
    earliest finish that can will do. With an ``adaptation``, ``throughput`` is epochs per second. The job is
    ended when it has held GPUs for ``time_limit_seconds``.
    """

    # fmt: off
    id: Annotated[str, Attribute(
        "the job's name in all output; the row's number where missing", state="id_number",
        number="id_number")]
    submit_time: Annotated[float, Attribute(
        "when it is submitted, in seconds", unit=SECONDS, cell=", or an ISO time")]
    gpus: Annotated[float, Attribute(
        "GPUs of the gang, all or nothing", unit=GPUS,
        cell="; fractions are GPU shares", key="gpus", flag="--gpus -g", need=True)] = 1.0
    min_gpus: Annotated[float | None, Attribute(
        "fewest GPUs it runs on", unit=GPUS, key="min_gpus", flag="--min-gpus", need=True)] = None
    max_gpus: Annotated[float | None, Attribute(
        "most GPUs it can use", unit=GPUS, key="max_gpus", flag="--max-gpus", need=True)] = None
    gpu_types: Annotated[tuple[str, ...], Attribute(
        "GPU types that will do; none: any", column="gpu_type", cell="; joined by |",
        separator="|", key="gpu_types", flag="--gpu-type", need=True)] = ()
    constraints: Annotated[tuple[str, ...], Attribute(
        "labels that its nodes have to have: nvlink,zone=a", column="constraint",
        separator=",", key="constraints", bounds={"max_length": 20}, pattern=f"^{LABEL}$",
        flag="--constraint", metavar="LABELS", need=True)] = ()
    exclusive: Annotated[bool, Attribute(
        "whole nodes of its own, with all of their GPUs", key="exclusive",
        flag="--exclusive", state="exclusive", need=True)] = False
    cpus: Annotated[float, Attribute(
        "CPUs of the whole job", key="cpus", state="declared_cpus", need=True)] = 0.0
    memory_gb: Annotated[float, Attribute(
        "memory of the whole job, in GB", key="memory_gb", state="declared_memory",
        need=True)] = 0.0
    user: Annotated[str, Attribute("who submitted it", state="user", number="user_number")] = ""
    pool: Annotated[str, Attribute(
        "queue, account or tenant whose quota it uses", key="pool", flag="--pool",
        need=True)] = ""
    queues: Annotated[tuple[str, ...], Attribute(
        "queues (Slurm: partitions) that will do, if the policy has any", column="queue",
        cell="; joined by |", separator="|")] = ()
    qos: Annotated[str, Attribute("quality of service, if the policy has any")] = ""
    nodes: Annotated[int, Attribute(
        "nodes that share its GPUs evenly, if the policy heeds it; 0: any number",
        state="nodes")] = 0
    name: Annotated[str, Attribute(
        "for people, and for what past runs teach", key="name", flag="--name -n",
        panel=RUNNING)] = ""
    job_class: Annotated[JobClass, Attribute(
        "best-effort, soft or strict", column="class")] = JobClass.BEST_EFFORT
    rewards: Annotated[tuple[Reward, ...], Attribute(
        "reward steps", cell=", deadline:value joined by ;", state="deadline", number="deadline")] = ()
    weight: Annotated[float, Attribute(
        "its weight in shares, if the policy heeds it", key="weight", bounds={"gt": 0},
        state="weight", changeable=True)] = 1.0
    preemptible: Annotated[bool, Attribute(
        "whether it may be stopped and resumed", key="preemptible", flag="--no-preempt",
        panel=RUNNING, state="preemptible")] = True
    starts_over: Annotated[bool, Attribute(
        "whether a stop loses all that it has done, so that it begins anew",
        state="starts_over")] = False
    checkpoint_seconds: Annotated[float | None, Attribute(
        "how long a checkpoint takes", unit=SECONDS, column="checkpoint", need=True)] = None
    restore_seconds: Annotated[float | None, Attribute(
        "how long a restart takes", unit=SECONDS, column="restore", need=True)] = None
    max_retries: Annotated[int, Attribute(
        "restarts after failures", key="retries", bounds={"ge": 0, "le": 1000}, flag="--retries",
        panel=RUNNING, changeable=True)] = 3
    estimate_seconds: Annotated[float | None, Attribute(
        "run time on the GPUs asked for", unit=SECONDS, column="estimate",
        key="estimate", flag="--estimate", panel=TIMES, state="estimate", changeable=True)] = None
    throughput: Annotated[AnyThroughput | None, Attribute(
        "the throughput model its user declares", column="declared_throughput")] = None
    skew: Annotated[float, Attribute(
        "share of its model that lies in the largest tensor", key="skew",
        bounds={"ge": 0, "le": 1})] = 0.0
    spread_slowdown: Annotated[float, Attribute(
        "longer iterations for each node beyond the fewest, as a share",
        column="declared_spread_slowdown", cell=", as its user declares it", key="spread_slowdown",
        bounds={"ge": 0, "le": 1000})] = 0.0
    variability: Annotated[str, Attribute(
        "variability class: which slowdowns of the nodes' GPUs it meets", need=True)] = ""
    sensitivity: Annotated[Sensitivity | None, Attribute(
        "its profile over CPUs and memory per GPU, as its user declares it",
        column="declared_sensitivity")] = None
    lowest_loss: Annotated[float | None, Attribute(
        "training loss it is expected to reach; termination loss ends it there", key="lowest_loss",
        bounds={"ge": -1e12, "le": 1e12})] = None
    accept_later: bool = False
    adaptation: Annotated[Adaptation | None, Attribute(
        "how its user says that it changes its batch size")] = None
    after: Annotated[tuple[Dependency, ...], Attribute(
        "ids of jobs that have to succeed first",
        cell=", joined by ;; 12:any: any end, 12:any:10m: think time")] = ()
    priority: Annotated[int, Attribute(
        "the higher the sooner, if the policy heeds it", key="priority",
        bounds={"ge": -1000, "le": 1000}, flag="--priority", panel=TIMES, state="priority",
        changeable=True)] = 0
    time_limit_seconds: Annotated[float | None, Attribute(
        "it is ended when it has run for so long", unit=SECONDS, column="time_limit",
        key="time_limit", flag="--time-limit", panel=TIMES, state="time_limit",
        changeable=True)] = None
    # fmt: on

    @property
    def least_gpus(self) -> float:
        """The fewest GPUs the job runs on."""
        return self.gpus if self.min_gpus is None else self.min_gpus

    @property
    def most_gpus(self) -> float:
        """The most GPUs the job can use."""
        return self.gpus if self.max_gpus is None else self.max_gpus

    @property
    def id_number(self) -> float:
        """The whole number with which its id begins, 0 where it begins with none."""
        digits = re.match(r"\d+", self.id)
        return float(digits[0]) if digits else 0.0

    @property
    def user_number(self) -> float:
        """A number that stands for its user: 0 for none, 48 bits of a digest of the name for others."""
        return _number_of(self.user) if self.user else 0.0

    @property
    def deadline(self) -> float:
        """When its most valuable reward is no longer earned, the latest of several; else infinite."""
        if not self.rewards:
            return math.inf
        return self.submit_time + max((one.value, one.deadline_seconds) for one in self.rewards)[1]

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


_BESIDE_NONE: dict[str, AnyThroughput] = {}
"""Of all jobs that share no GPUs: a dictionary for each would be a tenth of a job's memory."""


class Truth(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The facts that only a world knows: how much work there is and how fast it really goes.

    ``work`` is in the unit of ``throughput``. ``failures`` are amounts of work done at which the job
    crashes, once each. ``spread_slowdown`` is the share by which every node beyond the fewest
    possible lengthens an iteration. ``sensitivity`` is what a job loses with too few CPUs or too little
    memory; None for one that needs no more than it gets. ``beside`` says how fast it goes while it shares
    its GPUs with another job, by that job's name.
    """

    # fmt: off
    work: Annotated[float, Attribute("units of work; 1-GPU seconds unless a throughput is given")]
    throughput: Annotated[AnyThroughput, Attribute("its true throughput model")] = LINEAR
    regimes: Annotated[tuple[Regime, ...], Attribute("batch-size regimes")] = ()
    failures: Annotated[tuple[float, ...], Attribute(
        "amounts of work after which it crashes")] = ()
    loss_curve: Annotated[tuple[LossPoint, ...], Attribute("training loss by work")] = ()
    spread_slowdown: Annotated[float, Attribute(
        "longer iterations for each node beyond the fewest, as a share")] = 0.0
    sensitivity: Annotated[Sensitivity | None, Attribute(
        "its profile over CPUs and memory per GPU")] = None
    beside: Annotated[dict[str, AnyThroughput], Attribute(
        "its throughput models while it shares its GPUs, by the other job's name"
    )] = msgspec.field(default_factory=lambda: _BESIDE_NONE)
    # fmt: on

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
    training: "Training | None" = None
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

    @property
    def usable_types(self) -> tuple[str, ...]:
        """The GPU types that will do and on which its rate is known; ("",) where types are all the same."""
        known = named_types(self.truth.throughput)
        wished = self.spec.gpu_types or known
        return tuple(kind for kind in wished if known == ("",) or kind in known) or ("",)

    def least_seconds_on(self, gpus: float) -> float:
        """Seconds the whole job takes on ``gpus`` GPUs of the type that is fastest for it."""
        return min(self.seconds_on(gpus, kind) for kind in self.usable_types)
