"""A resource-time profile: how many GPUs are free from when on (Mu'alem and Feitelson, TPDS'01, section 3).

A step function of time, kept as ascending breakpoints: ``free[i]`` GPUs are free from ``times[i]`` until
``times[i + 1]``, those of the last step for ever. Neighbouring steps differ. Intervals are half-open: what
ends at a time leaves its GPUs to what starts then. Numbers of GPUs are compared exactly, which suits whole
numbers and halves.

`Profile` is for Python. The kernels below it are for loops that are machine code themselves, or are
interpreted where compiling does not pay: they work on the first ``count`` entries of arrays with room for two
more, and return how many entries there are afterwards. Several GPU types are several profiles.
"""

import math
from typing import Self

import numpy as np
from numpy.typing import NDArray

from volvelle.core.compiled import compiled, kernel
from volvelle.core.view import FloatColumn

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Profile:
    """``gpus`` GPUs, all free from ``start`` (seconds) on."""

    def __init__(self, gpus: float, start: float = 0.0) -> None:
        if not gpus >= 0.0:
            raise ValueError(f"a profile of {gpus:g} GPUs: there cannot be fewer than none")
        if not math.isfinite(start):
            raise ValueError(f"a profile cannot begin at {start:g}")
        self.gpus = gpus
        self._times = np.full(8, start)
        self._free = np.full(8, gpus)
        self._count = 1

    @property
    def start(self) -> float:
        """Where it begins, seconds."""
        return float(self._times[0])

    @property
    def times(self) -> FloatColumn:
        """When the number of free GPUs changes, ascending; begins with `start`. A copy."""
        return self._times[: self._count].copy()

    @property
    def free(self) -> FloatColumn:
        """GPUs that are free from each of `times` on. A copy."""
        return self._free[: self._count].copy()

    def free_at(self, when: float) -> float:
        """GPUs free at ``when``. Raises ValueError where that is before the profile begins."""
        self._check_known(when)
        return float(self._free[_compiled_step_at(self._times, self._count, when)])

    def least_free(self, start: float, end: float) -> float:
        """The fewest GPUs free at any time from ``start`` until ``end``; in no time all that there are.

        Raises ValueError where the interval is negative or begins before the profile.
        """
        self._check_interval(start, end)
        return float(
            _compiled_least_free(self._times, self._free, self._count, start, end, self.gpus)
        )

    def most_reserved(self, start: float, end: float) -> float:
        """The most GPUs reserved at any time from ``start`` until ``end``. Raises as `least_free`."""
        return self.gpus - self.least_free(start, end)

    def earliest_fit(self, gpus: float, seconds: float, after: float | None = None) -> float:
        """The first time, not before ``after``, from which ``gpus`` GPUs are free for ``seconds``.

        ``after`` None: the profile's start. Infinite where there is no such time. Raises ValueError where
        a number is negative or ``after`` is before the profile begins.
        """
        after = self.start if after is None else after
        self._check_known(after)
        if not (gpus >= 0.0 and seconds >= 0.0):
            raise ValueError(f"cannot fit {gpus:g} GPUs for {seconds:g} s: neither may be negative")
        return float(
            _compiled_earliest_fit(self._times, self._free, self._count, gpus, seconds, after)
        )

    def reserve(self, start: float, end: float, gpus: float) -> None:
        """Take ``gpus`` GPUs from ``start`` until ``end``, which may be infinite.

        Raises ValueError, and changes nothing, where the interval is negative or begins before the
        profile, and where fewer are free.
        """
        self._check_interval(start, end)
        if not gpus >= 0.0:
            raise ValueError(f"cannot reserve {gpus:g} GPUs: it may not be negative")
        if (free := self.least_free(start, end)) < gpus:
            raise ValueError(
                f"cannot reserve {gpus:g} GPUs from {start:g} until {end:g} s: {free:g} are free"
            )
        self._add(start, end, -gpus)

    def release(self, start: float, end: float, gpus: float) -> None:
        """Give ``gpus`` GPUs back from ``start`` until ``end``.

        Raises ValueError, and changes nothing, where the interval is negative or begins before the
        profile, and where fewer are reserved.
        """
        self._check_interval(start, end)
        if not gpus >= 0.0:
            raise ValueError(f"cannot release {gpus:g} GPUs: it may not be negative")
        most = float(_compiled_most_free(self._times, self._free, self._count, start, end, 0.0))
        if most + gpus > self.gpus:
            raise ValueError(
                f"cannot release {gpus:g} GPUs from {start:g} until {end:g} s: "
                f"{self.gpus - most:g} are reserved"
            )
        self._add(start, end, gpus)

    def forget(self, before: float) -> None:
        """Let the profile begin at ``before``. Raises ValueError where it begins later already."""
        self._check_known(before)
        if not math.isfinite(before):
            raise ValueError(f"a profile cannot begin at {before:g}")
        first = int(_compiled_step_at(self._times, self._count, before))
        kept = self._count - first
        self._times[:kept] = self._times[first : self._count].copy()
        self._free[:kept] = self._free[first : self._count].copy()
        self._times[0], self._count = before, kept

    def copy(self) -> Self:
        """Another one that is the same now."""
        other = type(self).__new__(type(self))
        other.gpus, other._count = self.gpus, self._count
        other._times, other._free = self._times.copy(), self._free.copy()
        return other

    def _add(self, start: float, end: float, gpus: float) -> None:
        if self._count + 2 > len(self._times):
            self._times = np.concatenate([self._times, np.empty_like(self._times)])
            self._free = np.concatenate([self._free, np.empty_like(self._free)])
        self._count = int(_compiled_add(self._times, self._free, self._count, start, end, gpus))

    def _check_known(self, when: float) -> None:
        if not when >= self.start:
            raise ValueError(f"{when:g} s is before the profile, which begins at {self.start:g} s")

    def _check_interval(self, start: float, end: float) -> None:
        self._check_known(start)
        if not end >= start:
            raise ValueError(f"an interval cannot end at {end:g} s and begin at {start:g} s")


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
def least_free(
    times: Floats, free: Floats, count: int, start: float, end: float, otherwise: float
) -> float:
    """The fewest GPUs free from ``start`` until ``end``; ``otherwise`` where the interval is empty."""
    if end <= start:
        return otherwise
    step = step_at(times, count, start)
    least = free[step]
    step += 1
    while step < count and times[step] < end:
        least = min(least, free[step])
        step += 1
    return float(least)


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
def most_free(
    times: Floats, free: Floats, count: int, start: float, end: float, otherwise: float
) -> float:
    """The most GPUs free from ``start`` until ``end``; ``otherwise`` where the interval is empty."""
    if end <= start:
        return otherwise
    step = step_at(times, count, start)
    most = free[step]
    step += 1
    while step < count and times[step] < end:
        most = max(most, free[step])
        step += 1
    return float(most)


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

    Those that end by ``start`` count as free from then on. It is written up to the first step in which
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


# Loops of `Profile`.
_compiled_step_at = compiled(step_at)
_compiled_least_free = compiled(least_free)
_compiled_most_free = compiled(most_free)
_compiled_earliest_fit = compiled(earliest_fit)
_compiled_add = compiled(add)
