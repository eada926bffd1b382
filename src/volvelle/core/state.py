"""The state: tables of jobs, nodes, what is expected and what is logged.

It is the scheduler's and, in a simulated world, holds the truth beside the belief. Kernels move it on
(`volvelle.core.forward`), interpreted over lists or compiled over NumPy arrays: lists are quicker until there
are some thousand events, since nothing is compiled or loaded then. A fork is a copy of the tables.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Annotated, Any, ClassVar, Final, NamedTuple, Self, get_type_hints

import numpy as np

INFINITY: Final = float("inf")

Floats = Annotated[Any, float, 1]
"""A list of floats, or a NumPy array of them."""
Ints = Annotated[Any, int, 1]
"""A list of whole numbers, or a NumPy array of them."""
Matrix = Annotated[Any, float, 2]
"""Lists of floats, or a NumPy array of two dimensions."""
Cube = Annotated[Any, float, 3]
"""Lists of lists of floats, or a NumPy array of three dimensions."""


def array_of(numbers: Floats) -> Any:
    """The NumPy array that lies where the ``numbers`` of a state over arrays do: machine code slices it."""
    return numbers


class StateTable:
    """Columns of numbers of one length, by name.

    ``floats`` and ``ints`` are all columns of a kind one after the other. Over NumPy arrays these are
    matrices and the columns their rows; what belongs together, a job's attributes, lies together in memory. A
    table may have more columns of floats, without a name.
    """

    float_columns: ClassVar[tuple[str, ...]]
    int_columns: ClassVar[tuple[str, ...]]
    layout: ClassVar[str]
    floats: Matrix
    ints: Any

    def __init_subclass__(cls) -> None:
        """Read the columns from the annotations."""
        hints = get_type_hints(cls, include_extras=True)
        own = [name for name in hints if name in cls.__annotations__]
        cls.float_columns = tuple(name for name in own if hints[name] == Floats)
        cls.int_columns = tuple(name for name in own if hints[name] == Ints)
        cls.layout = repr((cls.float_columns, cls.int_columns))

    def __init__(self, size: int = 0, more: int = 0) -> None:
        self._set(
            [[0.0] * size for _ in range(len(self.float_columns) + more)],
            [[0] * size for _ in self.int_columns],
        )

    @classmethod
    def from_columns(cls, floats: Any, ints: Any) -> Self:
        """The table of these columns, which it keeps."""
        table = object.__new__(cls)
        table._set(floats, ints)
        return table

    def _set(self, floats: Any, ints: Any) -> None:
        self.floats, self.ints = floats, ints
        for place, name in enumerate(self.float_columns):
            setattr(self, name, floats[place])
        for place, name in enumerate(self.int_columns):
            setattr(self, name, ints[place])

    def __len__(self) -> int:
        return len((self.floats if self.float_columns else self.ints)[0])

    def copy(self) -> Self:
        """A table with the same numbers."""
        if isinstance(self.floats, list):
            return self.from_columns(
                [column[:] for column in self.floats], [column[:] for column in self.ints]
            )
        return self.from_columns(self.floats.copy(order="F"), self.ints.copy(order="F"))

    def over_arrays(self) -> Self:
        """The same over NumPy arrays."""
        floats, ints = (len(self.floats), len(self)), (len(self.ints), len(self))
        return self.from_columns(
            np.asfortranarray(np.array(self.floats, dtype=np.float64).reshape(floats)),
            np.asfortranarray(np.array(self.ints, dtype=np.int64).reshape(ints)),
        )

    def set_more(self, more: int) -> None:
        """Have ``more`` columns of floats without a name, all 0."""
        named, size = len(self.float_columns), len(self)
        if isinstance(self.floats, list):
            self.floats[named:] = [[0.0] * size for _ in range(more)]
        else:
            floats = np.zeros((named + more, size), order="F")
            floats[:named] = self.floats[:named]
            self._set(floats, self.ints)

    def grow(self, size: int) -> None:
        """Let columns have ``size`` entries; new ones are 0."""
        more = size - len(self)
        if isinstance(self.floats, list):
            for column in self.floats:
                column.extend([0.0] * more)
            for column in self.ints:
                column.extend([0] * more)
        else:
            self._set(_longer(self.floats, more), _longer(self.ints, more))


class Jobs(StateTable):
    """A column for each attribute of a job; a job keeps its row while it is in the system.

    Times are seconds since the run's start. Whole numbers and flags are floats where policies read them.
    """

    # What a job comes with.
    number: Floats  # order of submission
    submit: Floats
    gpus: Floats  # the gang requested
    least: Floats  # fewest GPUs it runs on
    most: Floats  # most GPUs it can use
    types: Floats  # bit t is set where GPU type t will do
    pool: Floats  # index into the cluster's pools, -1 without
    weight: Floats
    preemptible: Floats
    total: Floats  # units of work believed in all
    scale: Floats  # the estimator's factor on what remains
    full_rate: Floats  # units per second believed on the most GPUs, as a mean of what is to come
    request_rate: Floats  # the same on the GPUs it requests
    unit_rate: (
        Floats  # believed rate per GPU of a job that scales linearly wherever it runs, else NaN
    )
    table: Floats  # index into `State.rates`, -1: only Python knows how fast it is, unless it is linear
    curve: Floats  # index into `volvelle.core.view.View.rates`, -1 until a policy asks
    start_gap: Floats  # seconds its next start costs
    restore: Floats  # seconds a resume costs
    resize: Floats  # seconds a resize costs
    checkpoint: Floats  # seconds a stop costs
    priority: Floats  # the higher the sooner, where the policy heeds it
    time_limit: Floats  # seconds with GPUs after which it is ended, 0 for none
    exclusive: Floats  # 1 where it has whole nodes
    starts_over: Floats  # 1 where a stop loses what it has done
    deadline: Floats  # of its most valuable reward, infinite where it has none
    user: Floats  # a number for each user, 0 for none
    declared_cpus: Floats  # of the whole job
    declared_memory: Floats  # GB of the whole job
    # The truth about it, in a simulated world.
    true_work: Floats  # units in all
    true_unit_rate: Floats  # as unit_rate
    true_table: Floats  # as table
    truly_asked: Floats  # 1 where only Python knows what happens to it next and how fast it is
    # What it holds and has done, as the scheduler knows it.
    held: Floats  # GPUs held now
    type: Floats  # GPU type held, -1 none
    pinned: Floats  # 1 where it stays where it is: on a draining node
    first_start: Floats  # NaN before it
    started: Floats  # when it got the GPUs it holds; of a job without any, since when it waits
    progress_from: Floats  # when work at ``rate`` began or begins (after a restore)
    attained: Floats  # seconds with GPUs, up to ``started``
    attained_gpu: Floats  # GPU-seconds, up to ``started``
    done: Floats  # units of work believed done, up to ``progress_from``
    rate: Floats  # units per second believed, with the GPUs it holds
    attempt: Floats  # starts so far
    preemptions: Floats
    failures: Floats
    reason: Floats  # why it waits: a Reason, as the policy or the placement said
    partner: Floats  # number of the job with which it shares its GPUs, -1 none
    cpus: Floats  # per GPU, where the policy divides them; NaN elsewhere
    memory: Floats  # GB per GPU, likewise
    # What the last decision made of it.
    key: Floats  # what it is served by; of a running job a bound on it
    target: Floats  # GPUs it is to hold
    target_type: Floats
    # The truth, as it goes on.
    true_done: Floats  # units done at ``since``
    since: Floats  # when progress at ``true_rate`` began or begins
    true_rate: Floats
    written: Floats  # when the checkpoint of its last stop is written
    saved: Floats  # units safe in the last checkpoint
    saved_at: Floats  # when that was written (or the run began)
    cadence_from: Floats  # from when the checkpoints of its own accord are counted
    token: Floats  # outdates what is expected of earlier rates
    # Links to other jobs and to GPUs, -1 for none.
    child: Ints  # first child in the heap of the jobs that wait
    next: Ints  # next sibling in it; or the next job of its group
    previous: Ints  # previous sibling, or parent; or the job before it
    kind: Ints  # its class: jobs that need the same; or its group
    older: Ints  # the job submitted before it
    younger: Ints  # and after it
    slot: Ints  # the first GPU it holds, where GPUs have names
    old_slots: Ints  # where the GPUs stand that it gives up in this decision


ARRIVAL_COLUMNS: Final = Jobs.float_columns.index("held")
"""Columns that a job comes with."""
KNOWN_COLUMNS: Final = Jobs.float_columns.index("key")
"""Columns that belong to the scheduler: what is kept of a job that its user holds."""
TRUTH: Final = range(Jobs.float_columns.index("true_work"), ARRIVAL_COLUMNS)
"""Columns that say the truth about a job, in a simulated world."""
COLUMNS: Final = len(Jobs.float_columns)
"""Columns before those that a policy keeps of its own."""


class Classes(StateTable):
    """Jobs that need the same, and ``first``, the row of the first of them that waits."""

    least: Floats
    most: Floats
    types: Floats
    pool: Floats
    first: Ints


class Groups(StateTable):
    """Jobs in the system by group, in order of submission, where the policy decides by groups.

    demand: GPUs that its jobs can use. first, last: rows.
    """

    demand: Floats
    first: Ints
    last: Ints


class Expected(StateTable):
    """A heap of what comes: when, what, of which job. ``stamp``: its token, or the attempt of a checkpoint.

    value: of a checkpoint the units of work in it, NaN where Python knows.
    """

    at: Floats
    kind: Floats
    of: Floats
    row: Floats
    stamp: Floats
    value: Floats


MILESTONE, STOPPED, REPORT, TUNING = range(4)
"""Kinds of what is expected: a job ends, or something that Python knows happens to it; its checkpoint is
written; it tells its loss; it looks for a better batch size."""


class Releases(StateTable):
    """GPUs that come free later, where they are counted. claim: number of the job that waits, or -1."""

    at: Floats
    gpus: Floats
    type: Floats
    claim: Floats


class Types(StateTable):
    """GPUs by type: that take jobs, that jobs hold, and that are left during a decision."""

    capacity: Floats
    used: Floats
    free: Floats


class Pools(StateTable):
    """GPUs by pool: the most that its jobs may hold, that they hold, and that are left during a decision."""

    quota: Floats
    taken: Floats
    left: Floats


class Nodes(StateTable):
    """Nodes: free GPUs, their type, whether it takes jobs (0 or 1), the first of its slots.

    usable, picked: GPUs that the placement of a job may and does take.
    """

    free: Ints
    type: Ints
    up: Ints
    slot: Ints
    usable: Ints
    picked: Ints


class Slots(StateTable):
    """GPUs by name: number of the job that holds it (-1: nobody), its node, the next of the same job.

    free_at: when it is free in fact. old: slots given up in a decision.
    """

    free_at: Floats
    owner: Ints
    node: Ints
    next: Ints
    old: Ints


class EventLog(StateTable):
    """What happened: of which job, in which attempt; what ``value`` is depends on the kind."""

    kind: Floats
    number: Floats
    attempt: Floats
    value: Floats


(
    FINISHED,
    CHECKPOINTED,  # value: units of work that are safe
    BEGAN,  # value: when it gets the GPUs it was given
    SUBMITTED,
    WOKEN,
    REJECTED,  # by the decision of that moment, as is
    CONCLUDED,
    OBJECT,  # an event that Python brought; number: its place in the list of these
    TIMED_OUT,  # ended by its time limit, by the decision of that moment
) = range(9)
"""Kinds of what happened."""


class DecisionLog(StateTable):
    """From when on a job holds so many GPUs of a type. starts: so far. slots_end: of its GPUs' names."""

    job: Floats
    gpus: Floats
    type: Floats
    starts: Floats
    partner: Floats
    slots_end: Floats


