"""The memory of Chronus: one array of numbers, of which its kernels have views.

The rules are those of `volvelle.systems.chronus`; what the numbers of its head are, is said below.
"""

import numpy as np

from volvelle.core.compiled import kernel
from volvelle.model.arrays import FloatColumn, Floats, Ints
from volvelle.model.tolerances import WHOLE_NUMBER
from volvelle.systems.chronus.terms import Terms

(
    STAGE,  # of the decision that is being made
    SLOT,  # the last one decided, -1 before
    SLOT_SECONDS,
    PARTS,
    YIELDING,
    PERIOD,
    BROKEN,
    ROUNDED,
    USER_SHARE,
    POOL_SHARE,
    PLAIN,  # 1 where kernels need nothing from Python but declarations
    FRESH,  # 1 where a lease ends now, so that all is decided anew
    ENDED,  # 1 where an SLO lease does
    FIRST,  # the slot of the first column of the book
    WIDTH,  # slots of the book
    WAIT,  # seconds until GPUs taken away are free
    ELSEWHERE,  # 1 where a guaranteed job runs on another GPU type than its reservation's
    PACE,  # seconds that a believed second takes, for jobs of which it was not seen
    PACES,  # how many were seen so far
    LATE,  # seconds by which starts are late
    LATES,  # how many were seen so far
    MARGIN,  # share by which jobs may take longer than believed (`volvelle.core.promises.Margin`)
    LEAST_MARGIN,
    CAME,  # jobs that came in the last period
    TOLD,  # jobs that this decision tells something
    CHOSEN,  # jobs that a program chose, and that are still to be tried
    NOW,  # of the decision, seconds
    POOLS,
    KINDS,
    ROWS,  # room for rows of the book, and for jobs that are told something
    SLOTS,  # room for slots of the book
    RECENT,  # room for jobs that came
    ROWS_NEEDED,  # the room that the decision needs to go on
    SLOTS_NEEDED,
    RECENT_NEEDED,
    _HEAD,
) = range(36)
BEGINS, ANSWERS, SELECTS, TRIES, SERVES = range(5)
"""Stages of a decision: it begins, answers those that came, needs a program, tries what that chose, and says
who runs. A decision that is short of room goes on where it was."""
SEEN_LAST = 1000
"""Jobs of which the pace, or how late they started, is remembered."""
MOST_CHOSEN = 100

JOB, WIDE, KIND, OF_POOL, FINISH_BY, GAP, FIXED, SOME, _COLUMNS = range(9)
"""Of a row of the book: the number of its job (-1: unused), its GPUs, their type, its pool (-1: none), until
when it is guaranteed to be through, seconds (infinite: nothing is guaranteed), what a start costs it,
seconds, 1 where its slots are not to change, 1 where it has any."""
TOLD_JOB, TOLD_FINISH, TOLD_STEP, TOLD_EARLIEST, TOLD_WHY, TOLD_VALUE, _TOLD = range(7)
"""Of what a job is told: its number, until when it is guaranteed to be through (infinite: nothing is), the
place of that step among those tried (-1: none), the earliest finish that could be (infinite: none is known),
why no more is guaranteed, and a number that belongs to that."""
_RECENT_ROWS = 3
_ROWS, _SLOTS, _JOBS = 8, 512, 64
"""Room to begin with."""
_PACES_AT = _HEAD
_LATES_AT = _PACES_AT + SEEN_LAST
_CHOSEN_AT = _LATES_AT + SEEN_LAST
_REST = _CHOSEN_AT + MOST_CHOSEN


@kernel
def capacity_of(memory: Floats) -> Floats:
    """(types,) GPUs."""
    at = _REST + int(memory[POOLS])
    return memory[at : at + int(memory[KINDS])]


@kernel
def quota_of(memory: Floats) -> Floats:
    """(pools,) the most GPUs that the jobs of each may hold."""
    return memory[_REST : _REST + int(memory[POOLS])]


