"""The loops of Themis' auction: contention, who is worst off, who gets how many GPUs.

All work on `Column` matrices; jobs are named by rows, and ``turn`` lists every row once in the order in
which equals are served.
"""

import numpy as np
from numpy.typing import NDArray

from volvelle.core.columns import HELD, LEAST, MOST, SCALE, SUBMIT, TOTAL
from volvelle.core.compiled import compiled, compiled_later, kernel
from volvelle.core.fill import work_left
from volvelle.model.arrays import Floats, Ints
from volvelle.model.tolerances import SAME_AMOUNT, SAME_SHARE, WHOLE_NUMBER
from volvelle.policies.growth import rates_on_least, seconds_at

EVENTS, ACTIVE_SUM, ACTIVE, ASKED, JOB_SECONDS, COUNTED = 0, 1, 2, 3, 4, 5
"""Own columns: events seen, jobs in the system summed over them; after the last event: jobs, time
(infinite after a lease in which nobody could be placed); jobs in the system summed over seconds, and
until when."""
OWN_COLUMNS = 6


@compiled_later
def count_events(own: Floats, by_submission: Ints, now: float, lease: float, running: bool) -> None:
    """Count what happened since the last decision into the jobs' ``own`` columns, in place.

    Of several events at one moment ends come first, then the end of the lease, then arrivals. The
    last one counts only from the next decision on, as in PCS' simulator; there a job that has just
    come has seen one event, itself. ``running``: whether anybody ran until now; after a lease in which
    nobody did the time is noted as infinite.
    """
    known = own[EVENTS] > 0.0
    known_before, new = by_submission[known[by_submission]], by_submission[~known[by_submission]]
    jobs, survivors, before, expired = len(by_submission), len(known_before), 0.0, False
    if survivors:
        before = own[ACTIVE, known_before[-1]]
        expired = own[ASKED, known_before[-1]] + lease <= now
    arrived = jobs - survivors
    ended = max(int(before) - survivors, 0) if survivors else 0
    leases = 1 if ended == 0 and (expired or arrived == 0) else 0
    events, active_sum = 1.0, before  # the last one of the last time
    for event in range(1, ended + leases + arrived):
        events += 1.0
        if event <= ended:
            active_sum += before - event
        else:
            active_sum += survivors + max(event - ended - leases, 0)
    own[EVENTS] = np.where(known, own[EVENTS] + events, 0.0)
    own[ACTIVE_SUM] = np.where(known, own[ACTIVE_SUM] + active_sum, 0.0)
    seen = survivors
    for row in new:
        seen += 1
        own[EVENTS, row] = 1.0 + (jobs - seen)
        own[ACTIVE_SUM, row] = float(seen)
        for active in range(seen, jobs):
            own[ACTIVE_SUM, row] += active
    own[ACTIVE] = jobs
    own[ASKED] = np.inf if leases and expired and not running else now


@compiled
def count_seconds(own: Floats, matrix: Floats, now: float) -> None:
    """Add to every job the job-seconds that passed from the last decision to ``now``, in place.

    To be called before `count_events` overwrites how many jobs there were. A job that is new met the
    jobs that are here now, from its submission on.
    """
    jobs = own.shape[1]
    for row in range(jobs):
        if own[EVENTS, row] > 0.0:
            own[JOB_SECONDS, row] += own[ACTIVE, row] * (now - own[COUNTED, row])
        else:
            own[JOB_SECONDS, row] = jobs * (now - matrix[SUBMIT, row])
        own[COUNTED, row] = now


@compiled_later
def contention(own: Floats, matrix: Floats, now: float, over_time: bool) -> Floats:
    """The mean number of jobs in the system during each job's stay, over events or over time."""
    if not over_time:
        over_events: Floats = own[ACTIVE_SUM] / own[EVENTS]
        return over_events
    jobs = own.shape[1]
    stay = now - matrix[SUBMIT, :jobs]
    stayed = stay > 0.0
    return np.where(stayed, own[JOB_SECONDS] / np.where(stayed, stay, 1.0), float(jobs))


