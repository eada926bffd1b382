"""Predictions beside everything else that a run may have: all combinations go together."""

from dataclasses import replace
from itertools import combinations

import msgspec
import numpy as np
import pytest
from systems_here import of

from volvelle.model.cluster import Cluster, Node, NodeChange, NodeState, Pool
from volvelle.model.job import Dependency, Job, Regime
from volvelle.simulate.run import simulate
from volvelle.simulate.synthesis import Synthesis
from volvelle.testing.scenario import Scenario, linear_job

FEATURES = (
    *("synthesize", "dependencies", "pools", "batch sizes", "types", "nodes", "time limits"),
    *("learnt durations", "backlog"),
)
SUBSETS = [subset for many in (0, 1, 2, 9) for subset in combinations(FEATURES, many)]
JOBS = 36


def _job(number: int, having: tuple[str, ...]) -> Job:
    job = linear_job(
        number,
        4.0 * number,
        1.0 + number % 2,
        15.0 + 11.0 * (number % 5),
        pool=("red", "")[number % 2] if "pools" in having else "",
        gpu_types=("a",) if "types" in having and number % 3 == 0 else (),
    )
    spec, truth = job.spec, job.truth
    if "dependencies" in having and number % 4 == 3:
        spec = msgspec.structs.replace(spec, after=(Dependency(f"job-{number - 1}"),))
    if "time limits" in having and number % 6 == 5:
        spec = msgspec.structs.replace(spec, time_limit_seconds=20.0)
    if "batch sizes" in having and number % 5 == 4:
        regimes = (Regime(0.0, 32), Regime(truth.work / 2.0, 64))
        truth = msgspec.structs.replace(truth, regimes=regimes)
    return Job(spec, truth)


def _cluster(having: tuple[str, ...]) -> Cluster:
    nodes = tuple(Node(f"n{i}", 2, "ab"[i % 2] if "types" in having else "") for i in range(3))
    pools = (Pool("red", 3.0, True),) if "pools" in having else ()
    changes = (
        (NodeChange(30.0, "n2", NodeState.DRAINING), NodeChange(90.0, "n2", NodeState.UP))
        if "nodes" in having
        else ()
    )
    return Cluster(nodes, pools=pools, changes=changes)


def predicted(having: tuple[str, ...], *, compiled: bool) -> list[float]:
    """Predicted finishes of all jobs, futures being played out too."""
    jobs = [_job(number, having) for number in range(JOBS)]
    scenario = Scenario.of(
        _cluster(having),
        jobs,
        policy="srtf",
        placement="first-free",
        estimator="history" if "learnt durations" in having else "noisy:error=0.3",
    )
    admission = "backlog:factor=1" if "backlog" in having else "accept-all"
    scenario = scenario.under(admission=admission)
    among = Synthesis(policies=("srtf", "las"), admissions=(admission,), every=40.0)
    setting = replace(
        scenario.setting,
        predict=True,
        synthesis=among if "synthesize" in having else None,
    )
    outcomes = simulate(scenario.workload, setting, compiled=compiled).outcomes
    assert outcomes.predicted_finish is not None
    return [*outcomes.predicted_finish.tolist()]


@pytest.mark.parametrize(
    "having",
    [of("blox", having) if "synthesize" in having else having for having in SUBSETS],
    ids=lambda having: "+".join(having) or "nothing",
)
def test_every_job_has_one_prediction_in_every_combination(having: tuple[str, ...]) -> None:
    """Machine code and Python predict the same, at the submission or later."""
    interpreted, compiled = (predicted(having, compiled=compiled) for compiled in (False, True))
    assert compiled == pytest.approx(interpreted, rel=1e-12)
    assert (np.array(interpreted) >= 4.0 * np.arange(JOBS)).all()
