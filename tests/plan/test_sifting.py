"""Linear programs solved in the few variables that are in doubt."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from systems_here import needs

from volvelle.model.arrays import FloatColumn
from volvelle.plan.plan import Window
from volvelle.plan.programs import Program, Rows, maximise
from volvelle.plan.sifting import sift

pytest.importorskip("highspy")


def knapsack(count: int, seed: int) -> tuple[Program, FloatColumn]:
    """A program with two rows that bind and one that links few variables, and a feasible x."""
    draw = np.random.default_rng(seed)
    gain, upper = draw.uniform(0.0, 1.0, count), draw.integers(1, 5, count).astype(float)
    rows = Rows()
    for share in (0.2, 0.5):
        weights = draw.uniform(0.1, 1.0, count)
        rows.add(np.arange(count), weights, upper=share * float(weights @ upper))
    few = np.flatnonzero(draw.random(count) < 0.1)
    rows.add(few, np.ones(len(few)), upper=0.5 * float(upper[few].sum()))
    return Program(gain, upper, rows), np.where(draw.random(count) < 0.1, upper, 0.0)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 400), st.integers(0, 2**32 - 1))
def test_what_is_sifted_is_the_optimum_of_the_whole(count: int, seed: int) -> None:
    program, start = knapsack(count, seed)
    whole = maximise(program, np.zeros(count), np.inf, 60.0)
    sifted = sift(program, 0.5 * start, np.inf, 60.0, 0.0)
    assert sifted.value == pytest.approx(whole.value)
    assert sifted.bound == pytest.approx(whole.value)
    assert program.gain @ sifted.x == pytest.approx(sifted.value)
    assert ((sifted.x >= 0.0) & (sifted.x <= program.upper)).all()


def test_without_time_the_incumbent_stands_under_the_bound_that_was_known() -> None:
    program, start = knapsack(100, 1)
    answer = sift(program, 0.5 * start, 77.0, 0.0, 0.0)
    assert answer.x.tolist() == (0.5 * start).tolist()
    assert answer.bound == 77.0


@needs("shockwave")
@pytest.mark.parametrize("makespan", [1e-3, 10.0])
def test_a_large_window_is_shared_as_well_as_it_is_asked_to_be(makespan: float) -> None:
    """More pieces than are solved as one program, and makespans that are in doubt."""
    from volvelle.systems.shockwave.rounds import RoundJobs, share_rounds

    draw, count, gpus = np.random.default_rng(2), 2000, 500.0
    window = Window(0.0, 120.0, 20)
    total = draw.lognormal(8.5, 1.2, count)
    done = draw.uniform(0.0, 0.8, count) * total
    reached = done[:, None] + 120.0 * np.arange(21)
    gain = np.diff(np.log(np.minimum(reached / total[:, None], 1.0) + 1e-3), axis=1)
    gain *= draw.uniform(0.5, 2.5, count)[:, None] ** 5
    gang = draw.choice([1.0, 2.0, 4.0, 8.0], count)
    jobs = RoundJobs(np.arange(count), gang, gain, total - done)
    share = share_rounds(
        jobs,
        window,
        gpus,
        makespan_weight=makespan * count * gpus / float(total.sum()),
        gap=5e-4,
        seconds=60.0,
    )
    share.plan.check(gpus)
    assert share.gap <= 5e-4
