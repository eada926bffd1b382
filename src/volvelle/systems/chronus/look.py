"""Chronus' reading of a view: run time that is left, costs of starts, the present slot."""

from typing import NamedTuple

import numpy as np

from volvelle.core.columns import (
    CHECKPOINT,
    COUNT,
    GPUS,
    HELD,
    NUMBER,
    PREEMPTIBLE,
    PROGRESS_FROM,
    REQUEST_RATE,
    RESIZE,
    RESTORE,
    SCALE,
    START_GAP,
    STARTS_OVER,
    TABLE,
    TOTAL,
    TYPE,
    TYPES,
    UNIT_RATE,
)
from volvelle.core.compiled import compiled, kernel
from volvelle.core.eligibility import mean_rate
from volvelle.core.fill import work_left
from volvelle.core.view import View
from volvelle.model.arrays import BoolColumn, FloatColumn, Floats, IntColumn

ROW, LAST, SEEN, PACE, SINCE, LEFT, HOLDS, BEHIND, GIVEN, STEPS = range(COUNT, COUNT + 10)
"""The policy's own columns: the row of its reservation + 1, its last deadline (0: none), 1 once answered; how
many seconds a believed second takes (0: not seen yet), when that was last looked at (0: it did not run), and
the believed seconds that were left then; 1 where its reservation holds GPUs in this slot, and where it has a
guarantee without a reservation; when it was given GPUs to start on (0: not since the last lease); and from
there on when its steps are due, in the order in which they are tried (0: no more; NaN: more than
`MOST_STEPS`)."""
MOST_STEPS = 4
OWN_COLUMNS = 9 + MOST_STEPS
_NOT_ZERO = 1e-300
TOO_LARGE = 2.0
"""In `SEEN`: it was answered, and was too large to be guaranteed anything."""


class Look(NamedTuple):
    """The jobs of a view, in its order, in ``slot``; ``fresh``: leases end now, so that all is decided anew.

    seconds: (types, jobs) believed left on the GPUs requested, infinite on types that will not do; anew: the
    same if the job is stopped first, after which one that starts over has lost what it did;
    least_seconds: (jobs,) left on the fastest type. gap: a start's cost, seconds. starting: what is
    left of it to a job that starts, which ``seconds`` of the type that it holds include.
    """

    view: View
    matrix: Floats
    seconds: Floats
    anew: Floats
    least_seconds: FloatColumn
    gap: FloatColumn
    starting: FloatColumn
    slot: int
    fresh: bool

    @classmethod
    def at(cls, view: View, slot: int, fresh: bool) -> "Look":
        """The reading of ``view``."""
        matrix = view.jobs.matrix
        left = _seconds(view, work_left(matrix, len(view.jobs), view.now))
        seconds, least, starting = _with_starts(matrix, left, view.now)
        anew, over = seconds, matrix[STARTS_OVER] == 1.0
        if over.any():
            whole = _seconds(view, matrix[TOTAL] * matrix[SCALE], begun=False)
            anew = np.where(over, _with_starts(matrix, whole, view.now)[0], seconds)
        gap = np.maximum(matrix[START_GAP], matrix[RESTORE if len(seconds) == 1 else RESIZE])
        return cls(view, matrix, seconds, anew, least, gap, starting, slot, fresh)

    @property
    def waiting(self) -> BoolColumn:
        """Which jobs hold no GPUs."""
        waiting: BoolColumn = self.matrix[HELD] == 0.0
        return waiting

    @property
    def gangs(self) -> BoolColumn:
        """Which jobs may be interrupted."""
        gangs: BoolColumn = self.matrix[PREEMPTIBLE] == 1.0
        return gangs

    @property
    def starts_over(self) -> BoolColumn:
        """Which jobs lose at a stop what they have done."""
        over: BoolColumn = self.matrix[STARTS_OVER] == 1.0
        return over

    @property
    def row(self) -> IntColumn:
        """(jobs,) the row of each job's reservation, -1 without."""
        row: IntColumn = self.matrix[ROW].astype(np.int64) - 1
        return row

    @property
    def longest_checkpoint(self) -> float:
        """How long a stop may keep GPUs from who is to start on them, seconds."""
        return float(self.matrix[CHECKPOINT].max(initial=0.0))

    def places(self, rows: int) -> IntColumn:
        """(rows,) where the jobs with reservations stand in the view, -1 for rows without a job here."""
        place = np.full(rows, -1, dtype=np.int64)
        reserved = np.flatnonzero(self.matrix[ROW] > 0.0)
        place[self.row[reserved]] = reserved
        return place

    def number(self, at: int) -> int:
        """Of a job by its place."""
        return int(self.matrix[NUMBER, at])

    def types(self, at: int) -> list[int]:
        """GPU types that will do."""
        return [kind for kind, left in enumerate(self.seconds[:, at].tolist()) if left < np.inf]

    def runs_on(self, at: int, gpu_type: int) -> bool:
        """Whether a job holds GPUs of this type."""
        return bool(self.matrix[HELD, at] > 0.0 and self.matrix[TYPE, at] == gpu_type)