class MomentLog(StateTable):
    """Moments, where their events and decisions end, and when the scheduler asked to be woken then."""

    time: Floats
    events_end: Floats
    decisions_end: Floats
    wake: Floats


(
    PHASE,
    JOBS,  # in the system
    RUNNING,
    WAITING,
    ELASTIC,  # that may hold fewer or more GPUs than they do
    SHORT,  # that hold less than they can use
    RANKED,  # running jobs in order of their keys
    SPARE,  # unused rows
    CLASSES,
    OLDEST,
    YOUNGEST,
    VERSION,  # grows whenever a job comes or goes
    EXPECTED,  # entries of what is expected
    RELEASES,
    DIRTY,  # 1 where something happened that the policy was not asked about
    COME,  # arrivals that were submitted
    QUEUED,  # the first of them that is not admitted yet
    CHANGED,  # rows that the decision changes
    UNRATED,  # of them rows whose rate Python has to say
    SUBJECT,  # the row that Python is asked about
    SUBJECT_KIND,
    EVENTS,
    EVENTS_BEFORE,  # this moment
    MOMENTS,
    MARK,  # where in the log the events end that led to the decision
    IDLE_WAKES,  # wake-ups in a row to no effect
    TRACKED,  # jobs waited for that are not through, -1: all are waited for
    TRACKED_FIRST,
    TRACKED_LAST,
    NEWCOMERS,  # submitted at this moment
    WOKE,  # 1 where this moment is a wake-up
    ENDLESS,  # 1 where nodes fail at random
    AWAY,  # nodes that take no jobs
    NODES_NAMED,  # 1 where the policy has chosen nodes itself
    LOGGED_EVENTS,
    LOGGED_DECISIONS,
    LOGGED_SLOTS,
    LOGGED_MOMENTS,
    RETURNED,  # arrivals that stood aside for others and are in the admission queue now
    COUNTERS,
) = range(40)
"""Entries of `State.count`."""

