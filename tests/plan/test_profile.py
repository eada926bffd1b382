"""The profile against a twin that keeps a number for every second."""

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volvelle.plan import profile as loops
from volvelle.plan.profile import Profile

LAST = 40
"""Seconds after which the twin counts no more: what is so then is so for ever."""


class BySeconds:
    """GPUs free in each second from 0 to `LAST`, and from then on."""

    def __init__(self, gpus: float) -> None:
        self.gpus = gpus
        self.free = [gpus] * (LAST + 1)

    def add(self, start: float, end: float, gpus: float) -> None:
        for second in self.during(start, end):
            self.free[second] += gpus

    @staticmethod
    def during(start: float, end: float) -> range:
        return range(int(start), int(min(end, LAST + 1)))

    def least_free(self, start: float, end: float) -> float:
        return min((self.free[second] for second in self.during(start, end)), default=self.gpus)

    def earliest_fit(self, gpus: float, seconds: float, after: float) -> float:
        for start in range(int(after), LAST + 1):
            end = min(start + max(seconds, 1), LAST + 1)
            if all(self.free[second] >= gpus for second in range(start, int(end))):
                return float(start)
        return math.inf


seconds = st.integers(0, LAST - 1).map(float)
intervals = st.tuples(seconds, seconds | st.just(math.inf)).map(lambda pair: tuple(sorted(pair)))
reservations = st.lists(st.tuples(intervals, st.integers(1, 8).map(float)), max_size=12)


def filled(gpus: float, wanted: list[Any]) -> tuple[Profile, BySeconds, list[Any]]:
    """A profile and its twin with those of the reservations that fit; these."""
    ours, twin, made = Profile(gpus), BySeconds(gpus), []
    for (start, end), taken in wanted:
        if twin.least_free(start, end) < taken:
            before = (ours.times.tolist(), ours.free.tolist())
            with pytest.raises(ValueError, match=f"cannot reserve {taken:g} GPUs"):
                ours.reserve(start, end, taken)
            assert before == (ours.times.tolist(), ours.free.tolist())
            continue
        ours.reserve(start, end, taken)
        twin.add(start, end, -taken)
        made.append((start, end, taken))
    return ours, twin, made


def same(ours: Profile, twin: BySeconds) -> None:
    assert [ours.free_at(second) for second in range(LAST + 1)] == twin.free
    assert np.all(np.diff(ours.times) > 0)
    assert np.all(np.diff(ours.free) != 0)


@settings(max_examples=200)
@given(reservations, st.randoms(use_true_random=False))
def test_what_is_reserved_is_taken_and_what_is_released_is_back(
    wanted: list[Any], random: Any
) -> None:
    ours, twin, made = filled(8.0, wanted)
    same(ours, twin)
    random.shuffle(made)
    for start, end, gpus in made:
        ours.release(start, end, gpus)
        twin.add(start, end, gpus)
        same(ours, twin)
    assert ours.times.tolist() == [0.0]
    assert ours.free.tolist() == [8.0]


@settings(max_examples=200)
@given(reservations, intervals, st.integers(0, 9), seconds)
def test_questions_are_answered_as_by_looking_at_every_second(
    wanted: list[Any], interval: tuple[float, float], gpus: int, after: float
) -> None:
    ours, twin, _ = filled(8.0, wanted)
    start, end = interval
    assert ours.least_free(start, end) == twin.least_free(start, end)
    assert ours.most_reserved(start, end) == 8.0 - twin.least_free(start, end)
    length = end - start
    assert ours.earliest_fit(gpus, length, after) == twin.earliest_fit(gpus, length, after)
    begin = ours.earliest_fit(gpus, length)
    assert begin == twin.earliest_fit(gpus, length, 0.0)
    if begin < math.inf:
        ours.reserve(begin, begin + length, float(gpus))


@given(reservations, seconds)
def test_forgetting_the_past_changes_nothing_of_the_future(
    wanted: list[Any], before: float
) -> None:
    ours, _, _ = filled(8.0, wanted)
    later = ours.copy()
    later.forget(before)
    assert later.start == before
    assert all(later.free_at(s) == ours.free_at(s) for s in range(int(before), LAST + 1))
    with pytest.raises(ValueError, match="is before the profile, which begins at"):
        later.free_at(before - 1.0)


