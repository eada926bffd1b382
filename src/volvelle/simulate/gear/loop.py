"""The compiled forward loop: from columns of jobs to the times at which they start and finish.

It plays out what `World` and `Scheduler` would do, where costs are nothing, GPUs are of one type and only
counted, and the policy is an order or the divided shares of PCS. Jobs are numbered by submission. Work
is touched only where an allocation changes: an event costs about as many steps as there are jobs that
run. Plain twins are the general engine itself and ``py_func`` of each loop.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from volvelle.core.compiled import compiled
from volvelle.core.keys import TIE_SECONDS, Key
from volvelle.policies.pcs.shares import fair_shares

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Input:
    """Which row of the columns of jobs holds what."""

    SUBMIT: Final = 0
    GPUS: Final = 1
    LEAST: Final = 2
    MOST: Final = 3
    CURVE: Final = 4
    UNIT_RATE: Final = 5  # NaN where the curve says it
    FULL_RATE: Final = 6
    LEFT: Final = 7  # units of work left at SINCE
    SIZE: Final = 8  # units of work in all, as believed
    QUEUE: Final = 9  # -1: not known yet (PCS)
    HELD: Final = 10
    SINCE: Final = 11  # since when it holds them
    RATE: Final = 12
    ATTAINED: Final = 13  # GPU-seconds up to SINCE
    ATTAINED_SECONDS: Final = 14
    TRULY_LEFT: Final = 15  # as LEFT, which is what is believed

    COUNT: Final = 16


SHARES: Final = -1
"""What stands for PCS' shares where orders have their `Key`."""

_SUBMIT, _GPUS, _LEAST, _MOST, _CURVE = 0, 1, 2, 3, 4
_UNIT_RATE, _FULL_RATE, _LEFT, _SIZE, _QUEUE = 5, 6, 7, 8, 9
_HELD, _SINCE, _RATE, _ATTAINED, _SECONDS, _TRULY_LEFT = 10, 11, 12, 13, 14, 15
_REMAINING_SECONDS, _REMAINING_SERVICE = int(Key.REMAINING_SECONDS), int(Key.REMAINING_SERVICE)
_ATTAINED_SERVICE, _ATTAINED_SECONDS = int(Key.ATTAINED_SERVICE), int(Key.ATTAINED_SECONDS)
_TOTAL_SECONDS, _WIDTH = int(Key.TOTAL_SECONDS), int(Key.GPUS)

_DUST = 1e-11  # as PCS' shares have it


