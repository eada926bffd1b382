"""The targets and received shares of jobs, or of pairs that share GPUs, in rounds: one array.

The array is the memory of the policies whose rounds `volvelle.policies.rounds` decides.
"""

from typing import NamedTuple

import numpy as np

from volvelle.core.columns import NUMBER
from volvelle.core.compiled import compiled, kernel
from volvelle.core.fill import attained_seconds
from volvelle.model.arrays import Floats, Ints
from volvelle.policies.growth import then_by

(
    HALF_ROUND,  # seconds
    REALLOCATE,  # the least seconds between two allocations
    LEFTOVERS,  # when jobs are served on a GPU type on which their target is zero
    AWARE,  # 0 where all types are taken to be as fast as the first, and are filled as drawn
    NEEDS,  # what Python is asked for
    ALLOTTED,  # when targets were last worked out, at time 0: never
    SET_AT,  # since when they count
    DRAWN,  # the round for which the order of types is drawn
    SHARE,  # a parameter of the policy's own
    TYPES_THAT_FIT,
    ROOM,  # claims that fit
    CLAIMS,  # how many there are
    KNOWN,  # jobs for which targets were worked out
    _HEAD,
) = range(14)
"""Entries of the memory. Behind them are its `Tables`, and behind these what the policy keeps beside."""

LAST, BY_TYPE, NEVER = range(3)
"""Values of `LEFTOVERS`."""
NOTHING, MORE_ROOM, TYPE_ORDER, FRACTIONS = range(4)
"""Values of `NEEDS`."""


class Tables(NamedTuple):
    """Views of the memory. A claim is a job's, or that of two that share GPUs, by their numbers, ascending.

    order, capacity: (types,), in which types are filled; GPUs for which targets were worked out. number: of
    the jobs then; rates: theirs, (types, room). first, second: the numbers of each claim's jobs (-1: alone).
    attained: the first job's seconds with GPUs. held: the GPU type the claim was last given, -1 none.
    target, received, deficit: (types, room), fractions of the time, seconds since the targets were set and
    half a round, seconds owed from before.
    """

    order: Floats
    capacity: Floats
    number: Floats
    rates: Floats
    first: Floats
    second: Floats
    attained: Floats
    held: Floats
    target: Floats
    received: Floats
    deficit: Floats


@kernel
def _end(types: int, room: int) -> int:
    return _HEAD + 2 * types + 5 * room + 4 * types * room


@kernel
def parameters(memory: Floats) -> Floats:
    """The numbers of the policy's own, which `with_room` keeps."""
    return memory[_end(int(memory[TYPES_THAT_FIT]), int(memory[ROOM])) :]


@kernel
def tables(memory: Floats) -> Tables:
    """The parts of the memory."""
    types, room = int(memory[TYPES_THAT_FIT]), int(memory[ROOM])
    single = _HEAD + 2 * types
    many = single + 5 * room
    columns = memory[single:many].reshape((5, room))
    by_type = memory[many : _end(types, room)].reshape((4, types, room))
    return Tables(
        memory[_HEAD : _HEAD + types],
        memory[_HEAD + types : single],
        columns[0],
        by_type[0],
        columns[1],
        columns[2],
        columns[3],
        columns[4],
        by_type[1],
        by_type[2],
        by_type[3],
    )


def with_room(memory: Floats, types: int, room: int) -> Floats:
    """The same memory with room for so many GPU types and claims; the first one is its head alone."""
    other = np.concatenate([np.zeros(_end(types, room)), parameters(memory)])
    other[:_HEAD] = memory[:_HEAD]
    other[TYPES_THAT_FIT], other[ROOM] = types, room
    new = tables(other)
    new.received[:] = memory[HALF_ROUND]
    if len(memory) > _HEAD:
        for mine, old in zip(new, tables(memory), strict=True):
            mine[tuple(map(slice, old.shape))] = old
    new.order[:] = np.arange(types)
    return other


def begin(period: float, reallocate: float, leftovers: int, *, aware: bool) -> Floats:
    """A memory of nothing; times in seconds."""
    memory = np.zeros(_HEAD)
    memory[[HALF_ROUND, REALLOCATE, LEFTOVERS, AWARE]] = period / 2, reallocate, leftovers, aware
    memory[[ALLOTTED, DRAWN]] = -np.inf, np.nan
    return with_room(memory, 1, 64)


