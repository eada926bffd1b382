"""Order among jobs: their classes and keys."""

from volvelle.core.compiled import kernel
from volvelle.core.forward.classes import class_of, no_classes
from volvelle.core.forward.groups import empty_groups, join_group
from volvelle.core.forward.running import join_pool, rank, rank_no_more
from volvelle.core.forward.waiting import wait, wait_no_more
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
    no_classes(s)
    s.count[BLOCKS] = s.count[WAITING] = s.count[ELASTIC] = 0
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
                join_pool(s, row)
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
