"""A cluster with Slurm as it is now: its jobs, and all that a poll saw (`Snapshot`); units as in `site`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from volvelle.incumbents.attach import incumbent as attach
from volvelle.incumbents.slurm.site import Association, Node, Reservation, Tres
from volvelle.model.job_number import job_number


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(attach.Job):
    """A job, or one task of an array, as ``scontrol show job`` tells it; ``key`` as ``sacct`` writes it."""

    id: int
    """``JobId``; tasks of an array that have not been split off yet share one."""
    array: int | None = None
    throttle: int | None = None
    """Most tasks of the array at once."""
    partitions: tuple[str, ...] = ()
    """Partitions that the job names; once it runs, the one it runs in."""
    priority: float | None = None
    nice: float = 0.0
    dependency: str = ""
    """``afterok:53(unfulfilled)``, ``singleton(unfulfilled)``; empty without one."""
    requeue: bool = True
    accrue: float | None = None
    """From when its age counts."""
    required_nodes: tuple[str, ...] = ()
    excluded_nodes: tuple[str, ...] = ()
    least_nodes: int = 1
    most_nodes: int = 1
    tasks: int = 1
    cpus_per_task: float = 1.0
    tasks_per_node: int = 0
    """0 where the job does not say."""
    least_cpus_per_node: float = 0.0
    memory_per_cpu: float | None = None
    memory_per_node: float | None = None
    """MB; at most one of these two, where the job or the configuration says one."""
    asked: Tres = field(default_factory=dict)
    """``ReqTRES``, of all its nodes; before 23.11 the only resources that a pending job shows (``TRES``)."""
    held: Tres = field(default_factory=dict)
    """``AllocTRES``."""
    per_job: Tres = field(default_factory=dict)
    """``TresPerJob``, as are the next two: GPUs asked in this way."""
    per_node: Tres = field(default_factory=dict)
    per_task: Tres = field(default_factory=dict)
    features: str = ""
    exclusive: bool = False
    licences: Mapping[str, float] = field(default_factory=dict)
    reservation: str = ""
    contiguous: bool = False
    admin_comment: str = ""

    @property
    def number(self) -> int:
        """The number of its JobId and task."""
        return job_number(self.key)

    @property
    def queue(self) -> str:
        """Its partitions, with commas."""
        return ",".join(self.partitions)

    @property
    def held_back(self) -> bool:
        """Whether its user or an administrator holds it."""
        return self.reason in HELD

    @property
    def request(self) -> dict[str, Any]:
        """The request as the HTTP API shows it."""
        usual = {"time_limit": self.limit_seconds, "cpus": self.cpus}
        return usual | {"pool": self.account, "nodes": self.least_nodes}

    @property
    def gpus(self) -> float:
        """GPUs that it asks for, or holds, in all.

        Slurm counts them where it keeps account of ``gres/gpu``; elsewhere only the request tells.
        """
        counted = _gpus(self.held if self.running and self.held else self.asked)
        return (
            counted
            or _gpus(self.per_job)
            or _gpus(self.per_node) * self.least_nodes
            or _gpus(self.per_task) * self.tasks
        )


HELD = ("JobHeldUser", "JobHeldAdmin")
"""Reasons of jobs that somebody has to release."""


def _gpus(tres: Tres) -> float:
    return tres.get("gres/gpu") or sum(
        amount for name, amount in tres.items() if name.startswith("gres/gpu:")
    )


@dataclass(frozen=True)
class Snapshot(attach.Snapshot[Job]):
    """All that a poll saw of a cluster with Slurm."""

    nodes: tuple[Node, ...] = ()
    """As they are now; empty where they were not asked for, and the site's hold."""
    reservations: tuple[Reservation, ...] | None = None
    associations: tuple[Association, ...] = ()
    """With their usage; empty where they were not asked for this time."""
