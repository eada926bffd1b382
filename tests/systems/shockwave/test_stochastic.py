"""Welfare in expectation (Shockwave, NSDI'23, appendix F), on instances small enough to enumerate."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volvelle.systems.shockwave.market import (
    Chance,
    ExpectedShares,
    Market,
    best_policy,
    equilibrium,
)

pytest.importorskip("clarabel", reason="markets need the extra market")

WHOLE = (0.0, 1.0)


def doubling(chance: float) -> Chance:
    """Gains 1 in a round with the resource, 2 once its batch size doubled, by chance after such a round."""
    move = np.array([np.eye(2), [[1.0 - chance, chance], [0.0, 1.0]]])
    gain = np.zeros((2, 2, 2))
    gain[1] = [[1.0, 1.0], [2.0, 2.0]]
    return Chance([1.0, 0.0], move, gain)


def utility_of(buyers: list[Chance], choose: dict[tuple[int, ...], int], rounds: int) -> np.ndarray:
    """(buyers,) in expectation under a policy without chance: by round and states, who has the resource."""
    likely = {(0,) * len(buyers): 1.0}
    total = np.zeros(len(buyers))
    for one in range(rounds):
        following: dict[tuple[int, ...], float] = {}
        for states, probability in likely.items():
            who = choose[one, *states]
            for then in itertools.product(range(2), repeat=len(buyers)):
                moves = [
                    buyer.transition[int(row == who), states[row], then[row]]
                    for row, buyer in enumerate(buyers)
                ]
                there = probability * float(np.prod(moves))
                following[then] = following.get(then, 0.0) + there
                total[who] += there * buyers[who].gain[1, states[who], then[who]]
        likely = following
    return total


@settings(max_examples=15)
@given(st.floats(0.1, 0.9), st.floats(0.1, 0.9), st.floats(0.3, 3.0))
def test_no_policy_without_chance_has_more_welfare(
    first: float, second: float, budget: float
) -> None:
    """All of two rounds: who has the resource in the first, and in each of the states of the second."""
    buyers, budgets = [doubling(first), doubling(second)], np.array([1.0, budget])
    found = best_policy(buyers, budgets, WHOLE, 2)
    welfare = float(budgets @ np.log(found.utility))
    pairs = list(itertools.product(range(2), repeat=2))
    for start, *then in itertools.product(range(2), repeat=5):
        choose = {(0, *pair): start for pair in pairs}
        choose |= {(1, *pair): who for pair, who in zip(pairs, then, strict=True)}
        worth = utility_of(buyers, choose, 2)
        assert float(budgets @ np.log(np.maximum(worth, 1e-12))) <= welfare + 1e-6


@settings(max_examples=15)
@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.integers(1, 3))
def test_the_answer_is_a_policy(first: float, second: float, rounds: int) -> None:
    """Each round finds some state, and states follow each other by their probabilities."""
    buyers = [doubling(first), doubling(second)]
    found = best_policy(buyers, [1.0, 1.0], WHOLE, rounds)
    assert found.likely.sum(axis=(1, 2)) == pytest.approx(np.ones(rounds), abs=1e-6)
    assert (found.likely >= 0.0).all()
    assert (found.allocations.sum(axis=1) <= 1).all()
    for before, after in itertools.pairwise(found.likely):
        assert following(buyers, found, before) == pytest.approx(after.sum(axis=1), abs=1e-6)


def following(buyers: list[Chance], found: ExpectedShares, likely: np.ndarray) -> np.ndarray:
    """(states,) how likely each state is after a round."""
    then = np.zeros(len(found.states))
    for (state, has), there in np.ndenumerate(likely):
        for row, after in enumerate(found.states):
            moves = [
                one.transition[found.allocations[has, i], found.states[state, i], after[i]]
                for i, one in enumerate(buyers)
            ]
            then[row] += there * float(np.prod(moves))
    return then


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1))
def test_without_chance_it_is_the_market(seed: int) -> None:
    """Values that change by the round alone: who has the resource by lot has a part of it in expectation."""
    rng = np.random.default_rng(seed)
    rounds, worth = 3, rng.uniform(0.2, 3.0, (2, 3))
    move = np.array([np.roll(np.eye(rounds), 1, axis=1)] * 2)
    buyers = [
        Chance(
            np.eye(rounds)[0],
            move,
            np.stack([np.zeros((rounds, rounds)), np.tile(own[:, None], (1, rounds))]),
        )
        for own in worth
    ]
    budgets = rng.uniform(0.5, 2.0, 2)
    found = best_policy(buyers, budgets, WHOLE, rounds)
    certain = equilibrium(Market(worth[:, None, :], budgets))
    assert found.utility == pytest.approx(certain.utility, rel=1e-4)


@pytest.mark.parametrize(
    ("start", "move", "gain", "said"),
    [
        ([0.5], [[[1.0]]], [[[1.0]]], "start"),
        ([1.0], [[[0.5]]], [[[1.0]]], "transition"),
        ([1.0], [[[1.0]]], [[[-1.0]]], "gains"),
        ([1.0], [[1.0]], [[1.0]], "states"),
        ([1.0], [[[1.0]]], [[1.0]], "gains"),
    ],
)
def test_buyers_that_cannot_be_are_errors(
    start: list[float], move: list[list[list[float]]], gain: list[list[list[float]]], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        Chance(start, move, gain)


@pytest.mark.parametrize(
    ("budgets", "shares", "rounds", "said"),
    [
        ([0.0, 1.0], WHOLE, 2, "budgets"),
        ([1.0], WHOLE, 2, "budgets"),
        ([1.0, 1.0], WHOLE, 0, "round"),
        ([1.0, 1.0], (0.0,), 2, "share"),
        ([1.0, 1.0], (2.0, 3.0), 1, "within the resource"),
    ],
)
def test_programs_that_cannot_be_are_errors(
    budgets: list[float], shares: tuple[float, ...], rounds: int, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        best_policy([doubling(0.5)] * 2, budgets, shares, rounds)
