"""A decision: the GPUs that each job is to hold, and their type.

An order serves jobs one after another: each gets all it can use of what those before it left, at least its
fewest, or nothing. `serve_in_order` finds what changes by looking at running jobs and at the first waiting
job of each class; `volvelle.core.fill` says the same of all jobs at once.
"""

import math

from volvelle.core.compiled import kernel
from volvelle.core.forward.ranking import place_by_key, work_out_key
from volvelle.core.forward.waiting import first_waiting, type_for, wait, wait_no_more
from volvelle.core.groups import sort_by_number
from volvelle.core.state import *
from volvelle.model.tolerances import SAME_AMOUNT


@kernel
def decide_by_order(s: State, rules: Rules, now: float) -> None:
    """Serve jobs in order; where all have what they can use, they are placed by submission."""
    serve_in_order(s, rules, now)
    if s.count[CHANGED] > 1 and _all_are_served(s):
        sort_by_number(s.jobs.number, s.changed, s.count[CHANGED])


@kernel
def serve_in_order(s: State, rules: Rules, now: float) -> None:
    """Write changed rows to `State.changed`, with their targets; jobs that start wait no more."""
    jobs, count, ranked, bound = s.jobs, s.count, s.ranked, s.bound
    gangs, many = count[ELASTIC] == 0, count[RANKED]
    if count[WAITING] == 0 and gangs:
        return
    if rules.keys_move:
        _order_waiting(s, now)
    _count_what_is_left(s)
    if gangs:
        _start_what_fits(s)
        if first_waiting(s, False) < 0:
            return
    first = _first_concerned(s, rules, now)
    _take_back(s, rules, first)
    i, blocked = first, False
    waiting = first_waiting(s, not rules.strict)
    while i < many or waiting >= 0:
        if waiting >= 0:
            key, number = jobs.key[waiting], jobs.number[waiting]
            while i < many and (
                bound[i] < key or (bound[i] == key and jobs.number[ranked[i]] < number)
            ):
                if not _serve_running(s, rules, ranked[i], gangs, False) and rules.strict:
                    blocked, waiting, i = True, -1, i + 1
                    break
                i += 1
            if waiting >= 0:
                if not _serve_waiting(s, waiting) and rules.strict:
                    blocked, waiting = True, -1
                else:
                    waiting = first_waiting(s, not rules.strict)
        elif gangs and not blocked and count[CHANGED] == 0:
            return  # running jobs stay as they are
        else:
            if not _serve_running(s, rules, ranked[i], gangs, blocked) and rules.strict:
                blocked = True
            i += 1


@kernel
def _all_are_served(s: State) -> bool:
    """Whether every job has all it can use, of the one GPU type that there is."""
    jobs, count = s.jobs, s.count
    if len(s.types.capacity) > 1 or len(s.pools.quota) > 0 or first_waiting(s, False) >= 0:
        return False
    for i in range(count[CHANGED]):
        row = s.changed[i]
        if jobs.target[row] < s.classes.most[jobs.kind[row]]:
            return False
    for i in range(count[RANKED]):
        row = s.ranked[i]
        if jobs.pinned[row] == 1.0:
            return False
        if count[ELASTIC] > 0 and jobs.target[row] < s.classes.most[jobs.kind[row]]:
            return False
    return True


@kernel
def _count_what_is_left(s: State) -> None:
    for gpu_type in range(len(s.types.capacity)):
        s.types.free[gpu_type] = s.types.capacity[gpu_type] - s.types.used[gpu_type]
    for pool in range(len(s.pools.quota)):
        s.pools.left[pool] = s.pools.quota[pool] - s.pools.taken[pool]


@kernel
def _start_what_fits(s: State) -> None:
    """Let the first jobs that wait start as long as they fit beside all gangs that run.

    They would in the order of all jobs too: there may be more free when it is their turn, never less.
    """
    for gpu_type in range(len(s.types.free)):
        if s.types.free[gpu_type] < -SAME_AMOUNT:
            return
    for pool in range(len(s.pools.left)):
        if s.pools.left[pool] < -SAME_AMOUNT:
            return
    row = first_waiting(s, False)
    while row >= 0:
        k = s.jobs.kind[row]
        types = int(s.classes.types[k])
        if type_for(s, types & -types, s.classes.least[k], int(s.classes.pool[k])) < 0:
            return  # on its first type; others would do only where that cannot be had
        _serve_waiting(s, row)
        row = first_waiting(s, False)


@kernel
def _order_waiting(s: State, now: float) -> None:
    """Work out the keys of all that wait anew."""
    for k in range(s.count[CLASSES]):
        s.classes.first[k] = -1
    row = s.count[OLDEST]
    while row >= 0:
        if s.jobs.held[row] == 0.0:
            work_out_key(s, row, now)
            wait(s, row)
        row = s.jobs.younger[row]


@kernel
def _first_concerned(s: State, rules: Rules, now: float) -> int:
    """From which place on running jobs may change; their order from there on is right afterwards.

    Where all are gangs, those before the first job that waits and could ever fit stay as they are.
    """
    jobs, ranked, bound, many = s.jobs, s.ranked, s.bound, s.count[RANKED]
    first = 0
    if s.count[ELASTIC] == 0:
        if not rules.preemptive:
            return int(many)
        if rules.keys_fall:
            waiting = first_waiting(s, False)
            first = many
            while first > 0 and bound[first - 1] >= jobs.key[waiting]:
                first -= 1
    s.key(jobs, ranked, first, many, now, bound)
    for i in range(first, many):
        row, key = ranked[i], bound[i]
        jobs.key[row] = key
        number = jobs.number[row]
        if (
            i == 0
            or bound[i - 1] < key
            or (bound[i - 1] == key and jobs.number[ranked[i - 1]] < number)
        ):
            continue
        at = place_by_key(s, 0, i, key, number)
        for j in range(i, at, -1):
            ranked[j] = ranked[j - 1]
            bound[j] = bound[j - 1]
        ranked[at] = row
        bound[at] = key
    return int(first)


@kernel
def _take_back(s: State, rules: Rules, first: int) -> None:
    """Count what running jobs from place ``first`` on hold as free, but for what they keep in any case."""
    jobs, free, gangs = s.jobs, s.types.free, s.count[ELASTIC] == 0
    for i in range(first, s.count[RANKED]):
        row = s.ranked[i]
        held, gpu_type, pool = jobs.held[row], jobs.type[row], int(jobs.pool[row])
        keep = 0.0
        if keeps(jobs, rules, row):
            k = jobs.kind[row]
            fixed = gangs or jobs.pinned[row] == 1.0 or s.classes.least[k] >= s.classes.most[k]
            keep = held if fixed else min(held, s.classes.least[k])
        if not gangs:
            jobs.target[row] = keep
            jobs.target_type[row] = gpu_type
        free[int(gpu_type)] += held - keep
        if pool >= 0:
            s.pools.left[pool] += held - keep


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
        s.pools.left[pool] -= gpus


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
    more = max(min(most - kept, room), 0.0)
    if kept + more + SAME_AMOUNT < most:
        more = float(math.floor(more + SAME_AMOUNT))
    jobs.target[row] = kept + more
    _spend(s, row, more)


@kernel
def change(s: State, row: int) -> None:
    """Note that the decision changes what the job in ``row`` holds."""
    s.changed[s.count[CHANGED]] = row
    s.count[CHANGED] += 1


@kernel
def _serve_waiting(s: State, row: int) -> bool:
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
def _serve_running(s: State, rules: Rules, row: int, gangs: bool, blocked: bool) -> bool:
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
                s.pools.left[pool] -= held
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
