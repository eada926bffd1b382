"""3Sigma's memory as an array: how long jobs took against what was believed, and a program's answer."""

from typing import NamedTuple

import numpy as np

from volvelle.core.columns import COUNT
from volvelle.core.compiled import kernel
from volvelle.model.arrays import Floats
from volvelle.policies.growth import count_up_to

BELIEVED, WORTH = COUNT, COUNT + 1
"""Own columns: seconds that were believed of the job when it came, and the value of its most valuable step,
-1 where none is worth anything; 0 as long as that is not noted."""
OWN_COLUMNS = 2

(
    AHEAD,  # seconds that are planned
    SLOTS,  # into how many slots
    SEEN,  # factors, in all
    ANSWERED,  # the time at which Python answered, -1 for none that is to be used
    STANDS,  # how many quantiles there are
    ROOM,  # jobs that fit
    _HEAD,
) = range(7)
"""Single numbers."""

_QUANTILES, _ENOUGH, _REMEMBERED = 10, 20, 1000
"""Values by which a distribution is told; jobs from which on the past says something; those remembered."""
STARTS, GOES = 1.0, 2.0
"""Answers: a job with a deadline starts in the first slot; another one may run in it."""


class Past(NamedTuple):
    """Views of the array.

    latest: factors, the oldest is overwritten next; ascending: the same. quantiles: theirs. answer: `STARTS`,
    `GOES` or 0 of each job of the view.
    """

    latest: Floats
    ascending: Floats
    quantiles: Floats
    answer: Floats


def begin(ahead: float, slots: int) -> Floats:
    """The memory of a policy that saw nothing."""
    memory = np.zeros(_HEAD + 2 * _REMEMBERED + _QUANTILES)
    memory[[AHEAD, SLOTS, ANSWERED, STANDS]] = ahead, slots, -1.0, 1.0
    past_of(memory).quantiles[0] = 1.0
    return memory


def with_room(memory: Floats, jobs: int) -> Floats:
    """The memory with room for the answers to so many jobs."""
    if jobs <= memory[ROOM]:
        return memory
    other = np.concatenate([memory, np.zeros(2 * jobs - int(memory[ROOM]))])
    other[ROOM] = 2 * jobs
    return other


@kernel
def past_of(memory: Floats) -> Past:
    """The parts of the array."""
    ascending = _HEAD + _REMEMBERED
    quantiles = ascending + _REMEMBERED
    answer = quantiles + _QUANTILES
    return Past(
        memory[_HEAD:ascending],
        memory[ascending:quantiles],
        memory[quantiles : quantiles + int(memory[STANDS])],
        memory[answer:],
    )


@kernel
def learn(memory: Floats, gpu_seconds: float, gpus: float, own: Floats) -> bool:
    """See how long a job took against what was believed (`volvelle.core.policy.Kernel`)."""
    believed = own[BELIEVED - COUNT]
    if believed > 0.0 and gpu_seconds > 0.0:
        _note(memory, gpu_seconds / gpus / believed)
    return True


@kernel
def _note(memory: Floats, factor: float) -> None:
    """Remember a factor, in place of the oldest where there are enough, and find the quantiles."""
    past, seen = past_of(memory), int(memory[SEEN])
    many, at = min(seen, _REMEMBERED), seen % _REMEMBERED
    if many == _REMEMBERED:
        gone = count_up_to(past.ascending, many, past.latest[at]) - 1
        past.ascending[gone : many - 1] = past.ascending[gone + 1 : many].copy()
        many -= 1
    place = count_up_to(past.ascending, many, factor)
    past.ascending[place + 1 : many + 1] = past.ascending[place:many].copy()
    past.ascending[place] = past.latest[at] = factor
    memory[SEEN], many = seen + 1, many + 1
    if many >= _ENOUGH:
        memory[STANDS] = _QUANTILES
        quantiles = past_of(memory).quantiles
        for number in range(_QUANTILES):
            quantiles[number] = _quantile(past.ascending, many, (number + 0.5) / _QUANTILES)


@kernel
def _quantile(ascending: Floats, many: int, share: float) -> float:
    """As `numpy.quantile`, to the last digit."""
    at = (many - 1) * share
    low = int(np.floor(at))
    below, above, part = ascending[low], ascending[min(low + 1, many - 1)], at - low
    if part < 0.5:
        return float(below + (above - below) * part)
    return float(above - (above - below) * (1.0 - part))