@compiled_later
def rho_terms(
    matrix: Floats, table: NDArray[np.float64], mean: Floats, now: float, gpus: float
) -> Floats:
    """(3, jobs): seconds since submission, GPU-seconds left, and T_fair; rho(m) = (0 + 1 / m) / 2.

    ``table`` is of believed rates, ``mean`` the contention. A job that is believed to make no progress
    has a rho of 0.
    """
    jobs = len(mean)
    terms, least = np.empty((3, jobs)), matrix[LEAST, :jobs]
    rates = rates_on_least(matrix, table, jobs)
    left = seconds_at(rates, work_left(matrix, jobs, now))
    whole = seconds_at(rates, matrix[TOTAL, :jobs] * matrix[SCALE, :jobs])
    fair = least * whole / np.minimum(gpus / mean, matrix[MOST, :jobs])
    moves = (fair > 0.0) & (fair < np.inf)
    terms[0] = np.where(moves, now - matrix[SUBMIT, :jobs], 0.0)
    terms[1] = np.where(moves, least * left, 0.0)
    terms[2] = np.where(moves, fair, 1.0)
    return terms


@compiled_later
def by_rho(matrix: Floats, turn: Ints, terms: Floats, gpus: float) -> Ints:
    """Rows by falling rho, each on all it can use of ``gpus``; equals by ``turn``."""
    on = np.maximum(np.minimum(gpus, matrix[MOST][turn]), SAME_AMOUNT)
    rho = -((terms[0][turn] + terms[1][turn] / on) / terms[2][turn])
    return _settled(turn, rho, np.argsort(rho, kind="mergesort"))


@compiled_later
def worst_first(matrix: Floats, turn: Ints, terms: Floats, free: float) -> Ints:
    """The rows in the order in which they win the auction, those that get nothing last.

    Every rho is reckoned with all that a job can use of what is left of ``free`` when its turn might
    come: as long as that is enough for everybody, one sort tells who is next.
    """
    jobs = len(turn)
    order = by_rho(matrix, turn, terms, free)
    widest = matrix[MOST, :jobs].max()
    served = 0
    while served < jobs and free >= widest:
        free -= matrix[MOST, order[served]]
        served += 1
    place = np.empty(jobs, np.int64)
    place[turn] = np.arange(jobs)
    while served < jobs and free > 0.0:
        best, worst = -1, -np.inf
        for i in range(served, jobs):
            row = order[i]
            if matrix[LEAST, row] > free:
                continue
            rho = _rho(terms, row, min(free, matrix[MOST, row]))
            slack = SAME_SHARE * abs(worst)
            earlier = best < 0 or place[row] < place[order[best]]
            if best < 0 or rho > worst + slack or (earlier and rho >= worst - slack):
                best, worst = i, rho
        if best < 0:
            break
        row = order[best]
        for i in range(best, served, -1):
            order[i] = order[i - 1]
        order[served] = row
        served += 1
        free -= min(free, matrix[MOST, row])
    return order


@kernel
def _rho(terms: Floats, row: int, gpus: float) -> float:
    return float((terms[0, row] + terms[1, row] / gpus) / terms[2, row])


@kernel
def _settled(turn: Ints, keys: Floats, by_key: Ints) -> Ints:
    """The rows of ``turn`` by rising ``keys``; what is equal but for rounding in the order of turn."""
    jobs, ascending, end = len(turn), keys[by_key], 0
    apart = ascending[1:] - ascending[:-1] > SAME_SHARE * np.abs(ascending[:-1])
    for start in np.flatnonzero(~apart):
        if start < end:
            continue
        first, end = ascending[start], int(start) + 1
        while end < jobs and ascending[end] - first <= SAME_SHARE * abs(first):
            end += 1
        by_key[start:end] = np.sort(by_key[start:end])
    return turn[by_key]


@compiled
def least_share_first(
    matrix: Floats, turn: Ints, service: Floats, now: float, lease: float
) -> Ints:
    """Rows by the GPUs they will have had on average when the lease is over, if they get none in it.

    ``service`` is GPU-seconds attained. Of equals those first that held fewer GPUs until now.
    """
    held = np.empty(len(turn))
    share = np.empty(len(turn))
    for i in range(len(turn)):
        held[i] = matrix[HELD, turn[i]]
        share[i] = service[turn[i]] / (now - matrix[SUBMIT, turn[i]] + lease)
    by_held = np.argsort(held, kind="mergesort")
    turn, share = turn[by_held], share[by_held]
    return _settled(turn, share, np.argsort(share, kind="mergesort"))


@compiled
def most_in_lease(matrix: Floats, alone: Floats, lease: float) -> Floats:
    """The GPUs each job has work for during a whole lease; ``alone`` is GPU-seconds left."""
    most = matrix[MOST, : len(alone)].copy()
    for row in range(len(alone)):
        enough = np.ceil(alone[row] / lease - WHOLE_NUMBER)
        most[row] = min(most[row], max(enough, matrix[LEAST, row]))
    return most


