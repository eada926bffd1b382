"""A resource-time profile: how many GPUs are free from when on (Mu'alem and Feitelson, TPDS'01, section 3).

A step function of time, kept as ascending breakpoints. Intervals are half-open: what ends at a time leaves
its GPUs to what starts then. Numbers of GPUs are compared exactly, which suits whole numbers and halves.

The kernels run compiled, within loops that are machine code themselves, or interpreted. Several GPU types are
several profiles.
"""

from typing import NamedTuple

import numpy as np

from volvelle.core.compiled import kernel
from volvelle.model.arrays import Floats, Ints


class Profile(NamedTuple):
    """Steps: ``free[i]`` GPUs are free from ``times[i]`` until the next time, those of the last for ever.

    The first ``size[0]`` steps are in use. Neighbours differ. Kernels that write need room for two more.
    """

    times: Floats
    free: Floats
    size: Ints


@kernel
def profile_of(start: float, gpus: float, changes: int) -> Profile:
    """All ``gpus`` are free from ``start`` on; there is room for so many ``changes``."""
    times, free = np.empty(changes + 1), np.empty(changes + 1)
    times[0], free[0] = start, gpus
    return Profile(times, free, np.ones(1, np.int64))


@kernel
def step_at(profile: Profile, when: float) -> int:
    """The step in which ``when`` is; the first for what is before all."""
    low, high = 0, profile.size[0]
    while high - low > 1:
        middle = (low + high) // 2
        if profile.times[middle] <= when:
            low = middle
        else:
            high = middle
    return low


@kernel
def fits(profile: Profile, start: float, end: float, gpus: float) -> bool:
    """Whether ``gpus`` GPUs are free all the time from ``start`` until ``end``."""
    if end <= start:
        return True
    step = step_at(profile, start)
    while profile.free[step] >= gpus:
        step += 1
        if step >= profile.size[0] or profile.times[step] >= end:
            return True
    return False


@kernel
def earliest_fit(profile: Profile, gpus: float, seconds: float, after: float) -> float:
    """The first time from ``after`` on at which ``gpus`` GPUs are free for ``seconds``; else infinite."""
    times, free, count = profile.times, profile.free, profile.size[0]
    step = step_at(profile, after)
    begin = after
    while step < count:
        if free[step] < gpus:
            step += 1
            if step < count:
                begin = times[step]
            continue
        if step + 1 == count or times[step + 1] >= begin + seconds:
            return float(begin)
        step += 1
    return np.inf


@kernel
def _step_from(profile: Profile, when: float) -> int:
    """The step that begins at ``when``, which is there afterwards; the first for what is before all."""
    times, free, step = profile.times, profile.free, step_at(profile, when)
    if times[step] >= when:
        return step
    step += 1
    for later in range(profile.size[0], step, -1):
        times[later], free[later] = times[later - 1], free[later - 1]
    times[step], free[step] = when, free[step - 1]
    profile.size[0] += 1
    return step


@kernel
def _drop_if_same(profile: Profile, step: int) -> None:
    """Drop a step that does not differ from the one before."""
    times, free, count = profile.times, profile.free, profile.size[0]
    if 0 < step < count and free[step] == free[step - 1]:
        for later in range(step, count - 1):
            times[later], free[later] = times[later + 1], free[later + 1]
        profile.size[0] = count - 1


@kernel
def add(profile: Profile, start: float, end: float, gpus: float) -> None:
    """Let ``gpus`` more GPUs (fewer, if negative) be free from ``start`` until ``end``."""
    if end <= start or gpus == 0.0:
        return
    first = _step_from(profile, start)
    last = _step_from(profile, end) if end < np.inf else profile.size[0]
    for step in range(first, last):
        profile.free[step] += gpus
    _drop_if_same(profile, last)
    _drop_if_same(profile, first)


@kernel
def write_running(
    profile: Profile, start: float, idle: float, ends: Floats, gpus: Floats, enough: float
) -> None:
    """Write the profile of jobs that run from ``start`` until ``ends`` on ``gpus`` GPUs, ``idle`` being
    free.

    Jobs that end by ``start`` count as free from then on. It is written up to the first step in which
    ``enough`` GPUs are free; what ends later is left out. Room is needed for one step more than there are
    jobs.
    """
    times, free = profile.times, profile.free
    times[0], free[0] = start, idle
    count = 1
    heap = np.arange(len(ends))  # the next to end is the first
    left = len(ends)
    for place in range(left // 2 - 1, -1, -1):
        _sift(heap, left, ends, place)
    while left > 0:
        job = heap[0]
        end = ends[job]
        if end == np.inf or (end > times[count - 1] and free[count - 1] >= enough):
            break
        if end > times[count - 1]:
            times[count], free[count] = end, free[count - 1]
            count += 1
        free[count - 1] += gpus[job]
        left -= 1
        heap[0] = heap[left]
        _sift(heap, left, ends, 0)
    profile.size[0] = count


@kernel
def _sift(heap: Ints, count: int, keys: Floats, place: int) -> None:
    """Let the entry at ``place`` of a heap of ``count`` entries sink to where it belongs."""
    moved = heap[place]
    while 2 * place + 1 < count:
        child = 2 * place + 1
        if child + 1 < count and keys[heap[child + 1]] < keys[heap[child]]:
            child += 1
        if keys[moved] <= keys[heap[child]]:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = moved
