"""The facets that attach needs of a scheduler: its jobs, nodes, site and snapshots, and what reads them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

from volvelle.core.systems import brought
from volvelle.model.pool import Pool

Answers = Mapping[str, Any]
"""The answers of a scheduler by kind: texts, or objects."""
Records = dict[str, dict[str, Any]]
"""Records of a kind by name, each with its fields."""
Group = tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as its scheduler shows it. Moments are seconds since 1970; None: not known."""

    key: str
    """The name by which its scheduler knows it: ``12``, ``12_3``, ``team-a/train``."""
    submit: float
    """The last submission: a requeue moves it."""
    name: str = ""
    user: str = ""
    account: str = ""
    qos: str = ""
    state: str = "PENDING"
    """``PENDING``, ``RUNNING``, ``COMPLETED``, ``FAILED``, ``CANCELLED`` or another word of Slurm's."""
    reason: str = ""
    """Why it waits, in its scheduler's word; empty where it has none."""
    task: int | None = None
    """The number of a task of an array."""
    restarts: int = 0
    """How often it was requeued."""
    limit_seconds: float | None = None
    eligible: float | None = None
    start: float | None = None
    """When it started, or for a pending job when its scheduler expects it to."""
    end: float | None = None
    nodes: tuple[str, ...] = ()
    """Where it runs."""
    cpus: float = 1.0

    @property
    def pending(self) -> bool:
        """Whether it waits."""
        return self.state == "PENDING"

    @property
    def running(self) -> bool:
        """Whether it holds its nodes."""
        return self.state in HOLDS

    @property
    def number(self) -> int:
        """The number by which the HTTP API knows it."""
        raise NotImplementedError

    @property
    def queue(self) -> str:
        """The queue or the partitions in which it waits."""
        raise NotImplementedError

    @property
    def gpus(self) -> float:
        """GPUs that it asks for, or holds, in all."""
        raise NotImplementedError

    @property
    def held_back(self) -> bool:
        """Whether it waits until somebody releases it."""
        raise NotImplementedError

    @property
    def said(self) -> str:
        """Its scheduler's reason, with what else it says about it."""
        return self.reason

    @property
    def request(self) -> dict[str, Any]:
        """The request as the HTTP API shows it."""
        return {"time_limit": self.limit_seconds, "cpus": self.cpus}


HOLDS = frozenset(("RUNNING", "COMPLETING", "SUSPENDED", "CONFIGURING", "STOPPED", "SIGNALING"))
"""States in which a job holds its nodes."""

JobT = TypeVar("JobT", bound=Job)


@dataclass(frozen=True)
class Snapshot(Generic[JobT]):
    """All that a poll saw."""

    time: float
    """By the clock of the machine that asked."""
    jobs: tuple[JobT, ...] = ()
    remarks: tuple[str, ...] = ()
    """One sentence each: what could not be read."""


class Node(Protocol):
    """A node, or what else GPUs are granted from."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def gpus(self) -> Mapping[str, int]:
        """GPUs by type."""

    @property
    def features(self) -> Iterable[str]:
        """Its labels."""

    @property
    def usable(self) -> bool:
        """Whether new jobs may start on it."""

    @property
    def down(self) -> bool:
        """Whether it is lost."""


class Site(Protocol):
    """The part of a cluster that changes seldom, and the rules by which its jobs are alike."""

    @property
    def cluster(self) -> str:
        """Its name."""

    @property
    def remarks(self) -> Sequence[str]:
        """One sentence each: what was not there to read, and what still works."""

    @property
    def title(self) -> str:
        """The scheduler with its version: ``Slurm 22.05.8``."""

    @property
    def about(self) -> str:
        """Its nodes, GPUs and queues in words."""

    @property
    def pools(self) -> Sequence[Pool]:
        """Accounts or queues with an amount of GPUs of their own."""

    @property
    def shown(self) -> Sequence[Node]:
        """Nodes, as the HTTP API shows them."""

    @property
    def launch_seconds(self) -> float:
        """Seconds by which times of jobs that start at once are off."""

    def at(self, snapshot: Any, /) -> Self:
        """The site with what a snapshot saw of it."""

    def limit_of(self, job: Any, /) -> float | None:
        """The longest that a job may run, in seconds; None: it has no limit."""

    def groups(self, job: Any, /) -> list[Group]:
        """Classes in which run times are alike, the narrowest first, the last of all jobs."""

    def kinds(self, job: Any, /) -> tuple[str, ...]:
        """Up to three classes in which times are alike."""


class Course(Protocol):
    """The expectation of a mechanism about a job: seconds since 1970, None where it foresees none."""

    @property
    def start(self) -> float | None:
        """The next start."""

    @property
    def end(self) -> float | None:
        """The end."""

    @property
    def why(self) -> str:
        """The cause that keeps it waiting; empty where none is known."""


@dataclass(frozen=True, slots=True)
class Expected:
    """When a job is expected to start (next) and to end; None: not foreseen. why: what it waits for now."""

    start: float | None
    end: float | None
    why: str = ""


SiteT = TypeVar("SiteT", bound=Site)
SnapshotT = TypeVar("SnapshotT", bound=Snapshot[Any])
Mechanism = Callable[[SiteT, SnapshotT, Mapping[str, float]], Mapping[str, Course]]
"""Starts and ends of the jobs of a snapshot by key, if jobs take so many seconds and nobody else comes."""


@dataclass(frozen=True, slots=True)
class Naive:
    """The times beside which ours are judged: those of the scheduler itself, or of a simple rule.

    key: in names of figures and columns. head: of the column. word: in sentences. told: whether the scheduler
    tells them, as the ``start`` of jobs that wait; otherwise the mean of the latest waits of a job's queue.
    """

    key: str
    head: str
    word: str
    told: bool = True


@dataclass(frozen=True)
class Incumbent(Generic[SiteT, SnapshotT]):
    """A scheduler to which attach attaches.

    polled: the kinds that are asked for at each poll, with the field that names a record. records, answer: an
    answer as records without what is not kept, and back. kept: an answer that describes the site, less what
    is not kept. changed: a site and a snapshot after changes as its own tools write them; raises `Problem`.
    examples: such changes of a site, each with what it is in words.
    """

    name: str
    title: str
    titles: Mapping[str, str]
    """Its words within a sentence: for the fields of `AttachedView` that its jobs have, and for ``node``."""
    naive: Naive
    polled: Mapping[str, str]
    records: Callable[[str, Any], Records]
    answer: Callable[[str, Records], Any]
    kept: Callable[[str, Any], Any]
    site: Callable[[Answers], SiteT]
    snapshot: Callable[[Answers, float], SnapshotT]
    foresee: Mechanism[SiteT, SnapshotT]
    changed: Callable[[SiteT, SnapshotT, Sequence[str]], tuple[SiteT, SnapshotT]]
    examples: Callable[[SiteT], Iterable[tuple[str, str]]] = lambda site: ()


def incumbent(name: str) -> Incumbent[Any, Any]:
    """The scheduler of a name. Raises `Problem` where none is."""
    found: Incumbent[Any, Any] = brought("attached", name)()
    return found