@kernel
def given_at(now: float) -> float:
    """The time at which a job is given GPUs, in `GIVEN`: never 0."""
    return max(now, _NOT_ZERO)


@compiled
def _with_starts(matrix: Floats, seconds: Floats, now: float) -> tuple[Floats, Floats, Floats]:
    """``seconds`` with what is left of starts, on the type that is held; the least; and what is left."""
    found, starting = seconds.copy(), np.zeros(matrix.shape[1])
    least = np.full(matrix.shape[1], np.inf)
    for row in range(matrix.shape[1]):
        if matrix[HELD, row] > 0.0:
            starting[row] = max(matrix[PROGRESS_FROM, row] - now, 0.0)
        for kind in range(len(found)):
            if matrix[TYPE, row] == kind:
                found[kind, row] += starting[row]
            least[row] = min(least[row], found[kind, row])
    return found, least, starting


def _seconds(view: View, work: FloatColumn, *, begun: bool = True) -> Floats:
    """(types, jobs) seconds of so much work; of the last work of each job, or not ``begun`` of its first."""
    jobs, matrix, kinds = view.jobs, view.jobs.matrix, np.arange(len(view.capacity))
    if len(kinds) == 1:
        seconds: Floats = (work / matrix[REQUEST_RATE])[None, :]
    else:
        table, wide = view.rates(), np.ceil(matrix[GPUS]).astype(np.int64)
        within = np.minimum(wide, table.shape[2] - 1)
        rates = np.where(wide == within, table[jobs.curve, kinds[:, None], within], 0.0)
        rates = rates * (matrix[GPUS] / wide)
        able = (matrix[TYPES].astype(np.int64) >> kinds[:, None]) & 1
        seconds = np.full(rates.shape, np.inf)
        np.divide(work, rates, out=seconds, where=(rates > 0.0) & (able == 1))
    _by_regimes(view, seconds, work, begun=begun)
    return seconds


def _by_regimes(view: View, seconds: Floats, work: FloatColumn, *, begun: bool) -> None:
    """Let ``seconds`` be those of every regime of the work, for jobs that are believed to have regimes."""
    matrix = view.jobs.matrix
    unlike = np.flatnonzero(np.isnan(matrix[UNIT_RATE]) & (matrix[TABLE] < 0.0))
    if not len(unlike):
        return
    done = view.jobs.work_done if begun else np.zeros(len(view.jobs))
    for at in unlike.tolist():
        believed = view.believed(int(matrix[NUMBER, at]))
        if not believed.regimes:
            continue
        gpus = float(matrix[GPUS, at])
        for kind in np.flatnonzero(seconds[:, at] < np.inf).tolist():
            rate = mean_rate(believed, gpus, view.gpu_types[kind], float(done[at]))
            seconds[kind, at] = work[at] / rate
