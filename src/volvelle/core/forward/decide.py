"""A decision: the GPUs that each job is to hold, and their type.

An order serves jobs one after another: each gets all it can use of what those before it left, at least its
fewest, or nothing. `serve_in_order` finds what changes by looking at running jobs and at the first waiting
job of each class; `volvelle.core.fill` says the same of all jobs at once.
"""

from volvelle.core.compiled import kernel
from volvelle.core.forward.classes import (
    count_left,
    first_waiting,
    nobody_waits,
    note_first_keys,
    set_left,
    type_for,
)
from volvelle.core.forward.ranking import work_out_key
from volvelle.core.forward.running import list_from, list_pool, list_running, put_back, sort_ranked
from volvelle.core.forward.serving import change, keeps, serve_running, serve_waiting
from volvelle.core.forward.shared_gpus import parts_are_named
from volvelle.core.forward.waiting import wait, wait_no_more
from volvelle.core.groups import sort_by_number
from volvelle.core.state import *
from volvelle.model.tolerances import SAME_AMOUNT

_NO_POOL = -2


@kernel
def decide_by_order(s: State, rules: Rules, now: float, settled: bool) -> bool:
    """Serve jobs in order. Where all have what they can use, and find it, they are placed by submission.

    settled: whether a job that waits waits for others of its pool, as far as nothing has happened in this
    since the last decision. Returns whether that is so from now on.
    """
    if s.count[WAITING] == 0 and s.count[ELASTIC] == 0:
        return settled
    pool = EVERY_POOL
    if settled and s.count[ELASTIC] == 0:
        pool = _pool_concerned(s)
        if pool == _NO_POOL:
            return True
    if rules.keys_move:
        _order_waiting(s, now)
    _count_what_is_left(s)
    if pool == EVERY_POOL or s.count[OVERDRAWN] > 0 or s.pools.left[pool] > s.types.free[0]:
        pool, settled = EVERY_POOL, _settles(s, rules)
    _serve_in_order(s, rules, now, pool)
    if s.count[CHANGED] > 1 and _all_are_served(s) and not parts_are_named(s, rules):
        sort_by_number(s.jobs.number, s.changed, s.count[CHANGED])
    return settled


@kernel
def _pool_concerned(s: State) -> int:
    """The pool in which something has happened and jobs wait; `EVERY_POOL` for several."""
    concerned = _NO_POOL
    if _wait_without_pool(s):
        return EVERY_POOL
    for i in range(s.count[TOUCHED]):
        pool = s.pools.list[i]
        if first_waiting(s, pool, False) >= 0:
            if concerned != _NO_POOL:
                return EVERY_POOL
            concerned = pool
    return concerned


@kernel
def _settles(s: State, rules: Rules) -> bool:
    """Whether no job that waits after this decision will do so for GPUs that other pools hold.

    That is so where there are enough for all that is left to pools in which jobs wait.
    """
    if len(s.pools.quota) == 0 or len(s.types.capacity) > 1 or s.count[ELASTIC] > 0:
        return False
    if rules.strict or rules.keys_move or (rules.preemptive and not rules.keys_fall):
        return False
    if s.count[OVERDRAWN] > 0 or _wait_without_pool(s):
        return False
    room = s.types.free[0]
    for pool in range(len(s.pools.quota)):
        if first_waiting(s, pool, False) >= 0:
            room -= s.pools.left[pool]
    return bool(room >= 0.0)


@kernel
def _wait_without_pool(s: State) -> bool:
    """Whether a job of no pool waits."""
    k = s.count[UNPOOLED]
    while k >= 0:
        if s.classes.first[k] >= 0:
            return True
        k = s.classes.next[k]
    return False


@kernel
def _serve_in_order(s: State, rules: Rules, now: float, pool: int) -> None:
    """Write changed rows to `State.changed`, with their targets; jobs that start wait no more.

    pool: whose jobs are served, `EVERY_POOL` for all.
    """
    jobs, count, ranked, bound = s.jobs, s.count, s.ranked, s.bound
    gangs = count[ELASTIC] == 0
    if gangs:
        _start_what_fits(s, pool)
        if first_waiting(s, pool, False) < 0:
            return
    _find_concerned(s, rules, pool, now)
    _take_back(s, rules)
    i, many, blocked = 0, count[RANKED], False
    waiting = first_waiting(s, pool, not rules.strict)
    while i < many or waiting >= 0:
        if waiting >= 0:
            key, number = jobs.key[waiting], jobs.number[waiting]
            while i < many and (
                bound[i] < key or (bound[i] == key and jobs.number[ranked[i]] < number)
            ):
                if not serve_running(s, rules, ranked[i], gangs, False) and rules.strict:
                    blocked, waiting, i = True, -1, i + 1
                    break
                i += 1
            if waiting >= 0:
                if not serve_waiting(s, waiting) and rules.strict:
                    blocked, waiting = True, -1
                else:
                    waiting = first_waiting(s, pool, not rules.strict)
        elif gangs and not blocked and count[CHANGED] == 0:
            return  # running jobs stay as they are
        else:
            if not serve_running(s, rules, ranked[i], gangs, blocked) and rules.strict:
                blocked = True
            i += 1


