"""Choice of jobs and nodes on a profiling partition, and conclusions from its measurements.

Jobs come first, served first (Chronus, SoCC'21, section 3.2). A job wider than a node is run on one node and
on two, one after the other, and its iterations on n nodes are taken to last ``t_n = t_1 + log2(n) (t_2 -
t_1)`` (section 3.2.2). The submissions of one user in an interval are limited (section 3.2.1).

A world tells what happens and carries out what `Partition.next_run` says; times are seconds on its clock, and
jobs are known by their numbers. Departures: a user's job that alone requests more than the limit passes once
nothing else of the user has in an interval (the paper does not say). CPUs and memory are not limited. With a
partition of one node there is no run on two, and ``t_2`` is taken for ``t_1``.
"""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from volvelle.model.cluster import Profiling
from volvelle.model.tolerances import SAME_AMOUNT


class Run(NamedTuple):
    """Job ``number`` on one node or two, with ``gpus`` GPUs in all."""

    number: int
    nodes: int
    gpus: float

    @property
    def on_each(self) -> float:
        """GPUs that are kept for it on each node: whole ones where it has several nodes."""
        return self.gpus if self.nodes == 1 else math.ceil(self.gpus / self.nodes - SAME_AMOUNT)


@dataclass
class PartitionNode:
    """A node of the partition. since: when it is there, or will be. leaving: nothing new starts on it."""

    name: str
    gpus: float
    free: float
    since: float = math.inf
    leaving: bool = False

    @property
    def idle(self) -> bool:
        """Whether nothing runs on it."""
        return self.free >= self.gpus - SAME_AMOUNT


