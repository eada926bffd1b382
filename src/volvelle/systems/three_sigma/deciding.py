"""3Sigma's decision as functions of arrays, but for the program, which is asked of Python."""

import numpy as np

from volvelle.core.columns import (
    DEADLINE,
    FULL_RATE,
    GPUS,
    HELD,
    PREEMPTIBLE,
    REQUEST_RATE,
    SCALE,
    TOTAL,
)
from volvelle.core.compiled import compiled, kernel
from volvelle.core.fill import TARGET_REASON, ClusterNow, attained_seconds, fill, seconds_left
from volvelle.core.state import INFINITY, Reason
from volvelle.model.arrays import Bools, Floats, Ints
from volvelle.model.tolerances import SAME_AMOUNT, SAME_END
from volvelle.policies.claims import by_number
from volvelle.policies.growth import then_by
from volvelle.systems.three_sigma.past import (
    AHEAD,
    ANSWERED,
    BELIEVED,
    GOES,
    SLOTS,
    STARTS,
    WORTH,
    past_of,
)

_MOST = 64
"""Jobs with deadlines in a program: those that have to start first."""
_SOONER = 1e-3
"""The share of its value that a job loses with each slot that it starts later."""
_AS_ONE = 8
"""Sums that NumPy adds side by side."""
_ORDER = int(Reason.ORDER)


@kernel
def decide(jobs: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> float:
    """The decision (`volvelle.core.policy.Kernel`); it yields where a program is to be solved.

    Running jobs with a deadline go on; then starts of this slot, and best effort on the GPUs left.
    """
    now, gpus = cluster.now, jobs[GPUS]
    stays, mean, first, rest, needs, in_time, gain, free = weighed(
        jobs, now, cluster.capacity.sum(), memory
    )
    wanted, chosen = ~stays, np.zeros(len(gpus))
    wanted[rest] = False
    if memory[ANSWERED] == now:
        chosen[:] = past_of(memory).answer[: len(gpus)]
    elif too_many(needs, gpus[rest], free) or (jobs[WORTH][first] == 0.0).any():
        return -INFINITY
    else:
        nothing, worth = np.zeros(in_time.shape), worths(jobs[WORTH][first], in_time)
        starts, used, _ = rounded(nothing, worth, needs, free)
        chosen[first[starts]] = STARTS
        goes, _ = filled(np.zeros(len(rest)), gain, gpus[rest], free[0] - used)
        chosen[rest[goes]] = GOES
    memory[ANSWERED] = -1.0
    for row in range(len(gpus)):
        if jobs[BELIEVED, row] == 0.0:
            work, rate = jobs[TOTAL, row] * jobs[SCALE, row], jobs[REQUEST_RATE, row]
            jobs[BELIEVED, row] = work / rate if rate > 0.0 else INFINITY
    held_back = wanted & (chosen != STARTS)
    rank = np.where(stays, 0.0, np.where(wanted, 1.0, np.where(chosen == GOES, 2.0, 3.0)))
    service = np.where(stays | wanted, 0.0, mean * gpus)
    order = then_by(then_by(by_number(jobs), service), rank)
    most = np.where(held_back, 0.0, gpus)
    out[:3] = fill(jobs, order, gpus, most, cluster.capacity, cluster.quota, True, False)
    out[3] = order
    out[TARGET_REASON] = np.where(held_back, float(_ORDER), out[TARGET_REASON])
    return now + memory[AHEAD] / memory[SLOTS] if held_back.any() else INFINITY


@compiled
def weighed(
    matrix: Floats, now: float, gpus: float, memory: Floats
) -> tuple[Bools, Floats, Ints, Ints, Floats, Floats, Floats, Floats]:
    """The program of this moment, on so many GPUs.

    Returns which jobs run on, because of their deadline or because they have to; (jobs,) seconds expected
    until each job ends, if it had its GPUs from now on; the places of the jobs that may start in a slot, and
    of the others; the first two `expectations` of those that may start; the gain of each other that runs in
    the first slot; and (slots,) GPUs that are not taken.
    """
    jobs, slots = matrix.shape[1], int(memory[SLOTS])
    slot_seconds = memory[AHEAD] / memory[SLOTS]
    left = seconds_by_quantile(matrix, now, past_of(memory).quantiles)
    stays, wanted = np.zeros(jobs, np.bool_), np.zeros(jobs, np.bool_)
    mean = np.empty(jobs)
    for row in range(jobs):
        mean[row] = mean_of(left[row])
        due, may_keep = matrix[DEADLINE, row], False
        for seconds in left[row]:
            may_keep = may_keep or (due < INFINITY and now + seconds <= due + SAME_END)
        stays[row] = matrix[HELD, row] > 0.0 and (may_keep or matrix[PREEMPTIBLE, row] == 0.0)
        wanted[row] = not matrix[HELD, row] > 0.0 and may_keep
    first = np.flatnonzero(wanted)
    latest = matrix[DEADLINE][first] - now - mean[first]
    first = first[np.argsort(latest, kind="mergesort")][:_MOST]
    rest = np.flatnonzero(~(stays | wanted))
    needs, in_time, taken = expectations(
        matrix, left, now, slot_seconds, slots, first, np.flatnonzero(stays)
    )
    gain = slot_seconds / np.maximum(mean[rest], slot_seconds)
    gain = np.where(matrix[HELD][rest] > 0.0, 1.5, 1.0) * gain
    return stays, mean, first, rest, needs, in_time, gain, np.maximum(gpus - taken, 0.0)


@kernel
def mean_of(values: Floats) -> float:
    """As `numpy.mean`, to the last digit: it adds eight sums side by side, then what is left."""
    many = len(values)
    if many < _AS_ONE:
        return float(values.sum() / many)
    s, at = values[:_AS_ONE].copy(), _AS_ONE
    while at + _AS_ONE <= many:
        s += values[at : at + _AS_ONE]
        at += _AS_ONE
    total = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]))
    for value in values[at:]:
        total += value
    return float(total / many)


