"""A decision: the GPUs that each job is to hold, and their type.

An order serves jobs one after another: each gets all it can use of what those before it left, at least its
fewest, or nothing. `serve_in_order` finds what changes by looking at running jobs and at the first waiting
job of each class; `volvelle.core.fill` says the same of all jobs at once.
"""

import math

from volvelle.core.compiled import kernel
from volvelle.core.forward.classes import (
    count_left,
    first_waiting,
    nobody_waits,
    set_left,
    type_for,
)
from volvelle.core.forward.ranking import work_out_key
from volvelle.core.forward.running import list_running, put_back, take_out
from volvelle.core.forward.waiting import wait, wait_no_more
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
    gangs = count[ELASTIC] == 0
    if count[WAITING] == 0 and gangs:
        return
    if rules.keys_move:
        _order_waiting(s, now)
    _count_what_is_left(s)
    if gangs:
        _start_what_fits(s)
        if first_waiting(s, False) < 0:
            return
    _find_concerned(s, rules, now)
    _take_back(s, rules)
    i, many, blocked = 0, count[RANKED], False
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
    if count[ELASTIC] == 0:
        if count[PINNED] == 0:
            return True
        list_running(s)
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
    count_left(s)


@kernel
def _start_what_fits(s: State) -> None:
    """Let the first jobs that wait start as long as they fit beside all gangs that run.

    They would in the order of all jobs too: there may be more free when it is their turn, never less.
    """
    for gpu_type in range(len(s.types.free)):
        if s.types.free[gpu_type] < -SAME_AMOUNT:
            return
    if s.count[OVERDRAWN] > 0:
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
    nobody_waits(s)
    row = s.count[OLDEST]
    while row >= 0:
        if s.jobs.held[row] == 0.0:
            work_out_key(s, row, now)
            wait(s, row)
        row = s.jobs.younger[row]


@kernel
def _find_concerned(s: State, rules: Rules, now: float) -> None:
    """Write the running jobs that may change to `State.ranked`, by their keys as they are now.

    Where all are gangs, those before the first job that waits and could ever fit stay as they are.
    """
    jobs, count, ranked, bound = s.jobs, s.count, s.ranked, s.bound
    from_key = -INFINITY
    if count[ELASTIC] == 0:
        if not rules.preemptive:
            count[RANKED] = 0
            return
        if rules.keys_fall:
            from_key = jobs.key[first_waiting(s, False)]
    take_out(s, from_key)
    many = count[RANKED]
    s.key(jobs, ranked, 0, many, now, bound)
    for i in range(many):
        row, key = ranked[i], bound[i]
        jobs.key[row] = key
        number, at = jobs.number[row], i
        while at > 0 and (
            bound[at - 1] > key or (bound[at - 1] == key and jobs.number[ranked[at - 1]] > number)
        ):
            ranked[at] = ranked[at - 1]
            bound[at] = bound[at - 1]
            at -= 1
        ranked[at] = row
        bound[at] = key
    put_back(s)


@kernel
def _take_back(s: State, rules: Rules) -> None:
    """Count what the jobs concerned hold as free, but for what they keep in any case."""
    jobs, free, gangs = s.jobs, s.types.free, s.count[ELASTIC] == 0
    for i in range(s.count[RANKED]):
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
            set_left(s, pool, s.pools.left[pool] + held - keep)


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