(
    NOW,
    WAKE,  # when the scheduler asked to be woken
    NAMED_WAKE,  # when the policy named a time at which it is to be asked
    NODE_AT,  # when a node changes next
    DIRECT_AT,  # when whoever steers the scheduler is asked next
    DEMAND,  # GPUs that admitted jobs request
    LIMIT,  # the most that they may
    DECIDED,  # when was last decided
    PROMISED,  # when the first promise is due that is not known to be kept
    TIMED,  # when the first job may have run for as long as it is allowed to
    ELIGIBLE,  # when the next job may come that stood aside for others
    SUBJECT_NUMBER,  # the job that Python is asked about
    SUBJECT_STAMP,  # and its attempt, of a checkpoint
    CPUS,  # of the nodes that take jobs, infinite where none says how many it has
    MEMORY,  # the same, GB
    CLOCKS,
) = range(16)
"""Entries of `State.clock`: times and sums."""

(
    AHEAD,
    NEWS,
    NODES,
    ARRIVALS,
    DIRECTION,
    LIMITS,
    PROMISES,
    DEPENDENCIES,
    ADMISSION,
    DECISION,
    PLACING,
    COMMIT,
    RATES,
    DIVISION,
    CLOSING,
) = range(15)
"""Phases of a moment."""

(
    THROUGH,  # nothing is left that could happen
    UNTIL,  # the next moment is later than asked for
    PAUSED,  # as many moments as asked for
    ROWS_FULL,
    LOG_FULL,
    ASK_NEWS,  # what happens to the job in SUBJECT
    ASK_NODES,
    ASK_DIRECTOR,
    ASK_LIMITS,  # whose time is over
    ASK_PROMISES,  # which of those that are due were not kept
    ASK_DEPENDENCIES,  # which jobs come that stood aside for others
    ASK_ADMISSION,
    ASK_POLICY,
    ASK_PLACEMENT,
    ASK_RATES,
    ASK_DIVISION,
) = range(16)
"""Why `volvelle.core.forward.advance` returns."""

