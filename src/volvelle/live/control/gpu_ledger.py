"""The GPU ledger: which attempt occupies which GPU, which may lag behind the scheduler's decisions.

A decision says which job holds which GPUs from now on; the processes follow later. A job's *pending grant* is
what a decision gave it and it does not have yet. Its *attempt* is what runs, or ran and has not released its
GPUs. An attempt releases GPUs only when an executor reports it. A pending grant becomes an attempt only when
all its GPUs are free and the job's last attempt has ended. So no GPU is held twice and no job runs twice at
once, by construction.

The ledger follows from the journal alone: `apply_record`, `apply_decision`, `start_pending`.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import NamedTuple

from volvelle.core.decision import Decision
from volvelle.core.events import TrainingReported
from volvelle.core.resources import Resources
from volvelle.live.messages import AttemptEnded, AttemptKey, AttemptStarted, Grant, OfAttempt, Stop
from volvelle.live.records import AttemptLostNode, ControlRecord
from volvelle.model.node import Node

PARTITION = 1 << 40
"""The slot of the first GPU of the profiling partition, which the scheduler does not number."""


class AttemptPhase(Enum):
    """Phase of an attempt."""

    STARTING = auto()  # its start was ordered
    RUNNING = auto()
    STOPPING = auto()  # its end was ordered


@dataclass(slots=True)
class Attempt:
    """One run of job ``number``. ``attempt`` counts grants.

    identity: see `AttemptKey`. scheduler_attempt: the attempt as the scheduler counts, for which a resize is
    no new attempt. granted,
    slots: GPUs at its start, and those it still occupies. since: when its start was ordered. work,
    iterations: of the job, saved at its start.
    """

    number: int
    attempt: int
    scheduler_attempt: int
    granted: tuple[int, ...]
    slots: set[int]
    since: float
    work: float
    iterations: int
    identity: str = ""
    phase: AttemptPhase = AttemptPhase.STARTING
    killed: bool = False

    @property
    def key(self) -> AttemptKey:
        """Its name."""
        return AttemptKey(self.number, self.attempt, self.identity)

    @property
    def profiles(self) -> bool:
        """Whether it runs on the profiling partition."""
        return self.granted[0] >= PARTITION

    @property
    def wanted(self) -> bool:
        """Whether its end was not ordered."""
        return self.phase is not AttemptPhase.STOPPING

    @property
    def stop(self) -> Stop:
        """The order to end it."""
        return Stop(*self.key, kill=self.killed)


@dataclass(frozen=True, slots=True)
class PendingGrant:
    """GPUs given to a job, which it gets once they are free. ``work``: estimated work done until then."""

    number: int
    attempt: int
    scheduler_attempt: int
    slots: tuple[int, ...]
    work: float


class LedgerMemory(NamedTuple):
    """The ledger in a snapshot. grant_counts: by number of the job."""

    attempts: tuple[Attempt, ...]
    pending: tuple[PendingGrant, ...]
    revoked: tuple[PendingGrant, ...]
    grant_counts: dict[int, int]


@dataclass
class GpuLedger:
    """The ledger. ``resources``: the scheduler's, which number the GPUs as slots.

    partition: nodes on which jobs are profiled first, whose GPUs are numbered from `PARTITION` on.
    """

    resources: Resources
    partition: tuple[Node, ...] = ()
    attempts: dict[int, Attempt] = field(default_factory=dict)
    """By number of the job: at most one each."""
    pending: dict[int, PendingGrant] = field(default_factory=dict)
    """By number of the job: at most one each."""
    occupied: dict[int, int] = field(default_factory=dict)
    """Occupied slots, with the numbers of the jobs on them."""
    revoked: dict[int, PendingGrant] = field(default_factory=dict)
    """Pending grants that were revoked, until the scheduler gets the event."""
    changed_slots: set[int] = field(default_factory=set)
    """Slots whose holder changed; cleared when node views are updated."""
    _grant_counts: Counter[int] = field(default_factory=Counter)

    def current(self, key: AttemptKey) -> Attempt | None:
        """This attempt, if it has not ended."""
        found = self.attempts.get(key.number)
        return found if found is not None and found.key == key else None

    def recorded(self, record: OfAttempt) -> Attempt | None:
        """The attempt that a record of the journal is about, if it has not ended.

        By its numbers: a journal gives none twice, and a replay does not know the identities of jobs that are
        over.
        """
        found = self.attempts.get(record.number)
        return found if found is not None and found.attempt == record.attempt else None

    def grants_of(self, number: int) -> int:
        """How often a job was given GPUs: the number of its latest attempt."""
        return self._grant_counts[number]

    @property
    def memory(self) -> "LedgerMemory":
        """All that it holds."""
        return LedgerMemory(
            tuple(self.attempts.values()),
            tuple(self.pending.values()),
            tuple(self.revoked.values()),
            dict(self._grant_counts),
        )

    def remember(self, memory: "LedgerMemory") -> None:
        """Hold what `memory` was."""
        self.attempts = {attempt.number: attempt for attempt in memory.attempts}
        self.pending = {grant.number: grant for grant in memory.pending}
        self.revoked = {grant.number: grant for grant in memory.revoked}
        self._grant_counts = Counter(memory.grant_counts)
        self.occupied = {
            slot: attempt.number for attempt in memory.attempts for slot in attempt.slots
        }

    # ------------------------------------------------------------------ the fold

    def apply_record(self, record: ControlRecord) -> None:
        """Apply a record about an attempt."""
        match record:
            case AttemptStarted():
                started = self.recorded(record)
                if started is not None and started.phase is AttemptPhase.STARTING:
                    started.phase = AttemptPhase.RUNNING
            case AttemptEnded():
                if ended := self.recorded(record):
                    self._release(ended, ended.slots)
            case AttemptLostNode():
                if attempt := self.recorded(record):
                    attempt.phase, attempt.killed = AttemptPhase.STOPPING, True
                    self._release(attempt, attempt.slots & self.slots_of(record.node))

    def apply_decision(self, decision: Decision, work: Callable[[int], float]) -> list[Stop]:
        """Apply a decision; the orders to end attempts that it no longer wants.

        work: estimated to be done by a job, by its number.
        """
        stops: list[Stop] = []
        for row, (number, gpus) in enumerate(
            zip(decision.job.tolist(), decision.gpus.tolist(), strict=True)
        ):
            if gpus > 0.0:
                self._forget_grant(number)
                slots = tuple(decision.slots_of(row).tolist())
                self._grant_counts[number] += 1
                self._note_grant(
                    PendingGrant(
                        number=number,
                        attempt=self._grant_counts[number],
                        scheduler_attempt=int(decision.attempt[row]),
                        slots=slots,
                        work=work(number),
                    )
                )
                stops += self._stop(number, kill=False)
            else:
                stops += self.take_back(number)
        for rejection in decision.rejected:
            stops += self.revoke(rejection.number, kill=True)
        for conclusion in decision.concluded:
            stops += self.revoke(conclusion.number, kill=False)
        return stops

    def grant_profile(self, number: int, slots: tuple[int, ...]) -> None:
        """Give a job GPUs of the profiling partition."""
        self._grant_counts[number] += 1
        self._note_grant(PendingGrant(number, self._grant_counts[number], 0, slots, 0.0))

    def take_back(self, number: int) -> list[Stop]:
        """Take all GPUs from a job that goes on later; the order to end its attempt at a checkpoint."""
        if (before := self._forget_grant(number)) is not None:
            self.revoked[number] = before
        return self._stop(number, kill=False)

    def note_work(self, report: TrainingReported) -> None:
        """Take over how far a job is to which this attempt's GPUs are given, but not yet free."""
        grant = self.pending.get(report.number)
        if grant is not None and grant.scheduler_attempt == report.attempt:
            self.pending[report.number] = replace(grant, work=report.work_done)

    def revoke(self, number: int, *, kill: bool) -> list[Stop]:
        """Take everything from a job; the order to end its attempt, if it has one."""
        self._forget_grant(number)
        return self._stop(number, kill=kill)

    def forget_job(self, number: int) -> None:
        """A job is over."""
        self.revoked.pop(number, None)
        self._grant_counts.pop(number, None)

    def start_pending(self, time: float, identity: Callable[[int], str]) -> list[Attempt]:
        """Turn each pending grant whose GPUs are free into an attempt, its start ordered at ``time``.

        identity: of a new attempt, by the job's number. The caller sets the attempts' iterations.
        """
        started: list[Attempt] = []
        for grant in list(self.pending.values()):
            if grant.number in self.attempts or any(slot in self.occupied for slot in grant.slots):
                continue
            del self.pending[grant.number]
            attempt = Attempt(
                number=grant.number,
                attempt=grant.attempt,
                scheduler_attempt=grant.scheduler_attempt,
                granted=grant.slots,
                slots=set(grant.slots),
                since=time,
                work=grant.work,
                iterations=0,
                identity=identity(grant.number),
            )
            self.attempts[grant.number] = attempt
            self.occupied.update(dict.fromkeys(grant.slots, grant.number))
            self.changed_slots.update(grant.slots)
            started.append(attempt)
        return started

    def _note_grant(self, grant: PendingGrant) -> None:
        self.pending[grant.number] = grant
        self.changed_slots.update(grant.slots)

    def _forget_grant(self, number: int) -> PendingGrant | None:
        if (grant := self.pending.pop(number, None)) is not None:
            self.changed_slots.update(grant.slots)
        return grant

    def _stop(self, number: int, *, kill: bool) -> list[Stop]:
        attempt = self.attempts.get(number)
        if attempt is None:
            return []
        if attempt.phase is AttemptPhase.STOPPING and (attempt.killed or not kill):
            return []
        attempt.phase, attempt.killed = AttemptPhase.STOPPING, kill
        return [attempt.stop]

    def _release(self, attempt: Attempt, slots: set[int]) -> None:
        for slot in slots:
            del self.occupied[slot]
        self.changed_slots.update(slots)
        attempt.slots = attempt.slots - slots
        if not attempt.slots:
            del self.attempts[attempt.number]

    # ------------------------------------------------------------------ slots and nodes

    def slots_of(self, node: str) -> set[int]:
        """The slots of a node."""
        index = self.resources.index.get(node)
        if index is None:
            return set(self._partition_slots(node))
        first, last = self.resources.first_slot[index : index + 2].tolist()
        return set(range(first, last))

    def _partition_slots(self, node: str) -> range:
        first = PARTITION
        for each in self.partition:
            if each.name == node:
                return range(first, first + each.gpus)
            first += each.gpus
        return range(0)

    def free_slots(self, node: str) -> list[int]:
        """The slots of a node that no attempt occupies and no job is given."""
        return sorted(self.slots_of(node) - self.occupied.keys() - self.given().keys())

    def given(self) -> dict[int, int]:
        """Slots of pending grants, which others may occupy still, with the jobs that get them."""
        return {slot: grant.number for grant in self.pending.values() for slot in grant.slots}

    def _gpu(self, slot: int) -> tuple[str, int]:
        """A slot as an executor knows it: its node, and its number there."""
        if slot >= PARTITION:
            node, gpu = divmod(slot - PARTITION, self.partition[0].gpus)
            return self.partition[node].name, gpu
        at = int(self.resources.slot_node[slot])
        return self.resources.nodes[at].name, slot - int(self.resources.first_slot[at])

    def attempts_on(self, node: str) -> list[Attempt]:
        """The attempts that occupy a GPU of a node."""
        numbers = {self.occupied[slot] for slot in self.slots_of(node) if slot in self.occupied}
        return [self.attempts[number] for number in sorted(numbers)]

    def placed(self) -> dict[AttemptKey, tuple[str, ...]]:
        """The nodes of every attempt that has not ended."""
        return {
            attempt.key: tuple(grant.node for grant in self.grants(attempt.granted))
            for attempt in self.attempts.values()
        }

    def grants(self, slots: tuple[int, ...]) -> tuple[Grant, ...]:
        """Slots as GPUs by node, as executors number them."""
        by_node: dict[str, list[int]] = {}
        for slot in sorted(slots):
            node, gpu = self._gpu(slot)
            by_node.setdefault(node, []).append(gpu)
        return tuple(Grant(node, tuple(gpus)) for node, gpus in by_node.items())