@compiled
def play_out(
    jobs: Floats,
    present: int,
    now: float,
    rates: Floats,
    capacity: float,
    order: int,
    preemptive: bool,
    strict: bool,
    elastic: bool,
    period: float,
    weights: Floats,
    floor: float,
    delta: float,
    dirty: bool,
    last: int,
    until: float,
) -> tuple[Floats, Floats, int]:
    """First starts and finishes of ``jobs`` (NaN where there is none), and the events gone through.

    jobs: columns as `Input`, in order of submission; those up to ``present`` are in the system at
    ``now``, the others come when they are submitted. rates: units per second by (curve, GPUs). period:
    decide only at its multiples, 0 for at every event. weights, floor, delta: as PCS has them. dirty:
    something has happened since the last decision. last: the job with which it may end, -1 for all.
    until: end at this time. ``jobs`` is changed.
    """
    count = jobs.shape[1]
    start, finish = np.full(count, np.nan), np.full(count, np.nan)
    end = np.full(count, np.inf)
    least = jobs[_LEAST].copy() if elastic else jobs[_GPUS].copy()
    most = jobs[_MOST].copy() if elastic else jobs[_GPUS].copy()
    queues = len(weights)
    head, tail = np.full(queues, -1, np.int64), np.full(queues, -1, np.int64)
    before, after = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    demand = np.zeros(queues)
    caps = most.copy()
    running, runs = np.empty(count, np.int64), 0
    heap, keys, waits = np.empty(count, np.int64), np.empty(count), 0
    new = np.zeros(count)
    varying = order in (_ATTAINED_SERVICE, _ATTAINED_SECONDS)
    in_system, events, come = 0, 0, 0
    next_decision = np.inf
    narrowest = least.min() if count else 0.0
    listed = np.zeros(count, np.bool_)
    while True:
        # the next moment
        time = next_decision
        for i in range(runs):
            time = min(time, end[running[i]])
        if come < present:
            time = now
        elif come < count:
            time = min(time, jobs[_SUBMIT, come])
        if time == np.inf or time > until:
            break
        now = max(now, time)
        # ends
        kept = 0
        for i in range(runs):
            job = running[i]
            if end[job] > now:
                running[kept] = job
                kept += 1
                continue
            finish[job] = now
            jobs[_HELD, job] = 0.0
            in_system -= 1
            events += 1
            dirty = True
            if order == SHARES:
                queue = int(jobs[_QUEUE, job])
                demand[queue] -= most[job]
                _unlink(job, queue, head, tail, before, after)
        runs = kept
        if (last >= 0 and not np.isnan(finish[last])) or (in_system == 0 and come == count):
            break
        # arrivals
        while come < count and (come < present or jobs[_SUBMIT, come] <= now):
            job = come
            come += 1
            in_system += 1
            if job >= present:
                events += 1
                dirty = True
            if order == SHARES:
                queue = int(jobs[_QUEUE, job])
                demand[queue] += most[job]
                caps[job] = _cap(jobs, rates, job, least[job], most[job], floor)
                before[job], after[job] = tail[queue], -1
                if tail[queue] >= 0:
                    after[tail[queue]] = job
                else:
                    head[queue] = job
                tail[queue] = job
            if jobs[_HELD, job] > 0.0:
                running[runs] = job
                runs += 1
                if jobs[_RATE, job] > 0.0:
                    end[job] = jobs[_SINCE, job] + jobs[_TRULY_LEFT, job] / jobs[_RATE, job]
            elif order != SHARES:
                waits = _push(heap, keys, waits, job, _key(jobs, job, order, now))
        # the decision
        boundary = period == 0.0 or now == np.rint(now / period) * period
        if boundary and (dirty or next_decision <= now):
            dirty = False
            if order == SHARES:
                runs = _divide(
                    jobs, rates, weights, demand, head, after, caps, most, least,
                    capacity, floor, delta, running, runs, new, listed,
                )  # fmt: skip
            else:
                runs, waits = _serve(
                    jobs, least, most, narrowest, capacity, order, now, preemptive, strict,
                    running, runs, heap, keys, waits, new,
                )  # fmt: skip
            kept = 0
            for i in range(runs):
                job = running[i]
                held = jobs[_HELD, job]
                if new[job] != held:
                    _change(jobs, rates, job, least[job], new[job], now)
                    if held == 0.0 and np.isnan(start[job]):
                        start[job] = now
                    if new[job] == 0.0:
                        end[job] = np.inf
                        if order != SHARES:
                            waits = _push(heap, keys, waits, job, _key(jobs, job, order, now))
                    elif jobs[_RATE, job] > 0.0:
                        end[job] = now + jobs[_TRULY_LEFT, job] / jobs[_RATE, job]
                    else:
                        end[job] = np.inf
                new[job], listed[job] = 0.0, False
                if jobs[_HELD, job] > 0.0:
                    running[kept] = job
                    kept += 1
            runs = kept
        next_decision = np.inf
        if period > 0.0 and (dirty or (varying and _contended(jobs, running, runs, in_system))):
            index = np.floor(now / period)
            while index * period <= now:
                index += 1.0
            next_decision = index * period
    return start, finish, events


@compiled
def _contended(jobs: Floats, running: Ints, runs: int, in_system: int) -> bool:
    """Whether some job runs and some has less than it can use."""
    if runs < in_system:
        return runs > 0
    served = True
    for i in range(runs):
        served = served and jobs[_HELD, running[i]] >= jobs[_MOST, running[i]]
    return not served


@compiled
def _key(jobs: Floats, job: int, order: int, now: float) -> float:
    """What the job is served by, smallest first."""
    worked = max(now - jobs[_SINCE, job], 0.0)
    key = float(job)
    if order in (_REMAINING_SECONDS, _REMAINING_SERVICE):
        left = max(jobs[_LEFT, job] - worked * jobs[_RATE, job], 0.0)
        key = left / jobs[_FULL_RATE, job]
        if order == _REMAINING_SERVICE:
            key = (key + TIE_SECONDS) * jobs[_MOST, job]
    elif order == _ATTAINED_SERVICE:
        key = jobs[_ATTAINED, job] + worked * jobs[_HELD, job]
    elif order == _ATTAINED_SECONDS:
        key = jobs[_SECONDS, job] + (worked if jobs[_HELD, job] > 0.0 else 0.0)
    elif order == _TOTAL_SECONDS:
        key = jobs[_SIZE, job] / jobs[_FULL_RATE, job]
    elif order == _WIDTH:
        key = jobs[_GPUS, job]
    return key