def test_a_copy_goes_its_own_way() -> None:
    one = Profile(4.0)
    other = one.copy()
    other.reserve(0.0, 5.0, 4.0)
    assert one.least_free(0.0, 5.0) == 4.0
    assert other.least_free(0.0, 5.0) == 0.0


def plain(loop: Callable[..., Any]) -> Callable[..., Any]:
    return cast(Callable[..., Any], cast(Any, loop).py_func)


@settings(max_examples=100)
@given(reservations, intervals, st.integers(-3, 3), st.integers(0, 9))
def test_machine_code_and_its_plain_twin_do_the_same(
    wanted: list[Any], interval: tuple[float, float], more: int, gpus: int
) -> None:
    ours, _, _ = filled(8.0, wanted)
    count = len(ours.times)
    times, free = (np.concatenate([column, np.zeros(2)]) for column in (ours.times, ours.free))
    asked: list[tuple[Callable[..., float], tuple[object, ...]]] = [
        (loops.step_at, (times, count, interval[0])),
        (loops.least_free, (times, free, count, *interval, 8.0)),
        (loops.most_free, (times, free, count, *interval, 0.0)),
        (loops.earliest_fit, (times, free, count, float(gpus), interval[1] - interval[0], 0.0)),
    ]
    for loop, arguments in asked:
        assert loop(*arguments) == plain(loop)(*arguments)
    twin = times.copy(), free.copy()
    after = loops.add(times, free, count, *interval, float(more))
    assert after == plain(loops.add)(*twin, count, *interval, float(more))
    np.testing.assert_array_equal((times, free), twin)


@settings(max_examples=100)
@given(st.lists(st.tuples(seconds | st.just(math.inf), st.integers(1, 4)), max_size=10))
def test_the_profile_of_running_jobs_is_that_of_reserving_their_gpus(
    jobs: list[tuple[float, int]],
) -> None:
    ends, gpus = np.array([end for end, _ in jobs]), np.array([float(g) for _, g in jobs])
    ours = Profile(gpus.sum() + 1.0)
    for end, held in jobs:
        ours.reserve(0.0, end, float(held))
    for loop in (loops.running, plain(loops.running)):
        times, free = np.zeros(len(jobs) + 1), np.zeros(len(jobs) + 1)
        count = loop(times, free, 0.0, 1.0, ends, gpus)
        assert times[:count].tolist() == ours.times.tolist()
        assert free[:count].tolist() == ours.free.tolist()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda one: one.reserve(5.0, 3.0, 1.0), "cannot end at 3 s and begin at 5 s"),
        (lambda one: one.reserve(-1.0, 3.0, 1.0), "-1 s is before the profile"),
        (lambda one: one.reserve(0.0, 3.0, -1.0), "cannot reserve -1 GPUs"),
        (lambda one: one.reserve(0.0, 3.0, 5.0), "cannot reserve 5 GPUs .* 4 are free"),
        (lambda one: one.reserve(math.nan, 3.0, 1.0), "nan s is before the profile"),
        (lambda one: one.release(0.0, 3.0, -1.0), "cannot release -1 GPUs"),
        (lambda one: one.release(0.0, 3.0, 1.0), "cannot release 1 GPUs .* 0 are reserved"),
        (lambda one: one.earliest_fit(1.0, -2.0), "cannot fit 1 GPUs for -2 s"),
        (lambda one: one.earliest_fit(1.0, 1.0, -2.0), "-2 s is before the profile"),
        (lambda one: one.least_free(2.0, 1.0), "cannot end at 1 s and begin at 2 s"),
        (lambda one: one.forget(math.inf), "cannot begin at inf"),
        (lambda one: Profile(-1.0), "a profile of -1 GPUs"),
        (lambda one: Profile(1.0, math.inf), "cannot begin at inf"),
    ],
)
def test_what_cannot_be_is_an_error_that_says_so(
    wrong: Callable[[Profile], object], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        wrong(Profile(4.0))