@dataclass
class Partition:
    """The partition: ``spec`` says how it is used, ``nodes`` have ``node_gpus`` GPUs each.

    runs: those that hold GPUs, by job.
    """

    spec: Profiling
    node_gpus: float
    nodes: list[PartitionNode]
    runs: dict[int, tuple[Run, list[PartitionNode]]] = field(default_factory=dict)
    _queue: dict[int, Run] = field(default_factory=dict)
    _ahead: dict[int, Run] = field(default_factory=dict)
    """Jobs before the queue, because they ran already: the last of them first."""
    _gpus: dict[int, float] = field(default_factory=dict)
    """GPUs that the jobs here request."""
    _one_node: dict[int, float] = field(default_factory=dict)
    """Seconds of an iteration on one node, of jobs that are to run on two."""
    _kept_back: list[tuple[float, int, int]] = field(default_factory=list)
    """Jobs that may not queue yet: from when on, in which order they came, which."""
    _came: int = 0
    _taken: dict[str, tuple[int, float]] = field(default_factory=dict)
    """By user: the last interval in which jobs may queue, and the GPUs that they request."""
    _asked: list[tuple[float, float]] = field(default_factory=list)
    """When jobs queued of late, and the GPUs of their runs."""

    @classmethod
    def of(cls, spec: Profiling, nodes: Sequence[str], node_gpus: int) -> "Partition":
        """The partition of the nodes with these names, on which nothing runs."""
        gpus = float(node_gpus)
        return cls(spec, gpus, [PartitionNode(name, gpus, gpus) for name in nodes])

    def __post_init__(self) -> None:
        here = {node.name: node for node in self.nodes}
        self.runs = {
            number: (run, [here[node.name] for node in nodes])
            for number, (run, nodes) in self.runs.items()
        }

    def __contains__(self, number: int) -> bool:
        return number in self._gpus

    @property
    def idle(self) -> bool:
        """Whether nobody is here."""
        return not self._gpus

    # ------------------------------------------------------------------ who comes and goes

    def arrive(self, number: int, user: str, gpus: float, now: float) -> float:
        """A job was submitted; from when on it may queue."""
        self._gpus[number] = gpus
        self._came += 1
        released = self._released(user, gpus, now)
        heapq.heappush(self._kept_back, (released, self._came, number))
        return released

    def _released(self, user: str, gpus: float, now: float) -> float:
        """When a job may queue: submission control (section 3.2.1)."""
        limit, every = self.spec.user_gpus, self.spec.seconds
        if limit is None or not user:
            return now
        interval, asked = self._taken.get(user, (-1, 0.0))
        if (current := math.floor(now / every)) > interval:
            interval, asked = current, 0.0
        if asked > 0.0 and asked + gpus > limit + SAME_AMOUNT:
            interval, asked = interval + 1, 0.0
        self._taken[user] = interval, asked + gpus
        return max(now, interval * every)

    def leave(self, number: int) -> None:
        """A job is not to run here any more; GPUs that it holds are free only at `over`."""
        del self._gpus[number]
        for known in (self._one_node, self._queue, self._ahead):
            known.pop(number, None)

    def next_release(self) -> float:
        """When the next job may queue that may not yet; infinity where there is none."""
        return self._kept_back[0][0] if self._kept_back else math.inf

    def kept_back(self, number: int, now: float) -> bool:
        """Whether a job may not queue yet, because its user submitted much."""
        return any(who == number and released > now for released, _, who in self._kept_back)

    # ------------------------------------------------------------------ runs

    def next_run(self, now: float) -> tuple[Run, list[PartitionNode]] | None:
        """The first in the queue and the nodes it is to run on, where there is room for it; then `begin`."""
        self._release(now)
        run = next(reversed(self._ahead.values()), None) or next(iter(self._queue.values()), None)
        if run is None:
            return None
        fit = [
            node
            for node in self.nodes
            if node.since <= now and not node.leaving and node.free >= run.on_each - SAME_AMOUNT
        ][: run.nodes]
        return (run, fit) if len(fit) == run.nodes else None

    def _release(self, now: float) -> None:
        """Let jobs queue that may by now."""
        while self._kept_back and self._kept_back[0][0] <= now:
            _, _, number = heapq.heappop(self._kept_back)
            if number in self._gpus:
                run = self._queue[number] = self._run(number, 1)
                wide = self._run(number, 2).gpus if self._runs_on_two(number) else 0.0
                self._asked.append((now, run.gpus + wide))

    def _run(self, number: int, nodes: int) -> Run:
        return Run(number, nodes, min(self._gpus[number], nodes * self.node_gpus))

    def _runs_on_two(self, number: int) -> bool:
        return self._gpus[number] > self.node_gpus and self.spec.nodes > 1

    def begin(self, run: Run, nodes: list[PartitionNode], now: float) -> None:
        """A run that `next_run` named has these nodes now."""
        self._release(now)
        number = run.number
        self._queue.pop(number, None)
        self._ahead.pop(number, None)
        for node in nodes:
            node.free -= run.on_each
        self.runs[number] = run, nodes

    def over(self, number: int) -> tuple[Run, list[PartitionNode]]:
        """The run of a job is over, and its GPUs are free."""
        run, nodes = self.runs.pop(number)
        for node in nodes:
            node.free += run.on_each
        return run, nodes

    def repeat(self, run: Run) -> None:
        """A run was cut short for no fault of its job: it is next."""
        self._ahead[run.number] = run

    def conclude(self, run: Run, iteration_seconds: float) -> float | None:
        """A run's measurement (NaN: none) as seconds of an iteration on the GPUs that its job requests.

        None where the job is to run on two nodes next, and goes to the head of the queue.
        """
        number = run.number
        if run.nodes == 1 and self._runs_on_two(number):
            self._one_node[number] = iteration_seconds
            self._ahead[number] = self._run(number, 2)
            return None
        if run.nodes == 1:
            return iteration_seconds
        wanted = math.ceil(self._gpus[number] / self.node_gpus - SAME_AMOUNT)
        first = self._one_node[number]
        return first + math.log2(wanted) * (iteration_seconds - first)

    # ------------------------------------------------------------------ how large it should be

    def nodes_wanted(self, now: float) -> int:
        """Nodes by ``C >= lambda T``, where lambda is that of the last ``resize_every`` seconds."""
        spec = self.spec
        self._asked = [one for one in self._asked if one[0] > now - spec.resize_every]
        needs = sum(gpus for _, gpus in self._asked) * spec.seconds / spec.resize_every
        return min(max(math.ceil(needs / self.node_gpus - SAME_AMOUNT), spec.nodes), spec.most)
