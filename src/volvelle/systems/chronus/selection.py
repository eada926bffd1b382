"""Which jobs without a guarantee are to be guaranteed something: Chronus' program over the leases to come.

The program of section 3.3.4, aggregated (`volvelle.systems.chronus.deadlines`), over the next ``_LEASES`` SLO
leases. A guaranteed job is fixed: it is not in the program, but the GPUs that it reserves are not there. Its
size is limited and not its time, and of it the linear relaxation is solved and rounded: equal runs get equal
answers. Where the solver is not installed the smallest jobs are tried first.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from volvelle.core.columns import GPUS, NUMBER
from volvelle.core.policy import SolverGaps
from volvelle.model.arrays import IntColumn
from volvelle.model.problems import Problem
from volvelle.plan.plan import Window
from volvelle.systems.chronus.deadlines import DeadlineJobs, select_by_deadline
from volvelle.systems.chronus.look import Look
from volvelle.systems.chronus.reservations import Reservations

_LEASES = 72
_MOST_JOBS = 100


def select(
    look: Look,
    book: Reservations,
    found: IntColumn,
    steps: Mapping[int, Sequence[tuple[float, float]]],
    lease: float,
    parts: int,
    gaps: SolverGaps,
) -> list[int]:
    """The jobs ``found`` (places in the view) in the order in which they are to be tried.

    steps: of each when it is due, seconds, and what that is worth. Jobs that the program chooses come first.
    The gap of its answer is noted in ``gaps``.
    """
    service = look.least_seconds[found] * look.matrix[GPUS, found]
    found = found[np.lexsort((look.matrix[NUMBER, found], service))][:_MOST_JOBS]
    start, gpus = look.view.now, look.matrix[GPUS, found]
    need = look.least_seconds[found] + look.gap[found]
    most = max(len(steps[at]) for at in found.tolist())
    due, values = np.full((len(found), most), start), np.zeros((len(found), most))
    for i, at in enumerate(found.tolist()):
        for j, (finish_by, value) in enumerate(steps[at]):
            due[i, j], values[i, j] = finish_by, value
    jobs = DeadlineJobs(
        look.matrix[NUMBER, found].astype(np.int64),
        gpus,
        np.maximum(np.ceil(need / lease), 1).astype(np.int64),
        np.ceil((due - start) / lease).astype(np.int64),
        values,
    )
    window = Window(start, lease, _LEASES)
    free = book.free_in(look.slot, _LEASES * parts).reshape(_LEASES, parts).min(axis=1)
    try:
        chosen = select_by_deadline(
            jobs, window, np.maximum(free, 0.0), seconds=np.inf, direct=False, relaxed=True
        )
    except Problem:
        return [int(at) for at in found]
    gaps.note(chosen.gap)
    turn = np.argsort(chosen.step < 0, kind="stable")
    tried: list[int] = found[turn].tolist()
    return tried
