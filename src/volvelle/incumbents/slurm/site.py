"""A site as Slurm's own commands describe it, as far as it changes seldom; what is now is in `snapshot`.

Units are seconds since 1970 (UTC) for moments, seconds for durations, MB for memory, as Slurm counts it.
Resources are mappings from Slurm's own names (``cpu``, ``mem``, ``node``, ``gres/gpu``, ``gres/gpu:a100``,
``license/sim``, ``billing``) to amounts; a resource that a limit does not name is not limited. ``None``
stands for "no limit", or for a moment that Slurm does not know.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from pydantic import ConfigDict

from volvelle.incumbents.attach import incumbent as attach
from volvelle.model.pool import Pool

if TYPE_CHECKING:
    from volvelle.incumbents.slurm.snapshot import Job, Snapshot

_STRICT = ConfigDict(extra="forbid")
Tres = Mapping[str, float]
"""Amounts of trackable resources by Slurm's names; memory in MB."""

NOTHING: Tres = {}


@dataclass(frozen=True)
class Config:
    """``scontrol show config``: every key as it is written, and what the scheduler goes by, typed."""

    keys: Mapping[str, str] = field(default_factory=dict)
    """By Slurm's spelling of the key, without what is empty (``(null)``)."""

    def text(self, key: str, default: str = "") -> str:
        """The value of a key, whatever its case."""
        return self._folded.get(key.lower(), default)

    def number(self, key: str, default: float) -> float:
        """The first number of a value (``1800 sec``), or ``default`` where there is none."""
        word = self.text(key).split(" ")[0]
        try:
            return float(word)
        except ValueError:
            return default

    def words(self, key: str) -> frozenset[str]:
        """The words of a list, in capitals."""
        return frozenset(word.strip().upper() for word in self.text(key).split(",") if word.strip())

    @cached_property
    def _folded(self) -> dict[str, str]:
        return {key.lower(): value for key, value in self.keys.items()}

    @cached_property
    def scheduler_parameters(self) -> Mapping[str, str]:
        """``SchedulerParameters`` by key; a flag such as ``bf_continue`` has the value ``""``."""
        parts = [part.partition("=") for part in self.text("SchedulerParameters").split(",")]
        return {key.strip(): value.strip() for key, _, value in parts if key.strip()}

    def scheduler_number(self, key: str, default: float) -> float:
        """A number among ``SchedulerParameters``."""
        try:
            return float(self.scheduler_parameters.get(key, ""))
        except ValueError:
            return default


@dataclass(frozen=True, slots=True)
class Node:
    """A node: what it has, how it is, and what runs on it."""

    name: str
    cpus: float
    memory: float
    gpus: Mapping[str, int] = field(default_factory=dict)
    """By type; ``""`` for GPUs without a type."""
    features: frozenset[str] = frozenset()
    weight: float = 1.0
    partitions: tuple[str, ...] = ()
    state: frozenset[str] = frozenset(("IDLE",))
    """Words of ``State``, in capitals: ``IDLE``, ``MIXED``, ``DRAIN``, ``DOWN``, ``PLANNED``, ..."""
    held: Tres = field(default_factory=dict)
    """``AllocTRES``."""

    @property
    def usable(self) -> bool:
        """Whether new jobs may start on it."""
        return not self.state & UNUSABLE

    @property
    def down(self) -> bool:
        """Whether it is lost, and not kept from jobs on purpose."""
        return bool(self.state & {"DOWN", "NOT_RESPONDING", "FAIL", "UNKNOWN", "POWERED_DOWN"})


