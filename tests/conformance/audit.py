"""An auditor: watches a run and keeps its own books, from events, decisions and the truth alone.

What must hold at every moment is checked as the run goes (`Audit.record`); what concerns a whole life
(GPUs physically held, work done) when it is over (`Audit.close`). Nothing is read from the engine.
"""

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from strategies import Scenario

from volvelle.core.decision import Decision, Sharing
from volvelle.core.events import (
    BatchSizeChanged,
    Event,
    JobFailed,
    JobFinished,
    JobStarted,
    JobStopped,
    JobSubmitted,
    LossReported,
    NodeChanged,
    Recomposed,
    WakeUp,
)
from volvelle.metrics.outcomes import JobStatus, Outcomes
from volvelle.model.cluster import NodeState

TOLERANCE = 1e-9

Amounts = tuple[float, float]
"""CPUs and GB of memory; infinite where nobody says what there is."""


@dataclass
class Holding:
    """One job with one set of GPUs, from the decision that gave them to their being free."""

    number: int
    attempt: int
    gpus: float
    kind: str
    slots: tuple[int, ...]
    decided: float
    resized: bool
    sequence: int
    started: float | None = None  # told by JobStarted; None: at once
    never: bool = False  # taken away before its GPUs were free
    ended: float = math.nan
    free_at: float = math.nan
    end: str = ""
    amounts: list[tuple[float, Amounts]] = field(default_factory=list)
    """From when on it had how many CPUs and GB of memory per GPU."""

    @property
    def start(self) -> float:
        """When it physically held the GPUs, where it ever did."""
        return self.decided if self.started is None else self.started


@dataclass
class Books:
    """What the auditor knows of one job."""

    holdings: list[Holding] = field(default_factory=list)
    failures: list[JobFailed] = field(default_factory=list)
    batch_changes: list[BatchSizeChanged] = field(default_factory=list)
    attempts: int = 0
    finish: float = math.nan
    concluded: bool = False  # ended by a rule, before its work was done


