"""How jobs stand to their reservations in the present slot: loops over jobs and rows of the book."""

from typing import NamedTuple

import numpy as np

from volvelle.core.columns import CHECKPOINT, HELD, STARTED, TYPE
from volvelle.core.compiled import compiled, kernel
from volvelle.model.arrays import Bools, Floats, Ints
from volvelle.model.tolerances import SAME_MOMENT
from volvelle.systems.chronus.look import (
    BEHIND,
    GIVEN,
    HOLDS,
    LEFT,
    PACE,
    ROW,
    SINCE,
    given_at,
)

_SAME_PACE = 1e-6


class Booked(NamedTuple):
    """Columns of the book by row, as `Reservations` has them; of ``held`` the present slot."""

    held: Bools
    number: Ints
    type: Ints
    some: Bools
    fixed: Bools


@compiled
def note_reservations(matrix: Floats, booked: Booked) -> bool:
    """Write to jobs' columns what is reserved in this slot; whether a job does not hold what it has."""
    due = False
    for job in range(matrix.shape[1]):
        row = int(matrix[ROW, job]) - 1
        holds = row >= 0 and booked.number[row] >= 0 and booked.held[row]
        matrix[HOLDS, job] = 1.0 if holds else 0.0
        matrix[BEHIND, job] = 1.0 if row >= 0 and not booked.some[row] else 0.0
        as_reserved = matrix[HELD, job] > 0.0 and matrix[TYPE, job] == booked.type[row]
        due = due or (holds and not as_reserved)
    return due


@compiled
def note_given(matrix: Floats, booked: Booked, gpus: Floats, types: Floats, now: float) -> bool:
    """Note when jobs were given GPUs; whether one runs on another type than its reservation's."""
    elsewhere = False
    for job in range(matrix.shape[1]):
        if gpus[job] > 0.0:
            if matrix[HELD, job] == 0.0 or types[job] != matrix[TYPE, job]:
                matrix[GIVEN, job] = given_at(now)
            row = int(matrix[ROW, job]) - 1
            elsewhere = elsewhere or (row >= 0 and types[job] != booked.type[row])
    return elsewhere


@compiled
def without_jobs(matrix: Floats, number: Ints) -> Ints:
    """Rows of the book of jobs that are not here any more."""
    here = np.zeros(len(number), dtype=np.bool_)
    for job in range(matrix.shape[1]):
        if matrix[ROW, job] > 0.0:
            here[int(matrix[ROW, job]) - 1] = True
    return np.flatnonzero((number >= 0) & ~here)


@compiled
def to_renew(matrix: Floats, booked: Booked, place: Ints) -> Ints:
    """Rows to reserve for anew at the end of a lease: of jobs that run, hold this slot, or hold none.

    place: of jobs by row.
    """
    rows, some = np.empty(len(place), dtype=np.int64), 0
    for row in range(len(place)):
        if booked.number[row] >= 0 and not booked.fixed[row]:
            runs = matrix[HELD, place[row]] > 0.0
            if runs or booked.held[row] or not booked.some[row]:
                rows[some] = row
                some += 1
    return rows[:some].copy()


@compiled
def measure(matrix: Floats, seconds: Floats, now: float) -> Floats:
    """See how long the believed seconds of running jobs take; the paces seen for the first time."""
    first, some = np.empty(matrix.shape[1]), 0
    for job in range(matrix.shape[1]):
        since = matrix[SINCE, job]
        matrix[SINCE, job] = 0.0
        if matrix[HELD, job] == 0.0:
            continue
        left = seconds[int(matrix[TYPE, job]), job]
        fewer = matrix[LEFT, job] - left
        if since > 0.0 and matrix[STARTED, job] < since and fewer > 0.0:
            pace = (now - since) / fewer
            pace = 1.0 if abs(pace - 1.0) < _SAME_PACE else pace
            if matrix[PACE, job] == 0.0:
                first[some] = pace
                some += 1
            matrix[PACE, job] = pace
        matrix[SINCE, job], matrix[LEFT, job] = now, left
    return first[:some].copy()


@compiled
def lateness(matrix: Floats, wait: float) -> Floats:
    """How many seconds later than ``wait`` after they were given GPUs jobs started, each once.

    Simulated starts take what is declared; real ones take what is seen here.
    """
    found, some = np.empty(matrix.shape[1]), 0
    for job in range(matrix.shape[1]):
        wait = max(wait, matrix[CHECKPOINT, job])
    for job in range(matrix.shape[1]):
        if matrix[HELD, job] != 0.0 and matrix[GIVEN, job] > 0.0:
            late = matrix[STARTED, job] - matrix[GIVEN, job] - wait
            if late > SAME_MOMENT:
                found[some] = late
                some += 1
                matrix[GIVEN, job] = 0.0
    return found[:some].copy()


@kernel
def believed_left(
    matrix: Floats, seconds: float, starting: float, job: int, gpu_type: int
) -> float:
    """Seconds of work that are believed left of a job on a type, of these with the rest of its start."""
    goes_on = matrix[HELD, job] > 0.0 and matrix[TYPE, job] == gpu_type
    return seconds - (starting if goes_on else 0.0)


@kernel
def at_most(matrix: Floats, job: int, believed: float, pace: float, margin: float) -> float:
    """Seconds of work to be reserved for that. pace: of jobs whose own was not seen."""
    own = max(matrix[PACE, job], 1.0) if matrix[PACE, job] > 0.0 else pace
    return float(believed * own * (1.0 + margin))


@compiled
def to_reserve(
    matrix: Floats, seconds: Floats, starting: Floats, at: Ints, types: Ints, terms: Floats
) -> Floats:
    """Seconds of work to be reserved for jobs on these types, and what is left of their starts.

    (2, jobs). The second is -1 for jobs that do not run on their type. at: places of jobs. terms: pace and
    margin (`at_most`), and the part of the time beyond what is believed that is reserved.
    """
    found = np.empty((2, len(at)))
    for i in range(len(at)):
        job = at[i]
        goes_on = matrix[HELD, job] > 0.0 and matrix[TYPE, job] == types[i]
        least = believed_left(matrix, seconds[types[i], job], starting[job], job, types[i])
        most = at_most(matrix, job, least, terms[0], terms[1])
        found[0, i] = least + terms[2] * (most - least)
        found[1, i] = starting[job] if goes_on else -1.0
    return found
