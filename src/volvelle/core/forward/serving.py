"""Service of jobs one after another: GPUs that a job gets of all that are left, or keeps in any case."""

import math

from volvelle.core.compiled import kernel
from volvelle.core.forward.classes import set_left, type_for
from volvelle.core.forward.waiting import wait_no_more
from volvelle.core.state import *
from volvelle.model.tolerances import SAME_AMOUNT


@kernel
def keeps(jobs: Jobs, rules: Rules, row: int) -> bool:
    """Whether the running job in ``row`` may not be stopped."""
    return bool(not rules.preemptive or jobs.pinned[row] == 1.0 or jobs.preemptible[row] == 0.0)


@kernel
def _spend(s: State, row: int, gpus: float) -> None:
    """Count ``gpus`` more GPUs as those of the job in ``row``."""
    s.types.free[int(s.jobs.target_type[row])] -= gpus
    pool = int(s.jobs.pool[row])
    if pool >= 0:
        set_left(s, pool, s.pools.left[pool] - gpus)


@kernel
def _give(s: State, row: int, gpu_type: int) -> None:
    """Give the job in ``row`` all it can use of a type of which its fewest are left."""
    k = s.jobs.kind[row]
    least, most = s.classes.least[k], s.classes.most[k]
    pool = int(s.jobs.pool[row])
    gpus = most
    if least < most:
        room = s.types.free[gpu_type]
        if pool >= 0:
            room = min(room, s.pools.left[pool])
        if room + SAME_AMOUNT < most:
            gpus = least + math.floor(room - least + SAME_AMOUNT)  # a job grows by whole GPUs
    s.jobs.target[row] = gpus
    s.jobs.target_type[row] = gpu_type
    _spend(s, row, gpus)


@kernel
def _grow(s: State, row: int) -> None:
    """Raise what the job in ``row`` keeps by what it can use of what is left."""
    jobs = s.jobs
    most, kept = s.classes.most[s.jobs.kind[row]], jobs.target[row]
    pool = int(jobs.pool[row])
    room = s.types.free[int(jobs.target_type[row])]
    if pool >= 0:
        room = min(room, s.pools.left[pool])
    more = most - kept
    if room + SAME_AMOUNT < more:
        more = float(math.floor(max(room, 0.0) + SAME_AMOUNT))
    jobs.target[row] = kept + more
    _spend(s, row, more)


@kernel
def change(s: State, row: int) -> None:
    """Note that the decision changes what the job in ``row`` holds."""
    s.changed[s.count[CHANGED]] = row
    s.count[CHANGED] += 1


@kernel
def serve_waiting(s: State, row: int) -> bool:
    """Let the job in ``row``, the first of its class, start if it fits; whether it does."""
    k = s.jobs.kind[row]
    types, pool = int(s.classes.types[k]), int(s.classes.pool[k])
    gpu_type = type_for(s, types, s.classes.least[k], pool)
    if gpu_type < 0:
        return False
    wait_no_more(s, row)
    _give(s, row, gpu_type)
    change(s, row)
    return True


@kernel
def serve_running(s: State, rules: Rules, row: int, gangs: bool, blocked: bool) -> bool:
    """Let the running job in ``row`` keep or get what is left for it; whether it has anything."""
    jobs, k = s.jobs, s.jobs.kind[row]
    if gangs:
        if keeps(jobs, rules, row):
            return True
        held, gpu_type, pool = jobs.held[row], int(jobs.type[row]), int(jobs.pool[row])
        room = s.types.free[gpu_type]
        if pool >= 0:
            room = min(room, s.pools.left[pool])
        if not blocked and room + SAME_AMOUNT >= held:
            s.types.free[gpu_type] -= held
            if pool >= 0:
                set_left(s, pool, s.pools.left[pool] - held)
            return True
        jobs.target[row] = 0.0
    if jobs.target[row] > 0.0:
        if s.classes.least[k] < s.classes.most[k] and jobs.pinned[row] == 0.0:
            _grow(s, row)
    else:
        gpu_type = -1
        if not blocked:
            pool, least = int(jobs.pool[row]), s.classes.least[k]
            gpu_type = type_for(s, 1 << int(jobs.type[row]), least, pool)
            if gpu_type < 0:
                gpu_type = type_for(s, int(jobs.types[row]), least, pool)
        jobs.target_type[row] = -1.0
        if gpu_type >= 0:
            _give(s, row, gpu_type)
    if jobs.target[row] != jobs.held[row] or jobs.target_type[row] != jobs.type[row]:
        change(s, row)
    return bool(jobs.target[row] > 0.0)
