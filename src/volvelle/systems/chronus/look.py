"""Chronus' reading of jobs: run time that is left, costs of starts, and columns of its own."""

import numpy as np

from volvelle.core.columns import (
    COUNT,
    GPUS,
    HELD,
    PREEMPTIBLE,
    PROGRESS_FROM,
    REQUEST_RATE,
    RESTORE,
    SCALE,
    START_GAP,
    STARTS_OVER,
    TABLE,
    TOTAL,
    TYPE,
    UNIT_RATE,
)
from volvelle.core.compiled import kernel
from volvelle.core.fill import work_left
from volvelle.model.arrays import Floats
from volvelle.systems.chronus.memory import KINDS

ROW, LAST, SEEN, PACE, SINCE, LEFT, HOLDS, BEHIND, GIVEN, UNTIL, LATER, STEPS = range(
    COUNT, COUNT + 12
)
"""The policy's own columns: the row of its reservation + 1, its last deadline (0: none), how far it is
answered; how many seconds a believed second takes (0: not seen yet), when that was last looked at (0: it did
not run), and the believed seconds that were left then; 1 where its reservation holds GPUs in this slot, and
where it has a guarantee without a reservation; when it was given GPUs to start on (0: not since the last
lease); until when it is guaranteed to be through by others or before a restart (0: not, infinite: it was told
that nothing is); 1 where a later finish than its deadlines will do; and from there on when its steps are due,
in the order in which they are tried (0: no more; NaN: more than `MOST_STEPS`)."""
MOST_STEPS = 4
OWN_COLUMNS = 11 + MOST_STEPS
NEW, READ, SEEN_ONCE, TOO_LARGE = 0.0, -1.0, 1.0, 2.0
"""In `SEEN`: nothing is known of it; what its user declared stands in its columns; it was answered; it was,
and was too large to be guaranteed anything."""
_NOT_ZERO = 1e-300


LEAST, START, STARTING, COUNTED, OF_USER, IN_POOL, PROMISED, SECONDS = range(8)
"""Rows of a **look** at jobs, (rows, jobs): believed seconds left on the fastest type; a start's cost,
seconds; what is left of it to a job that starts; GPUs that a gang is counted with; where users' and pools'
shares are limited, numbers of its user and pool (0: none), and 1 where it was guaranteed something; and from
there on believed seconds left on the GPUs requested by type, infinite on types that will not do, in which
what is left of starts is included on the type that is held. Behind them are the same if the job is stopped
first, after which one that starts over has lost what it did, and when steps are due, as in `STEPS`."""


@kernel
def steps_at(memory: Floats) -> int:
    """The row of a look at which steps begin."""
    return SECONDS + 2 * int(memory[KINDS])


@kernel
def plain_look(jobs: Floats, now: float) -> Floats:
    """The look at jobs on GPUs of one type, all of which go on as they are believed to."""
    look = np.zeros((SECONDS + 2 + MOST_STEPS, jobs.shape[1]))
    look[SECONDS] = work_left(jobs, jobs.shape[1], now) / jobs[REQUEST_RATE]
    look[SECONDS + 1] = jobs[TOTAL] * jobs[SCALE] / jobs[REQUEST_RATE]
    for job in range(jobs.shape[1]):
        look[START, job] = max(jobs[START_GAP, job], jobs[RESTORE, job])
        look[COUNTED, job] = jobs[GPUS, job]
        for step in range(MOST_STEPS):
            look[SECONDS + 2 + step, job] = jobs[STEPS + step, job]
    count_starts(jobs, look, 1, now)
    return look


@kernel
def count_starts(jobs: Floats, look: Floats, types: int, now: float) -> None:
    """Note what is left of starts, and add it to the seconds on the type that is held; the least of these."""
    for job in range(jobs.shape[1]):
        if jobs[HELD, job] > 0.0:
            look[STARTING, job] = max(jobs[PROGRESS_FROM, job] - now, 0.0)
        look[LEAST, job] = np.inf
        for kind in range(types):
            left, anew = SECONDS + kind, SECONDS + types + kind
            if jobs[TYPE, job] == kind:
                look[left, job] += look[STARTING, job]
                look[anew, job] += look[STARTING, job]
            if jobs[STARTS_OVER, job] != 1.0:
                look[anew, job] = look[left, job]
            look[LEAST, job] = min(look[LEAST, job], look[left, job])


@kernel
def is_plain(jobs: Floats) -> bool:
    """Whether all jobs go on as fast as they do, and have few steps."""
    for job in range(jobs.shape[1]):
        unlike = np.isnan(jobs[UNIT_RATE, job]) and jobs[TABLE, job] < 0.0
        if unlike or np.isnan(jobs[STEPS, job]):
            return False
    return True


@kernel
def may_be_promised(jobs: Floats, look: Floats, job: int, now: float) -> bool:
    """Whether a job without a guarantee could be guaranteed something."""
    asks = jobs[LAST, job] > 0.0 and jobs[ROW, job] == 0.0 and jobs[PREEMPTIBLE, job] == 1.0
    in_time = now + look[LEAST, job] + look[START, job] <= jobs[LAST, job]
    return bool(asks and in_time and jobs[SEEN, job] < TOO_LARGE)


@kernel
def runs_on(jobs: Floats, job: int, kind: int) -> bool:
    """Whether a job holds GPUs of this type."""
    return bool(jobs[HELD, job] > 0.0 and jobs[TYPE, job] == kind)


@kernel
def given_at(now: float) -> float:
    """The time at which a job is given GPUs, in `GIVEN`: never 0."""
    return max(now, _NOT_ZERO)
