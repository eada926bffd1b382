"""The kernels of the profile, interpreted and compiled, against a twin that counts every second."""

import math
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from volvelle.core.compiled import compiled
from volvelle.policies import profile as loops

GPUS = 8.0
LAST = 40
"""Seconds after which the twin counts no more: what is so then is so for ever."""


class BySeconds:
    """GPUs free in each second from 0 to `LAST`, and from then on."""

    def __init__(self, gpus: float) -> None:
        self.free = [gpus] * (LAST + 1)

    def add(self, start: float, end: float, gpus: float) -> None:
        for second in self.during(start, end):
            self.free[second] += gpus

    @staticmethod
    def during(start: float, end: float) -> range:
        return range(int(start), int(min(end, LAST + 1)))

    def fits(self, start: float, end: float, gpus: float) -> bool:
        return all(self.free[second] >= gpus for second in self.during(start, end))

    def earliest_fit(self, gpus: float, seconds: float, after: float) -> float:
        for start in range(int(after), LAST + 1):
            if self.fits(start, min(start + max(seconds, 1), LAST + 1), gpus):
                return float(start)
        return math.inf


class Profile:
    """The steps that the kernels work on; every call is made interpreted and compiled."""

    def __init__(self, gpus: float, most: int) -> None:
        self.steps = loops.profile_of(0.0, gpus, 2 * most + 2)

    @property
    def count(self) -> int:
        return int(self.steps.size[0])

    @property
    def times(self) -> Any:
        return self.steps.times[: self.count]

    @property
    def free(self) -> Any:
        return self.steps.free[: self.count]

    def ask(self, loop: Any, *arguments: float) -> Any:
        answer = loop(self.steps, *arguments)
        assert compiled(loop)(self.steps, *arguments) == answer
        return answer

    def add(self, start: float, end: float, gpus: float) -> None:
        self.change(loops.add, start, end, gpus)

    def change(self, loop: Any, *arguments: Any) -> None:
        twin = loops.Profile._make(column.copy() for column in self.steps)
        compiled(loop)(twin, *arguments)
        loop(self.steps, *arguments)
        count = self.count
        assert twin.size[0] == count
        np.testing.assert_array_equal(
            (self.times, self.free), (twin.times[:count], twin.free[:count])
        )


seconds = st.integers(0, LAST - 1).map(float)
intervals = st.tuples(seconds, seconds | st.just(math.inf)).map(lambda pair: tuple(sorted(pair)))
reservations = st.lists(st.tuples(intervals, st.integers(1, 8).map(float)), max_size=12)


def filled(wanted: list[Any]) -> tuple[Profile, BySeconds, list[Any]]:
    """A profile and its twin with those of the reservations that fit; these."""
    ours, twin, made = Profile(GPUS, len(wanted)), BySeconds(GPUS), []
    for (start, end), taken in wanted:
        fit = twin.fits(start, end, taken)
        assert ours.ask(loops.fits, start, end, taken) == fit
        if fit:
            ours.add(start, end, -taken)
            twin.add(start, end, -taken)
            made.append((start, end, taken))
    return ours, twin, made


def same(ours: Profile, twin: BySeconds) -> None:
    steps = (ours.ask(loops.step_at, float(second)) for second in range(LAST + 1))
    assert [ours.free[step] for step in steps] == twin.free
    assert np.all(np.diff(ours.times) > 0)
    assert np.all(np.diff(ours.free) != 0), "neighbouring steps differ"


@settings(max_examples=200)
@given(reservations, st.randoms(use_true_random=False))
def test_what_is_reserved_is_taken_and_what_is_released_is_back(
    wanted: list[Any], random: Any
) -> None:
    ours, twin, made = filled(wanted)
    same(ours, twin)
    random.shuffle(made)
    for start, end, gpus in made:
        ours.add(start, end, gpus)
        twin.add(start, end, gpus)
        same(ours, twin)
    assert (ours.count, ours.times[0], ours.free[0]) == (1, 0.0, GPUS)


@settings(max_examples=200)
@given(reservations, intervals, st.integers(0, 9).map(float), seconds)
def test_questions_are_answered_as_by_looking_at_every_second(
    wanted: list[Any], interval: tuple[float, float], gpus: float, after: float
) -> None:
    ours, twin, _ = filled(wanted)
    assert ours.ask(loops.fits, *interval, gpus) == twin.fits(*interval, gpus)
    length = interval[1] - interval[0]
    begin = ours.ask(loops.earliest_fit, gpus, length, after)
    assert begin == twin.earliest_fit(gpus, length, after)
    assert begin == math.inf or ours.ask(loops.fits, begin, begin + length, gpus)


@settings(max_examples=100)
@given(
    st.lists(st.tuples(seconds | st.just(math.inf), st.integers(1, 4)), max_size=10),
    st.integers(0, 20).map(float),
)
def test_the_profile_of_running_jobs_is_that_of_reserving_their_gpus(
    jobs: list[tuple[float, int]], enough: float
) -> None:
    ends, gpus = np.array([end for end, _ in jobs]), np.array([float(g) for _, g in jobs])
    ours = Profile(gpus.sum() + 1.0, len(jobs))
    for end, held in jobs:
        ours.add(0.0, end, -float(held))
    written = Profile(0.0, len(jobs))
    written.change(loops.write_running, 0.0, 1.0, ends, gpus, math.inf)
    assert written.times.tolist() == ours.times.tolist()
    assert written.free.tolist() == ours.free.tolist()
    written.change(loops.write_running, 0.0, 1.0, ends, gpus, enough)
    first = ours.ask(loops.earliest_fit, enough, math.inf, 0.0)
    assert written.times.tolist() == [time for time in ours.times.tolist() if time <= first]
    assert written.free.tolist() == ours.free[: written.count].tolist()
