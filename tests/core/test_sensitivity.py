"""CPU and memory profiles: interpolation, and the least amounts that are good enough."""

import math

import numpy as np
import pytest
from hypothesis import given

from volvelle.model.sensitivity import Sensitivity
from volvelle.testing.resources import amounts, sensitivities

PROFILE = Sensitivity(
    cpus=(1.0, 3.0, 9.0), memory_gb=(20.0, 60.0), shares=((0.1, 0.2), (0.1, 0.5), (0.1, 1.0))
)


@pytest.mark.parametrize(
    ("cpus", "memory", "share"),
    [
        (9.0, 60.0, 1.0),
        (50.0, 500.0, 1.0),
        (math.inf, math.inf, 1.0),
        (3.0, 60.0, 0.5),
        (6.0, 60.0, 0.75),
        (3.0, 40.0, 0.3),
        (6.0, 40.0, 0.425),
        (0.5, 60.0, 0.1),
        (9.0, 10.0, 0.05),
        (0.0, 60.0, 0.0),
    ],
)
def test_shares_are_linear_between_the_points_and_down_to_nothing(
    cpus: float, memory: float, share: float
) -> None:
    assert PROFILE.share(cpus, memory) == pytest.approx(share)


def test_below_the_grid_there_may_be_nothing() -> None:
    strict = Sensitivity(PROFILE.cpus, PROFILE.memory_gb, PROFILE.shares, "zero")
    assert strict.share(0.9, 60.0) == strict.share(9.0, 19.0) == 0.0
    assert strict.share(1.0, 60.0) == 0.2
    assert strict.least_within(0.9, 60.0) == (0.0, 0.0)


def test_the_demand_is_the_least_that_gives_the_full_rate() -> None:
    assert PROFILE.demand == (9.0, 60.0)
    flat = Sensitivity((1.0, 9.0), (20.0, 60.0), ((1.0, 1.0), (1.0, 1.0)))
    assert flat.demand == (1.0, 20.0)
    assert flat.least_within(0.5, 60.0) == (0.5, 20.0)


@given(sensitivities(), amounts(), amounts(), amounts(), amounts())
def test_more_is_never_slower(
    profile: Sensitivity, cpus: float, memory: float, more: float, still_more: float
) -> None:
    before = profile.share(cpus, memory)
    assert 0.0 <= before <= 1.0
    assert profile.share(cpus + more, memory + still_more) >= before - 1e-12


@given(sensitivities(), amounts(), amounts())
def test_the_least_amounts_are_as_good_and_nothing_less_is(
    profile: Sensitivity, cpus: float, memory: float
) -> None:
    goal = profile.share(cpus, memory)
    least_cpus, least_memory = profile.least_within(cpus, memory)
    assert least_cpus <= cpus
    assert least_memory <= memory
    assert profile.share(least_cpus, least_memory) == pytest.approx(goal, abs=1e-12)
    if goal > 0:
        assert profile.share(least_cpus * 0.99, memory) < goal * (1.0 - 1e-9)
        assert profile.share(least_cpus, least_memory * 0.99) < goal * (1.0 - 1e-9)


@pytest.mark.parametrize(
    ("cpus", "memory", "shares"),
    [
        ((), (1.0,), ()),
        ((2.0, 1.0), (1.0,), ((0.5,), (1.0,))),
        ((0.0, 1.0), (1.0,), ((0.5,), (1.0,))),
        ((1.0, 2.0), (1.0,), ((1.0,), (0.5,))),
        ((1.0, 2.0), (1.0,), ((0.5,), (0.9,))),
        ((1.0, 2.0), (1.0,), ((0.5, 1.0), (0.9,))),
        ((1.0, 2.0), (1.0,), ((1.0,),)),
        ((1.0, np.inf), (1.0,), ((0.5,), (1.0,))),
    ],
)
def test_a_table_that_is_no_profile_is_refused(
    cpus: tuple[float, ...], memory: tuple[float, ...], shares: tuple[tuple[float, ...], ...]
) -> None:
    with pytest.raises(ValueError, match="sensitivity"):
        Sensitivity(cpus, memory, shares)
