"""GPUs that are free over time: a step function without steps of nothing."""

from typing import NamedTuple

import numpy as np

from volvelle.core.compiled import kernel
from volvelle.model.arrays import Floats, Ints
from volvelle.policies.growth import count_up_to


class Profile(NamedTuple):
    """GPUs that are free from each time on, the first of these now; each entry differs from the one before.

    The first ``size[0]`` entries are in use.
    """

    times: Floats
    free: Floats
    size: Ints


@kernel
def profile_of(now: float, gpus: float, changes: int) -> Profile:
    """All ``gpus`` are free; there is room for so many ``changes``."""
    times, free = np.empty(changes + 1), np.empty(changes + 1)
    times[0], free[0] = now, gpus
    return Profile(times, free, np.ones(1, np.int64))


@kernel
def _entry_at(profile: Profile, time: float) -> int:
    """The place of the entry that begins at ``time``, which is there afterwards."""
    times, free, size = profile.times, profile.free, profile.size[0]
    place = count_up_to(times, size, time)
    if times[place - 1] == time:
        return place - 1
    for later in range(size, place, -1):
        times[later], free[later] = times[later - 1], free[later - 1]
    times[place], free[place] = time, free[place - 1]
    profile.size[0] = size + 1
    return place


@kernel
def _drop_if_same(profile: Profile, place: int) -> None:
    """Drop the entry at ``place`` if it does not differ from the one before."""
    times, free, size = profile.times, profile.free, profile.size[0]
    if 0 < place < size and free[place] == free[place - 1]:
        for later in range(place, size - 1):
            times[later], free[later] = times[later + 1], free[later + 1]
        profile.size[0] = size - 1


@kernel
def add(profile: Profile, since: float, until: float, gpus: float) -> None:
    """Let so many GPUs more be free between two times."""
    if gpus == 0.0 or until <= since:
        return
    first = _entry_at(profile, since)
    last = _entry_at(profile, until)
    for place in range(first, last):
        profile.free[place] += gpus
    _drop_if_same(profile, last)
    _drop_if_same(profile, first)
