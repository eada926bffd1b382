"""The compiled play-outs against the general engine: the same starts and finishes."""

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Features, Run, Scenario, happen, linear_job, scenarios
from volvelle.simulate.gear import Gear, play
from volvelle.simulate.gear.loop import play_out

from volvelle.core.policy import Allocation
from volvelle.core.view import View
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.overheads import Overheads
from volvelle.model.throughput import Amdahl, Table
from volvelle.policies.pcs.policy import Pcs
from volvelle.simulate import gear
from volvelle.simulate.forecast import forecast
from volvelle.simulate.world import World

POLICIES = [
    "fifo",
    "fifo:preemptive=true",
    "fifo:elastic=false",
    "fifo:round=30",
    "fifo-skip",
    "sjf",
    "sjf:preemptive=true,strict=true",
    "smallest",
    "srtf",
    "srtf:round=20",
    "srtf:elastic=false",
    "srsf",
    "srsf:preemptive=false",
    "las",
    "las:round=25,service=seconds,strict=true",
    "pcs",
    "pcs:thresholds=20/100,disparity=1,efficiency=0.8",
    "pcs:thresholds=60,weights=9/1,efficiency=0.9,delta=0.1",
]
PLAIN = Features(
    types=False,
    pools=False,
    pinned=False,
    overheads=False,
    failures=False,
    nodes=False,
    regimes=False,
    slots=False,
    impossible=False,
    most_jobs=12,
    amounts=False,
    sharing=False,
)
every_policy = pytest.mark.parametrize("policy", POLICIES)


def same(one: Any, other: Any) -> None:
    np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-6)


def tabled(scenario: Scenario) -> Scenario:
    """The same with a table where a rate is a formula, which the compiled loop does not know."""
    jobs = [
        Job(job.spec, Truth(work=job.truth.work, throughput=Table((1.0, 1.8, 2.4))))
        if isinstance(job.truth.throughput, Amdahl)
        else job
        for job in scenario.jobs
    ]
    return replace(scenario, jobs=tuple(jobs))


def test_pcs_searched_otherwise_is_played_too_and_divided_otherwise_is_not() -> None:
    class Searched(Pcs):
        name: ClassVar[str] = "searched"

    class Divided(Pcs):
        name: ClassVar[str] = "divided"

        def allocate(self, view: View) -> Allocation:
            raise NotImplementedError

    assert gear.rules_of(Searched(thresholds="60")) is not None
    assert gear.rules_of(Divided(thresholds="60")) is None


@every_policy
@settings(max_examples=40)
@given(scenarios(PLAIN))
def test_a_whole_run_is_the_same(policy: str, scenario: Scenario) -> None:
    scenario = tabled(scenario.under(policy))
    outcomes = happen(scenario).outcomes
    played = play(scenario.jobs, scenario.setting)
    assert played is not None
    same(played.start, outcomes.first_start)
    same(played.finish, outcomes.finish)


@every_policy
@settings(max_examples=20)
@given(scenario=scenarios(PLAIN), noise=st.sampled_from(["oracle", "noisy:error=0.5", "declared"]))
def test_a_forecast_at_any_moment_is_the_same(policy: str, scenario: Scenario, noise: str) -> None:
    scenario = tabled(scenario.under(policy, estimator=noise))
    ahead = Gear(scenario.scheduler())

    def look_ahead(world: World) -> None:
        foreseen, played = forecast(world.scheduler), ahead.forecast(world.scheduler)
        assert played is not None
        for ours, theirs in ((played.start, foreseen.start), (played.finish, foreseen.finish)):
            assert set(ours) == set(theirs)
            same([ours[n] for n in sorted(ours)], [theirs[n] for n in sorted(ours)])

    happen(scenario, on_moment=look_ahead)


@every_policy
@settings(max_examples=8)
@given(scenario=scenarios(PLAIN))
def test_a_whole_run_is_the_same_compiled_and_plain(policy: str, scenario: Scenario) -> None:
    scenario = tabled(scenario.under(policy))
    compiled = play(scenario.jobs, scenario.setting)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gear, "play_out", play_out.py_func)  # type: ignore[attr-defined]
        plain = play(scenario.jobs, scenario.setting)
    assert compiled is not None
    assert plain is not None
    np.testing.assert_array_equal(compiled.finish, plain.finish)
    np.testing.assert_array_equal(compiled.start, plain.start)


JOB = linear_job(0, 0.0, 1.0, 10.0)


def gang_of_formula() -> Job:
    return Job(JobSpec(id="f", submit_time=0.0), Truth(work=1.0, throughput=Amdahl(1.0, 0.5)))


def one_that_could_share_gpus() -> Job:
    return Job(JobSpec(id="s", submit_time=0.0), Truth(work=1.0, beside={"s": Table((0.9,))}))


@pytest.mark.parametrize(
    "scenario",
    [
        Scenario.of(parse_cluster("1x2"), [JOB], placement="first-free"),
        Scenario.of(parse_cluster("1x2:a,1x2:b"), [JOB]),
        Scenario.of(parse_cluster("1x2"), [JOB], policy="max-min"),
        Scenario.of(parse_cluster("1x2"), [JOB], policy="pcs:whole=true"),
        Scenario.of(parse_cluster("1x2"), [JOB], overheads=Overheads(restore=1.0)),
        Scenario.of(parse_cluster("1x2"), [JOB], tick=1.0),
        Scenario.of(parse_cluster("1x2"), [JOB], estimator="declared"),
        Scenario.of(parse_cluster("1x2"), [gang_of_formula()]),
        Scenario.of(parse_cluster("1x2"), [one_that_could_share_gpus()]),
        Scenario.of(parse_cluster("1x2"), [linear_job(0, 0.0, 3.0, 10.0)]),
        Scenario.of(parse_cluster("1x2"), [linear_job(0, 0.0, 1.0, 9.0, failures=(1.0,))]),
        Scenario.of(
            parse_cluster("1x2"), [linear_job(0, 0.0, 1.0, 9.0, preemptible=False)], policy="srtf"
        ),
    ],
)
def test_what_it_cannot_play_it_leaves_to_the_general_engine(scenario: Scenario) -> None:
    assert play(scenario.jobs, scenario.setting) is None


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("case", ["t0e4a51_n600", "tee9e8c_n200"])
def test_reference_cases_are_the_same(shared: Path, case: str, policy: str) -> None:
    from volvelle.workload.readers.pcs import read_speedups

    folder = shared / "golden" / "pcs"
    speedups = read_speedups(folder / "speedup_tables.csv")
    lines = (folder / f"{case}__jobs.csv").read_text().splitlines()[1:]
    jobs = []
    for id, submit, service, _, most, model in (line.split(",") for line in lines):
        spec = JobSpec(
            id=id, submit_time=float(submit), gpus=float(most), min_gpus=1.0, max_gpus=float(most)
        )
        jobs.append(Job(spec, Truth(work=float(service), throughput=speedups[model])))
    if "thresholds" in policy:
        policy = policy.replace("20/100", "2000/500000").replace("=60", "=20000")
    if "round" in policy:
        policy = policy.replace("=30", "=30000").replace("=20", "=20000").replace("=25", "=25000")
    scenario = Scenario.of(parse_cluster("1x64"), jobs, policy=policy)
    played = play(scenario.jobs, scenario.setting)
    assert played is not None
    run: Run = happen_long(scenario)
    same(played.finish, run.outcomes.finish)
    same(played.start, run.outcomes.first_start)


def happen_long(scenario: Scenario) -> Run:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("strategies.END_OF_PATIENCE", 1e9)
        return happen(scenario)