@kernel
def _recent_at(memory: Floats) -> int:
    return _REST + int(memory[POOLS]) + int(memory[KINDS])


@kernel
def recent_of(memory: Floats) -> Floats:
    """(3, room): when the jobs of the last period came, their GPU-seconds, and these, the smallest first."""
    room, at = int(memory[RECENT]), _recent_at(memory)
    return memory[at : at + _RECENT_ROWS * room].reshape((_RECENT_ROWS, room))


@kernel
def told_of(memory: Floats) -> Floats:
    """(columns, room): what jobs are told, see `TOLD_JOB`."""
    room, at = int(memory[ROWS]), _recent_at(memory) + _RECENT_ROWS * int(memory[RECENT])
    return memory[at : at + _TOLD * room].reshape((_TOLD, room))


@kernel
def _book_at(memory: Floats) -> int:
    rest = _RECENT_ROWS * int(memory[RECENT]) + _TOLD * int(memory[ROWS])
    return _recent_at(memory) + rest


@kernel
def rows_of(memory: Floats) -> Floats:
    """(columns, rows): the rows of the book, see `JOB`."""
    rows, at = int(memory[ROWS]), _book_at(memory)
    return memory[at : at + _COLUMNS * rows].reshape((_COLUMNS, rows))


@kernel
def free_of(memory: Floats) -> Floats:
    """(types, slots): GPUs that reservations leave free."""
    types, slots = int(memory[KINDS]), int(memory[SLOTS])
    at = _book_at(memory) + _COLUMNS * int(memory[ROWS])
    return memory[at : at + types * slots].reshape((types, slots))


@kernel
def held_of(memory: Floats) -> Floats:
    """(rows, slots): 1 where a row's job has its GPUs."""
    rows, slots = int(memory[ROWS]), int(memory[SLOTS])
    at = len(memory) - rows * slots
    return memory[at:].reshape((rows, slots))


@kernel
def rows_in_use(memory: Floats, movable: bool) -> Ints:
    """The rows that are in use. movable: only those whose slots may change."""
    rows = rows_of(memory)
    found, some = np.empty(rows.shape[1], np.int64), 0
    for row in range(len(found)):
        if rows[JOB, row] >= 0.0 and not (movable and rows[FIXED, row] == 1.0):
            found[some] = row
            some += 1
    return found[:some]


@kernel
def book_kept(memory: Floats) -> Floats:
    """A copy of the reservations."""
    kept = memory[_book_at(memory) - 1 :].copy()
    kept[0] = memory[WIDTH]
    return kept


@kernel
def take_back(memory: Floats, kept: Floats) -> None:
    """Let the reservations be as they were."""
    memory[WIDTH], first = kept[0], len(memory) - len(kept)
    for i in range(1, len(kept)):
        memory[first + i] = kept[i]


@kernel
def paces_of(memory: Floats) -> Floats:
    """How many seconds a believed second took, of the last jobs seen."""
    return memory[_PACES_AT:_LATES_AT]


@kernel
def lates_of(memory: Floats) -> Floats:
    """By how many seconds real starts came late, of the last that did."""
    return memory[_LATES_AT:_CHOSEN_AT]


@kernel
def chosen_of(memory: Floats) -> Floats:
    """Numbers of jobs that a program chose, the last to be tried first."""
    return memory[_CHOSEN_AT:_REST]


@kernel
def tell(
    memory: Floats, job: float, finish_by: float, step: int, earliest: float, why: int, value: float
) -> None:
    """A job is told something (`TOLD_JOB`)."""
    told, at = told_of(memory), int(memory[TOLD])
    told[TOLD_JOB, at], told[TOLD_FINISH, at], told[TOLD_STEP, at] = job, finish_by, step
    told[TOLD_EARLIEST, at], told[TOLD_WHY, at], told[TOLD_VALUE, at] = earliest, why, value
    memory[TOLD] += 1.0


