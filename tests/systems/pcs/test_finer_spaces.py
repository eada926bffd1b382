"""The finer spaces of PCS around its configurations."""

import numpy as np
import pytest

from volvelle.core.policy import policies
from volvelle.core.space import Space
from volvelle.simulate.sources import generated
from volvelle.systems.pcs.policy import Pcs

HISTORY = generated("lognormal:jobs=240,load=1.5", 3, 16).workload


def test_a_finer_space_starts_at_the_same_configuration() -> None:
    space = Pcs.search_space(HISTORY.jobs)
    assert space.finer is not None
    for point in space.starts:
        finer = space.finer(space.write(point))
        coarse, fine = (
            policies.make(f"pcs:{where.write(at)}")
            for where, at in ((space, point), (finer, finer.starts[0]))
        )
        assert isinstance(coarse, Pcs)
        assert isinstance(fine, Pcs)
        assert (
            fine.queue_of(HISTORY.durations).tolist() == coarse.queue_of(HISTORY.durations).tolist()
        )
        np.testing.assert_allclose(fine.queue_weights, coarse.queue_weights, rtol=1e-9)
        assert fine.efficiency == coarse.efficiency
        for dimension, value in zip(finer.dimensions, finer.starts[0], strict=True):
            assert dimension.low <= value <= dimension.high


@pytest.fixture
def around_three_queues() -> Space:
    space = Pcs.search_space(HISTORY.jobs)
    assert space.finer is not None
    return space.finer("thresholds=1h/1d,weights=90/9/1,efficiency=0.5")


def test_queues_that_meet_are_one(around_three_queues: Space) -> None:
    finer = around_three_queues
    first, second, spare, *rest = finer.starts[0]
    steep, flat, *others = rest
    assert finer.write((first, first, spare, *rest)).count("/") == 1
    assert finer.write((spare, spare, spare, *rest)) == "efficiency=0.5"
    swapped = finer.write((second, first, spare, flat, steep, *others))
    assert swapped == finer.write(finer.starts[0])


def test_around_a_configuration_there_are_those_with_a_queue_more(
    around_three_queues: Space,
) -> None:
    finer = around_three_queues
    first, second, _, *rest = finer.starts[0]
    limits, weights, _ = finer.write((first, second, 2 * first, *rest)).split(",")
    assert limits.count("/") == 2
    assert weights.count("/") == 3


def test_around_a_configuration_caps_may_be_lifted_in_steps(around_three_queues: Space) -> None:
    *queues, delta, cap = around_three_queues.starts[0]
    assert delta == 0.0
    assert "delta" not in around_three_queues.write((*queues, delta, cap))
    assert "delta=0.25" in around_three_queues.write((*queues, 0.25, cap))
    assert "delta=0.5" in around_three_queues.write(around_three_queues.starts[1])


def test_around_a_configuration_with_steps_is_one_without(around_three_queues: Space) -> None:
    stepped = around_three_queues.write(around_three_queues.starts[1])
    space = Pcs.search_space(HISTORY.jobs)
    assert space.finer is not None
    around = space.finer(stepped)
    at_once = stepped.replace("delta=0.5", "delta=0")
    assert [around.write(start) for start in around.starts] == [stepped, at_once]
