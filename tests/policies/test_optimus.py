"""Optimus: GPUs go where they shorten what is left the most."""

from growth_cases import Growing, growings, plain
from hypothesis import given, settings
from test_afs import LINEAR, elastic, first_shares

from volvelle.core.columns import Column
from volvelle.policies.optimus import grow_by_gain


@settings(max_examples=200)
@given(growings())
def test_growth_by_gain_is_the_same_compiled_and_plain(case: Growing) -> None:
    assert case.under(grow_by_gain) == case.under(plain(grow_by_gain))


@settings(max_examples=100)
@given(growings())
def test_nobody_grows_beyond_what_helps(case: Growing) -> None:
    gpus, _ = case.under(grow_by_gain)
    for row in case.rows:
        now, before = int(gpus[row]), int(case.gpus[row])
        if now > before:
            curve = case.table[int(case.matrix[Column.CURVE, row]), 0]
            assert curve[now] > curve[now - 1]


def test_the_longest_job_gains_most_where_all_scale_alike() -> None:
    jobs = elastic(0, 0.0, 100.0, LINEAR), elastic(1, 0.0, 1000.0, LINEAR)
    assert first_shares("optimus", 4, *jobs) == {0: 1.0, 1: 3.0}


def test_a_job_that_does_not_scale_gets_nothing_more() -> None:
    jobs = elastic(0, 0.0, 100.0, LINEAR), elastic(1, 0.0, 1000.0, (1.0, 1.0, 1.0, 1.0))
    assert first_shares("optimus", 4, *jobs) == {0: 3.0, 1: 1.0}


def test_the_first_gpu_goes_by_submission() -> None:
    jobs = [elastic(n, 0.0, work, LINEAR) for n, work in enumerate([30.0, 10.0, 20.0])]
    assert first_shares("optimus", 2, *jobs) == {0: 1.0, 1: 1.0}
