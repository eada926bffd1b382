"""Who really occupies which GPU, whatever the scheduler has decided meanwhile.

A decision says who holds what from now on; the processes follow. A job's *due* is what it was given and
does not have yet; its *attempt* is what it really runs, or ran and has not left. An attempt leaves its GPUs
only when an executor says so, and a due becomes an attempt only when all its GPUs are free and the job's last
attempt is gone. So no GPU is held by two and no job runs twice at once, by construction.

The books are a fold of the journal: `take` of facts, `decided` of decisions, `begin` of what has become free.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto

from volvelle.core.decision import Decision
from volvelle.core.state import Resources
from volvelle.live.messages import AttemptEnded, AttemptStarted, Grant, Stop
from volvelle.live.records import Fact, Vacated


class Phase(Enum):
    """How far an attempt is."""

    STARTING = auto()  # its start was ordered
    RUNNING = auto()
    STOPPING = auto()  # its end was ordered


@dataclass(slots=True)
class Attempt:
    """One run of a job: ``number`` of the job, ``attempt`` counted by grants.

    of: the attempt as the scheduler counts, to whom a resize is not another one. slots: what it occupies
    still. since: when its start was ordered. work and iterations: of the job, safe at its start.
    """

    number: int
    attempt: int
    of: int
    granted: tuple[int, ...]
    slots: set[int]
    since: float
    work: float
    iterations: int
    phase: Phase = Phase.STARTING
    killed: bool = False

    @property
    def wanted(self) -> bool:
        """Whether nobody has ordered its end."""
        return self.phase is not Phase.STOPPING

    @property
    def stop(self) -> Stop:
        """The order to end it."""
        return Stop(self.number, self.attempt, kill=self.killed)


@dataclass(frozen=True, slots=True)
class Due:
    """GPUs that a job was given, to be had as soon as they are free. ``work``: believed done until then."""

    number: int
    attempt: int
    of: int
    slots: tuple[int, ...]
    work: float


@dataclass
class Tenancy:
    """The books. ``resources``: the scheduler's, which number the GPUs."""

    resources: Resources
    attempts: dict[int, Attempt] = field(default_factory=dict)
    """By number of the job: at most one each."""
    due: dict[int, Due] = field(default_factory=dict)
    occupied: dict[int, int] = field(default_factory=dict)
    """Slots and the numbers of the jobs on them."""
    waived: dict[int, Due] = field(default_factory=dict)
    """What was taken away again before it was had, until the scheduler is told so."""
    moved: set[int] = field(default_factory=set)
    """Slots on which somebody came or went, for whoever shows the nodes to clear."""
    _grants: Counter[int] = field(default_factory=Counter)

    def current(self, number: int, attempt: int) -> Attempt | None:
        """The attempt with this number, if it is not over."""
        found = self.attempts.get(number)
        return found if found is not None and found.attempt == attempt else None

    # ------------------------------------------------------------------ the fold

    def take(self, fact: Fact) -> None:
        """Let something have happened to attempts."""
        match fact:
            case AttemptStarted():
                started = self.current(fact.number, fact.attempt)
                if started is not None and started.phase is Phase.STARTING:
                    started.phase = Phase.RUNNING
            case AttemptEnded():
                if ended := self.current(fact.number, fact.attempt):
                    self._free(ended, ended.slots)
            case Vacated():
                if left := self.current(fact.number, fact.attempt):
                    left.phase, left.killed = Phase.STOPPING, True
                    self._free(left, left.slots & self.slots_of(fact.node))

    def decided(self, decision: Decision, work: Callable[[int], float]) -> list[Stop]:
        """Let ``decision`` rule: the orders to end what it does not want any more.

        work: believed done by a job, by its number.
        """
        stops: list[Stop] = []
        for row, (number, gpus) in enumerate(
            zip(decision.job.tolist(), decision.gpus.tolist(), strict=True)
        ):
            before = self.due.pop(number, None)
            if gpus > 0.0:
                slots = tuple(decision.slots_of(row).tolist())
                self._grants[number] += 1
                of, safe = int(decision.attempt[row]), work(number)
                self.due[number] = Due(number, self._grants[number], of, slots, safe)
            elif before is not None:
                self.waived[number] = before
            stops += self._stop(number, kill=False)
        for rejection in decision.rejected:
            stops += self.withdraw(rejection.number, kill=True)
        for conclusion in decision.concluded:
            stops += self.withdraw(conclusion.number, kill=False)
        return stops

    def withdraw(self, number: int, *, kill: bool) -> list[Stop]:
        """Let a job have nothing any more: the order to end it, if it runs."""
        self.due.pop(number, None)
        return self._stop(number, kill=kill)

    def forget(self, number: int) -> None:
        """A job is over."""
        self.waived.pop(number, None)
        self._grants.pop(number, None)

    def begin(self, time: float) -> list[Attempt]:
        """Turn each due whose GPUs are free into an attempt, its start ordered at ``time``.

        Its iterations are for the caller to fill in.
        """
        begun: list[Attempt] = []
        for due in list(self.due.values()):
            if due.number in self.attempts or any(slot in self.occupied for slot in due.slots):
                continue
            del self.due[due.number]
            attempt = Attempt(
                due.number, due.attempt, due.of, due.slots, set(due.slots), time, due.work, 0
            )
            self.attempts[due.number] = attempt
            self.occupied.update(dict.fromkeys(due.slots, due.number))
            self.moved.update(due.slots)
            begun.append(attempt)
        return begun

    def _stop(self, number: int, *, kill: bool) -> list[Stop]:
        attempt = self.attempts.get(number)
        if attempt is None or (attempt.phase is Phase.STOPPING and (attempt.killed or not kill)):
            return []
        attempt.phase, attempt.killed = Phase.STOPPING, kill
        return [attempt.stop]

    def _free(self, attempt: Attempt, slots: set[int]) -> None:
        for slot in slots:
            del self.occupied[slot]
        self.moved.update(slots)
        attempt.slots = attempt.slots - slots
        if not attempt.slots:
            del self.attempts[attempt.number]

    # ------------------------------------------------------------------ slots and nodes

    def slots_of(self, node: str) -> set[int]:
        """The slots of a node."""
        index = self.resources.index.get(node)
        if index is None:
            return set()
        first, last = self.resources.first_slot[index : index + 2].tolist()
        return set(range(first, last))

    def on_node(self, node: str) -> list[Attempt]:
        """The attempts with a GPU on a node."""
        numbers = {self.occupied[slot] for slot in self.slots_of(node) if slot in self.occupied}
        return [self.attempts[number] for number in sorted(numbers)]

    def grants(self, slots: tuple[int, ...]) -> tuple[Grant, ...]:
        """GPUs by node, as executors call them."""
        resources = self.resources
        by_node: dict[int, list[int]] = {}
        for slot in sorted(slots):
            node = int(resources.slot_node[slot])
            by_node.setdefault(node, []).append(slot - int(resources.first_slot[node]))
        return tuple(Grant(resources.names[node], tuple(gpus)) for node, gpus in by_node.items())
