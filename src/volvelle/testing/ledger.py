"""An auditor's ledger: the holdings that were decided, and what came of them.

Filled by `audit` from events and decisions alone, as the run goes; read by `lives` when it is over.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from volvelle.core.events import BatchSizeChanged, JobFailed
from volvelle.model.node import NodeKind
from volvelle.testing.scenario import Scenario

TOLERANCE = 1e-9

Amounts = tuple[float, float]
"""CPUs and GB of memory; infinite where nodes do not say what they have."""


@dataclass
class Holding:
    """One job with one set of GPUs, from the decision that gave them to their being free."""

    number: int
    attempt: int
    gpus: float
    kind: NodeKind
    slots: tuple[int, ...]
    decided: float
    resized: bool
    place: tuple[int, int]  # its decision, of which several may be of one time, and the row there
    partner: int = -1  # the job with which it shares its GPUs, each holding one half; -1: none
    in_place: bool = False  # the job goes on where it was, with another partner or none
    started: float | None = None  # told by JobStarted; None: at once
    never: bool = False  # taken away before its GPUs were free
    ended: float = math.nan
    free_at: float = math.nan
    end: str = ""
    amounts: list[tuple[float, Amounts]] = field(default_factory=list)
    """From when on it had how many CPUs and GB of memory per GPU."""

    @property
    def part(self) -> float:
        """How much of each of its GPUs it holds: less than all of one by a job that asks for less."""
        return min(self.gpus, 1.0)

    @property
    def start(self) -> float:
        """When it physically held the GPUs, where it ever did."""
        return self.decided if self.started is None else self.started


@dataclass
class Books:
    """The auditor's knowledge of one job."""

    holdings: list[Holding] = field(default_factory=list)
    failures: list[JobFailed] = field(default_factory=list)
    batch_changes: list[BatchSizeChanged] = field(default_factory=list)
    attempts: int = 0
    finish: float = math.nan
    concluded: bool = False  # ended by a rule, before its work was done


class Ledger:
    """Of one run of ``scenario``: the books of each job, by number, and what concerns all."""

    def __init__(self, scenario: Scenario) -> None:
        self.jobs = scenario.jobs
        self.cluster = scenario.cluster
        self.overheads = scenario.setting.overheads
        self.node_of = [n for n, node in enumerate(self.cluster.nodes) for _ in range(node.gpus)]
        self.books: dict[int, Books] = defaultdict(Books)
        self.rejected: dict[int, str] = {}
        self.downs: list[tuple[float, int]] = []
        self.submitted = 0

    def nodes(self, slots: Iterable[int]) -> set[int]:
        """The nodes on which GPUs are."""
        return {self.node_of[slot] for slot in slots}

    def slowdowns(self, holding: Holding) -> Iterator[float]:
        """How much slower than a typical GPU each of those is that a job holds."""
        variability, nodes = self.jobs[holding.number].spec.variability, self.cluster.nodes
        for slot in holding.slots:
            at = self.node_of[slot]
            first = sum(node.gpus for node in nodes[:at])
            yield dict(nodes[at].slowdowns).get(variability, (1.0,) * nodes[at].gpus)[slot - first]

    def gpus_of(self, kind: NodeKind) -> int:
        """The GPUs of all nodes of a kind, up or down."""
        return sum(node.gpus for node in self.cluster.nodes if node.kind == kind)