ENTERS, OBSTACLE, NO_PROGRESS, GONE, DEPENDS = range(5)
"""An arrival enters, cannot run here, is believed to make no progress, is out of the queue already, or stands
aside for other jobs."""

ORDER, KERNEL, ASKED, COUNTED = range(4)
"""Who decides or places: an order that is kept, a kernel, Python; COUNTED: nobody places."""

NEVER, EVERY_MOMENT, NEWCOMERS_CAME = range(3)
"""After which moments `volvelle.core.forward.advance` pauses."""


class Reason(IntEnum):
    """Why a job waits: the dominant cause at the last decision."""

    NONE = 0
    GPUS = 1  # not enough free GPUs it could use
    ORDER = 2  # enough GPUs, but a job before it in a strict order waits
    QUOTA = 3  # its pool's quota is in use
    PLACEMENT = 4  # GPUs are free, but not where the placement wants them
    POLICY = 5  # the policy gave it nothing
    ROUND = 6  # the policy was not asked since it came: it is at the next round
    RESERVED = 7  # GPUs are free, but kept for jobs of the pools that own them


class Rules(NamedTuple):
    """What does not change while time passes, as kernels want it.

    decides: ORDER, KERNEL or ASKED. grouped: the kernel decides by groups. yields: it lets Python refresh
    what it remembers. keys_fall: keys of running jobs never rise. keys_move:
    those of waiting ones do not stand still. round: seconds, 0 where decisions follow events. places:
    COUNTED, KERNEL or ASKED. keeps_place: a job that gets fewer GPUs keeps some of its own. admits: Python
    judges who may enter. learns: Python is told of ends. divides: Python divides CPUs and memory after each
    decision. simulated: jobs end by themselves. tick: ends are noticed at multiples of it, 0 for at once.
    logs: events and decisions are kept. pauses: when to return.
    """

    decides: int = ORDER
    grouped: bool = False
    yields: bool = False
    preemptive: bool = True
    strict: bool = False
    elastic: bool = True
    keys_fall: bool = False
    keys_move: bool = False
    time_varying: bool = False
    round: float = 0.0
    places: int = COUNTED
    keeps_place: bool = True
    admits: bool = False
    learns: bool = False
    divides: bool = False
    simulated: bool = False
    tick: float = 0.0
    logs: bool = True
    pauses: int = NEVER