@compiled
def _change(jobs: Floats, rates: Floats, job: int, least: float, gpus: float, now: float) -> None:
    """Let the job hold ``gpus`` from ``now`` on."""
    held = jobs[_HELD, job]
    if held > 0.0:
        worked = max(now - jobs[_SINCE, job], 0.0)
        jobs[_LEFT, job] = max(jobs[_LEFT, job] - worked * jobs[_RATE, job], 0.0)
        jobs[_TRULY_LEFT, job] = max(jobs[_TRULY_LEFT, job] - worked * jobs[_RATE, job], 0.0)
        jobs[_ATTAINED, job] += worked * held
        jobs[_SECONDS, job] += worked
    jobs[_HELD, job] = gpus
    jobs[_SINCE, job] = now
    jobs[_RATE, job] = _rate(jobs, rates, job, gpus)


@compiled
def _rate(jobs: Floats, rates: Floats, job: int, gpus: float) -> float:
    """Units per second; linear between whole GPUs, and in proportion below the fewest it runs on."""
    if gpus <= 0.0:
        return 0.0
    unit = jobs[_UNIT_RATE, job]
    if not np.isnan(unit):
        return float(unit * gpus)
    least = float(jobs[_LEAST, job])
    if gpus < least:
        return _rate_on(rates, int(jobs[_CURVE, job]), least) * gpus / least
    return _rate_on(rates, int(jobs[_CURVE, job]), gpus)


@compiled
def _rate_on(rates: Floats, curve: int, gpus: float) -> float:
    whole = int(gpus)
    if whole + 1 >= rates.shape[1]:
        return float(rates[curve, rates.shape[1] - 1])
    below = float(rates[curve, whole])
    if gpus == whole:
        return below
    return below + float(rates[curve, whole + 1] - below) * (gpus - whole)


# ---------------------------------------------------------------------- orders


@compiled
def _serve(
    jobs: Floats,
    least: Floats,
    most: Floats,
    narrowest: float,
    capacity: float,
    order: int,
    now: float,
    preemptive: bool,
    strict: bool,
    running: Ints,
    runs: int,
    heap: Ints,
    keys: Floats,
    waits: int,
    new: Floats,
) -> tuple[int, int]:
    """Serve jobs in order as `volvelle.core.kernels.fill` does; write what they are to hold to ``new``.

    Afterwards ``running`` also holds those that are to start. Returns how many, and how many wait.
    """
    free = capacity
    ranks = np.empty(runs)
    for i in range(runs):  # by insertion: they are nearly in order
        job = running[i]
        key = _key(jobs, job, order, now)
        at = i
        while at > 0 and _before(key, job, ranks[at - 1], running[at - 1]):
            running[at], ranks[at] = running[at - 1], ranks[at - 1]
            at -= 1
        running[at], ranks[at] = job, key
    if not preemptive:
        for i in range(runs):
            job = running[i]
            held = jobs[_HELD, job]
            new[job] = min(held, least[job]) if least[job] < most[job] else held
            free -= new[job]
    held_before = runs
    passed, passes = np.empty(waits, np.int64), 0
    i, blocked = 0, False
    while free > 0.0:
        heeded = waits > 0 and not blocked and free >= narrowest
        if i == held_before and not heeded:
            break
        if i < held_before and (not heeded or _before(ranks[i], running[i], keys[0], heap[0])):
            job = running[i]
            i += 1
            if not preemptive:
                if least[job] < most[job]:
                    extra = max(min(most[job] - new[job], free), 0.0)
                    if new[job] + extra < most[job]:
                        extra = np.floor(extra)
                    new[job] += extra
                    free -= extra
                continue
            give = _fitting(least[job], most[job], free) if not blocked else 0.0
            new[job] = give
            free -= give
            blocked = blocked or (strict and give == 0.0)
            continue
        job = heap[0]
        waits = _pop(heap, keys, waits)
        give = _fitting(least[job], most[job], free)
        if give > 0.0:
            new[job] = give
            free -= give
            running[runs] = job
            runs += 1
        else:
            passed[passes] = job
            passes += 1
            blocked = strict
    for i in range(passes):
        waits = _push(heap, keys, waits, passed[i], _key(jobs, passed[i], order, now))
    return runs, waits


