"""What every part promises of machine code by being registered: it does what the interpreted loop does.

Runs, predictions with play-outs, the synthesizer and searches are compared, with GPUs that are counted
and with GPUs that have names. The workloads are small: what costs is to compile the loop and the kernels.
"""

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import EVERYTHING, Scenario, happen, linear_job, scenarios, tabled
from test_policies import DOCUMENTED, VARIANTS

from volvelle.core.composition import WrittenComposition
from volvelle.core.parts import admissions, estimators, placements, terminations
from volvelle.core.policy import policies
from volvelle.core.state import KERNEL
from volvelle.metrics.catalogue import read_objective
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.cluster import Cluster, Node, Pool
from volvelle.model.job import Job, LossPoint, Reward, Truth
from volvelle.model.throughput import Linear, Table
from volvelle.simulate.run import Setting, simulate
from volvelle.simulate.synthesis import Synthesis
from volvelle.tune.evaluate import evaluate
from volvelle.workload.workload import Workload

RUNNING = ("first_start", "finish", "preemptions", "gpu_seconds", "status")
PREDICTED = ("predicted_finish", "predicted_p50", "predicted_p90")

every_policy = pytest.mark.parametrize("policy", list(policies.all()))
every_variant = pytest.mark.parametrize(
    "policy",
    [
        *policies.all(),
        *VARIANTS,
        *(pytest.param(path, id=name) for name, path in DOCUMENTED.items()),
    ],
)
OTHERS = [
    *(("placement", name) for name in placements.all()),
    *(("estimator", name) for name in estimators.all()),
    *(("admission", name) for name in admissions.all()),
    *(("termination", name) for name in terminations.all()),
]
every_other_part = pytest.mark.parametrize(("kind", "name"), OTHERS, ids=str)
counted_and_by_name = pytest.mark.parametrize("placement", ["none", "consolidated"])


def job(number: int) -> Job:
    """A job of 1 to 4 GPUs in one of two pools; every third is elastic, with rates in a table."""
    plain = linear_job(
        number,
        submit=6.0 * number,
        gpus=1.0 + number % 4,
        seconds=20.0 + 13.0 * (number % 5),
        most=4.0 if number % 3 == 0 else None,
        pool="ab"[number % 2],
    )
    work = plain.truth.work
    curve = (LossPoint(0.0, 3.0), LossPoint(0.5 * work, 1.0), LossPoint(work, 0.9))
    rates = Table((1.0, 1.8, 2.5, 3.0)) if number % 3 == 0 else Linear(1.0)
    return Job(
        msgspec.structs.replace(plain.spec, rewards=(Reward(300.0, 1.0),), user="ab"[number % 2]),
        Truth(work=work, throughput=rates, loss_curve=curve),
    )


WORKLOAD = Workload(tuple(job(number) for number in range(10)))
NODES = tuple(Node(f"node-{n}", 4, cpus=12.0, memory_gb=80.0) for n in range(2))
CLUSTER = Cluster(NODES, (Pool("a", 5.0), Pool("b", 3.0)))


def setting(**parts: str) -> Setting:
    """The cluster of eight GPUs under parts by name; where jobs share GPUs these are counted."""
    composition = WrittenComposition(**{"policy": "srtf", "placement": "consolidated"} | parts)
    if composition.build().policy.shares_gpus:
        composition = msgspec.structs.replace(composition, placement="none")
    return Setting(cluster=CLUSTER, composition=composition, play_outs=2)


def assert_the_same(one: Outcomes, other: Outcomes) -> None:
    for name in (*RUNNING, *PREDICTED):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), name)


def check_predictions(where: Setting) -> None:
    """Predictions at submission and their quantiles, of both loops."""
    compiled, plain = (
        simulate(WORKLOAD, replace(where, predict=True), compiled=each) for each in (True, False)
    )
    assert_the_same(compiled.outcomes, plain.outcomes)


def check_synthesis(where: Setting, policy: str, admission: str) -> None:
    """The choices of a synthesizer among which the part is, with predictions, of both loops."""
    where = replace(where, predict=True)
    among = Synthesis(policies=(policy, "srtf"), admissions=(admission,), every=40.0)
    compiled, plain = (
        simulate(WORKLOAD, replace(where, synthesis=among), compiled=each) for each in (True, False)
    )
    assert_the_same(compiled.outcomes, plain.outcomes)
    assert compiled.outcomes.choices == plain.outcomes.choices


def check_search(where: Setting) -> None:
    """What a search measures, without predictions and with."""
    plain = simulate(WORKLOAD, replace(where, predict=True, play_outs=0), compiled=False).outcomes
    for names in (("jct:mean",), ("jct:mean", "pred_error:p99")):
        objectives = [read_objective(name) for name in names]
        expected = [objective.of(plain) for objective in objectives]
        np.testing.assert_allclose(evaluate(WORKLOAD, where, objectives), expected, rtol=1e-9)


@every_variant
@settings(max_examples=4)
@given(scenario=scenarios(EVERYTHING), tables=st.booleans(), counted=st.booleans())
def test_a_run_leaves_the_same_journal(
    policy: str, scenario: Scenario, tables: bool, counted: bool
) -> None:
    scenario = scenario.under(policy)
    scenario = scenario.counted() if counted else scenario
    scenario = tabled(scenario) if tables else scenario
    assert happen(scenario, compiled=True).journal_bytes == happen(scenario).journal_bytes


@every_policy
@counted_and_by_name
def test_predictions_are_the_same(policy: str, placement: str) -> None:
    check_predictions(setting(policy=policy, placement=placement))


@every_policy
@counted_and_by_name
def test_a_synthesizer_chooses_the_same(policy: str, placement: str) -> None:
    check_synthesis(setting(placement=placement), policy, "accept-all")


@every_policy
@counted_and_by_name
def test_a_search_measures_the_same(policy: str, placement: str) -> None:
    check_search(setting(policy=policy, placement=placement))


@every_other_part
def test_other_parts_do_the_same(kind: str, name: str) -> None:
    where = setting(**{kind: name})
    check_predictions(where)
    check_synthesis(where, "las:round=30", name if kind == "admission" else "accept-all")
    check_search(where)


def test_a_documented_decision_with_memory_is_predicted_the_same() -> None:
    where = setting(policy=f"{DOCUMENTED['patient.py']}:patience=20")
    compiled = simulate(WORKLOAD, where, compiled=True)
    assert compiled.scheduler.rules.decides == KERNEL
    never = setting(policy=f"{DOCUMENTED['patient.py']}:patience=1e9")
    without = simulate(WORKLOAD, never, compiled=True)
    assert compiled.outcomes.finish.tolist() != without.outcomes.finish.tolist()
    check_predictions(where)