_LOG = 512
"""Room in a log at first."""


class State:
    """The tables, and lists of rows.

    count, clock: single numbers. spare: unused rows. ranked: rows of running jobs by what bounds their keys,
    which is in ``bound``. keys: of whom they were just worked out. changed, unrated, order: rows. arrivals:
    jobs that come, [column][place]; verdict: what becomes of them. rates: units per second, [curve][GPU
    type][GPUs]. memory: of the kernel that decides. events, decisions, moments, slots_log: the log.

    key, group, decide, place: the policy's and the placement's kernels. machine: machine code over these
    arrays (`volvelle.core.machine.machine_of`); None once one of them was replaced.
    """

    layout: ClassVar[str]
    jobs: Jobs
    classes: Classes
    groups: Groups
    expected: Expected
    releases: Releases
    types: Types
    pools: Pools
    nodes: Nodes
    slots: Slots
    events: EventLog
    decisions: DecisionLog
    moments: MomentLog
    count: Ints
    clock: Floats
    spare: Ints
    ranked: Ints
    bound: Floats
    keys: Floats
    changed: Ints
    unrated: Ints
    order: Ints
    slots_log: Ints
    arrivals: Matrix
    verdict: Ints
    rates: Cube
    memory: Floats
    key: Callable[..., Any]
    group: Callable[..., Any]
    decide: Callable[..., Any]
    place: Callable[..., Any]
    machine: Any

    def __init__(self, own: int = 0) -> None:
        """Nobody is there and nothing; ``own``: columns of jobs that belong to the policy."""
        rows = 64
        self.compiled, self.machine = False, None
        self.jobs = Jobs(rows, own)
        self.classes, self.groups = Classes(16), Groups()
        self.expected, self.releases = Expected(4 * rows), Releases(4 * rows)
        self.types, self.pools, self.nodes, self.slots = Types(), Pools(), Nodes(), Slots()
        self.events, self.decisions, self.moments = (
            EventLog(_LOG),
            DecisionLog(_LOG),
            MomentLog(_LOG),
        )
        self.count, self.clock = [0] * COUNTERS, [0.0] * CLOCKS
        self.spare = list(range(rows - 1, -1, -1))
        for name in ("ranked", "changed", "unrated", "order"):
            setattr(self, name, [0] * rows)
        self.bound, self.keys, self.slots_log = [0.0] * rows, [0.0], [0] * _LOG
        self.arrivals, self.verdict = [[] for _ in range(ARRIVAL_COLUMNS)], []
        self.rates, self.memory = [], []
        self.count[SPARE] = rows
        self.count[OLDEST] = self.count[YOUNGEST] = self.count[TRACKED] = -1
        for clock in (WAKE, NAMED_WAKE, NODE_AT, DIRECT_AT, LIMIT, PROMISED, ELIGIBLE, TIMED):
            self.clock[clock] = INFINITY
        self.clock[DECIDED] = -INFINITY

    def copy(self) -> "State":
        """One in the same state that goes its own way; what comes and rates, which stay, are shared.

        Its log is empty.
        """
        other = object.__new__(State)
        other.__dict__.update(self.__dict__)
        other.machine = None
        for name, kind in TABLES.items():
            if name not in LOGS:
                setattr(other, name, getattr(self, name).copy())
            else:
                empty = kind(_LOG)
                setattr(other, name, empty.over_arrays() if self.compiled else empty)
        for name in OWN_ARRAYS:
            value = getattr(self, name)
            setattr(other, name, value[:] if isinstance(value, list) else value.copy())
        other.slots_log = np.zeros(_LOG, dtype=np.int64) if self.compiled else [0] * _LOG
        for counter in (LOGGED_EVENTS, LOGGED_DECISIONS, LOGGED_SLOTS, LOGGED_MOMENTS):
            other.count[counter] = 0
        return other

    def holds(self, other: "State") -> bool:
        """Whether ``other`` fits in these arrays and decides by the same kernels, about as many GPUs."""
        same = ("groups", "types", "pools", "nodes", "slots")
        return (
            all(len(getattr(self, name)) == len(getattr(other, name)) for name in same)
            and all(len(getattr(self, name)) >= len(getattr(other, name)) for name in _GROWING)
            and len(self.jobs.floats) == len(other.jobs.floats)
            and all(getattr(self, name, None) is getattr(other, name, None) for name in KERNELS)
        )

    def become(self, other: "State") -> None:
        """Take over the numbers of ``other``, which it `holds`; both are over NumPy arrays without a log."""
        for name in TABLES:
            if name not in LOGS:
                mine, theirs = getattr(self, name), getattr(other, name)
                mine.floats[:, : len(theirs)] = theirs.floats
                mine.ints[:, : len(theirs)] = theirs.ints
        for name in ("count", "clock", "keys", "ranked", "bound"):
            values = getattr(other, name)
            getattr(self, name)[: len(values)] = values
        more = len(self.order) - len(other.order)
        spare = other.count[SPARE]
        self.spare[:more] = np.arange(len(self.order) - 1, len(other.order) - 1, -1)
        self.spare[more : more + spare] = other.spare[:spare]
        self.count[SPARE] += more
        self.rates, self.memory = other.rates, other.memory.copy()
        for counter in (LOGGED_EVENTS, LOGGED_DECISIONS, LOGGED_SLOTS, LOGGED_MOMENTS):
            self.count[counter] = 0

    def over_arrays(self) -> "State":
        """A copy over NumPy arrays, for machine code."""
        other = object.__new__(State)
        other.__dict__.update(self.__dict__)
        other.compiled, other.machine = True, None
        for name in TABLES:
            setattr(other, name, getattr(self, name).over_arrays())
        for name, (_, kind, dimensions) in ARRAYS.items():
            value = getattr(self, name)
            if not isinstance(value, np.ndarray):
                value = np.array(value, dtype=np.float64 if kind is float else np.int64)
                value = value.reshape(value.shape + (0,) * (dimensions - value.ndim))
            setattr(other, name, np.asarray(value, order="F" if dimensions == 2 else "C"))
        return other

    def grow_rows(self) -> None:
        """Room for twice as many jobs, classes and entries of what is expected."""
        rows = len(self.order)
        self.jobs.grow(2 * rows)
        for table in (self.classes, self.expected, self.releases):
            table.grow(2 * len(table))
        for name in ("spare", "ranked", "bound", "changed", "unrated", "order"):
            setattr(self, name, _longer(getattr(self, name), rows))
        spare = self.count[SPARE]
        for i in range(spare - 1, -1, -1):
            self.spare[i + rows] = self.spare[i]
        for i in range(rows):
            self.spare[i] = 2 * rows - 1 - i
        self.count[SPARE] = spare + rows
        self.machine = None

    def grow_log(self) -> None:
        """Room for twice as much of what happens, and for all that may happen at once to those there are."""
        for table in (self.events, self.decisions, self.moments):
            table.grow(max(2 * len(table), 4 * self.count[JOBS] + 16))
        self.slots_log = _longer(self.slots_log, max(len(self.slots_log), 2 * len(self.slots)))
        self.machine = None


