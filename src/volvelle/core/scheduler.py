"""The scheduler: a pure state machine. Events in, one decision out; no clock, no I/O, no threads.

A cycle (`Scheduler.handle`) reads top to bottom::

    events ─▶ handlers ─▶ admit ─▶ due? ─▶ decide (policy) ─▶ place ─▶ commit ─▶ decision

The handlers (`volvelle.core.handlers`) let the state follow what happened. The rest is the forward loop
(`volvelle.core.forward.advance`), which asks for an answer (`volvelle.core.answers`) where a part is written
in Python. A simulated world runs the same loop over the same state, with a clock.
"""

from collections import deque
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from volvelle.core.answers import ANSWERS
from volvelle.core.beliefs import rates, rates_basis, rates_beside
from volvelle.core.composition import Composition
from volvelle.core.curves import RateCurves, ThroughputTables
from volvelle.core.decision import Decision, IntArray, Promise
from volvelle.core.dependents import Dependents
from volvelle.core.eligibility import Eligibility
from volvelle.core.entry import HeldJob
from volvelle.core.events import Event, JobSubmitted
from volvelle.core.forward.advance import advance, begin_moment, jobs_left, room, wake_at
from volvelle.core.forward.believe import believe, expect_ends
from volvelle.core.forward.groups import by_groups
from volvelle.core.forward.jobs import order_anew
from volvelle.core.forward.log import log_event
from volvelle.core.handlers import fold, follow
from volvelle.core.log import Batch, Notes, drained
from volvelle.core.orders import Key, compilable_keys, goes_by_time, interpreted_keys, never_rises
from volvelle.core.parts import Estimator, KnownJob
from volvelle.core.paying import machine_code_pays
from volvelle.core.policy import Kernel, Policy, kept_order
from volvelle.core.resources import Resources
from volvelle.core.state import (
    AHEAD,
    ASKED,
    COUNTED,
    EXPECTED,
    INFINITY,
    JOBS,
    KERNEL,
    LIMIT,
    LIMITS,
    LOG_FULL,
    LOGGED_EVENTS,
    MOMENTS,
    NOW,
    OBJECT,
    ORDER,
    PHASE,
    ROWS_FULL,
    VERSION,
    Groups,
    Jobs,
    Rules,
    State,
)
from volvelle.core.view import JobView, View, rows_by_submission
from volvelle.model.cluster import Cluster
from volvelle.model.job import JobSpec
from volvelle.model.overheads import Overheads

if TYPE_CHECKING:
    from volvelle.core.fork import Fork
    from volvelle.core.machine import Machine


