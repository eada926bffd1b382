"""Machine code does what the interpreted loop does: runs, predictions, synthesizer, searches.

The workloads are small: compiling the loop and a part's kernels takes most of the time.
"""

from dataclasses import replace

import msgspec
import numpy as np
from hypothesis import strategies as st

from volvelle.core.composition import WrittenComposition
from volvelle.core.systems import modules_of
from volvelle.metrics.catalogue import read_objective
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.cluster import Cluster, Node, Pool
from volvelle.model.job import Job, LossPoint, Reward, Truth
from volvelle.model.throughput import Linear, Table
from volvelle.simulate.run import Setting, simulate
from volvelle.simulate.synthesis import SYNTHESIZER, Synthesis
from volvelle.testing.promises import on_random
from volvelle.testing.scenario import Scenario, happen, linear_job, tabled
from volvelle.testing.strategies import WITH_PARTS, scenarios
from volvelle.tune.evaluate import evaluate
from volvelle.workload.workload import Workload

RUNNING = ("first_start", "finish", "preemptions", "gpu_seconds", "status")
PREDICTED = ("predicted_finish", "predicted_p50", "predicted_p90")
COUNTED_AND_BY_NAME = ("none", "consolidated")
"""Placements under which GPUs are counted and have names."""


def _job(number: int) -> Job:
    """A job of 1 to 4 GPUs in one of two pools; every third is elastic, with rates in a table."""
    plain = linear_job(
        number,
        submit=6.0 * number,
        gpus=1.0 + number % 4,
        seconds=20.0 + 13.0 * (number % 5),
        max_gpus=4.0 if number % 3 == 0 else None,
        pool="ab"[number % 2],
    )
    work = plain.truth.work
    curve = (LossPoint(0.0, 3.0), LossPoint(0.5 * work, 1.0), LossPoint(work, 0.9))
    rates = Table((1.0, 1.8, 2.5, 3.0)) if number % 3 == 0 else Linear(1.0)
    return Job(
        msgspec.structs.replace(plain.spec, rewards=(Reward(300.0, 1.0),), user="ab"[number % 2]),
        Truth(work=work, throughput=rates, loss_curve=curve),
    )


def _sharing(job: Job) -> Job:
    """The same, at nine tenths of its rate beside others."""
    alone = job.truth.throughput
    rates = Linear(0.9) if isinstance(alone, Linear) else Table((0.9, 1.6, 2.2, 2.7))
    return msgspec.structs.replace(
        job,
        spec=msgspec.structs.replace(job.spec, name="job"),
        truth=msgspec.structs.replace(job.truth, beside={"job": rates}),
    )


WORKLOAD = Workload(tuple(_job(number) for number in range(10)))
_SHARING = Workload(tuple(map(_sharing, WORKLOAD.jobs)))
_NODES = tuple(Node(f"node-{n}", 4, cpus=12.0, memory_gb=80.0) for n in range(2))
CLUSTER = Cluster(_NODES, (Pool("a", 5.0), Pool("b", 3.0)))


def small_setting(**parts: str) -> Setting:
    """The cluster of eight GPUs under parts by name; where jobs share GPUs these are counted."""
    composition = WrittenComposition(**{"policy": "srtf", "placement": "consolidated"} | parts)
    if composition.build().policy.shares_gpus:
        composition = msgspec.structs.replace(composition, placement="none")
    return Setting(cluster=CLUSTER, composition=composition)


def _workload(where: Setting) -> Workload:
    """Ten jobs, of which it is known how fast they are beside each other where jobs share GPUs."""
    return _SHARING if where.composition.build().policy.shares_gpus else WORKLOAD


def assert_the_same(one: Outcomes, other: Outcomes) -> None:
    """Times, counts and predictions of all jobs are equal."""
    for name in (*RUNNING, *PREDICTED):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), name)


def check_predictions(where: Setting) -> None:
    """Predictions at submission and their quantiles, of both loops."""
    compiled, plain = (
        simulate(_workload(where), replace(where, predict=True), compiled=each)
        for each in (True, False)
    )
    assert_the_same(compiled.outcomes, plain.outcomes)


def check_synthesis(where: Setting, policy: str, admission: str) -> None:
    """The choices of a synthesizer among which the part is, with predictions, of both loops.

    Nothing is checked where no system brings a synthesizer.
    """
    if SYNTHESIZER not in modules_of("switchers"):
        return
    where = replace(where, predict=True)
    among = Synthesis(policies=(policy, "srtf"), admissions=(admission,), every=40.0)
    compiled, plain = (
        simulate(WORKLOAD, replace(where, synthesis=among), compiled=each) for each in (True, False)
    )
    assert_the_same(compiled.outcomes, plain.outcomes)
    assert compiled.outcomes.choices == plain.outcomes.choices


def check_search(where: Setting) -> None:
    """The figures of a search, without predictions and with, equal the figures of a run."""
    workload = _workload(where)
    plain = simulate(workload, replace(where, predict=True), compiled=False).outcomes
    for names in (("jct:mean",), ("jct:mean", "pred_error:p99")):
        objectives = [read_objective(name) for name in names]
        expected = [objective.of(plain) for objective in objectives]
        np.testing.assert_allclose(evaluate(workload, where, objectives), expected, rtol=1e-9)


def check_machine_code(
    where: Setting, policy: str = "las:round=30", admission: str = "accept-all"
) -> None:
    """Predictions, the choices of a synthesizer and the figures of a search."""
    check_predictions(where)
    check_synthesis(where, policy, admission)
    check_search(where)


def check_journals(policy: str) -> None:
    """Journals of random scenarios under a policy, compiled and interpreted, are equal."""

    def check(scenario: Scenario, tables: bool, counted: bool) -> None:
        scenario = scenario.under(policy)
        scenario = scenario.counted() if counted else scenario
        scenario = tabled(scenario) if tables else scenario
        assert happen(scenario, compiled=True).journal_bytes == happen(scenario).journal_bytes

    every = scenarios(WITH_PARTS)
    on_random(4, check, scenario=every, tables=st.booleans(), counted=st.booleans())
