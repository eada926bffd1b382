"""Where pools are at home, and how gangs stand there."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volvelle.systems.anticipatory.home_nodes import HomeClock, lay_out, stand


@given(
    st.lists(st.integers(1, 8), min_size=1, max_size=6),
    st.lists(st.integers(1, 12), min_size=1, max_size=4),
)
def test_pools_get_what_they_own_and_no_gpu_twice(sizes: list[int], owned: list[int]) -> None:
    while sum(owned) > sum(sizes):
        sizes = [*sizes, 8]
    homes = lay_out(np.array(sizes), np.array(owned, dtype=np.float64))
    assert homes.sum(axis=1).tolist() == owned
    assert (homes.sum(axis=0) <= sizes).all()
    assert (homes >= 0).all()


def test_whole_nodes_come_first_and_the_rest_shares_a_node() -> None:
    homes = lay_out(np.array([8, 8, 8]), np.array([12.0, 8.0, 4.0]))
    assert homes.tolist() == [[8, 0, 4], [0, 8, 0], [0, 0, 4]]


@pytest.mark.parametrize(
    ("idle", "gpus", "expected"),
    [
        ([8, 3, 4], 3, [0, 3, 0]),  # the tightest that will do
        ([7, 3, 4], 8, [0, 0, 0]),  # not spread where one node could hold it
        ([8, 8, 4], 12, [8, 0, 4]),  # whole nodes, and the rest on one
        ([8, 7, 2], 12, [8, 4, 0]),
        ([7, 7, 4], 12, [0, 0, 0]),
    ],
)
def test_gangs_stand_together(idle: list[int], gpus: int, expected: list[int]) -> None:
    assert stand(np.array(idle), np.array([8, 8, 4]), gpus).tolist() == expected


def test_a_pool_alone_serves_first_come_first_served_on_its_nodes() -> None:
    """The third needs a node as a whole: it waits for the first, and the fourth for it."""
    clock = HomeClock(np.array([4, 4]))
    begins = [
        clock.start(0.0, gpus, seconds)
        for gpus, seconds in ((3, 10.0), (3, 20.0), (4, 5.0), (1, 1.0))
    ]
    assert [start for start, _ in begins] == [0.0, 0.0, 10.0, 10.0]
    assert [nodes.tolist() for _, nodes in begins] == [[3, 0], [0, 3], [4, 0], [0, 1]]
    assert clock.start(0.0, 9, 1.0)[0] == np.inf
