"""How much work has come lately, by size: jobs of the last ``period`` seconds."""

import math

import numpy as np

from volvelle.core.compiled import kernel
from volvelle.model.arrays import Floats
from volvelle.policies.growth import count_up_to
from volvelle.systems.chronus.memory import CAME, NOW, PERIOD, recent_of

_LEAST_SECONDS = 3600.0
"""Over which a rate is seen at least: the first minutes say little."""
_BLOCK = 128
_CAME, _WORK, _SIZES = range(3)


@kernel
def add_work(memory: Floats, work: float) -> None:
    """A job of so many GPU-seconds came now; those that came too long ago are forgotten."""
    recent, many, first = recent_of(memory), int(memory[CAME]), 0
    sizes = recent[_SIZES]
    at = count_up_to(sizes, many, work)
    for i in range(many, at, -1):
        sizes[i] = sizes[i - 1]
    recent[_CAME, many], recent[_WORK, many], sizes[at] = memory[NOW], work, work
    many += 1
    while recent[_CAME, first] < memory[NOW] - memory[PERIOD]:
        for i in range(count_up_to(sizes, many - first, recent[_WORK, first]), many - first):
            sizes[i - 1] = sizes[i]
        first += 1
    if first > 0:
        for i in range(first, many):
            recent[_CAME, i - first] = recent[_CAME, i]
            recent[_WORK, i - first] = recent[_WORK, i]
    memory[CAME] = many - first


@kernel
def rate_of_smaller(memory: Floats, work: float) -> float:
    """GPUs that jobs no larger than this one, which came too, keep busy: one standard error fewer.

    So few jobs, of which it is not known whether as many will come again, count for nothing.
    """
    recent, many = recent_of(memory), 0
    small = np.empty(int(memory[CAME]))
    for i in range(len(small)):
        if recent[_WORK, i] <= work:
            small[many] = recent[_WORK, i]
            many += 1
    if many < 3:
        return 0.0
    seconds = min(max(memory[NOW] - recent[_CAME, 0], _LEAST_SECONDS), memory[PERIOD])
    return float(sum_of(small[:many]) / seconds * (1.0 - 1.0 / math.sqrt(many - 1)))


@kernel
def largest_within(memory: Floats, work: float) -> float:
    """The size from which on jobs do not find room in so many GPU-seconds if smaller ones go first."""
    recent, total = recent_of(memory), 0.0
    for i in range(int(memory[CAME])):
        total += recent[_SIZES, i]
        if total > work:
            return float(recent[_SIZES, i])
    return float(np.inf)


@kernel
def sum_of(numbers: Floats) -> float:
    """The sum to the last digit as NumPy has it: pairs of halves, down to blocks."""
    first, size, sums = np.zeros(64, np.int64), np.zeros(64, np.int64), np.empty(64)
    size[0], pending, known = len(numbers), 1, 0
    while pending > 0:
        pending -= 1
        at, many = first[pending], size[pending]
        if many < 0:  # both halves are known
            known -= 1
            sums[known - 1] += sums[known]
        elif many <= _BLOCK:
            sums[known] = _sum_of_block(numbers[at : at + many])
            known += 1
        else:
            half = many // 2 - many // 2 % 8
            size[pending] = -1
            first[pending + 1], size[pending + 1] = at + half, many - half
            first[pending + 2], size[pending + 2] = at, half
            pending += 3
    return float(sums[0])


@kernel
def _sum_of_block(numbers: Floats) -> float:
    """The sum of eight sums, where there are so many numbers, then of the rest."""
    total, many = 0.0, len(numbers) - len(numbers) % 8
    if many > 0:
        parts = numbers[:8].copy()
        for i in range(8, many):
            parts[i % 8] += numbers[i]
        total = ((parts[0] + parts[1]) + (parts[2] + parts[3])) + (
            (parts[4] + parts[5]) + (parts[6] + parts[7])
        )
    for i in range(many, len(numbers)):
        total += numbers[i]
    return float(total)