@compiled
def _fitting(least: float, most: float, free: float) -> float:
    """What a job takes of ``free``: all it can use, or its fewest and whole ones more, or nothing."""
    if least > free or most <= 0.0:
        return 0.0
    give = min(most, free)
    if give < most:
        give = least + np.floor(give - least)
    return float(give)


@compiled
def _before(key: float, job: int, other_key: float, other: int) -> bool:
    return bool(key < other_key or (key == other_key and job < other))


@compiled
def _push(heap: Ints, keys: Floats, size: int, job: int, key: float) -> int:
    """Add a job to the heap of those that wait; its new size."""
    at = size
    while at > 0:
        up = (at - 1) // 2
        if not _before(key, job, keys[up], heap[up]):
            break
        heap[at], keys[at] = heap[up], keys[up]
        at = up
    heap[at], keys[at] = job, key
    return size + 1


@compiled
def _pop(heap: Ints, keys: Floats, size: int) -> int:
    """Take the first job off the heap; its new size."""
    size -= 1
    job, key = heap[size], keys[size]
    at = 0
    while True:
        down = 2 * at + 1
        if down >= size:
            break
        if down + 1 < size and _before(keys[down + 1], heap[down + 1], keys[down], heap[down]):
            down += 1
        if not _before(keys[down], heap[down], key, job):
            break
        heap[at], keys[at] = heap[down], keys[down]
        at = down
    heap[at], keys[at] = job, key
    return size


# ---------------------------------------------------------------------- shares


@compiled
def _unlink(job: int, queue: int, head: Ints, tail: Ints, before: Ints, after: Ints) -> None:
    if before[job] >= 0:
        after[before[job]] = after[job]
    else:
        head[queue] = after[job]
    if after[job] >= 0:
        before[after[job]] = before[job]
    else:
        tail[queue] = before[job]


@compiled
def _cap(jobs: Floats, rates: Floats, job: int, least: float, most: float, floor: float) -> float:
    """As `volvelle.policies.pcs.shares.cap`."""
    unit = jobs[_UNIT_RATE, job]
    if floor <= 0.0 or not np.isnan(unit) or least == most:
        return most
    base = max(int(np.ceil(least)), 1)
    gpus = base + 1
    if gpus >= rates.shape[1]:
        return most
    curve = int(jobs[_CURVE, job])
    single = rates[curve, base] / base
    while gpus <= most and gpus < rates.shape[1]:
        if rates[curve, gpus] < floor * single * gpus:
            return float(gpus - 1)
        gpus += 1
    return most


@compiled
def _divide(
    jobs: Floats,
    rates: Floats,
    weights: Floats,
    demand: Floats,
    head: Ints,
    after: Ints,
    caps: Floats,
    most: Floats,
    least: Floats,
    capacity: float,
    floor: float,
    delta: float,
    running: Ints,
    runs: int,
    new: Floats,
    listed: Flags,
) -> int:
    """PCS' shares as `volvelle.policies.pcs.shares.divide` has them, touching only who gets some."""
    shares = fair_shares(weights, demand, capacity)
    for queue in range(len(weights)):
        left, level = shares[queue], floor
        while left > _DUST:
            job = head[queue]
            while job >= 0 and left > _DUST:
                bound = caps[job]
                if level != floor:
                    bound = _cap(jobs, rates, job, least[job], most[job], level)
                more = min(bound - new[job], left)
                if more > 0.0:
                    if jobs[_HELD, job] == 0.0 and not listed[job]:
                        running[runs] = job
                        runs += 1
                        listed[job] = True
                    new[job] += more
                    left -= more
                job = after[job]
            if left <= _DUST or level <= 0.0:
                break
            if delta > 0.0:
                level -= delta
                left = shares[queue]
                job = head[queue]
                while job >= 0:
                    new[job] = 0.0
                    job = after[job]
            else:
                level = 0.0
    for i in range(runs):
        job = running[i]
        held = jobs[_HELD, job]
        if abs(new[job] - held) <= _DUST * max(held, 1.0):
            new[job] = held
        elif new[job] < _DUST:
            new[job] = 0.0
    return runs
