"""A resource-time profile: how many GPUs are free from when on (Mu'alem and Feitelson, TPDS'01, section 3).

A step function of time, kept as ascending breakpoints: ``free[i]`` GPUs are free from ``times[i]`` until
``times[i + 1]``, those of the last step for ever. Neighbouring steps differ. Intervals are half-open: what
ends at a time leaves its GPUs to what starts then. Numbers of GPUs are compared exactly, which suits whole
numbers and halves.

The kernels run compiled, within loops that are machine code themselves, or interpreted. They work on the
first ``count`` entries of ``times`` and ``free``; those that write return the new count, and need room for
two more entries. Several GPU types are several profiles.
"""

import numpy as np

from volvelle.core.compiled import kernel
from volvelle.model.arrays import Floats, Ints


@kernel
def step_at(times: Floats, count: int, when: float) -> int:
    """The step in which ``when`` is; the first for what is before all."""
    low, high = 0, count
    while high - low > 1:
        middle = (low + high) // 2
        if times[middle] <= when:
            low = middle
        else:
            high = middle
    return low


@kernel
def fits(times: Floats, free: Floats, count: int, start: float, end: float, gpus: float) -> bool:
    """Whether ``gpus`` GPUs are free all the time from ``start`` until ``end``."""
    if end <= start:
        return True
    step = step_at(times, count, start)
    while free[step] >= gpus:
        step += 1
        if step >= count or times[step] >= end:
            return True
    return False


@kernel
def earliest_fit(
    times: Floats, free: Floats, count: int, gpus: float, seconds: float, after: float
) -> float:
    """The first time from ``after`` on at which ``gpus`` GPUs are free for ``seconds``; else infinite."""
    step = step_at(times, count, after)
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
def add(times: Floats, free: Floats, count: int, start: float, end: float, gpus: float) -> int:
    """Let ``gpus`` more GPUs (fewer, if negative) be free from ``start`` until ``end``, in place.

    The arrays have room for two more steps than ``count``. Returns how many steps there are then.
    """
    if end <= start or gpus == 0.0:
        return count
    first = step_at(times, count, start)
    if times[first] < start:
        for step in range(count, first + 1, -1):
            times[step], free[step] = times[step - 1], free[step - 1]
        first += 1
        times[first], free[first] = start, free[first - 1]
        count += 1
    last = step_at(times, count, end)
    if times[last] < end < np.inf:
        for step in range(count, last + 1, -1):
            times[step], free[step] = times[step - 1], free[step - 1]
        last += 1
        times[last], free[last] = end, free[last - 1]
        count += 1
    elif end == np.inf:
        last = count
    for step in range(first, last):
        free[step] += gpus
    for step in (last, first):  # neighbours that are equal now are one step
        if 0 < step < count and free[step] == free[step - 1]:
            for later in range(step, count - 1):
                times[later], free[later] = times[later + 1], free[later + 1]
            count -= 1
    return count


@kernel
def write_running(
    times: Floats,
    free: Floats,
    start: float,
    idle: float,
    ends: Floats,
    gpus: Floats,
    enough: float,
) -> int:
    """Write the profile of jobs that run from ``start`` until ``ends`` on ``gpus`` GPUs, ``idle`` being
    free.

    Jobs that end by ``start`` count as free from then on. It is written up to the first step in which
    ``enough`` GPUs are free; what ends later is left out. The arrays have room for one step more than
    there are jobs. Returns how many steps there are.
    """
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
    return count


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