@compiled
def share_out(
    matrix: Floats, rows: Ints, most: Floats, terms: Floats, free: float, linear: bool
) -> Floats:
    """GPUs for ``rows`` out of ``free`` that make the product of their values largest.

    The value of m GPUs is 1 / rho(m), or m itself where ``linear``. Everybody who fits has the fewest
    GPUs they run on, then the next GPU goes to whose value it multiplies most, of equals to the first:
    values have falling returns, so that this is the largest product that whole GPUs allow.
    """
    gpus = np.zeros(matrix.shape[1])
    for row in rows:
        if matrix[LEAST, row] <= free:
            gpus[row] = min(matrix[LEAST, row], most[row])
            free -= gpus[row]
    while free >= 1.0:
        best, highest = -1, 1.0
        for row in rows:
            if gpus[row] > 0.0 and gpus[row] + 1.0 <= most[row]:
                more = _value(terms, row, gpus[row] + 1.0, linear)
                gain = more / _value(terms, row, gpus[row], linear)
                if best < 0 or gain > highest * (1.0 + SAME_SHARE):
                    best, highest = row, gain
        if best < 0:
            break
        gpus[best] += 1.0
        free -= 1.0
    return gpus


@kernel
def _value(terms: Floats, row: int, gpus: float, linear: bool) -> float:
    if linear:
        return gpus
    rho = _rho(terms, row, gpus)
    return 1.0 / rho if rho > 0.0 else 1.0


@compiled
def after_payments(
    matrix: Floats,
    rows: Ints,
    most: Floats,
    terms: Floats,
    free: float,
    linear: bool,
    gpus: Floats,
) -> Floats:
    """The rest of ``gpus`` of each of ``rows`` once it has paid for being there, in whole GPUs.

    A job keeps the share by which its presence leaves the others: the product of their values with it
    over that without it, of those that have GPUs both ways. Less than the fewest GPUs it runs on is
    nothing.
    """
    kept = gpus.copy()
    others = np.empty(max(len(rows) - 1, 0), np.int64)
    for i in range(len(rows)):
        mine = rows[i]
        if gpus[mine] == 0.0:
            continue
        others[:i], others[i:] = rows[:i], rows[i + 1 :]
        without = share_out(matrix, others, most, terms, free, linear)
        share = 1.0
        for k in range(len(others)):
            row = int(others[k])
            if gpus[row] > 0.0 and without[row] > 0.0:
                share *= _value(terms, row, gpus[row], linear)
                share /= _value(terms, row, without[row], linear)
        kept[mine] = np.floor(min(share, 1.0) * gpus[mine] + WHOLE_NUMBER)
        if kept[mine] < matrix[LEAST, mine]:
            kept[mine] = 0.0
    return kept


@compiled
def hand_out_in_order(matrix: Floats, rows: Ints, most: Floats, gpus: Floats, free: float) -> float:
    """Raise ``gpus`` of ``rows`` in their order to all each can use; returns what is left of ``free``."""
    for row in rows:
        step = 0.0
        if gpus[row] > 0.0 or matrix[LEAST, row] <= free:
            step = min(most[row] - gpus[row], free)
            if step < most[row] - gpus[row]:
                step = np.floor(step)
        gpus[row] += step
        free -= step
    return free


@compiled
def hand_out_by_share(
    matrix: Floats,
    rows: Ints,
    most: Floats,
    gpus: Floats,
    free: float,
    service: Floats,
    now: float,
    lease: float,
) -> float:
    """Raise ``gpus`` of ``rows`` step by step, each time of who has had least; returns what is left.

    As `least_share_first`, what is handed out here counting already; of equals the first of ``rows``.
    """
    while free > 0.0:
        best, least, fewest = -1, np.inf, np.inf
        for row in rows:
            step = 1.0 if gpus[row] > 0.0 else matrix[LEAST, row]
            if step > free or gpus[row] + step > most[row]:
                continue
            share = (service[row] + gpus[row] * lease) / (now - matrix[SUBMIT, row] + lease)
            held = matrix[HELD, row] + gpus[row]
            slack = SAME_SHARE * abs(least) if best >= 0 else 0.0
            if best < 0 or share < least - slack or (share <= least + slack and held < fewest):
                best, least, fewest = row, share, held
        if best < 0:
            break
        step = 1.0 if gpus[best] > 0.0 else matrix[LEAST, best]
        gpus[best] += step
        free -= step
    return free
