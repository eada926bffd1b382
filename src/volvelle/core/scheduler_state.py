"""The state of a scheduler: the tables of the forward loop, its rules, and what it owns beside them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from volvelle.core.admissions import Admissions
from volvelle.core.beliefs import Beliefs
from volvelle.core.composition import Composition
from volvelle.core.decision import Decision
from volvelle.core.draining import pin
from volvelle.core.eligibility import Eligibility, limits_of
from volvelle.core.events import Event
from volvelle.core.forecast import LookAhead
from volvelle.core.forward.advance import advance
from volvelle.core.forward.believe import believe, expect_ends
from volvelle.core.forward.classes import no_classes, touch
from volvelle.core.forward.log import log_event
from volvelle.core.forward.moments import room, wake_at
from volvelle.core.forward.ranking import order_anew
from volvelle.core.grants import Grants
from volvelle.core.known_jobs import KnownJobs
from volvelle.core.log import Batch, Notes, drained
from volvelle.core.machine_code.kernels import marked
from volvelle.core.mistakes import check_decision, is_own, mistakes_of
from volvelle.core.parts import Admission, Estimator
from volvelle.core.policy import Kernel, Policy
from volvelle.core.promises import Promises
from volvelle.core.resources import Resources
from volvelle.core.ruling import rules_of
from volvelle.core.state import *
from volvelle.core.view import JobView, View, pool_columns
from volvelle.model.cluster import Cluster
from volvelle.model.job import JobSpec
from volvelle.model.overheads import Overheads
from volvelle.model.problems import Problem

if TYPE_CHECKING:
    from volvelle.core.machine import Machine


class SchedulerState(ABC):
    """All that a scheduler is and knows; what happens to it, its cycle says (`volvelle.core.scheduler`).

    cluster: what there is to give. overheads: what starts and stops are believed to cost. seed: of every
    random choice. All times are seconds on the world's clock.

    state, rules: of the forward loop. admissions, beliefs, grants, promises: each owns what it is named for.
    notes: what Python adds to the log.
    """

    def __init__(
        self,
        cluster: Cluster,
        composition: Composition,
        *,
        overheads: Overheads | None = None,
        seed: int = 0,
    ) -> None:
        self.cluster = cluster
        self.composition = composition.fork()
        self.overheads = overheads or Overheads()
        self.seed = seed
        self.state = State(self.composition.policy.columns)
        self.resources = Resources(cluster, self.state, named=composition.placement.names_gpus)
        self.state.pools.grow(len(cluster.pools))
        no_classes(self.state)
        self.admissions = Admissions(self.state)
        self.promises = Promises(self.state)
        self.grants = Grants()
        self.notes = Notes()
        policy = self.composition.policy
        part, asked = f"policy {policy.name!r}", "it was asked for its kernel"
        with mistakes_of(part, asked):
            kernel = policy.kernel(named=self.resources.named)
        decider = type(policy.decider)
        allocates = decider.allocate is not Policy.allocate
        check_decision(part, decider.kernel, kernel, Kernel, marked, allocates=allocates)
        self.beliefs = Beliefs(
            self.state,
            self.resources,
            self.grants,
            self.overheads,
            [pool.name for pool in cluster.pools],
            tabulates=kernel is not None and kernel.rates,
        )
        self.count_pools()
        self.judge_nodes()
        self.rules = Rules()
        self._ordered: tuple[Any, ...] | None = None
        """By what jobs are kept in order: the policy, and the rules that matter to it."""
        self._viewed = cluster.pools, pool_columns(cluster.pools)
        """The cluster's pools as policies see them."""
        self.count_capacity()
        self.apply_rules()

    @abstractmethod
    def handle(self, now: float, events: Sequence[Event]) -> Decision:
        """Take all that happened at ``now`` and answer what changes."""

    @property
    @abstractmethod
    def ahead(self) -> LookAhead:
        """A look-ahead with the jobs that are admitted, and no others."""

    # ------------------------------------------------------------------ the forward loop

    def make_room(self) -> None:
        """Room for all that may happen at one moment."""
        while (full := room(self.state, self.rules, -INFINITY)) != AHEAD:
            self.grow(full)

    def advance(self, until: float, moments: int) -> int:
        """The forward loop, up to its next question; it makes room for itself."""
        while True:
            if not self.state.compiled:
                why = advance(self.state, self.rules, until, moments)
            else:
                try:
                    why = machine_of(self.state).advance(self.rules, until, moments)
                except Exception as error:
                    named = isinstance(error, Problem)  # the line that cannot be compiled
                    if named or not is_own(type(self.composition.policy.decider)):
                        raise
                    why = ASK_POLICY  # interpreted, its kernel says where it fails
            if why != ROWS_FULL:
                return why
            self.grow(why)

    def run(self, answers: "Answers", until: float = INFINITY, moments: int = 1 << 62) -> int:
        """Let time pass, the questions of the forward loop being answered; why it ends.

        answers: by question (ASK_...). until: no moment is later, in seconds. moments: at most so many.
        This is the one loop round `advance`: of a cycle, of a simulated world and of a look-ahead.
        """
        last = self.state.count[MOMENTS] + moments
        while (why := self.advance(until, last - self.state.count[MOMENTS])) in answers:
            self.answer(answers[why])
        return why

    def answer(self, answer: Callable[["SchedulerState"], object]) -> None:
        """Give one answer; within it a part may be interrupted, and no moment is left half done."""
        answer(self)

    def believe(self) -> None:
        """Let what is believed of every job be true, and nothing expected of it (`expect_ends`)."""
        s = self.state
        while len(s.expected) < s.count[EXPECTED] + s.count[JOBS] + 8:
            self.grow(ROWS_FULL)
        if s.compiled:
            machine_of(s).believe()
        else:
            believe(s)
        if self.composition.loss_every is not None:
            for number, row in self.known.rows.items():
                if self.known[number].believed.loss_curve:
                    s.jobs.truly_asked[row] = 1.0  # it may end by what it says of its loss

    def expect_ends(self) -> None:
        """Expect the ends of jobs that run, by the truth about them."""
        if self.state.compiled:
            machine_of(self.state).expect_ends()
        else:
            expect_ends(self.state)

    def grow(self, full: int) -> None:
        """Make room where something is full."""
        if full == LOG_FULL:
            self.state.grow_log()
        else:
            self.state.grow_rows()

    def compile(self) -> None:
        """Let machine code run the forward loop from now on."""
        if not self.state.compiled:
            self.replace_state(self.state.over_arrays())

    def replace_state(self, state: State, *, order_anew: bool = False) -> None:
        """Go on with ``state``, which says the same or what `volvelle.core.snapshot` has kept.

        order_anew: its jobs are in the order of another policy.
        """
        if order_anew:
            self._ordered = None
        self._own(state)
        self.judge_nodes()
        self.apply_rules()

    def _own(self, state: State) -> None:
        """Let this be the state of all owners."""
        self.state = state
        self.resources = self.resources.fork(state)
        self.admissions, self.promises = self.admissions.of(state), self.promises.of(state)
        self.grants = replace(self.grants)
        self.beliefs = self.beliefs.of(state, self.resources, self.grants)

    def note(self, event: Event) -> None:
        """Log an event that Python brings to the forward loop."""
        s = self.state
        if s.count[LOGGED_EVENTS] + 8 > len(s.events):
            self.grow(LOG_FULL)
        log_event(s, self.rules, OBJECT, len(self.notes.objects), 0.0, 0.0)
        self.notes.objects.append(event)

    def drain(self) -> Batch:
        """The contents of the log, which is empty afterwards."""
        notes, self.notes = self.notes, Notes(self.admissions.refused)
        return drained(self.state, notes)

    def apply_rules(self, **changed: Any) -> None:
        """Let the forward loop know of parts that are new, and of these ``changed`` rules."""
        s, parts, admissions = self.state, self.composition, self.admissions
        kernel = parts.policy.kernel(named=self.resources.named)
        known = {
            "admits": parts.admission.limit(0.0) is None
            or not admissions.prepared
            or admissions.dependents.watched,
            "learns": self.others_learn
            or type(parts.admission).learn_pace is not Admission.learn_pace,
            "watches": type(parts.admission).learn is not Admission.learn and not self.rules.ahead,
        }
        before = self.rules._replace(**{**known, **changed})
        self.rules = rules_of(s, parts, kernel, before, self._rates_are_known)
        s.machine = None
        ordered = type(parts.policy), parts.policy.label, self.rules.decides, self.rules.elastic
        if ordered != self._ordered:
            self._ordered = ordered
            if self.rules.grouped and kernel is not None:
                self._keep_groups(kernel)
            order_anew(s, self.rules, self.now)

    def _keep_groups(self, kernel: Kernel) -> None:
        groups = Groups(kernel.groups)
        self.state.groups = groups.over_arrays() if self.state.compiled else groups

    def remember(self) -> bool:
        """Let kernels go on with what their policy remembers; whether that is another array now."""
        kernel = None
        if self.rules.decides == KERNEL:
            kernel = self.composition.policy.kernel(named=self.resources.named)
        if kernel is None or kernel.memory is self.state.memory:
            return False
        self.state.memory, self.state.machine = kernel.memory, None
        if kernel.groups != len(self.state.groups.demand):
            self._keep_groups(kernel)
        return True

    def _rates_are_known(self) -> bool:
        """Whether the rates of all jobs that are there or come are in tables."""
        arriving = np.asarray(self.state.arrivals[PLACE["table"]])
        here = JobView(self.state, self.now).column("table")
        told = self.admissions.prepared or self.admissions.arrival is None
        return (
            self.beliefs.tabulates
            and told
            and bool((here >= 0.0).all() and (arriving >= 0.0).all())
        )

    @property
    def others_learn(self) -> bool:
        """Whether ends of jobs are passed to Python whatever the policy: for estimates, or dependencies."""
        learn = type(self.composition.estimator).learn
        return self.admissions.dependents.watched or learn is not Estimator.learn

    # ------------------------------------------------------------------ looking at it

    @property
    def now(self) -> float:
        """Seconds since the run's start."""
        return float(self.state.clock[NOW])

    @now.setter
    def now(self, now: float) -> None:
        self.state.clock[NOW] = now

    def view(self, rows: Any = None) -> View:
        """The policy's present view."""
        jobs = JobView(self.state, self.now, rows)
        if self._viewed[0] is not self.cluster.pools:
            self._viewed = self.cluster.pools, pool_columns(self.cluster.pools)
        names, owned, lends, budget = self._viewed[1]
        return View(
            self.now,
            jobs,
            self.resources.types,
            np.array(self.state.types.capacity, dtype=np.float64),
            np.array(self.state.pools.quota, dtype=np.float64),
            owned,
            lends,
            budget,
            lambda: self.beliefs.rates(jobs),
            lambda: self.beliefs.rates_basis(jobs),
            self.spec,
            self.resources,
            self.beliefs.rates_beside,
            lambda number: self.known[number].believed,
            self.promises,
            names,
            float(self.state.clock[CPUS]),
            float(self.state.clock[MEMORY]),
        )

    @property
    def known(self) -> KnownJobs:
        """Knowledge of the jobs in the system, by number."""
        return self.beliefs.known

    def spec(self, number: int) -> JobSpec:
        """The declaration of the user of a job in the system."""
        return self.known[int(number)].spec

    def row_of(self, number: int) -> int | None:
        """The row of a job, None where it is not in the system."""
        return self.known.rows.get(number)

    def slots_of(self, row: int) -> list[int]:
        """The GPUs that the job in ``row`` holds by name, ascending."""
        return self.resources.slots_of(row)

    def obstacle(self, spec: JobSpec) -> str:
        """Why a job could not run here even on an empty cluster; nothing if it could."""
        return self.beliefs.eligibility.obstacle(spec)

    def wake_at(self) -> float | None:
        """When to be woken though nothing happens; None for never."""
        time = wake_at(self.state, self.rules)
        return None if time == INFINITY else time

    def fork(self) -> Self:
        """One in the same state that can run ahead; its parent never notices."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy.composition = self.composition.fork()
        copy._own(self.state.copy())
        copy.notes = Notes(self.admissions.refused)
        copy.remember()
        return copy

    def judge_nodes(self) -> None:
        """Work out anew which jobs could run on the present nodes."""
        self.beliefs.eligibility = self._eligibility(self.composition.policy)

    def _eligibility(self, policy: Policy) -> Eligibility:
        return Eligibility(self.resources, self.cluster, policy, self.composition.placement)

    def obstacle_to(self, policy: Policy, specs: Iterable[JobSpec] | None = None) -> str:
        """The first job that ``policy`` could never serve, and why; empty where it could serve all.

        specs: the jobs that are meant, of those that this scheduler could serve; by default those here.
        """
        if policy.label == self.composition.policy.label:
            return ""
        eligibility = self._eligibility(policy)
        if specs is None:
            specs = [known.spec for known in self.known.values()]
            specs += [event.spec for event in self.admissions.waiting]
        for spec in specs:
            why = eligibility.obstacle(spec)
            if why and not self.obstacle(spec):
                return f"job {spec.id!r} {why}"
        return ""

    def count_pools(self) -> None:
        """Write down the most GPUs that the jobs of each pool may hold, and what it owns and lends."""
        pools = self.state.pools
        limits = limits_of(self.cluster, self.composition.policy)
        for index, limit in enumerate(limits.values()):
            pools.quota[index] = float(limit)
            pools.owned[index] = float(self.cluster.pools[index].quota)
            pools.lends[index] = float(self.cluster.pools[index].lends)
            touch(self.state, index)

    def count_capacity(self) -> None:
        """Count GPUs by type that take jobs, those that jobs hold on draining nodes, CPUs and memory."""
        s = self.state
        capacity = self.resources.gpus_by_type(up_only=True)
        if self.resources.named:
            pin(s, self.resources, capacity)
        for gpu_type, gpus in enumerate(capacity.tolist()):
            s.types.capacity[gpu_type] = gpus
        limit = self.composition.admission.limit(sum(capacity.tolist()))
        s.clock[LIMIT] = INFINITY if limit is None else limit
        s.clock[CPUS], s.clock[MEMORY] = self.resources.cpus_and_memory()


Answers = Mapping[int, Callable[[SchedulerState], object]]
"""The answers to questions of the forward loop, by question (ASK_...)."""


def machine_of(s: State) -> "Machine":
    """Machine code over a state, which is made anew where one of its arrays was replaced."""
    from volvelle.core.machine import Machine  # noqa: PLC0415 - loads llvmlite

    if s.machine is None:
        s.machine = Machine(s)
    found: Machine = s.machine
    return found
