"""Jobs as Slurm's controller knows them, and their places in its queue."""

from dataclasses import dataclass

from volvelle.incumbents.slurm.shapes import Share
from volvelle.incumbents.slurm.site import Partition
from volvelle.incumbents.slurm.snapshot import Job
from volvelle.model.arrays import Bools

FOREVER = float("inf")


@dataclass(slots=True, eq=False)
class Place:
    """A job in one of its partitions. demand: the number of what it takes there. row: in the queue."""

    entry: "Entry"
    partition: Partition
    demand: int
    row: int


@dataclass(slots=True, eq=False)
class Entry:
    """A job in the controller. Times are seconds on the run's clock.

    limit: seconds. eligible: it does not start before. accrue: from when its age counts. after: jobs that
    have to end first, by key. barred: the rule by which it never starts as it stands. turn: the order of
    entering. waits_for_time_only: nothing but ``eligible`` keeps it from coming into question. allowed: nodes
    that will do (None: all). fixed_priority: as it was read. shares: what it holds, None while it waits;
    cpus: of these. counted: until when they are part of its usage.
    """

    number: int
    job: Job
    limit: float
    partitions: tuple[Partition, ...]
    eligible: float
    accrue: float
    held: bool = False
    after: frozenset[str] = frozenset()
    barred: str = ""
    turn: int = 0
    waits_for_time_only: bool = False
    allowed: Bools | None = None
    fixed_priority: float | None = None
    shares: list[Share] | None = None
    partition: str = ""
    start: float = 0.0
    counted: float = 0.0
    cpus: float = 0.0

    @property
    def is_singleton(self) -> bool:
        """Whether it waits for jobs of the same name and user (sbatch(1), ``--dependency``)."""
        return "singleton" in self.job.dependency

    @property
    def ends(self) -> float:
        """When it is believed to end at the latest, by its limit."""
        return self.start + self.limit
