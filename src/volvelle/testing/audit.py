"""An auditor: watches a run and keeps its own books, from events, decisions and the truth alone.

What must hold at every moment is checked here, as the run goes (`Audit.record`), and kept in the `ledger`;
what concerns whole lives when it is over (`lives`). Nothing is read from the engine.
"""

import math
from collections import defaultdict
from collections.abc import Iterable

import pytest

from volvelle.core.decision import Decision, Sharing
from volvelle.core.events import (
    ArrivalsAnnounced,
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
from volvelle.core.log import EachMoment
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.cluster import NodeState
from volvelle.model.node import NodeKind
from volvelle.simulate.world import Switcher
from volvelle.testing.ledger import TOLERANCE, Amounts, Holding, Ledger
from volvelle.testing.lives import Lives
from volvelle.testing.scenario import Run, Scenario, happen


class Audit(EachMoment):
    """Watches one run of ``scenario``."""

    def __init__(self, scenario: Scenario) -> None:
        self.ledger = Ledger(scenario)
        policy = scenario.setting.composition.build().policy
        self.divisible, self.in_place = policy.divisible, policy.shares_in_place
        self.stops_jobs = policy.stops_jobs
        self.index = {node.name: n for n, node in enumerate(self.ledger.cluster.nodes)}
        first: dict[str, NodeState] = {}
        for change in self.ledger.cluster.changes:
            first.setdefault(change.node, change.state)
        self.state = {
            node.name: NodeState.DOWN if first.get(node.name) is NodeState.UP else NodeState.UP
            for node in self.ledger.cluster.nodes
        }
        self.holds: dict[int, Holding] = {}
        self.gone: set[int] = set()
        self.ended_at: dict[str, float] = {}
        self.stopping: dict[tuple[int, int], Holding] = {}
        self.now = -math.inf
        self.decisions = 0

    def record(self, time: float, events: Iterable[Event], decision: Decision) -> None:
        """Fold one moment, then check what must hold after every decision."""
        assert time >= self.now, "time never goes back"
        self.now = time
        self.decisions += 1
        ranks = [_rank(event) for event in events]
        assert ranks == sorted(ranks), "simultaneous events come by kind"
        for event in events:
            assert event.time == time
            self._fold(event)
        before = dict(self.holds)
        for rejection in decision.rejected:
            assert rejection.reason
            assert rejection.number not in self.holds
            self.ledger.rejected[rejection.number] = rejection.reason
            self.ended_at[self.ledger.jobs[rejection.number].spec.id] = time
            self.gone.add(rejection.number)
        for conclusion in decision.concluded:
            assert conclusion.reason
            self._conclude(conclusion.number, time)
            if conclusion.timed_out:
                self._check_limit(conclusion.number)
                self.ledger.rejected[conclusion.number] = conclusion.reason
                self.ledger.books[conclusion.number].finish = math.nan
        self._check_shape(decision)
        for row, number in enumerate(decision.job.tolist()):
            self._check_dependencies(number)
            self._change(time, decision, row, number)
        if decision.sharing is not None:
            self._share(time, decision, decision.sharing)
        self._check_partners()
        self._check_capacity()
        self._check_amounts()
        self._check_slots(before)

    def _check_dependencies(self, number: int) -> None:
        """A job gets GPUs only after its dependencies have ended, and ended well where that is asked."""
        for one in self.ledger.jobs[number].spec.after:
            assert self.now >= self.ended_at[one.job] + one.think_seconds
            other = next(n for n, job in enumerate(self.ledger.jobs) if job.spec.id == one.job)
            assert one.any_end or other not in self.ledger.rejected

    def _check_limit(self, number: int) -> None:
        """A job is ended by its limit when it had GPUs for so long."""
        held = self.ledger.books[number].holdings
        seconds = sum(one.ended - one.start for one in held if one.ended > one.start)
        assert seconds == pytest.approx(self.ledger.jobs[number].spec.time_limit_seconds)

    def _conclude(self, number: int, time: float) -> None:
        held = self._end(number, time, "concluded")
        self.stopping[number, held.attempt] = held
        self.ledger.books[number].finish = time
        self.ledger.books[number].concluded = True
        self.ended_at[self.ledger.jobs[number].spec.id] = time
        self.gone.add(number)

    def _fold(self, event: Event) -> None:
        if isinstance(event, JobSubmitted):
            assert event.number == self.ledger.submitted, "jobs are numbered in order of submission"
            self.ledger.submitted += 1
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
            self.ledger.books[event.number].finish = event.time
            self.ended_at[self.ledger.jobs[event.number].spec.id] = event.time
            self.gone.add(event.number)
        elif isinstance(event, JobStopped):
            self.stopping.pop((event.number, event.attempt)).free_at = event.time
        elif isinstance(event, JobFailed):
            assert event.attempt == self.holds[event.number].attempt
            assert event.lost_gpu_seconds >= 0
            self._end(event.number, event.time, "failed")
            self.ledger.books[event.number].failures.append(event)
        elif isinstance(event, BatchSizeChanged):
            self.ledger.books[event.number].batch_changes.append(event)
        elif isinstance(event, LossReported):
            assert event.attempt == self.holds[event.number].attempt
        elif isinstance(event, Recomposed):
            self.stops_jobs = True  # another policy may
        elif isinstance(event, NodeChanged):
            self.state[event.name] = event.state
            if event.state is NodeState.DOWN:
                node = self.index[event.name]
                self.ledger.downs.append((event.time, node))
                for holding in self.holds.values():
                    assert node not in self.ledger.nodes(holding.slots), (
                        "a lost node carries no job"
                    )

    def _end(self, number: int, time: float, how: str) -> Holding:
        holding = self.holds.pop(number)
        holding.ended = holding.free_at = time
        holding.end = how
        return holding

    def _change(self, time: float, decision: Decision, row: int, number: int) -> None:
        spec = self.ledger.jobs[number].spec
        assert number < self.ledger.submitted, "only a job that was submitted is served"
        assert number not in self.gone, "a job that is gone is left in peace"
        gpus, held = float(decision.gpus[row]), self.holds.get(number)
        if gpus == 0.0:
            assert held is not None, "only what runs is stopped"
            assert spec.preemptible, "a job that may not be preempted is never stopped"
            assert self.stops_jobs, "a policy that stops no jobs stops none"
            self._end(number, time, "stopped")
            self.stopping[number, held.attempt] = held
            return
        books = self.ledger.books[number]
        if held is None:
            books.attempts += 1
        else:
            self._end(number, time, "resized")
        assert int(decision.attempt[row]) == books.attempts, "attempts count the starts"
        kind = self.ledger.cluster.kinds[int(decision.gpu_type[row])]
        assert not spec.gpu_types or kind.gpu_type in spec.gpu_types, "only types that were wished"
        assert set(spec.constraints) <= set(kind.labels), "only nodes with the labels it asks for"
        slots = tuple(decision.slots_of(row).tolist())
        if spec.exclusive:
            there = [n for n in self.ledger.node_of if n in self.ledger.nodes(slots)]
            assert slots and len(there) == len(slots), "all GPUs of its nodes are its"
        partner = int(decision.partner[row]) if len(decision.partner) else -1
        assert gpus <= spec.most_gpus, "nobody gets more than they can use"
        if partner >= 0:
            assert gpus == spec.gpus / 2, "each of two holds one half of what it asks for"
        elif slots or not self.divisible:
            assert spec.least_gpus <= gpus, "a gang is all or nothing"
            assert gpus == int(gpus) or gpus == spec.gpus < 1, "whole GPUs, or the part asked for"
        resized = held is not None
        place = (self.decisions, row)
        holding = Holding(number, books.attempts, gpus, kind, slots, time, resized, place, partner)
        if held is not None:
            holding.in_place = self.in_place and held.kind == kind
            before = (held.gpus, held.kind, held.slots, held.partner)
            assert before != (gpus, kind, slots, partner), "a decision names only what changes"
        holding.amounts.append((time, self._proportional(holding)))
        self.holds[number] = holding
        books.holdings.append(holding)

    def _share(self, time: float, decision: Decision, sharing: Sharing) -> None:
        """Note the CPUs and memory that jobs are given."""
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
        """The default amounts of a job per GPU: in proportion to its GPUs, at its poorest node."""
        nodes = self.ledger.cluster.nodes
        if holding.slots:
            groups = [[nodes[index]] for index in self.ledger.nodes(holding.slots)]
        else:
            groups = [[node for node in nodes if node.kind == holding.kind and node.gpus]]
        gpus = [sum(node.gpus for node in group) for group in groups]
        cpus = [sum(node.cpus or math.inf for node in group) for group in groups]
        memory = [sum(node.memory_gb or math.inf for node in group) for group in groups]
        return (
            min(amount / count for amount, count in zip(cpus, gpus, strict=True)),
            min(amount / count for amount, count in zip(memory, gpus, strict=True)),
        )

    def _check_amounts(self) -> None:
        """CPUs and memory: on no node more than it has, or of no kind where GPUs are counted."""
        there: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        held: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for node in self.ledger.cluster.nodes:
            for place in (f"node {node.name}", f"kind {node.kind}"):
                there[place][0] += node.cpus or math.inf
                there[place][1] += node.memory_gb or math.inf
        for holding in self.holds.values():
            gpus_at = {f"kind {holding.kind}": holding.gpus}
            if holding.slots:
                names = [
                    self.ledger.cluster.nodes[self.ledger.node_of[slot]].name
                    for slot in holding.slots
                ]
                gpus_at = {f"node {name}": names.count(name) * holding.part for name in names}
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
        assert len(decision.partner) in (0, len(numbers))

    def _check_partners(self) -> None:
        """Jobs that share GPUs share them with each other, from one decision on, while both are there."""
        for number, holding in self.holds.items():
            if holding.partner < 0:
                continue
            assert not holding.slots, "GPUs with names are one job's"
            other = self.holds.get(holding.partner)
            if other is None:
                assert holding.decided < self.now, "nobody is given a partner that is not there"
                continue
            assert other.partner == number
            assert (other.gpus, other.kind) == (holding.gpus, holding.kind)

    def _check_capacity(self) -> None:
        """On paper: per kind of node what is up or still held, per pool the most that it may hold."""
        held: dict[NodeKind, float] = defaultdict(float)
        by_pool: dict[str, float] = defaultdict(float)
        for number, holding in self.holds.items():
            held[holding.kind] += holding.gpus
            by_pool[self.ledger.jobs[number].spec.pool] += holding.gpus
        there: dict[NodeKind, float] = defaultdict(float)
        for node in self.ledger.cluster.nodes:
            if self.state[node.name] is not NodeState.DOWN:
                there[node.kind] += node.gpus
        for kind, gpus in held.items():
            assert gpus <= there[kind] + TOLERANCE, f"more GPUs of {kind} than there are"
        for pool, limit in self.ledger.cluster.limits.items():
            assert by_pool[pool] <= limit + TOLERANCE, f"pool {pool} over its limit"

    def _check_slots(self, before: dict[int, Holding]) -> None:
        held: dict[int, float] = defaultdict(float)
        for number, holding in self.holds.items():
            if not holding.slots:
                continue
            assert len(holding.slots) == math.ceil(holding.gpus), "whole GPUs, or a part of one"
            for slot in holding.slots:
                held[slot] += holding.part
                assert held[slot] <= 1 + TOLERANCE, f"more than all of slot {slot} is held"
                node = self.ledger.cluster.nodes[self.ledger.node_of[slot]]
                assert node.kind == holding.kind, "slots of the kind that was decided"
                known = before.get(number)
                fresh = known is None or slot not in known.slots
                state = self.state[node.name]
                assert state is NodeState.UP or (not fresh and state is NodeState.DRAINING)

    def close(self, outcomes: Outcomes) -> None:
        """Check whole lives, when the run is over."""
        Lives(self.ledger).check(outcomes)


def audited(scenario: Scenario, switcher: Switcher | None = None) -> Run:
    """Let ``scenario`` happen under audit."""
    audit = Audit(scenario)
    run = happen(scenario, audit, switcher=switcher)
    audit.close(run.outcomes)
    return run


def _rank(event: Event) -> int:
    if isinstance(event, NodeChanged):
        return 1
    if isinstance(event, JobSubmitted):
        return 2
    if isinstance(event, (Recomposed, ArrivalsAnnounced)):
        return 4
    return 3 if isinstance(event, WakeUp) else 0