class Scheduler:
    """Events in, decisions out.

    cluster: what there is to give. overheads: what starts and stops are believed to cost. seed: of every
    random choice. All times are seconds on the world's clock.

    state, rules: of the forward loop. queue: submissions that wait to be admitted (`volvelle.core.entry`).
    held: jobs that their users hold, from the system or from the queue, by number. known: what is known of
    the jobs in the system.
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
        self.pools = {pool.name: index for index, pool in enumerate(cluster.pools)}
        self.known = KnownJobs(self.state)
        self.queue: deque[JobSubmitted] = deque()
        self.coming: Callable[[int], JobSubmitted] | None = None
        """In a world that knows what comes: the submissions in the table of arrivals."""
        self.prepared = False
        """Whether that table says what is believed of them."""
        self.foretold: dict[int, str] = {}
        """Why some of them will be turned away, by number."""
        self.served: list[int] | None = None
        """Rows in the order in which the last allocation served them; None: by submission."""
        self.nodes_wanted: dict[int, IntArray] = {}
        """GPUs on each node by row, where the last allocation said so."""
        self.neighbours: dict[int, str] = {}
        """The names of jobs beside which others run on the same GPUs, by number, until the next decision."""
        self.held: dict[int, HeldJob | JobSubmitted] = {}
        self.dependents = Dependents()
        """Submissions that stand aside until other jobs are through."""
        self.promises: dict[int, Promise] = {}
        """What jobs in the system were promised last, by number; a few that are through may be there too."""
        self.notes = Notes(self.foretold)
        self.curves = RateCurves()
        kernel = self.composition.policy.kernel(named=self.resources.named)
        self.tabulates = kernel is not None and kernel.rates
        """Whether rates of linear jobs are in tables too, for a policy's machine code."""
        self.tables = ThroughputTables(linear=self.tabulates)
        self.count_pools()
        self.eligibility = self.judge_nodes()
        self.rules = Rules()
        self._ordered: tuple[Any, ...] | None = None
        """By what jobs are kept in order: the policy, and the rules that matter to it."""
        self._machine: Machine | None = None
        self.count_capacity()
        self.apply_rules()

    # ------------------------------------------------------------------ the cycle

    def handle(self, now: float, events: Sequence[Event]) -> Decision:
        """Take all that happened at ``now`` and answer what changes."""
        self._begin(now)
        for event in events:
            fold(self, event)
        self.make_room()
        self.state.count[PHASE] = LIMITS
        self.run(ANSWERS, moments=1)
        return self._decided()

    def follow(self, now: float, events: Sequence[Event], decision: Decision) -> None:
        """Let ``decision`` be what was decided then, by another policy or another version of this one.

        The policy is not asked and so remembers nothing of it; it is asked at the next `handle`.
        """
        self._begin(now)
        for event in events:
            fold(self, event)
        self.make_room()
        follow(self, decision)
        self.run(ANSWERS, moments=1)
        self._decided()

    def _begin(self, now: float) -> None:
        self.state.count[PHASE] = AHEAD
        self.make_room()
        begin_moment(self.state, now)
        if not (self.dependents.watched or self.dependents.news):
            self.dependents.ended.clear()

    def _decided(self) -> Decision:
        """What was decided at this moment."""
        *_, moment = self.drain().moments(lambda time, number: self._unseen(number))
        return moment.decision

    @staticmethod
    def _unseen(number: int) -> JobSubmitted:
        raise AssertionError(f"job {number} was submitted to a world, not to `Scheduler.handle`")

    def make_room(self) -> None:
        """Room for all that may happen at one moment."""
        while (full := room(self.state, self.rules, -INFINITY)) != AHEAD:
            self.grow(full)

    # ------------------------------------------------------------------ the forward loop

    def advance(self, until: float, moments: int) -> int:
        """The forward loop, up to its next question; it makes room for itself."""
        while True:
            if not self.state.compiled:
                why = advance(self.state, self.rules, until, moments)
            else:
                why = self._machine_code().advance(self.rules, until, moments)
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

    def answer(self, answer: Callable[["Scheduler"], object]) -> None:
        """Give one answer; within it a part may be interrupted, and no moment is left half done."""
        answer(self)

    def believe(self) -> None:
        """Let what is believed of every job be true, and nothing expected of it (`expect_ends`)."""
        s = self.state
        while len(s.expected) < s.count[EXPECTED] + s.count[JOBS] + 8:
            self.grow(ROWS_FULL)
        if s.compiled:
            self._machine_code().believe()
        else:
            believe(s)
        if self.composition.loss_every is not None:
            for number, row in self.known.rows.items():
                if self.known[number].believed.loss_curve:
                    s.jobs.truly_asked[row] = 1.0  # it may end by what it says of its loss

    def expect_ends(self) -> None:
        """Expect the ends of jobs that run, by the truth about them."""
        if self.state.compiled:
            self._machine_code().expect_ends()
        else:
            expect_ends(self.state)

    def _machine_code(self) -> "Machine":
        if self._machine is None:
            from volvelle.core.machine import Machine  # noqa: PLC0415 - loads llvmlite

            self._machine = Machine(self.state)
        return self._machine

    def grow(self, full: int) -> None:
        """Make room where something is full."""
        if full == LOG_FULL:
            self.state.grow_log()
        else:
            self.state.grow_rows()
        self.renew()

    def renew(self) -> None:
        """An array of the state was replaced: machine code is to see the new one."""
        self._machine = None

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
        self.state = state
        self.resources = self.resources.fork(state)
        self.known = self.known.of(state)
        self.eligibility = self.judge_nodes()
        self.apply_rules()

    def compile_where_it_pays(self) -> None:
        """Let machine code run the forward loop if so many jobs are there that it is worth loading."""
        if machine_code_pays(jobs_left(self.state)):
            self.compile()

    def note(self, event: Event) -> None:
        """Log an event that Python brings to the forward loop."""
        s = self.state
        if s.count[LOGGED_EVENTS] + 8 > len(s.events):
            self.grow(LOG_FULL)
        log_event(s, self.rules, OBJECT, len(self.notes.objects), 0.0, 0.0)
        self.notes.objects.append(event)

    def drain(self) -> Batch:
        """What is in the log; it is empty afterwards."""
        notes, self.notes = self.notes, Notes(self.foretold)
        return drained(self.state, notes)

    def apply_rules(self, **changed: Any) -> None:
        """Let the forward loop know of parts that are new, and of these ``changed`` rules."""
        before, s = self.rules, self.state
        policy, placement = self.composition.policy, self.composition.placement
        kernel = policy.kernel(named=self.resources.named)
        decides = self._decides(kernel, simulated=changed.get("simulated", before.simulated))
        self.rules = before._replace(
            **{
                **_rules_of_policy(policy, decides),
                "grouped": decides == KERNEL and kernel is not None and kernel.group is not None,
                "yields": decides == KERNEL and kernel is not None and kernel.yields,
                "places": COUNTED
                if not placement.names_gpus
                else ASKED
                if placement.kernel is None
                else KERNEL,
                "keeps_place": placement.shrinks_in_place,
                "admits": self.composition.admission.limit(0.0) is None
                or not self.prepared
                or self.dependents.watched,
                "learns": self.learns,
                "divides": policy.divides,
                **changed,
            }
        )
        if placement.kernel is not None:
            s.place = placement.kernel
        self.renew()
        ordered = type(policy), policy.label, self.rules.decides, self.rules.elastic
        if ordered != self._ordered:
            self._ordered = ordered
            if self.rules.grouped and kernel is not None:
                s.groups = Groups(kernel.groups)
                if s.compiled:
                    s.groups = s.groups.over_arrays()
            order_anew(s, self.rules, self.now)

    def _decides(self, kernel: Kernel | None, *, simulated: bool) -> int:
        """Who decides; the state knows their kernels afterwards."""
        s = self.state
        if (key := kept_order(self.composition.policy)) is not None:
            if not s.compiled:
                s.key = interpreted_keys(key)
                return ORDER
            if (keys := _compiled(key)) is not None:
                s.key = keys
                return ORDER
        if kernel is None or (kernel.rates and not self._rates_are_known()):
            return ASKED
        if kernel.yields and not (simulated and s.compiled and len(s.types.capacity) == 1):
            return ASKED  # what it says of its decisions is Python's to say
        if kernel.group is not None:
            s.group, s.decide = by_groups(kernel.group, kernel.decide)
        elif s.compiled:
            from volvelle.core.machine import deciding  # noqa: PLC0415 - loads llvmlite

            s.decide = deciding(kernel.decide)
        else:
            return ASKED
        s.memory = kernel.memory
        return KERNEL

    def remember(self) -> bool:
        """Let kernels go on with what their policy remembers; whether that is another array now."""
        kernel = None
        if self.rules.decides == KERNEL:
            kernel = self.composition.policy.kernel(named=self.resources.named)
        if kernel is None or kernel.memory is self.state.memory:
            return False
        self.state.memory = kernel.memory
        self.renew()
        return True

    def _rates_are_known(self) -> bool:
        """Whether the rates of all jobs that are there or come are in tables."""
        table = Jobs.float_columns.index("table")
        coming = np.asarray(self.state.arrivals[table])
        here = JobView(self.state, self.now).column("table")
        told = self.prepared or self.coming is None
        return self.tabulates and told and bool((here >= 0.0).all() and (coming >= 0.0).all())

    @property
    def learns(self) -> bool:
        """Whether some part is to be told how long jobs that ended ran, or Python that they ended."""
        if self.dependents.watched:
            return True
        estimator, policy = type(self.composition.estimator), type(self.composition.policy)
        return estimator.learn is not Estimator.learn or policy.learn is not Policy.learn

    # ------------------------------------------------------------------ looking at it

    @property
    def now(self) -> float:
        """Seconds since the run's start."""
        return float(self.state.clock[NOW])

    @now.setter
    def now(self, now: float) -> None:
        self.state.clock[NOW] = now

    def view(self, rows: Any = None) -> View:
        """What a policy sees now."""
        jobs = JobView(self.state, self.now, rows)
        return View(
            self.now,
            jobs,
            self.resources.types,
            np.array(self.state.types.capacity, dtype=np.float64),
            np.array(self.state.pools.quota, dtype=np.float64),
            np.array([pool.quota for pool in self.cluster.pools], dtype=np.float64),
            np.array([pool.lends for pool in self.cluster.pools], dtype=np.bool_),
            np.array([pool.weight for pool in self.cluster.pools], dtype=np.float64),
            lambda: rates(self, jobs),
            lambda: rates_basis(self, jobs),
            self.spec,
            self.resources,
            lambda number, other: rates_beside(self, number, other),
            lambda number: self.known[number].believed,
            self.promises,
            tuple(self.pools),
        )

    @property
    def ahead(self) -> "Fork":
        """A look-ahead with the jobs that are admitted, and no others."""
        from volvelle.core.fork import Fork  # noqa: PLC0415 - it runs schedulers

        return Fork(self).without_queue()

    def spec(self, number: int) -> JobSpec:
        """The declaration of the user of a job in the system."""
        return self.known[int(number)].spec

    def row_of(self, number: int) -> int | None:
        """The row of a job, None where it is not in the system."""
        return self.known.rows.get(number)

    def slots_of(self, row: int) -> list[int]:
        """The GPUs that the job in ``row`` holds by name, ascending."""
        slots, slot = [], int(self.state.jobs.slot[row])
        while slot >= 0:
            slots.append(slot)
            slot = int(self.state.slots.next[slot])
        return slots

    def obstacle(self, spec: JobSpec) -> str:
        """Why a job could not run here even on an empty cluster; nothing if it could."""
        return self.eligibility.obstacle(spec)

    def wake_at(self) -> float | None:
        """When to be woken though nothing happens; None for never."""
        time = wake_at(self.state, self.rules)
        return None if time == INFINITY else time

    def fork(self) -> Self:
        """One in the same state that can run ahead; its parent never notices."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy.composition = self.composition.fork()
        copy.state = self.state.copy()
        copy.resources = self.resources.fork(copy.state)
        copy.known = self.known.of(copy.state)
        copy.queue, copy.held = self.queue.copy(), self.held.copy()
        copy.dependents = self.dependents.copy()
        copy.promises = self.promises.copy()
        copy.notes = Notes(copy.foretold)
        copy.curves = self.curves.fork()
        copy._machine = None
        copy.remember()
        return copy

    # ------------------------------------------------------------------ nodes

    def judge_nodes(self) -> Eligibility:
        """Which jobs could run on the nodes there are."""
        return Eligibility(
            self.resources,
            self.limits,
            whole_gpus=self.composition.placement.names_gpus,
            whole_nodes=(
                self.composition.placement.names_gpus and not self.composition.policy.chooses_nodes
            ),
            elastic=self.composition.policy.resizes,
        )

    @property
    def limits(self) -> dict[str, float]:
        """The most GPUs that the jobs of each pool may hold."""
        if self.composition.policy.borrows:
            return self.cluster.limits
        return {pool.name: pool.quota for pool in self.cluster.pools}

    def count_pools(self) -> None:
        """Write down the most GPUs that the jobs of each pool may hold."""
        for index, limit in enumerate(self.limits.values()):
            self.state.pools.quota[index] = float(limit)

    def count_capacity(self) -> None:
        """GPUs by type that take jobs, plus those that jobs still hold on draining nodes.

        Jobs with a GPU on a draining node are pinned: they stay until they end.
        """
        s = self.state
        capacity = self.resources.gpus_by_type(up_only=True)
        pinned: set[int] = set()
        if self.resources.named:
            up, owner = self.resources.schedulable, self.resources.owner
            for slot in np.flatnonzero(~up[self.resources.slot_node] & (owner >= 0)).tolist():
                capacity[self.resources.node_type[self.resources.slot_node[slot]]] += 1
                pinned.add(int(owner[slot]))
            for row in rows_by_submission(s):
                s.jobs.pinned[row] = float(int(s.jobs.number[row]) in pinned)
        for gpu_type, gpus in enumerate(capacity.tolist()):
            s.types.capacity[gpu_type] = gpus
        limit = self.composition.admission.limit(sum(capacity.tolist()))
        s.clock[LIMIT] = INFINITY if limit is None else limit


Answers = Mapping[int, Callable[[Scheduler], object]]
"""The answers to questions of the forward loop, by question (ASK_...)."""


def _rules_of_policy(policy: Policy, decides: int) -> dict[str, Any]:
    """The rules that follow from a policy, and who decides for it."""
    key = kept_order(policy) if decides == ORDER else None
    order = {
        name: bool(getattr(policy, name, default))
        for name, default in (("preemptive", True), ("strict", False), ("elastic", True))
    }
    return {
        **order,
        "decides": decides,
        "keys_fall": key is not None and never_rises(key),
        "keys_move": key is not None and goes_by_time(key),
        "time_varying": policy.time_varying,
        "round": policy.round or 0.0,
    }


def _compiled(key: Key) -> Callable[..., None] | None:
    """``key`` as a kernel; None where it is beyond Numba."""
    from volvelle.core.machine_code.loading import NotCompilable, address  # noqa: PLC0415 - llvmlite
    from volvelle.core.machine_code.words import KERNELS  # noqa: PLC0415 - as above

    keys = compilable_keys(key)
    try:
        address(keys, KERNELS["key"])
    except NotCompilable:
        return None
    return keys


class KnownJobs(Mapping[int, KnownJob]):
    """What is known of the jobs in the system beside their columns, by number."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._jobs: dict[int, KnownJob] = {}
        self._source: Callable[[int], KnownJob] | None = None
        self._rows: dict[int, int] = {}
        self._version = -1

    def of(self, state: State) -> "KnownJobs":
        """The same for a copy of the state."""
        copy = KnownJobs(state)
        copy._jobs, copy._source = self._jobs.copy(), self._source
        return copy

    def ask(self, source: Callable[[int], KnownJob], numbers: Container[int]) -> None:
        """Jobs of these numbers, of which nothing is noted here, are those of ``source``."""
        before = self._source
        self._source = lambda number: (
            source(number) if before is None or number in numbers else before(number)
        )

    @property
    def rows(self) -> Mapping[int, int]:
        """The rows of the jobs in the system, by number."""
        s = self._state
        if self._version != s.count[VERSION]:
            self._version = int(s.count[VERSION])
            rows = rows_by_submission(s)
            if s.compiled:
                numbers = np.asarray(s.jobs.number)[rows].astype(np.int64)
                self._rows = dict(zip(numbers.tolist(), rows.tolist(), strict=True))
            else:
                self._rows = {int(s.jobs.number[row]): row for row in rows}
        return self._rows

    def entered(self, number: int, row: int, known: KnownJob) -> None:
        """A job has just entered the system."""
        self._jobs[number] = known
        self._rows[number] = row
        self._version += 1

    def left(self, number: int) -> None:
        """A job has just left the system."""
        self._jobs.pop(number, None)
        if self._rows.pop(number, None) is not None:
            self._version += 1

    def __setitem__(self, number: int, known: KnownJob) -> None:
        self._jobs[number] = known

    def __getitem__(self, number: int) -> KnownJob:
        known = self._jobs.get(number)
        if known is not None:
            return known
        if self._source is None or number not in self.rows:
            raise KeyError(number)
        return self._source(number)

    def __contains__(self, number: object) -> bool:
        return number in self.rows

    def __iter__(self) -> Iterator[int]:
        return iter(self.rows)

    def __len__(self) -> int:
        return int(self._state.count[JOBS])
