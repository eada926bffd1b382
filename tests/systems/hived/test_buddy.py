"""Buddy allocation: brute force, and what keeps fitting."""

import itertools

import numpy as np
import pytest
from buddies import Buddies
from hypothesis import assume, given
from hypothesis import strategies as st

from volvelle.systems.hived.cells import Cell, level_of, round_up

NODES = st.lists(st.integers(1, 9), min_size=1, max_size=4)


@pytest.mark.parametrize(
    ("node", "rounded"),
    [
        (8, {1: 1, 2: 2, 3: 4, 4: 4, 5: 8, 8: 8, 9: 16, 12: 16, 16: 16, 20: 24}),
        (6, {1: 1, 2: 2, 3: 4, 4: 4, 5: 6, 6: 6, 7: 12, 13: 18}),
        (1, {1: 1, 2: 2, 3: 3}),
        (3, {1: 1, 2: 2, 3: 3, 4: 6}),
    ],
)
def test_gangs_are_rounded_up_to_cells_or_whole_nodes(node: int, rounded: dict[int, int]) -> None:
    assert {gpus: round_up(gpus, node) for gpus in rounded} == rounded


def test_a_node_of_six_is_a_cell_of_four_and_one_of_two() -> None:
    cells = Buddies.of([6])
    found = [cells.allocate(2), cells.allocate(1), cells.allocate(0)]
    assert found == [Cell(0, 0, 2), Cell(0, 4, 1), None]


def test_the_smallest_block_is_split_and_halves_become_one_again() -> None:
    cells = Buddies.of([8, 8])
    one, two, four = (cells.allocate(level) for level in (0, 1, 2))
    assert (one, two, four) == (Cell(0, 0, 0), Cell(0, 2, 1), Cell(0, 4, 2))
    assert cells.available() == [9, 4, 2, 1]
    assert one is not None
    assert two is not None
    cells.release(one)
    assert cells.find(2) == Cell(1, 0, 2), "the buddy is in use"
    cells.release(two)
    assert cells.find(2) == Cell(0, 0, 2)


def can_place(free: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether cells of these sizes fit on nodes that have so many GPUs, all free: by trying all nodes."""
    for nodes in itertools.product(range(len(free)), repeat=len(wanted)):
        cells = [[wanted[i] for i in range(len(wanted)) if nodes[i] == n] for n in range(len(free))]
        if all(sum(some) <= gpus for some, gpus in zip(cells, free, strict=True)):
            return True
    return False


@given(NODES, st.lists(st.integers(0, 3), max_size=5))
def test_what_fits_is_what_could_be_placed_somewhere(nodes: list[int], levels: list[int]) -> None:
    """On one node cells of powers of two fit where their GPUs do: larger ones stand before smaller ones."""
    wanted = [levels.count(level) for level in range(5)]
    could = can_place(tuple(nodes), tuple(1 << level for level in levels))
    assert Buddies.of(nodes).fits(wanted) == could


@given(st.data())
def test_whatever_fits_is_allocated_in_any_order_and_takes_free_cells(data: st.DataObject) -> None:
    nodes = data.draw(NODES)
    cells = Buddies.of(nodes)
    for node, gpus in enumerate(nodes):
        for gpu in data.draw(st.sets(st.integers(0, gpus - 1))):
            cells.hold(Cell(node, gpu, 0))
    levels = data.draw(st.lists(st.integers(0, 3), max_size=8))
    assume(cells.fits([levels.count(level) for level in range(4)]))
    for level in levels:
        free = cells.free.copy()
        cell = cells.allocate(level)
        assert cell is not None
        assert cell.first % cell.gpus == 0
        assert free[cell.node, cell.first : cell.first + cell.gpus].all()
        free[cell.node, cell.first : cell.first + cell.gpus] = False
        assert np.array_equal(free, cells.free)
        fresh = Buddies(cells.free)
        assert fresh.available() == cells.available(), "levels agree with GPUs"


@given(st.data())
def test_cells_within_their_numbers_are_given_whoever_comes_and_goes(data: st.DataObject) -> None:
    """HiveD's theorem: as long as no more cells of a level are used than were agreed, all are given."""
    nodes = data.draw(NODES)
    agreed = data.draw(st.lists(st.integers(0, 4), min_size=4, max_size=4))
    cells = Buddies.of(nodes)
    assume(cells.fits(agreed))
    used: list[list[Cell]] = [[] for _ in agreed]
    for level, comes in data.draw(
        st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=40)
    ):
        if comes and len(used[level]) < agreed[level]:
            cell = cells.allocate(level)
            assert cell is not None
            used[level].append(cell)
        elif used[level]:
            cells.release(used[level].pop(data.draw(st.integers(0, len(used[level]) - 1))))


def test_levels_hold_their_gpus() -> None:
    assert [level_of(gpus) for gpus in (1, 2, 3, 4, 5, 8, 9)] == [0, 1, 2, 2, 3, 3, 4]