@kernel
def too_many(needs: Floats, others: Floats, free: Floats) -> bool:
    """Whether a program is to choose: jobs may start, and not all have room in the first slot."""
    return bool(len(needs) > 0 and needs[:, 0].sum() + others.sum() > free[0])


@kernel
def worths(values: Floats, in_time: Floats) -> Floats:
    """(jobs, slots + 1) of starting in each slot, the last after all: an earlier one counts a little more.

    values: `WORTH` of the jobs.
    """
    later = 1.0 - _SOONER * np.arange(in_time.shape[1])
    return np.maximum(values, 0.0).reshape((-1, 1)) * in_time * later


@compiled
def seconds_by_quantile(matrix: Floats, now: float, factors: Floats) -> Floats:
    """(jobs, quantiles) seconds until each job ends, if it had its GPUs from ``now`` on.

    factors: ascending, of the believed run time. Quantiles that are over stand for nothing: those that are
    not take their place.
    """
    jobs, many, believed = matrix.shape[1], len(factors), seconds_left(matrix, now)
    left = np.empty((jobs, many))
    for row in range(jobs):
        ran, seconds, some = attained_seconds(matrix, now, row), believed[row], 0
        if not np.isfinite(seconds):
            seconds = matrix[TOTAL, row] * matrix[SCALE, row] / matrix[FULL_RATE, row]
        for factor in factors:
            after = (ran + seconds) * factor - ran
            if after > 0.0:
                left[row, some] = after
                some += 1
        for at in range(some, many):
            left[row, at] = left[row, at % some] if some > 0 else ran
    return left


@compiled
def expectations(
    matrix: Floats,
    left: Floats,
    now: float,
    slot_seconds: float,
    slots: int,
    first: Ints,
    stays: Ints,
) -> tuple[Floats, Floats, Floats]:
    """The expectations of the jobs ``first`` and of those that stay.

    Returns (jobs, slots) GPUs that each of ``first`` holds so many slots after its start, (jobs, slots + 1)
    chances that it ends in time by its start, and (slots,) GPUs that all that stay hold.
    """
    many = left.shape[1]
    needs, in_time = np.empty((len(first), slots)), np.empty((len(first), slots + 1))
    taken = np.zeros(slots)
    for at, row in enumerate(first):
        for slot in range(slots + 1):
            runs, ends = 0, 0
            for seconds in left[row]:
                runs += slot == 0 or seconds > slot * slot_seconds
                ends += now + slot * slot_seconds + seconds <= matrix[DEADLINE, row] + SAME_END
            if slot < slots:
                needs[at, slot] = matrix[GPUS, row] * (runs / many)
            in_time[at, slot] = ends / many
    for row in stays:
        for slot in range(slots):
            runs = 0
            for seconds in left[row]:
                runs += slot == 0 or seconds > slot * slot_seconds
            taken[slot] += matrix[GPUS, row] * (runs / many)
    return needs, in_time, taken


@compiled
def rounded(x: Floats, worth: Floats, needs: Floats, free: Floats) -> tuple[Ints, float, float]:
    """Let each job start in the slot that has most of it and where it fits, those that are surest first.

    Jobs that start now, the GPUs that they use in the first slot, and the value of all.
    """
    jobs, slots = x.shape[0], len(free)
    used, value, surest = np.zeros(slots), 0.0, np.zeros(jobs)
    starts, many = np.empty(jobs, np.int64), 0
    for job in range(jobs):
        surest[job] = max(x[job].max(), 0.0)
    for job in np.argsort(-surest, kind="mergesort"):
        for slot in then_by(np.argsort(-worth[job], kind="mergesort"), -x[job]):
            fits = worth[job, slot] > 0.0
            for at in range(slot, slots):
                fits = fits and used[at] + needs[job, at - slot] <= free[at] + SAME_AMOUNT
            if fits:
                for at in range(slot, slots):
                    used[at] += needs[job, at - slot]
                value += worth[job, slot]
                if slot == 0:
                    starts[many] = job
                    many += 1
                break
    return starts[:many], used[0], value


@compiled
def filled(y: Floats, gain: Floats, gpus: Floats, free: float) -> tuple[Ints, float]:
    """Others that run on the ``free`` GPUs of the first slot, by their shares in the program."""
    value, chosen, many = 0.0, np.empty(len(y), np.int64), 0
    for at in then_by(np.argsort(-gain, kind="mergesort"), -y):
        if gpus[at] <= free + SAME_AMOUNT:
            free -= gpus[at]
            value += gain[at]
            chosen[many] = at
            many += 1
    return chosen[:many], value
