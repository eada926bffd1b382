"""Gangs at one price of a round on a GPU: against trying all gangs and rounds of small windows."""

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from volvelle.systems.shockwave.gangs import choose_gangs

GANGS = np.array([[1.0, 2.0, 4.0]])
SLOTS = 3
EQUAL = 2e-5
"""Of gains that are as large; of these the fewest rounds are taken."""


def gains(*speeds: tuple[float, ...]) -> np.ndarray[tuple[int, int, int], np.dtype[np.float64]]:
    """Of jobs that gain their speed on each gang in every round."""
    return np.repeat(np.array(speeds)[:, :, None], SLOTS, axis=2)


def test_where_there_are_enough_each_takes_what_gains_most_and_nothing_costs() -> None:
    chosen, price = choose_gangs(
        np.repeat(GANGS, 2, axis=0), gains((1.0, 1.5, 1.4), (1.0, 2.0, 4.0)), 18.0
    )
    assert chosen.tolist() == [1, 2]
    assert price == 0.0


def test_where_gpus_are_short_they_go_to_who_makes_more_of_them() -> None:
    chosen, price = choose_gangs(
        np.repeat(GANGS, 2, axis=0), gains((1.0, 1.2, 1.3), (1.0, 1.9, 3.6)), 15.0
    )
    assert chosen.tolist() == [0, 2]
    assert price > 0.1


@settings(max_examples=40)
@given(
    increments=st.lists(
        st.lists(st.floats(0.0, 1.0), min_size=3 * SLOTS, max_size=3 * SLOTS),
        min_size=1,
        max_size=3,
    ),
    rounds=st.integers(1, 30),
)
def test_what_is_bought_at_the_price_is_worth_most_of_all_that_needs_no_more(
    increments: list[list[float]], rounds: int
) -> None:
    gain = np.array(increments).reshape(-1, 3, SLOTS)
    chosen, price = choose_gangs(np.repeat(GANGS, len(gain), axis=0), gain, rounds)
    worth = np.cumsum(gain, axis=2)
    cost = GANGS[0, :, None] * np.arange(1, SLOTS + 1)
    bought = [(0.0, 0.0)] * len(gain)
    for job, way in enumerate(chosen.tolist()):
        left = worth[job, way] - price * cost[way]
        if left.max() > EQUAL:
            fewest = int((left >= left.max() - EQUAL).argmax())
            bought[job] = worth[job, way, fewest], cost[way, fewest]
    value, used = np.sum(bought, axis=0)
    assert used <= rounds
    ways = [
        [(0.0, 0.0), *zip(one.ravel().tolist(), cost.ravel().tolist(), strict=True)]
        for one in worth
    ]
    for others in product(*ways):
        if sum(cost for _, cost in others) <= used:
            assert sum(value for value, _ in others) <= value + 5 * EQUAL
