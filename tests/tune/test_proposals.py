"""What a search tries next beside a front."""

import numpy as np

from volvelle.core.space import Dimension, Space
from volvelle.tune.proposals import variations


def around(start: tuple[float, ...], *others: tuple[float, ...]) -> Space:
    """A plane around ``start``, and where else it starts."""
    plane = (Dimension("x", 0.0, 10.0, "x"), Dimension("y", 0.0, 10.0, "y"))
    return Space(plane, repr, starts=(start, *others))


def test_a_variation_moves_numbers_of_a_point_or_lies_between_it_and_its_neighbour() -> None:
    costs = np.array([[1.0, 3.0], [2.0, 2.0]])
    front = [around((1.0, 1.0)), around((3.0, 5.0))]
    drawn = [at for _, at in variations(costs, front, 400, np.random.default_rng(0))]
    between = [x for x, y in drawn if 1.0 < x < 3.0 and abs(y - 1.0 - 2.0 * (x - 1.0)) < 1e-9]
    assert 0.2 < len(between) / len(drawn) < 0.45
    assert min(between) < 1.2
    assert max(between) > 2.8
    kept = [(x in {1.0, 3.0}) + (y in {1.0, 5.0}) for x, y in drawn]
    assert kept.count(1) > 40
    assert kept.count(2) == 0


def test_neighbours_of_other_numbers_are_not_mixed() -> None:
    line = Space((Dimension("x", 0.0, 10.0, "x"),), repr, starts=((5.0,),))
    costs = np.array([[1.0, 3.0], [2.0, 2.0]])
    for space, at in variations(costs, [around((1.0, 1.0)), line], 100, np.random.default_rng(0)):
        assert len(at) == len(space.dimensions)


def test_variations_begin_at_other_starts_too() -> None:
    front = [around((1.0, 1.0), (9.0, 9.0))]
    drawn = variations(np.array([[1.0, 1.0]]), front, 400, np.random.default_rng(0))
    elsewhere = sum(9.0 in at for _, at in drawn)
    beside = sum(
        1.0 in at
        for _, at in variations(np.array([[1.0, 1.0]]), front, 400, np.random.default_rng(1))
    )
    assert 0 < elsewhere < beside