class Audit:
    """Watches one run of ``scenario``."""

    def __init__(self, scenario: Scenario) -> None:
        self.jobs = scenario.jobs
        self.cluster = scenario.cluster
        self.overheads = scenario.setting.overheads
        self.divisible = scenario.setting.composition.build().policy.divisible
        self.node_of = [n for n, node in enumerate(self.cluster.nodes) for _ in range(node.gpus)]
        self.index = {node.name: n for n, node in enumerate(self.cluster.nodes)}
        first: dict[str, NodeState] = {}
        for change in self.cluster.changes:
            first.setdefault(change.node, change.state)
        self.state = {
            node.name: NodeState.DOWN if first.get(node.name) is NodeState.UP else NodeState.UP
            for node in self.cluster.nodes
        }
        self.books: dict[int, Books] = defaultdict(Books)
        self.holds: dict[int, Holding] = {}
        self.gone: set[int] = set()
        self.rejected: dict[int, str] = {}
        self.stopping: dict[tuple[int, int], Holding] = {}
        self.downs: list[tuple[float, int]] = []
        self.now = -math.inf
        self.submitted = 0
        self.decided = 0

    # ------------------------------------------------------------------ as the run goes

    def record(self, time: float, events: Iterable[Event], decision: Decision) -> None:
        """Fold one moment, then check what must hold after every decision."""
        assert time >= self.now, "time never goes back"
        self.now = time
        ranks = [_rank(event) for event in events]
        assert ranks == sorted(ranks), "simultaneous events come by kind"
        for event in events:
            assert event.time == time
            self._fold(event)
        before = dict(self.holds)
        for rejection in decision.rejected:
            assert rejection.reason
            assert rejection.number not in self.holds
            self.rejected[rejection.number] = rejection.reason
            self.gone.add(rejection.number)
        for conclusion in decision.concluded:
            assert conclusion.reason
            self._conclude(conclusion.number, time)
        self._check_shape(decision)
        for row, number in enumerate(decision.job.tolist()):
            self._change(time, decision, row, number)
        if decision.sharing is not None:
            self._share(time, decision, decision.sharing)
        self._check_capacity()
        self._check_amounts()
        self._check_slots(before)

    def _conclude(self, number: int, time: float) -> None:
        held = self._end(number, time, "concluded")
        self.stopping[number, held.attempt] = held
        self.books[number].finish = time
        self.books[number].concluded = True
        self.gone.add(number)

    def _fold(self, event: Event) -> None:
        if isinstance(event, JobSubmitted):
            assert event.number == self.submitted, "jobs are numbered in order of submission"
            self.submitted += 1
        elif isinstance(event, JobStarted):
            holding = self.holds[event.number]
            assert holding.attempt == event.attempt
            assert holding.started is None
            assert event.time == holding.decided, "the world tells of the wait at once"
            assert event.start > holding.decided
            holding.started = event.start
        elif isinstance(event, JobFinished):
            assert event.attempt == self.holds[event.number].attempt
            self._end(event.number, event.time, "finished")
            self.books[event.number].finish = event.time
            self.gone.add(event.number)
        elif isinstance(event, JobStopped):
            self.stopping.pop((event.number, event.attempt)).free_at = event.time
        elif isinstance(event, JobFailed):
            assert event.attempt == self.holds[event.number].attempt
            assert event.lost_gpu_seconds >= 0
            self._end(event.number, event.time, "failed")
            self.books[event.number].failures.append(event)
        elif isinstance(event, BatchSizeChanged):
            self.books[event.number].batch_changes.append(event)
        elif isinstance(event, LossReported):
            assert event.attempt == self.holds[event.number].attempt
        elif isinstance(event, NodeChanged):
            self.state[event.name] = event.state
            if event.state is NodeState.DOWN:
                node = self.index[event.name]
                self.downs.append((event.time, node))
                for holding in self.holds.values():
                    assert node not in self._nodes(holding.slots), "a lost node carries no job"

    def _end(self, number: int, time: float, how: str) -> Holding:
        holding = self.holds.pop(number)
        holding.ended = holding.free_at = time
        holding.end = how
        return holding

    def _change(self, time: float, decision: Decision, row: int, number: int) -> None:
        spec = self.jobs[number].spec
        assert number < self.submitted, "only a job that was submitted is served"
        assert number not in self.gone, "a job that is gone is left in peace"
        gpus, held = float(decision.gpus[row]), self.holds.get(number)
        if gpus == 0.0:
            assert held is not None, "only what runs is stopped"
            assert spec.preemptible, "a job that may not be preempted is never stopped"
            self._end(number, time, "stopped")
            self.stopping[number, held.attempt] = held
            return
        books = self.books[number]
        if held is None:
            books.attempts += 1
        else:
            self._end(number, time, "resized")
        assert int(decision.attempt[row]) == books.attempts, "attempts count the starts"
        kinds = list(dict.fromkeys(node.gpu_type for node in self.cluster.nodes))
        kind = kinds[int(decision.gpu_type[row])]
        assert not spec.gpu_types or kind in spec.gpu_types, "only types that were wished"
        slots = tuple(decision.slots_of(row).tolist())
        assert gpus <= spec.most_gpus, "nobody gets more than they can use"
        if slots or not self.divisible:
            assert spec.least_gpus <= gpus, "a gang is all or nothing"
            assert gpus == int(gpus), "whole GPUs for jobs that ask for whole ones"
        resized = held is not None
        sequence = self.decided = self.decided + 1
        holding = Holding(number, books.attempts, gpus, kind, slots, time, resized, sequence)
        if held is not None:
            different = (held.gpus, held.kind, held.slots) != (gpus, kind, slots)
            assert different, "a decision names only what changes"
        holding.amounts.append((time, self._proportional(holding)))
        self.holds[number] = holding
        books.holdings.append(holding)

    def _share(self, time: float, decision: Decision, sharing: Sharing) -> None:
        """Note who is given which CPUs and memory."""
        told = sharing.job.tolist()
        assert told, "nothing is said where nothing changes"
        assert len(set(told)) == len(told) == len(sharing.cpus) == len(sharing.memory_gb)
        begun = {n for n, g in zip(decision.job.tolist(), decision.gpus.tolist(), strict=True) if g}
        assert begun <= set(told), "whoever starts or resizes is told what it has"
        for number, *amounts in zip(
            told, sharing.cpus.tolist(), sharing.memory_gb.tolist(), strict=True
        ):
            holding = self.holds[number]
            cpus, memory = (amount / holding.gpus for amount in amounts)
            assert math.isfinite(cpus) and math.isfinite(memory) and cpus >= 0 and memory >= 0
            assert number in begun or (cpus, memory) != holding.amounts[-1][1]
            holding.amounts.append((time, (cpus, memory)))

    def _proportional(self, holding: Holding) -> Amounts:
        """What a job has per GPU where nothing is said: in proportion to its GPUs, at its poorest node."""
        nodes = self.cluster.nodes
        if holding.slots:
            groups = [[nodes[index]] for index in self._nodes(holding.slots)]
        else:
            groups = [[node for node in nodes if node.gpu_type == holding.kind and node.gpus]]
        gpus = [sum(node.gpus for node in group) for group in groups]
        cpus = [sum(node.cpus or math.inf for node in group) for group in groups]
        memory = [sum(node.memory_gb or math.inf for node in group) for group in groups]
        return (
            min(amount / count for amount, count in zip(cpus, gpus, strict=True)),
            min(amount / count for amount, count in zip(memory, gpus, strict=True)),
        )

    def _check_amounts(self) -> None:
        """CPUs and memory: on no node more than it has, or of no GPU type where GPUs are counted."""
        there: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        held: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for node in self.cluster.nodes:
            for place in (f"node {node.name}", f"type {node.gpu_type}"):
                there[place][0] += node.cpus or math.inf
                there[place][1] += node.memory_gb or math.inf
        for holding in self.holds.values():
            gpus_at = {f"type {holding.kind}": holding.gpus}
            if holding.slots:
                names = [self.cluster.nodes[self.node_of[slot]].name for slot in holding.slots]
                gpus_at = {f"node {name}": float(names.count(name)) for name in names}
            for place, gpus in gpus_at.items():
                for kind, amount in enumerate(holding.amounts[-1][1]):
                    held[place][kind] += amount * gpus
        for place, (cpus, memory) in held.items():
            assert cpus <= there[place][0] * (1 + TOLERANCE), f"more CPUs than {place} has"
            assert memory <= there[place][1] * (1 + TOLERANCE), f"more memory than {place} has"

    @staticmethod
    def _check_shape(decision: Decision) -> None:
        numbers = decision.job.tolist()
        assert len(set(numbers)) == len(numbers), "one row a job"
        for column in (decision.gpus, decision.gpu_type, decision.attempt):
            assert len(column) == len(numbers)

    def _check_capacity(self) -> None:
        """On paper: per type what is up (or draining and still held), per pool its quota."""
        held: dict[str, float] = defaultdict(float)
        by_pool: dict[str, float] = defaultdict(float)
        for number, holding in self.holds.items():
            held[holding.kind] += holding.gpus
            by_pool[self.jobs[number].spec.pool] += holding.gpus
        there: dict[str, float] = defaultdict(float)
        for node in self.cluster.nodes:
            if self.state[node.name] is not NodeState.DOWN:
                there[node.gpu_type] += node.gpus
        for kind, gpus in held.items():
            assert gpus <= there[kind] + TOLERANCE, f"more GPUs of type {kind!r} than there are"
        for pool in self.cluster.pools:
            assert by_pool[pool.name] <= pool.quota + TOLERANCE, f"pool {pool.name} over its quota"

    def _check_slots(self, before: dict[int, Holding]) -> None:
        owner: dict[int, int] = {}
        for number, holding in self.holds.items():
            if not holding.slots:
                continue
            assert len(holding.slots) == holding.gpus
            for slot in holding.slots:
                assert slot not in owner, f"slot {slot} is held by {number} and {owner[slot]}"
                owner[slot] = number
                node = self.cluster.nodes[self.node_of[slot]]
                assert node.gpu_type == holding.kind, "slots of the type that was decided"
                known = before.get(number)
                fresh = known is None or slot not in known.slots
                state = self.state[node.name]
                assert state is NodeState.UP or (not fresh and state is NodeState.DRAINING)

    def _nodes(self, slots: Iterable[int]) -> set[int]:
        return {self.node_of[slot] for slot in slots}

    # ------------------------------------------------------------------ when it is over

    def close(self, outcomes: Outcomes) -> None:
        """Check whole lives: GPUs physically held, work done, and that the outcomes say the same."""
        self._settle_physical()
        self._check_physical()
        for number in range(self.submitted):
            books = self.books[number]
            status = outcomes.status[number]
            if number in self.rejected:
                assert status in (JobStatus.REJECTED, JobStatus.FAILED)
                assert outcomes.reason[number] == self.rejected[number]
            else:
                assert status == JobStatus.FINISHED, f"job {number} is {status} at the end"
            self._check_work(number, books)
            self._check_outcome(number, books, outcomes)

    def _settle_physical(self) -> None:
        """Work out when each holding had its GPUs in fact: after those before it had gone."""
        past: list[Holding] = []
        for holding in self._in_order_of_decision():
            for time, node in self.downs:
                if holding.ended <= time < holding.free_at and node in self._nodes(holding.slots):
                    holding.free_at = time  # the node went down under the checkpoint
            free_from = self._free_from(holding, past)
            if holding.started is not None:
                assert free_from > holding.decided, "nobody waits for GPUs that are free"
                if not self.downs:
                    assert holding.started == free_from, "it starts as soon as its GPUs are free"
                holding.never = holding.ended <= holding.started
                assert holding.end != "finished" or not holding.never
            else:
                assert free_from == holding.decided, "a start on GPUs that are not free"
            past.append(holding)

    def _in_order_of_decision(self) -> list[Holding]:
        return sorted(
            (holding for books in self.books.values() for holding in books.holdings),
            key=lambda holding: (holding.decided, holding.sequence),
        )

    def _free_from(self, holding: Holding, past: list[Holding]) -> float:
        """When the GPUs given to ``holding`` were free: its decision or later.

        A job may not start either before its own last checkpoint is written.
        """
        now = holding.decided
        mine = [h.free_at for h in past if h.number == holding.number and not h.never]
        own = max([now, *mine])
        if holding.slots:
            before = [h.free_at for h in past if set(h.slots) & set(holding.slots) and not h.never]
            return max([own, *before])
        there = sum(node.gpus for node in self.cluster.nodes if node.gpu_type == holding.kind)
        others = [h for h in past if h.kind == holding.kind]

        def fits(time: float) -> bool:
            """Whether there is room at ``time``, by what was known at the decision."""
            busy = sum(
                h.gpus
                for h in others
                if h.start <= time and (h.ended > now or (h.free_at > time and not h.never))
            )
            return busy + holding.gpus <= there + TOLERANCE

        changes = sorted({now, *(t for h in others for t in (h.start, h.free_at) if t > now)})
        room = [time for time in changes if all(fits(later) for later in changes if later >= time)]
        return max(own, room[0])

    def _check_physical(self) -> None:
        """No GPU physically in two hands, checkpoints being written included."""
        holdings = [h for h in self._in_order_of_decision() if not h.never]
        for kind in sorted({holding.kind for holding in holdings}):
            moments: list[tuple[float, float]] = []
            for holding in holdings:
                if holding.kind == kind:
                    moments += [(holding.start, holding.gpus), (holding.free_at, -holding.gpus)]
            there = sum(node.gpus for node in self.cluster.nodes if node.gpu_type == kind)
            held = 0.0
            for _, change in sorted(moments):
                held += change
                assert held <= there + TOLERANCE, (
                    f"more GPUs of type {kind!r} in use than there are"
                )
        last: dict[int, float] = {}
        for holding in sorted(holdings, key=lambda holding: holding.start):
            for slot in holding.slots:
                assert last.get(slot, 0.0) <= holding.start, f"slot {slot} in two hands"
                last[slot] = holding.free_at

    def _check_work(self, number: int, books: Books) -> None:
        """Every holding advanced the job by its true rates; who finished did exactly its work."""
        spec, truth = self.jobs[number].spec, self.jobs[number].truth
        work = 0.0
        failures = iter(books.failures)
        for holding in books.holdings:
            gap = self.overheads.gap_seconds(
                spec, resumed=holding.attempt > 1, resized=holding.resized
            )
            begin = holding.start + gap
            if holding.end == "failed":
                failed = next(failures)
                saved, at = self._last_checkpoint(holding, work, begin, failed.work_done)
                assert failed.work_done == pytest.approx(saved, rel=TOLERANCE, abs=1e-9)
                lost = 0.0 if holding.never else (holding.ended - at) * holding.gpus
                assert failed.lost_gpu_seconds == pytest.approx(lost, rel=1e-6, abs=1e-6)
                work = saved
            elif not holding.never:
                work = self._work_at(holding, work, begin, holding.ended)
        if books.concluded:
            assert 0 <= work <= truth.work * (1 + TOLERANCE)
        elif not math.isnan(books.finish):
            assert work == pytest.approx(truth.work, rel=TOLERANCE), "exactly the work there was"

    def _work_at(self, holding: Holding, work: float, begin: float, end: float) -> float:
        """Work done at ``end`` by a job with ``work`` done at ``begin``, regime after regime."""
        truth = self.jobs[holding.number].truth
        nodes = len(self._nodes(holding.slots)) or 1
        share = 1.0
        if holding.slots and truth.spread_slowdown:
            fewest = math.ceil(holding.gpus / max(node.gpus for node in self.cluster.nodes))
            share = 1.0 / (1.0 + truth.spread_slowdown * max(nodes - fewest, 0))
        now = begin
        while now < end:
            reached = work * (1 + 1e-12)  # a boundary that rounding left a hair ahead
            least = self.jobs[holding.number].spec.least_gpus
            rate = share * truth.rate(max(holding.gpus, least), holding.kind, nodes, reached)
            rate *= min(holding.gpus / least, 1.0)  # with less it has them for part of the time
            if truth.sensitivity is not None:
                has = [amounts for time, amounts in holding.amounts if time <= now][-1]
                rate *= truth.sensitivity.share(*has)
            ahead = [r.start_work for r in truth.regimes if r.start_work > reached]
            changes = [time for time, _ in holding.amounts if time > now]
            until = min([end, *changes, *(now + (bound - work) / rate for bound in ahead[:1])])
            work += rate * (until - now)
            now = until
        return work

    def _last_checkpoint(
        self, holding: Holding, work: float, begin: float, told: float
    ) -> tuple[float, float]:
        """Work in the last checkpoint before a failure, and when it was written (or it started).

        Where a failure falls on the moment of a checkpoint to the last bit, either is right.
        """
        every = self.overheads.checkpoint_every
        if holding.never or every is None or holding.ended < begin:
            return work, holding.start
        written = (holding.ended - begin) / every
        choices = []
        for count in {math.floor(written * (1 - 1e-12)), math.floor(written * (1 + 1e-12))}:
            at = begin + count * every
            choices.append(
                (self._work_at(holding, work, begin, at), at if count else holding.start)
            )
        return min(choices, key=lambda choice: abs(choice[0] - told))

    def _check_outcome(self, number: int, books: Books, outcomes: Outcomes) -> None:
        finish = outcomes.finish[number]
        assert finish == pytest.approx(books.finish, rel=0, abs=0, nan_ok=True)
        stops = sum(h.end == "stopped" for h in books.holdings)
        assert outcomes.preemptions[number] == stops
        assert outcomes.restarts[number] == max(books.attempts - 1, 0)
        held = books.holdings
        if any(h.never for h in held):
            return  # events do not tell of a start that was taken back before its GPUs were free
        gpu_seconds = sum(h.gpus * (h.free_at - h.start) for h in held)
        run_seconds = sum(h.free_at - h.start for h in held)
        assert outcomes.gpu_seconds[number] == pytest.approx(gpu_seconds, rel=TOLERANCE, abs=1e-9)
        assert outcomes.run_seconds[number] == pytest.approx(run_seconds, rel=TOLERANCE, abs=1e-9)
        first = min((h.start for h in held), default=math.nan)
        assert outcomes.first_start[number] == pytest.approx(first, rel=0, abs=0, nan_ok=True)


def _rank(event: Event) -> int:
    if isinstance(event, NodeChanged):
        return 1
    if isinstance(event, JobSubmitted):
        return 2
    if isinstance(event, Recomposed):
        return 4
    return 3 if isinstance(event, WakeUp) else 0
