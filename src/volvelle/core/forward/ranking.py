"""Order among jobs: classes and keys of waiting jobs, ranks of running jobs."""

from volvelle.core.compiled import kernel
from volvelle.core.forward.groups import empty_groups, join_group
from volvelle.core.forward.waiting import class_of, wait, wait_no_more
from volvelle.core.state import *


@kernel
def sort_in(s: State, rules: Rules, row: int) -> None:
    """Note of which class or in which group the job in ``row`` is, as the policy wants it."""
    if rules.grouped:
        s.jobs.key[row] = s.jobs.number[row]
        join_group(s, row)
    else:
        s.jobs.kind[row] = class_of(s, rules, row)


@kernel
def queue_up(s: State, rules: Rules, row: int, now: float) -> None:
    """Let the job in ``row`` wait for GPUs."""
    s.count[WAITING] += 1
    if rules.decides == ORDER:
        work_out_key(s, row, now)
        wait(s, row)
    elif rules.grouped:
        s.jobs.target[row] = 0.0


@kernel
def work_out_key(s: State, row: int, now: float) -> None:
    """Note by what the job in ``row`` is served."""
    s.order[0] = row
    s.key(s.jobs, s.order, 0, 1, now, s.keys)
    s.jobs.key[row] = s.keys[0]


@kernel
def order_anew(s: State, rules: Rules, now: float) -> None:
    """Sort all jobs in the system into classes and by their keys, as another policy wants it."""
    s.count[CLASSES] = s.count[RANKED] = s.count[WAITING] = s.count[ELASTIC] = 0
    jobs, row = s.jobs, s.count[OLDEST]
    empty_groups(s)
    while row >= 0:
        sort_in(s, rules, row)
        if rules.elastic and jobs.least[row] < jobs.most[row]:
            s.count[ELASTIC] += 1
        if jobs.held[row] == 0.0:
            queue_up(s, rules, row, now)
        elif rules.decides == ORDER or rules.grouped:
            if rules.decides == ORDER:
                work_out_key(s, row, now)
            rank(s, row)
        row = jobs.younger[row]


@kernel
def order_again(s: State, rules: Rules, row: int, now: float) -> None:
    """Put the job in ``row``, of which something else is believed, where its key is now."""
    if rules.decides != ORDER:
        return
    if s.jobs.held[row] > 0.0:
        rank_no_more(s, row)
        work_out_key(s, row, now)
        rank(s, row)
    else:
        wait_no_more(s, row)
        work_out_key(s, row, now)
        wait(s, row)


@kernel
def place_by_key(s: State, first: int, last: int, key: float, number: float) -> int:
    """Where a job with ``key`` belongs among the running jobs from place ``first`` to ``last``."""
    ranked, bound, numbers = s.ranked, s.bound, s.jobs.number
    while first < last:
        middle = (first + last) // 2
        other = bound[middle]
        if other < key or (other == key and numbers[ranked[middle]] < number):
            first = middle + 1
        else:
            last = middle
    return first


@kernel
def rank(s: State, row: int) -> None:
    """Let the job in ``row`` be among the running ones, by its key."""
    ranked, bound, many = s.ranked, s.bound, s.count[RANKED]
    key = s.jobs.key[row]
    at = place_by_key(s, 0, many, key, s.jobs.number[row])
    for i in range(many, at, -1):
        ranked[i] = ranked[i - 1]
        bound[i] = bound[i - 1]
    ranked[at] = row
    bound[at] = key
    s.count[RANKED] = many + 1


@kernel
def rank_no_more(s: State, row: int) -> None:
    """Take the job in ``row`` out of the running ones."""
    ranked, bound, many = s.ranked, s.bound, s.count[RANKED]
    at = place_by_key(s, 0, many, s.jobs.key[row], s.jobs.number[row])
    for i in range(at, many - 1):
        ranked[i] = ranked[i + 1]
        bound[i] = bound[i + 1]
    s.count[RANKED] = many - 1
