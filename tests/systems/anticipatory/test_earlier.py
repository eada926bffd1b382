"""What runs begin with: a past in the model's file, which lets pools lend from the first moment."""

from pathlib import Path

import numpy as np
import pytest
from test_anticipatory import run

from volvelle.model.cluster import Cluster, Node, Pool
from volvelle.systems.anticipatory.arrivals import ArrivalModel, Trees, before
from volvelle.systems.anticipatory.past import FEATURES, Earlier
from volvelle.testing.scenario import linear_job

QUANTA = (10.0, 100.0)


def certain(earlier: dict[str, Earlier]) -> ArrivalModel:
    """Jobs always come; how much, the past says."""
    leaf = np.array([-1])
    tree = Trees(np.array([0]), leaf, np.array([5.0]), leaf, leaf)
    return ArrivalModel(QUANTA, FEATURES, (tree, tree), earlier)


@pytest.mark.parametrize(
    ("earlier", "starts"),
    [
        ({}, 10.0),  # nothing is known of 10 s yet
        ({"b": Earlier(-1000.0, [], [], [])}, 5.0),
        ({"b": Earlier(-1000.0, [-3.0], [2.0], [-1.0])}, 10.0),
        ({"c": Earlier(-1000.0, [], [], [])}, 10.0),
    ],
)
def test_a_pool_that_was_quiet_before_the_run_lends_at_once(
    tmp_path: Path, earlier: dict[str, Earlier], starts: float
) -> None:
    certain(earlier).save(tmp_path / "model.json")
    pools = (Pool("a", 2.0, lends=True), Pool("b", 2.0, lends=True))
    jobs = [linear_job(0, 0.0, 2, 1000.0, pool="a"), linear_job(1, 5.0, 1, 8.0, pool="a")]
    policy = f"anticipatory:quanta=10/100,recent=1,model={tmp_path / 'model.json'}"
    found = run(policy, Cluster((Node("node", 4),), pools), jobs)
    assert found.first_start.tolist() == [0.0, starts]


def test_what_came_before_is_what_a_trace_had_up_to_then(tmp_path: Path) -> None:
    submit, gpus = np.array([0.0, 50.0, 90.0, 120.0]), np.array([1.0, 2.0, 4.0, 8.0])
    seconds, pool = np.full(4, 60.0), np.array([0, 0, 1, 0])
    found = before(submit, gpus, seconds, pool, ("a", "b"), 100.0, QUANTA)
    assert found["a"] == Earlier(-100.0, [-100.0, -50.0], [1.0, 2.0], [-40.0])
    assert found["b"] == Earlier(-100.0, [-10.0], [4.0], [])
    certain(found).save(tmp_path / "model.json")
    assert ArrivalModel.load(tmp_path / "model.json").earlier == found
