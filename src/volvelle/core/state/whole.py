"""The state as a whole: its tables and arrays, how it is copied and how it grows; the rules of the loop."""

from collections.abc import Callable
from typing import Any, ClassVar, Final, NamedTuple, get_type_hints

import numpy as np

from volvelle.core.state.registers import *
from volvelle.core.state.table import *
from volvelle.core.state.tables import *


class Rules(NamedTuple):
    """The tables that do not change while time passes, as kernels want them.

    decides: ORDER, KERNEL or ASKED. grouped: the kernel decides by groups. yields: it lets Python refresh
    what it remembers. tells: where in its memory it counts guarantees, -1 where it makes none. names_nodes:
    it chooses nodes, and is asked also where no job is. serves_all: it is not asked where there are GPUs for
    all. keys_fall: keys of running jobs never rise. keys_move: keys of
    waiting jobs change with time. round: seconds, 0 where decisions follow events. places: COUNTED, KERNEL
    or ASKED. keeps_place: a job that gets fewer GPUs keeps some of its own. in_place: jobs that run are
    given other partners where they are (`Policy.shares_in_place`). admits: Python judges arrivals. learns:
    ends are passed to Python. notes: they are passed to the policy's kernel. divides: Python divides CPUs
    and memory after each decision. watches: Python finds after each decision when guarantees become
    impossible. simulated: jobs end by themselves. ahead: in a look-ahead, which has to end though jobs that
    begin anew at each stop may never. tick: ends are noticed at multiples of it, 0 for at once.
    logs: events and decisions are kept. pauses: when to return.
    """

    decides: int = ORDER
    grouped: bool = False
    yields: bool = False
    tells: int = -1
    names_nodes: bool = False
    serves_all: bool = False
    preemptive: bool = True
    strict: bool = False
    elastic: bool = True
    keys_fall: bool = False
    keys_move: bool = False
    time_varying: bool = False
    round: float = 0.0
    places: int = COUNTED
    keeps_place: bool = True
    in_place: bool = False
    admits: bool = False
    learns: bool = False
    notes: bool = False
    divides: bool = False
    watches: bool = False
    simulated: bool = False
    ahead: bool = False
    tick: float = 0.0
    logs: bool = True
    pauses: int = NEVER


_LOG = 512
"""Room in a log at first."""


class State:
    """The tables, and lists of rows.

    count, clock: single numbers. spare: unused rows. ranked: rows of running jobs that a decision may change,
    by what bounds their keys, which is in ``bound``. keys: of whom they were just worked out. changed,
    unrated, order: rows. arrivals: jobs that come, [column][place]; verdict: what becomes of them. rates:
    units per second, [curve][GPU type][GPUs]. memory: of the kernel that decides. events, decisions, moments,
    slots_log: the log.

    key, group, decide, place, learn: the policy's and the placement's kernels. machine: machine code over
    these arrays (`volvelle.core.scheduler_state.machine_of`); None once one of them was replaced.
    """

    layout: ClassVar[str]
    jobs: Jobs
    classes: Classes
    tournament: Tournament
    groups: Groups
    ranks: Ranks
    blocks: Blocks
    expected: Expected
    releases: Releases
    types: Types
    pools: Pools
    nodes: Nodes
    free_nodes: FreeNodes
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
    learn: Callable[..., Any]
    machine: Any

    def __init__(self, own: int = 0) -> None:
        """An empty state; ``own``: columns of jobs that belong to the policy."""
        rows = 64
        self.compiled, self.machine = False, None
        self.jobs = Jobs(rows, own)
        self.classes, self.groups = Classes(16), Groups()
        self.tournament = Tournament(2 * len(self.classes))
        self._let_all_take_part(0)
        self.ranks, self.blocks = Ranks(), Blocks()
        self._grow_ranks(rows)
        self.expected, self.releases = Expected(4 * rows), Releases(4 * rows)
        self.types, self.pools, self.nodes, self.slots = Types(), Pools(), Nodes(), Slots()
        self.free_nodes = FreeNodes()
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
        for counter in (OLDEST, YOUNGEST, TRACKED, UNPOOLED):
            self.count[counter] = -1
        for clock in (WAKE, NAMED_WAKE, NODE_AT, SWITCH_AT, LIMIT, PROMISED, ELIGIBLE, TIMED):
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
        self.tournament.grow(2 * len(self.classes))
        self._let_all_take_part(len(self.classes) // 2)
        self._grow_ranks(2 * rows)
        for name in ("spare", "ranked", "bound", "changed", "unrated", "order"):
            setattr(self, name, longer(getattr(self, name), rows))
        spare = self.count[SPARE]
        for i in range(spare - 1, -1, -1):
            self.spare[i + rows] = self.spare[i]
        for i in range(rows):
            self.spare[i] = 2 * rows - 1 - i
        self.count[SPARE] = spare + rows
        self.machine = None

    def _let_all_take_part(self, classes: int) -> None:
        """Let all classes be in the tournament, not only so many: the entry of these is below others."""
        tree, size = self.tournament, len(self.tournament)
        for column, empty in ((tree.need, INFINITY), (tree.first, -1)):
            first = max(2 * classes - 1, 0)
            column[first:] = [empty] * (size - first)
            larger = 2 * classes
            while 0 < larger < size:
                column[larger - 1] = column[classes - 1]
                larger *= 2

    def _grow_ranks(self, rows: int) -> None:
        """Room for so many running jobs by their keys, in blocks that may be a quarter full."""
        known, blocks = len(self.blocks), 4 * rows // BLOCK + 8
        self.blocks.grow(blocks)
        self.ranks.grow(blocks * BLOCK)
        for block in range(known, blocks):
            self.blocks.number[block] = block

    def grow_log(self) -> None:
        """Room for twice as much of what happens, and for all that may happen at once to the jobs in it."""
        for table in (self.events, self.decisions, self.moments):
            table.grow(max(2 * len(table), 4 * self.count[JOBS] + 16))
        more = 4 * len(self.slots) + 2 * len(self.events) - len(self.slots_log)
        self.slots_log = longer(self.slots_log, max(more, 0))
        self.machine = None


_HINTS: Final = get_type_hints(State, include_extras=True)
TABLES: Final[dict[str, type[StateTable]]] = {
    name: kind
    for name, kind in _HINTS.items()
    if isinstance(kind, type) and issubclass(kind, StateTable)
}
"""The tables of a state, by name."""
LOGS: Final = ("events", "decisions", "moments")
"""The tables that are logs."""
KERNELS: Final = ("key", "group", "decide", "place", "learn")
"""The kernels of a state, by name."""
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
