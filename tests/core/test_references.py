"""References in machine code: nothing is freed while it is used, and nothing is kept when a call is over."""

import resource
from typing import NamedTuple

import numpy as np
import pytest

from volvelle.core.compiled import compiled, kernel
from volvelle.core.sorting import in_order
from volvelle.model.arrays import Floats, Ints

MEGABYTE = 131_072
"""Numbers that take so much."""


class Pair(NamedTuple):
    first: Floats
    second: Floats


@kernel
def _swapped(pair: Pair) -> Pair:
    one, other = pair.first, pair.second
    return Pair(other, one)


@kernel
def _later(pair: Pair, rounds: int) -> Floats:
    """An argument's field under another name, or an array that lost its own."""
    if rounds == 0:
        return pair.second
    before = pair.first
    for number in range(rounds):
        fresh = np.full(len(pair.first), float(number))
        alias, fresh = fresh, before
        before = alias
        if number == 7:
            pair = Pair(alias, pair.first)
            before = pair.second
    return before


@compiled
def mixed(first: Floats, second: Floats, rounds: int) -> Floats:
    """The sum of what several functions hand back of what they were given."""
    made = _swapped(Pair(first.copy(), second.copy()))
    kept, found = made.first, np.zeros(len(first))
    for number in range(rounds):
        one = _later(made, number)
        other = _swapped(Pair(one, kept))
        if number % 3 == 1:
            made = other
        for at in range(len(found)):
            found[at] += one[at] + other.first[at] * kept[at]
    return found


@compiled
def ordered(keys: Floats) -> Ints:
    """`in_order` as machine code."""
    return in_order(keys)


@pytest.mark.parametrize("rounds", [0, 1, 2, 12])
def test_arrays_under_several_names_hold_what_they_hold_interpreted(rounds: int) -> None:
    first, second = np.arange(5.0), np.arange(5.0) ** 2
    before = first.copy(), second.copy()
    assert mixed(first, second, rounds).tolist() == mixed.py_func(first, second, rounds).tolist()
    assert first.tolist() == before[0].tolist()
    assert second.tolist() == before[1].tolist()


def test_memory_is_given_back_when_a_call_is_over() -> None:
    first = np.ones(MEGABYTE)
    mixed(first, first, 12)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(20):  # 1,600 arrays are made
        mixed(first, first, 12)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 8 * 1024, f"{grown} kB more"


@pytest.mark.parametrize("count", [0, 1, 2, 3, 17, 64])
def test_places_are_sorted_as_numpy_sorts_them(count: int) -> None:
    keys = np.random.default_rng(count).integers(0, 9, count).astype(np.float64)
    expected = np.argsort(keys, kind="stable").tolist()
    assert ordered(keys).tolist() == expected
    assert in_order(keys).tolist() == expected