@kernel
def slot_at(memory: Floats, now: float) -> int:
    """The slot of a time."""
    return int(now / memory[SLOT_SECONDS] + WHOLE_NUMBER)


@kernel
def is_short(memory: Floats, rows: int, told: int, until: float) -> bool:
    """Whether there is no room for so many more rows of the book and jobs told something, or until then.

    A book that becomes wider at least doubles, so that twice the slots have to be there.
    """
    used = len(rows_in_use(memory, False))
    slots = int(until / memory[SLOT_SECONDS]) + 2 - int(memory[FIRST])
    memory[ROWS_NEEDED] = max(used + rows, memory[TOLD] + told)
    memory[SLOTS_NEEDED] = 2 * slots if slots > memory[WIDTH] else 0
    return bool(memory[ROWS_NEEDED] > memory[ROWS] or memory[SLOTS_NEEDED] > memory[SLOTS])


def lacks_room(memory: Floats) -> bool:
    """Whether there is less room than the decision needs to go on."""
    return bool((memory[ROWS_NEEDED : RECENT_NEEDED + 1] > memory[ROWS : RECENT + 1]).any())


def begin() -> Floats:
    """The memory before the first decision."""
    return np.zeros(_HEAD)


def is_begun(memory: Floats) -> bool:
    """Whether anything was decided."""
    return len(memory) > _HEAD


def opened(
    terms: Terms, capacity: FloatColumn, quota: FloatColumn, now: float, *, plain: bool
) -> Floats:
    """The memory at the first decision, on so many GPUs by type; nothing is reserved."""
    memory = _empty(len(quota), len(capacity), _ROWS, _SLOTS, _JOBS)
    memory[WIDTH] = _SLOTS // 2
    memory[SLOT], memory[SLOT_SECONDS], memory[PARTS] = -1.0, terms.lease / terms.parts, terms.parts
    memory[YIELDING], memory[PERIOD], memory[BROKEN] = terms.yielding, terms.period, terms.broken
    memory[ROUNDED] = terms.rounded
    memory[USER_SHARE], memory[POOL_SHARE] = terms.user_share, terms.pool_share
    memory[PLAIN], memory[PACE], memory[FIRST] = plain, 1.0, slot_at(memory, now)
    memory[MARGIN] = memory[LEAST_MARGIN] = terms.margin
    capacity_of(memory)[:], free_of(memory)[:] = capacity, capacity[:, None]
    return memory


def with_room(memory: Floats) -> Floats:
    """The same with the room that the decision needs to go on, and with more."""
    needs = memory[ROWS_NEEDED : RECENT_NEEDED + 1]
    there = memory[ROWS : RECENT + 1]
    rows, slots, recent = (
        np.where(needs > there, [2, 1, 2] * needs, there).astype(np.int64).tolist()
    )
    more = _empty(int(memory[POOLS]), int(memory[KINDS]), rows, slots, recent)
    more[:POOLS], same = memory[:POOLS], _recent_at(memory)
    more[_HEAD:same] = memory[_HEAD:same]
    rows, slots = held_of(memory).shape
    recent_of(more)[:, : int(memory[RECENT])] = recent_of(memory)
    told_of(more)[:, :rows], rows_of(more)[:, :rows] = told_of(memory), rows_of(memory)
    free_of(more)[:, :slots], held_of(more)[:rows, :slots] = free_of(memory), held_of(memory)
    return more


def _empty(pools: int, types: int, rows: int, slots: int, recent: int) -> Floats:
    """A memory with room for so many."""
    sizes = pools + types, _RECENT_ROWS * recent, (_TOLD + _COLUMNS) * rows, (types + rows) * slots
    memory = np.zeros(_REST + sum(sizes))
    memory[POOLS : RECENT + 1] = pools, types, rows, slots, recent
    rows_of(memory)[JOB] = -1.0
    return memory