UNUSABLE = frozenset(
    {"DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "FUTURE", "UNKNOWN", "ERROR"}
    | {"MAINT", "NOT_RESPONDING", "REBOOT_ISSUED", "POWERED_DOWN"}
)
"""Words of a node's state with which no job starts there."""


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition: a set of nodes, with its tier, limits and who may use it."""

    __pydantic_config__ = _STRICT

    name: str
    nodes: tuple[str, ...] = ()
    tier: int = 1
    """``PriorityTier``."""
    job_factor: float = 1.0
    """``PriorityJobFactor``."""
    max_seconds: float | None = None
    default_seconds: float | None = None
    min_nodes: int = 0
    max_nodes: int | None = None
    max_cpus_per_node: float | None = None
    default: bool = False
    up: bool = True
    exclusive: bool = False
    """Whether jobs get whole nodes (``ExclusiveUser`` is not modelled; ``OverSubscribe=EXCLUSIVE`` is)."""
    qos: str = ""
    """The QOS whose limits the partition has."""
    preempt_mode: str = ""
    """``OFF``, ``CANCEL``, ``REQUEUE``, ``SUSPEND``, ``GANG``; empty where the cluster's holds."""
    grace_seconds: float = 0.0
    allow_accounts: frozenset[str] | None = None
    deny_accounts: frozenset[str] = frozenset()
    allow_qos: frozenset[str] | None = None
    deny_qos: frozenset[str] = frozenset()
    allow_groups: frozenset[str] | None = None
    memory_per_cpu: float | None = None
    """``DefMemPerCPU``."""
    memory_per_node: float | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits that a QOS or an association sets. Amounts are of all jobs that run within its scope."""

    __pydantic_config__ = _STRICT

    group: Tres = field(default_factory=dict)
    """``GrpTRES``."""
    group_jobs: int | None = None
    group_submit: int | None = None
    group_run_minutes: Tres = field(default_factory=dict)
    """``GrpTRESRunMins``."""
    group_minutes: Tres = field(default_factory=dict)
    """``GrpTRESMins``: what may be used in all, less what decays."""
    per_job: Tres = field(default_factory=dict)
    """``MaxTRES``, ``MaxTRESPerJob``."""
    per_node: Tres = field(default_factory=dict)
    max_seconds: float | None = None
    """``MaxWall``."""
    per_user: Tres = field(default_factory=dict)
    """``MaxTRESPU``."""
    jobs_per_user: int | None = None
    """``MaxJobsPU``, and an association's ``MaxJobs``."""
    per_account: Tres = field(default_factory=dict)
    jobs_per_account: int | None = None
    least: Tres = field(default_factory=dict)
    """``MinTRES`` of a job."""


@dataclass(frozen=True, slots=True)
class Qos:
    """A quality of service."""

    __pydantic_config__ = _STRICT

    name: str
    priority: float = 0.0
    preempts: frozenset[str] = frozenset()
    preempt_mode: str = ""
    """``CANCEL``, ``REQUEUE``, ``OFF``; empty where the cluster's holds."""
    grace_seconds: float = 0.0
    exempt_seconds: float | None = None
    usage_factor: float = 1.0
    flags: frozenset[str] = frozenset()
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Association:
    """A place in the tree of accounts: an account (``user`` is empty) or a user of one."""

    __pydantic_config__ = _STRICT

    account: str
    user: str = ""
    partition: str = ""
    parent: str = ""
    """The parent account; of a user the account itself."""
    shares: float | None = 1.0
    """``Share``; ``None`` for ``parent``, whose share is the account's."""
    qos: frozenset[str] = frozenset()
    """QOS that may be used, where the association names them itself."""
    default_qos: str = ""
    priority: float = 0.0
    limits: Limits = field(default_factory=Limits)
    usage: float | None = None
    """Decayed usage (``UsageRaw``), where it was read."""
    fair_share: float | None = None
    """The fair-share factor, 0 to 1, where ``sshare`` said it."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """Nodes or licences that are kept from some moment to another."""

    __pydantic_config__ = _STRICT

    name: str
    start: float
    end: float
    nodes: tuple[str, ...] = ()
    flags: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()
    accounts: frozenset[str] = frozenset()
    qos: frozenset[str] = frozenset()
    partition: str = ""
    licences: Mapping[str, float] = field(default_factory=dict)
    tres: Tres = field(default_factory=dict)
    features: str = ""


@dataclass(frozen=True)
class Site:
    """A cluster and the configuration of its scheduler."""

    __pydantic_config__ = _STRICT

    cluster: str
    version: str = ""
    config: Config = field(default_factory=Config)
    nodes: tuple[Node, ...] = ()
    partitions: tuple[Partition, ...] = ()
    qos: tuple[Qos, ...] = ()
    associations: tuple[Association, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    licences: Mapping[str, float] = field(default_factory=dict)
    """Totals by name."""
    remarks: tuple[str, ...] = ()
    """One sentence each: what was not there to read, and what still works."""

    @property
    def title(self) -> str:
        """Slurm with its version."""
        return f"Slurm {self.version}".strip()

    @property
    def about(self) -> str:
        """Its nodes, GPUs and partitions in words."""
        gpus = sum(sum(node.gpus.values()) for node in self.nodes)
        return f"{len(self.nodes)} nodes, {gpus} GPUs, {len(self.partitions)} partitions"

    @property
    def pools(self) -> tuple[Pool, ...]:
        """Accounts with a limit of GPUs."""
        return tuple(
            Pool(one.account, one.limits.group["gres/gpu"])
            for one in self.associations
            if not one.user and "gres/gpu" in one.limits.group
        )

    @property
    def shown(self) -> tuple[Node, ...]:
        """Its nodes."""
        return self.nodes

    @property
    def launch_seconds(self) -> float:
        """Seconds by which times of jobs that start at once are off."""
        return self.config.scheduler_number("bf_interval", 30.0) + _LAUNCH

    def at(self, snapshot: "Snapshot") -> "Site":
        """The site with nodes, reservations and usage as a snapshot has them."""
        planned = snapshot.reservations
        return replace(
            self,
            nodes=snapshot.nodes or self.nodes,
            reservations=self.reservations if planned is None else planned,
            associations=snapshot.associations or self.associations,
        )

    @cached_property
    def _limits(self) -> dict[str, float]:
        """The limit of jobs without their own, by partition."""
        usual = ((one.name, one.default_seconds or one.max_seconds) for one in self.partitions)
        return {name: limit for name, limit in usual if limit}

    def limit_of(self, job: "Job") -> float | None:
        """The longest that a job may run, in seconds: its own limit, else its partition's."""
        if job.limit_seconds:
            return job.limit_seconds
        limits = self._limits
        return min((limits[name] for name in job.partitions if name in limits), default=None)

    def groups(self, job: "Job") -> list[attach.Group]:
        """Run times are alike in an array, then by user, name and limit."""
        limit = self.limit_of(job)
        of_all: list[attach.Group] = [
            (job.user, job.name, limit),
            (job.user, job.name),
            (job.user,),
            (),
        ]
        return of_all if job.array is None else [("array", job.array, job.user, limit), *of_all]

    def kinds(self, job: "Job") -> tuple[str, ...]:
        """Times are alike by reason, QOS, and whether jobs may be stopped."""
        if job.running:
            return "runs", job.qos
        return f"waits {job.reason}", job.qos, f"stopped {self.preemptible(job)}"

    def preemptible(self, job: "Job") -> bool:
        """Whether some other job may stop it."""
        kind = self.config.text("PreemptType")
        if kind.endswith("qos"):
            return any(job.qos in one.preempts for one in self.qos)
        if kind.endswith("partition_prio"):
            own = [one for one in self.partitions if one.name in job.partitions]
            highest = max((one.tier for one in self.partitions), default=0)
            return any(one.tier < highest and one.preempt_mode != "OFF" for one in own)
        return False


_LAUNCH = 20.0
"""Seconds from a start to the job's first second."""
