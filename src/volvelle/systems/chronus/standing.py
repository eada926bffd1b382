"""How jobs stand to their reservations in the present slot: loops over jobs and rows of the book."""

import numpy as np

from volvelle.core.columns import CHECKPOINT, HELD, STARTED, TYPE
from volvelle.core.compiled import kernel
from volvelle.model.arrays import Floats, Ints
from volvelle.model.tolerances import SAME_MOMENT
from volvelle.systems.chronus.look import (
    BEHIND,
    GIVEN,
    HOLDS,
    LEFT,
    PACE,
    ROW,
    SECONDS,
    SINCE,
    STARTING,
    given_at,
    runs_on,
)
from volvelle.systems.chronus.memory import (
    FIRST,
    FIXED,
    JOB,
    KIND,
    NOW,
    SLOT,
    SOME,
    held_of,
    rows_of,
)

_SAME_PACE = 1e-6


@kernel
def note_reservations(jobs: Floats, memory: Floats) -> bool:
    """Write to jobs' columns what is reserved in this slot; whether a job does not hold what it has."""
    due, rows, held = False, rows_of(memory), held_of(memory)
    at = int(memory[SLOT] - memory[FIRST])
    for job in range(jobs.shape[1]):
        row = int(jobs[ROW, job]) - 1
        holds = row >= 0 and rows[JOB, row] >= 0.0 and held[row, at] > 0.0
        jobs[HOLDS, job] = 1.0 if holds else 0.0
        jobs[BEHIND, job] = 1.0 if row >= 0 and rows[SOME, row] == 0.0 else 0.0
        due = due or (holds and not runs_on(jobs, job, int(rows[KIND, row])))
    return due


@kernel
def note_given(jobs: Floats, memory: Floats, out: Floats) -> bool:
    """Note when jobs were given GPUs; whether one runs on another type than its reservation's."""
    elsewhere, rows = False, rows_of(memory)
    for job in range(jobs.shape[1]):
        if out[0, job] > 0.0:
            if jobs[HELD, job] == 0.0 or out[1, job] != jobs[TYPE, job]:
                jobs[GIVEN, job] = given_at(memory[NOW])
            row = int(jobs[ROW, job]) - 1
            elsewhere = elsewhere or (row >= 0 and out[1, job] != rows[KIND, row])
    return elsewhere


@kernel
def places_of(jobs: Floats, rows: int) -> Ints:
    """(rows,) where the jobs with reservations stand, -1 for rows without a job here."""
    place = np.full(rows, -1)
    for job in range(jobs.shape[1]):
        if jobs[ROW, job] > 0.0:
            place[int(jobs[ROW, job]) - 1] = job
    return place


@kernel
def to_renew(jobs: Floats, memory: Floats, place: Ints) -> Ints:
    """Rows to reserve for anew at the end of a lease: of jobs that run, hold this slot, or hold none."""
    found, some, rows = np.empty(len(place), np.int64), 0, rows_of(memory)
    held, at = held_of(memory), int(memory[SLOT] - memory[FIRST])
    for row in range(len(place)):
        if rows[JOB, row] >= 0.0 and rows[FIXED, row] == 0.0:
            runs = jobs[HELD, place[row]] > 0.0
            if runs or held[row, at] > 0.0 or rows[SOME, row] == 0.0:
                found[some] = row
                some += 1
    return found[:some]


@kernel
def measure(jobs: Floats, look: Floats, memory: Floats) -> Floats:
    """See how long the believed seconds of running jobs take; the paces seen for the first time."""
    first, some = np.empty(jobs.shape[1]), 0
    for job in range(jobs.shape[1]):
        since = jobs[SINCE, job]
        jobs[SINCE, job] = 0.0
        if jobs[HELD, job] == 0.0:
            continue
        left = look[SECONDS + int(jobs[TYPE, job]), job]
        fewer = jobs[LEFT, job] - left
        if since > 0.0 and jobs[STARTED, job] < since and fewer > 0.0:
            pace = (memory[NOW] - since) / fewer
            pace = 1.0 if abs(pace - 1.0) < _SAME_PACE else pace
            if jobs[PACE, job] == 0.0:
                first[some] = pace
                some += 1
            jobs[PACE, job] = pace
        jobs[SINCE, job], jobs[LEFT, job] = memory[NOW], left
    return first[:some]


@kernel
def lateness(jobs: Floats, wait: float) -> Floats:
    """How many seconds later than ``wait`` after they were given GPUs jobs started, each once.

    Simulated starts take what is declared; real ones take what is seen here.
    """
    found, some = np.empty(jobs.shape[1]), 0
    for job in range(jobs.shape[1]):
        wait = max(wait, jobs[CHECKPOINT, job])
    for job in range(jobs.shape[1]):
        if jobs[HELD, job] != 0.0 and jobs[GIVEN, job] > 0.0:
            late = jobs[STARTED, job] - jobs[GIVEN, job] - wait
            if late > SAME_MOMENT:
                found[some] = late
                some += 1
                jobs[GIVEN, job] = 0.0
    return found[:some]


@kernel
def believed_left(jobs: Floats, look: Floats, seconds: float, job: int, kind: int) -> float:
    """Seconds of work that are believed left of a job on a type, of these with the rest of its start."""
    return float(seconds - (look[STARTING, job] if runs_on(jobs, job, kind) else 0.0))


@kernel
def at_most(jobs: Floats, job: int, believed: float, pace: float, margin: float) -> float:
    """Seconds of work to be reserved for that. pace: of jobs whose own was not seen."""
    own = max(jobs[PACE, job], 1.0) if jobs[PACE, job] > 0.0 else pace
    return float(believed * own * (1.0 + margin))
