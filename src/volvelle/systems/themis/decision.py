"""Themis' decision (`Kernel`): who is worst off, and one auction of all GPUs."""

import numpy as np

from volvelle.core.columns import ATTAINED_GPU, COUNT, HELD, LEAST, MOST, NUMBER, STARTED
from volvelle.core.compiled import kernel
from volvelle.core.fill import ClusterNow, fill, serve_all
from volvelle.core.state import INFINITY
from volvelle.model.arrays import Floats, Ints
from volvelle.systems.themis.auction import (
    ASKED,
    OWN_COLUMNS,
    after_payments,
    by_rho,
    contention,
    count_events,
    count_seconds,
    hand_out_by_share,
    hand_out_in_order,
    least_share_first,
    most_in_lease,
    rho_terms,
    share_out,
    worst_first,
)

(
    LEASE,  # seconds
    FILTER,  # the share of the jobs that bid, 0 for no auction
    BY_SHARE,  # 1 where who had least is worst off
    OVER_TIME,  # 1 where contention is
    TIES,  # 0 for the earlier submission, 1 for the later, 2 for turns
    PAYMENTS,
    PREEMPTIVE,
) = range(7)
"""Entries of the memory."""
_LATER, _TURNS = 1.0, 2.0


@kernel
def decide(jobs: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> float:
    """One auction of all GPUs, or all jobs in order."""
    now, lease, many = cluster.now, memory[LEASE], jobs.shape[1]
    own, over_time = jobs[COUNT : COUNT + OWN_COLUMNS], bool(memory[OVER_TIME] == 1.0)
    by_submission = np.argsort(jobs[NUMBER], kind="mergesort")
    if over_time:
        count_seconds(own, jobs, now)
    count_events(own, by_submission, now, lease, bool(np.any(jobs[HELD] > 0.0)))
    # never anew where a lease has passed and no job could be placed
    ask_at = now + lease if own[ASKED, 0] < np.inf else INFINITY
    if _serve_all_in_any_order(jobs, cluster, memory, out):
        return ask_at
    turn = by_submission
    if memory[TIES] == _LATER:
        turn = by_submission[::-1].copy()
    elif memory[TIES] == _TURNS:
        turn = np.roll(by_submission, -(int(np.floor(now / lease)) % many))
    gpus = cluster.capacity.sum()
    mean = contention(own, jobs, now, over_time)
    terms = rho_terms(jobs, cluster.rates, mean, now, max(gpus, 1.0))
    service = np.maximum(now - jobs[STARTED], 0.0) * jobs[HELD] + jobs[ATTAINED_GPU]
    preemptive = bool(memory[PREEMPTIVE] == 1.0)
    if memory[BY_SHARE] == 1.0:
        order = least_share_first(jobs, turn, service, now, lease)
    elif memory[FILTER] == 0.0 and preemptive:
        order = worst_first(jobs, turn, terms, gpus)
    else:
        order = by_rho(jobs, turn, terms, gpus)
    most = jobs[MOST]
    if memory[FILTER] > 0.0:
        won = _auction(jobs, order, turn, terms, service, gpus, now, memory)
        order = np.concatenate((order[won[order] > 0.0], order[won[order] == 0.0]))
        most = np.where(won > 0.0, won, jobs[LEAST])
    capacity, quota = cluster.capacity, cluster.quota
    out[:3] = fill(jobs, order, jobs[LEAST], most, capacity, quota, preemptive, False)
    out[3] = order
    return ask_at


@kernel
def _serve_all_in_any_order(jobs: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> bool:
    """Give every job all it can use, if there is enough and no order is seen; whether that is so.

    It is seen where several jobs change, and where CPUs are divided in it.
    """
    held, most = jobs[HELD], jobs[MOST]
    if memory[FILTER] > 0.0 or cluster.cpus < INFINITY or cluster.memory < INFINITY:
        return False
    if np.any(held > most) or np.sum(held < most) > 1:
        return False
    return serve_all(jobs, cluster.capacity, cluster.quota, out)


@kernel
def _auction(
    jobs: Floats,
    order: Ints,
    turn: Ints,
    terms: Floats,
    service: Floats,
    gpus: float,
    now: float,
    memory: Floats,
) -> Floats:
    """GPUs of each job: partial allocation among the first of ``order``, the rest to the others."""
    many, lease, linear = jobs.shape[1], memory[LEASE], bool(memory[BY_SHARE] == 1.0)
    bidders = max(int(np.floor(memory[FILTER] * many + 0.5)), 1)
    inside, outside = order[:bidders], order[bidders:]
    most = most_in_lease(jobs, terms[1], lease)
    won = share_out(jobs, inside, most, terms, gpus, linear)
    if memory[PAYMENTS] == 1.0:
        won = after_payments(jobs, inside, most, terms, gpus, linear, won)
    free = gpus - won.sum()
    for rows in (outside, inside):
        if linear:
            among = np.zeros(many, dtype=np.bool_)
            among[rows] = True
            free = hand_out_by_share(jobs, turn[among[turn]], most, won, free, service, now, lease)
        else:
            free = hand_out_in_order(jobs, rows, most, won, free)
    return won
