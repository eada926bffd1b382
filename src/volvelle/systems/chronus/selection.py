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
from volvelle.model.arrays import Floats, IntColumn
from volvelle.model.problems import Problem
from volvelle.plan.plan import Window
from volvelle.systems.chronus.deadlines import DeadlineJobs, select_by_deadline
from volvelle.systems.chronus.look import LEAST, START
from volvelle.systems.chronus.memory import (
    FIRST,
    MOST_CHOSEN,
    NOW,
    PARTS,
    SLOT,
    SLOTS,
    SLOTS_NEEDED,
    WIDTH,
)
from volvelle.systems.chronus.reservations import free_in

_LEASES = 72


def window_is_short(memory: Floats) -> bool:
    """Whether the memory has too little room for the slots that the program is about."""
    slots = int(memory[SLOT] - memory[FIRST]) + _LEASES * int(memory[PARTS])
    memory[SLOTS_NEEDED] = 2 * slots if slots > memory[WIDTH] else 0
    return bool(memory[SLOTS_NEEDED] > memory[SLOTS])


def select(
    jobs: Floats,
    look: Floats,
    memory: Floats,
    found: IntColumn,
    steps: Mapping[int, Sequence[tuple[float, float]]],
    lease: float,
    gaps: SolverGaps,
) -> list[int]:
    """The jobs ``found`` (places in the view) in the order in which they are to be tried.

    steps: of each when it is due, seconds, and what that is worth. Jobs that the program chooses come first.
    The gap of its answer is noted in ``gaps``.
    """
    service, parts = look[LEAST, found] * jobs[GPUS, found], int(memory[PARTS])
    found = found[np.lexsort((jobs[NUMBER, found], service))][:MOST_CHOSEN]
    start, gpus = float(memory[NOW]), jobs[GPUS, found]
    need = look[LEAST, found] + look[START, found]
    most = max(len(steps[at]) for at in found.tolist())
    due, values = np.full((len(found), most), start), np.zeros((len(found), most))
    for i, at in enumerate(found.tolist()):
        for j, (finish_by, value) in enumerate(steps[at]):
            due[i, j], values[i, j] = finish_by, value
    wanted = DeadlineJobs(
        jobs[NUMBER, found].astype(np.int64),
        gpus,
        np.maximum(np.ceil(need / lease), 1).astype(np.int64),
        np.ceil((due - start) / lease).astype(np.int64),
        values,
    )
    window = Window(start, lease, _LEASES)
    free = free_in(memory, _LEASES * parts)
    free = free.reshape(_LEASES, parts).min(axis=1)
    try:
        chosen = select_by_deadline(
            wanted, window, np.maximum(free, 0.0), seconds=np.inf, direct=False, relaxed=True
        )
    except Problem:
        return [int(at) for at in found]
    gaps.note(chosen.gap)
    turn = np.argsort(chosen.step < 0, kind="stable")
    tried: list[int] = found[turn].tolist()
    return tried