@kernel
def _all_are_served(s: State) -> bool:
    """Whether every job has all it can use, of the one GPU type that there is."""
    jobs, count = s.jobs, s.count
    only = len(s.types.capacity) == 1 and len(s.pools.quota) == 0
    if not only or first_waiting(s, EVERY_POOL, False) >= 0:
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
def _start_what_fits(s: State, pool: int) -> None:
    """Let the first jobs that wait start as long as they fit beside all gangs that run.

    They would in the order of all jobs too: there may be more free when it is their turn, never less.
    """
    for gpu_type in range(len(s.types.free)):
        if s.types.free[gpu_type] < -SAME_AMOUNT:
            return
    if s.count[OVERDRAWN] > 0:
        return
    row = first_waiting(s, pool, False)
    while row >= 0:
        k = s.jobs.kind[row]
        types = int(s.classes.types[k])
        if type_for(s, types & -types, s.classes.least[k], int(s.classes.pool[k])) < 0:
            return  # on its first type; others would do only where that cannot be had
        serve_waiting(s, row)
        row = first_waiting(s, pool, False)


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
def _find_concerned(s: State, rules: Rules, pool: int, now: float) -> None:
    """Write the running jobs that may change to `State.ranked`, by their keys as they are now.

    Where all are gangs, those before the first job that waits and could ever fit stay as they are.
    pool: whose jobs are meant, `EVERY_POOL` for all.
    """
    jobs, count, ranked, bound = s.jobs, s.count, s.ranked, s.bound
    from_key = -INFINITY
    if count[ELASTIC] == 0 and not rules.preemptive:
        count[RANKED] = 0
        return
    if count[ELASTIC] == 0 and rules.keys_fall:
        from_key = jobs.key[first_waiting(s, pool, False)]
        if not rules.strict and len(s.types.capacity) == 1 and len(s.pools.quota) == 0:
            from_key = _first_to_yield(s, rules, now, from_key)
    if pool != EVERY_POOL:  # their places among all stay, with the keys that they had
        list_pool(s, pool)
        s.key(jobs, ranked, 0, count[RANKED], now, bound)
        gap = 1
        while 3 * gap < count[RANKED]:
            gap = 3 * gap + 1
        while gap > 0:
            sort_ranked(s, gap)
            gap = gap // 3
        return
    list_from(s, from_key)
    s.key(jobs, ranked, 0, count[RANKED], now, bound)
    for i in range(count[RANKED]):
        jobs.key[ranked[i]] = bound[i]
    sort_ranked(s, 1)
    put_back(s, from_key)
    if (
        from_key > -INFINITY
        and len(s.types.capacity) > 1
        and len(s.pools.quota) == 0
        and not rules.strict
    ):
        _leave_out_other_types(s)


@kernel
def _leave_out_other_types(s: State) -> None:
    """Leave out of `State.ranked` gangs that come before all that wait for GPUs of their type."""
    for gpu_type in range(len(s.types.free)):
        if s.types.free[gpu_type] < -SAME_AMOUNT:
            return
    note_first_keys(s)
    many = 0
    for i in range(s.count[RANKED]):
        row = s.ranked[i]
        if s.bound[i] >= s.types.first_key[int(s.jobs.type[row])]:
            s.ranked[many], s.bound[many] = row, s.bound[i]
            many += 1
    s.count[RANKED] = many


@kernel
def _first_to_yield(s: State, rules: Rules, now: float, least: float) -> float:
    """A key, not below ``least``, before which all running gangs keep their GPUs.

    Gangs behind it hold, with what is free, as many GPUs as all jobs need that wait before it. Only the last
    of the running gangs are looked at.
    """
    jobs, count, ranked, bound = s.jobs, s.count, s.ranked, s.bound
    waiting, need, room, from_key = 0, 0.0, -INFINITY, least
    blocks = 1
    while blocks < count[BLOCKS] and need > room:
        from_key = s.ranks.bound[s.blocks.number[count[BLOCKS] - blocks] * BLOCK]
        if from_key <= least:
            break
        list_from(s, from_key)
        s.key(jobs, ranked, 0, count[RANKED], now, bound)
        room = s.types.free[0]
        for i in range(count[RANKED]):
            if bound[i] >= from_key and not keeps(jobs, rules, ranked[i]):
                room += jobs.held[ranked[i]]
        while waiting > 0 and jobs.key[s.order[waiting - 1]] >= from_key:
            waiting -= 1
            need -= s.classes.most[jobs.kind[s.order[waiting]]]
            wait(s, s.order[waiting])
        row = first_waiting(s, EVERY_POOL, False)
        while row >= 0 and jobs.key[row] < from_key and need <= room:
            wait_no_more(s, row)
            s.order[waiting] = row
            waiting += 1
            need += s.classes.most[jobs.kind[row]]
            row = first_waiting(s, EVERY_POOL, False)
        blocks *= 2
    for i in range(waiting):
        wait(s, s.order[i])
    return from_key if need <= room else least


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
def serve_the_last(s: State) -> bool:
    """Let the last job that waits start where there are GPUs for all gangs; whether that is so.

    It is what a policy decides that serves all where it can (`volvelle.core.policy.Kernel`).
    """
    jobs, count = s.jobs, s.count
    if count[WAITING] > 1 or count[ELASTIC] > 0 or count[PINNED] > 0:
        return False
    alike = len(s.types.capacity) == 1 and len(s.pools.quota) == 0
    if not alike or s.clock[DEMAND] > s.types.capacity[0]:
        return False
    if count[WAITING] == 1:
        row = count[YOUNGEST]
        while jobs.held[row] > 0.0:
            row = jobs.older[row]
        jobs.target[row], jobs.target_type[row], jobs.reason[row] = jobs.gpus[row], 0.0, 0.0
        change(s, row)
    s.clock[NAMED_WAKE] = INFINITY
    return True
