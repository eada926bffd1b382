"""The volatile Fisher market (Shockwave, NSDI'23, section 4 and appendices C to E)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volvelle.systems.shockwave.market import (
    Market,
    Utility,
    equal_split,
    equilibrium,
    finish_time_fairness,
    utility,
)

pytest.importorskip("clarabel", reason="markets need the extra market")

CLOSE = 2e-4
KINDS: tuple[Utility, ...] = ("linear", "leontief")


@st.composite
def markets(draw: st.DrawFn, *, equal: bool = False) -> Market:
    kind = draw(st.sampled_from(KINDS))
    shape = tuple(draw(st.integers(1, most)) for most in (4, 3, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    values = rng.uniform(0.1, 3.0, shape)
    if kind == "linear":
        values *= rng.random(shape) < 0.8
        values[:, 0, 0] = np.maximum(values[:, 0, 0], 0.1)
    budgets = np.ones(shape[0]) if equal else rng.uniform(0.2, 5.0, shape[0])
    supply = np.ones(shape[1:]) if draw(st.booleans()) else rng.uniform(0.5, 4.0, shape[1:])
    return Market(values, budgets, supply, kind)


def random_allocations(market: Market, count: int) -> list[np.ndarray]:
    """Feasible ones."""
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.ones(len(market.budgets)), (count, *market.supply.shape))
    return [np.moveaxis(one, -1, 0) * market.supply for one in shares]


@settings(max_examples=40, deadline=None)
@given(markets())
def test_what_has_a_price_is_sold_out_and_nothing_is_sold_twice(market: Market) -> None:
    found = equilibrium(market)
    sold = found.allocation.sum(axis=0)
    assert (sold <= market.supply * (1.0 + CLOSE)).all()
    left = np.maximum(market.supply - sold, 0.0) * found.prices
    assert left.max() <= CLOSE * market.budgets.sum()


@settings(max_examples=40, deadline=None)
@given(markets())
def test_budgets_are_spent_where_a_unit_of_money_buys_most(market: Market) -> None:
    """Theorem C.1: U_i is B_i times the largest utility that a unit of money buys anywhere."""
    found = equilibrium(market)
    assert found.spent == pytest.approx(market.budgets, rel=CLOSE)
    prices = np.maximum(found.prices, 1e-12)
    if market.utility == "linear":
        best = (market.values / prices).max(axis=(1, 2))
    else:
        best = 1.0 / (prices * market.values).sum(axis=1).min(axis=1)
    assert found.utility == pytest.approx(market.budgets * best, rel=1e-3)


@settings(max_examples=40, deadline=None)
@given(markets())
def test_no_other_allocation_has_more_welfare_or_is_better_for_all(market: Market) -> None:
    """Nash social welfare over time is largest, so that nobody gains without another's loss."""
    found = equilibrium(market)
    welfare = float(market.budgets @ np.log(found.utility))
    for other in (equal_split(market), *random_allocations(market, 20)):
        worth = utility(market, other)
        assert float(market.budgets @ np.log(worth)) <= welfare + CLOSE * market.budgets.sum()
        assert (worth <= found.utility * (1.0 + CLOSE)).any()


@settings(max_examples=40, deadline=None)
@given(markets(equal=True))
def test_with_equal_budgets_nobody_envies_anybody_or_would_rather_split_evenly(
    market: Market,
) -> None:
    """Envy-freeness, proportionality, and corollary 4.0.1 (b): rho is at most 1."""
    found = equilibrium(market)
    for other in found.allocation:
        others = np.repeat(other[None], len(market.budgets), axis=0)
        assert (utility(market, others) <= found.utility * (1.0 + CLOSE)).all()
    assert (finish_time_fairness(market, found.allocation) <= 1.0 + CLOSE).all()


@settings(max_examples=40, deadline=None)
@given(markets(equal=True))
def test_the_product_of_rho_is_least(market: Market) -> None:
    """Corollary 4.0.1 (a)."""
    least = finish_time_fairness(market, equilibrium(market).allocation).prod()
    for other in random_allocations(market, 20):
        assert least <= finish_time_fairness(market, other).prod() * (1.0 + CLOSE)


def test_a_job_that_speeds_up_buys_later() -> None:
    """Two jobs, two rounds; the first does twice as much in the second round, and has all of it."""
    found = equilibrium(Market([[[1.0, 2.0]], [[1.0, 1.0]]], [1.0, 1.0]))
    assert found.allocation[:, 0].ravel() == pytest.approx([0.0, 1.0, 1.0, 0.0], abs=CLOSE)
    assert found.prices[0] == pytest.approx([1.0, 1.0], rel=CLOSE)


def test_a_budget_is_a_priority() -> None:
    """Buyers who want the same share it by their budgets."""
    found = equilibrium(Market(np.ones((2, 1, 3)), [1.0, 3.0]))
    assert found.utility == pytest.approx([0.75, 2.25], rel=CLOSE)


def test_rho_is_of_an_equal_split_whatever_the_budgets() -> None:
    """Appendix E: C/N, not by budgets; who has half of everything has rho 1."""
    market = Market(np.ones((2, 1, 3)), [1.0, 3.0])
    half = np.full((2, 1, 3), 0.5)
    assert equal_split(market) == pytest.approx(half)
    assert finish_time_fairness(market, half) == pytest.approx([1.0, 1.0])


def test_in_one_round_leontief_is_what_dominant_resources_share() -> None:
    """CPUs and memory for 1/9 and 4/18, or 3/9 and 1/18, of the cluster: as many tasks as budgets buy."""
    market = Market(
        [[[1.0], [4.0]], [[3.0], [1.0]]], [1.0, 1.0], [[9.0], [18.0]], utility="leontief"
    )
    found = equilibrium(market)
    used = found.allocation.sum(axis=0)[:, 0]
    assert (used <= np.array([9.0, 18.0]) * (1 + CLOSE)).all()
    assert found.utility @ market.values[:, :, 0] == pytest.approx(used, rel=1e-3)


@pytest.mark.parametrize(
    ("values", "budgets", "supply", "kind", "said"),
    [
        ([[[1.0]]], [0.0], None, "linear", "budget of 0"),
        ([[[1.0]]], [-1.0], None, "linear", "budgets"),
        ([[[0.0]]], [1.0], None, "linear", "worth anything"),
        ([[[1.0]]], [1.0], [[0.0]], "leontief", "worth anything"),
        ([[[0.0]]], [1.0], None, "leontief", "takes nothing"),
        ([[1.0]], [1.0], None, "linear", "buyer, resource and round"),
        ([[[1.0]]], [1.0, 1.0], None, "linear", "budgets"),
        ([[[1.0]]], [1.0], [[1.0, 1.0]], "linear", "supply"),
        ([[[np.inf]]], [1.0], None, "linear", "finite"),
    ],
)
def test_markets_that_cannot_be_are_errors(
    values: list[list[list[float]]], budgets: list[float], supply: object, kind: str, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        Market(values, budgets, supply, kind)  # type: ignore[arg-type]