@kernel
def by_number(jobs: Floats) -> Ints:
    """The rows by submission, as which they mostly are."""
    for row in range(1, jobs.shape[1]):
        if jobs[NUMBER, row] < jobs[NUMBER, row - 1]:
            return np.argsort(jobs[NUMBER], kind="mergesort")
    return np.arange(jobs.shape[1])


@kernel
def rows_of(jobs: Floats, memory: Floats) -> Ints:
    """The rows of each claim's jobs, (2, claims): -1 for none, -2 for one that is not there."""
    known, order = tables(memory), by_number(jobs)
    many, at = len(order), 0
    rows = np.full((2, int(memory[CLAIMS])), -1)
    for claim in range(rows.shape[1]):
        while at < many and jobs[NUMBER, order[at]] < known.first[claim]:
            at += 1
        here = at < many and jobs[NUMBER, order[at]] == known.first[claim]
        rows[0, claim] = order[at] if here else -2
        if known.second[claim] >= 0.0:
            rows[1, claim] = -2
            for row in range(many):
                if jobs[NUMBER, row] == known.second[claim]:
                    rows[1, claim] = row
    return rows


@kernel
def credit(jobs: Floats, now: float, memory: Floats) -> None:
    """Count what claims received since they were last given GPUs; forget those of jobs that left."""
    known, rows, kept = tables(memory), rows_of(jobs, memory), 0
    for claim in range(rows.shape[1]):
        if rows[0, claim] == -2 or rows[1, claim] == -2:
            continue
        if kept < claim:
            for gpu_type in range(len(known.target)):
                known.target[gpu_type, kept] = known.target[gpu_type, claim]
                known.received[gpu_type, kept] = known.received[gpu_type, claim]
                known.deficit[gpu_type, kept] = known.deficit[gpu_type, claim]
            known.first[kept], known.second[kept] = known.first[claim], known.second[claim]
            known.attained[kept], known.held[kept] = known.attained[claim], known.held[claim]
        seconds = attained_seconds(jobs, now, rows[0, claim])
        if known.held[kept] >= 0.0:
            known.received[int(known.held[kept]), kept] += seconds - known.attained[kept]
        known.attained[kept] = seconds
        kept += 1
    memory[CLAIMS] = kept


@compiled
def set_targets(
    jobs: Floats, now: float, memory: Floats, rows: Ints, beside: Ints, target: Floats
) -> None:
    """Let ``target`` (types, claims) count from now on, of jobs by row (``beside`` -1: alone).

    The lack of a claim below its former target, or its surplus, becomes its deficit.
    """
    known, many = tables(memory), len(rows)
    first, second = jobs[NUMBER][rows], np.full(many, -1.0)
    for claim in range(many):
        if beside[claim] >= 0:
            second[claim] = jobs[NUMBER, beside[claim]]
    order = then_by(np.argsort(second, kind="mergesort"), first)
    deficit = np.zeros(target.shape)
    lasted, at, former = now - memory[SET_AT], 0, int(memory[CLAIMS])
    for place, claim in enumerate(order):
        one, other = first[claim], second[claim]
        while at < former and (
            known.first[at] < one or (known.first[at] == one and known.second[at] < other)
        ):
            at += 1
        if at < former and known.first[at] == one and known.second[at] == other:
            for gpu_type in range(len(target)):
                had = known.received[gpu_type, at] - memory[HALF_ROUND]
                owed = known.target[gpu_type, at] * lasted - had
                deficit[gpu_type, place] = known.deficit[gpu_type, at] + owed
    for place, claim in enumerate(order):
        known.first[place], known.second[place] = first[claim], second[claim]
        known.attained[place] = attained_seconds(jobs, now, rows[claim])
        known.held[place] = -1.0
        for gpu_type in range(len(target)):
            known.target[gpu_type, place] = target[gpu_type, claim]
            known.received[gpu_type, place] = memory[HALF_ROUND]
            known.deficit[gpu_type, place] = deficit[gpu_type, place]
    memory[SET_AT], memory[CLAIMS] = now, many


@kernel
def set_alone(jobs: Floats, now: float, memory: Floats, target: Floats) -> None:
    """The same of jobs that share no GPUs. target: (types, jobs)."""
    many = jobs.shape[1]
    set_targets(jobs, now, memory, np.arange(many), np.full(many, -1), target)
