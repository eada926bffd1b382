"""What pools own is theirs at any time, whoever else is there: HiveD's safety, without preemption."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volvelle.model.problems import Problem
from volvelle.systems.hived.cells import Cell, Cells
from volvelle.systems.hived.shares import CellShares

LEVELS = 4


@st.composite
def owned(draw: st.DrawFn) -> tuple[list[int], dict[str, list[int]]]:
    """Nodes, and what two pools own of their cells: little or all."""
    nodes = draw(st.lists(st.sampled_from([1, 2, 4, 6, 8]), min_size=1, max_size=4))
    pools = {"a": [0] * LEVELS, "b": [0] * LEVELS}
    for pool, level in draw(
        st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, LEVELS - 1)), max_size=12)
    ):
        pools[pool][level] += 1
        if not Cells.of(nodes).fits([sum(pair) for pair in zip(*pools.values(), strict=True)]):
            pools[pool][level] -= 1
    return nodes, pools


def alone(counts: list[int]) -> CellShares:
    """A cluster of one pool: a node for each of its cells."""
    sizes = [1 << level for level in range(LEVELS) for _ in range(counts[level])]
    return CellShares(Cells.of(sizes or [1]), {"only": counts})


EVENTS = st.lists(
    st.tuples(st.sampled_from(["a", "b", "guest"]), st.integers(0, LEVELS - 1), st.booleans()),
    max_size=40,
)


@settings(max_examples=150)
@given(owned(), EVENTS, st.data())
def test_a_pool_gets_what_it_would_get_on_cells_of_its_own(
    case: tuple[list[int], dict[str, list[int]]],
    events: list[tuple[str, int, bool]],
    data: st.DataObject,
) -> None:
    nodes, pools = case
    shared = CellShares(Cells.of(nodes), pools)
    private = {pool: alone(counts) for pool, counts in pools.items()}
    jobs: dict[str, list[tuple[Cell, Cell]]] = {"a": [], "b": [], "guest": []}
    used: set[tuple[int, int]] = set()
    for who, level, comes in events:
        if comes:
            if who == "guest":
                cell = own = shared.lend(level)
            else:
                cell, own = shared.claim(who, level), private[who].claim("only", level)
                assert (cell is None) == (own is None)
            if cell is None or own is None:
                continue
            gpus = {(cell.node, gpu) for gpu in range(cell.first, cell.first + cell.gpus)}
            assert not gpus & used
            assert all(gpu < nodes[node] for node, gpu in gpus)
            used |= gpus
            jobs[who].append((cell, own))
        elif jobs[who]:
            cell, own = jobs[who].pop(data.draw(st.integers(0, len(jobs[who]) - 1)))
            used -= {(cell.node, gpu) for gpu in range(cell.first, cell.first + cell.gpus)}
            if who == "guest":
                shared.end_loan(cell)
            else:
                shared.give_back(who, cell)
                private[who].give_back("only", own)


@given(owned(), st.lists(st.integers(0, LEVELS - 1), max_size=40))
def test_guests_get_all_that_nobody_owns(
    case: tuple[list[int], dict[str, list[int]]], guests: list[int]
) -> None:
    """While no pool uses anything, a guest is refused only where a share would not fit beside it."""
    nodes, pools = case
    cells = Cells.of(nodes)
    shared = CellShares(cells, pools)
    for level in guests:
        owed = shared.owed()
        owed[len(owed) :] = [0] * (level + 1 - len(owed))
        owed[level] += 1
        fits = cells.fits(owed)
        assert (shared.lend(level) is not None) == fits


def test_guests_stay_away_from_the_cells_of_pools() -> None:
    shared = CellShares(Cells.of([8, 8]), {"a": [0, 0, 1]})
    assert shared.claim("a", 0) == Cell(0, 0, 0)
    guests = [shared.lend(2) for _ in range(3)]
    assert guests == [Cell(1, 4, 2), Cell(1, 0, 2), None], "the buddy of a's cell stays empty"
    assert shared.claim("a", 1) == Cell(0, 2, 1), "the pool splits what it has bound"
    shared.give_back("a", Cell(0, 0, 0))
    shared.give_back("a", Cell(0, 2, 1))
    assert shared.lend(2) == Cell(0, 4, 2)
    assert shared.lend(0) is None, "four GPUs are a's"


def test_more_is_lent_where_less_is_kept_back() -> None:
    shared = CellShares(Cells.of([8]), {"a": [0, 0, 0, 1]})
    assert shared.lend(2) is None
    shared.keep_back("a", [0, 0, 1])
    assert shared.owed() == [0, 0, 0, 0], "it owns no cell of four"
    guest = shared.lend(2)
    assert guest == Cell(0, 4, 2)
    shared.keep_back("a", [0, 0, 0, 1])
    assert shared.lend(2) is None, "nothing more until the share is whole"
    assert shared.claim("a", 3) is None
    shared.end_loan(guest)
    assert shared.claim("a", 3) == Cell(0, 0, 3)


def test_shares_that_do_not_fit_are_refused() -> None:
    with pytest.raises(Problem, match="do not fit the cluster: a 1 x 8; b 1 x 4 \\+ 1 x 1"):
        CellShares(Cells.of([8, 4]), {"a": [0, 0, 0, 1], "b": [1, 0, 1]})