_HINTS: Final = get_type_hints(State, include_extras=True)
TABLES: Final[dict[str, type[StateTable]]] = {
    name: kind
    for name, kind in _HINTS.items()
    if isinstance(kind, type) and issubclass(kind, StateTable)
}
"""The tables of a state, by name."""
LOGS: Final = ("events", "decisions", "moments")
_GROWING = ("jobs", "classes", "expected", "releases")
KERNELS: Final = ("key", "group", "decide", "place")
"""Those of them that are logs."""
ARRAYS: Final[dict[str, tuple[Any, type, int]]] = {
    name: (kind, *kind.__metadata__)
    for name, kind in _HINTS.items()
    if hasattr(kind, "__metadata__")
}
"""Its other arrays, by name: their annotation, the kind of number, and how many dimensions they have."""
State.layout = repr(([(name, kind.layout) for name, kind in TABLES.items()], list(ARRAYS), KERNELS))
OWN_ARRAYS: Final = [
    name for name in ARRAYS if name not in ("arrivals", "verdict", "rates", "slots_log")
]
"""Arrays that every state has of its own; copies share the others."""


def _longer(array: Any, more: int) -> Any:
    """The same with ``more`` zeros behind, in its last dimension."""
    if isinstance(array, list):
        return array + [type(array[0])(0)] * more
    room = np.zeros((*array.shape[:-1], more), dtype=array.dtype)
    return np.asarray(np.concatenate([array, room], axis=-1), order="F")
