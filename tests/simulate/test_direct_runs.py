"""Direct runs against the general engine: the same results to the last bit, wherever they serve."""

from dataclasses import fields, replace
from typing import Any, cast

import msgspec
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import Features, Scenario, linear_job, scenarios, state_of
from volvelle.core.keys import Key, keys_of
from volvelle.simulate.direct import DirectRun

from volvelle.core.composition import WrittenComposition
from volvelle.core.events import JobSubmitted
from volvelle.core.policy import OrderPolicy, policies
from volvelle.core.state import JobView
from volvelle.metrics.outcomes import Outcomes, Segments
from volvelle.metrics.recorder import Recorder
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Job, Truth
from volvelle.model.throughput import Amdahl, Linear
from volvelle.policies.orders import Fifo
from volvelle.simulate import run
from volvelle.simulate.run import Setting, Simulation, simulate
from volvelle.workload.workload import Workload

COUNTED = Features(
    failures=False,
    nodes=False,
    regimes=False,
    slots=False,
    checkpoints=False,
    amounts=False,
    sharing=False,
)


@pytest.fixture(autouse=True)
def however_few_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "DIRECT_FROM", 0)


DIRECT = [
    name
    for name, kind in policies.all().items()
    if issubclass(kind, OrderPolicy) and kind().compiled_key() is not None
]


def plain(scenario: Scenario) -> Scenario:
    """The same with jobs that scale linearly and stop at no cost."""
    jobs = []
    for job in scenario.jobs:
        speed = job.truth.throughput.rate(1.0, (*job.spec.gpu_types, "a")[0]) or 1.0
        truth = msgspec.structs.replace(job.truth, throughput=Linear(speed))
        jobs.append(Job(msgspec.structs.replace(job.spec, checkpoint_seconds=0.0), truth))
    return replace(scenario, jobs=tuple(jobs))


def both(workload: Workload, setting: Setting) -> tuple[Simulation, Simulation]:
    """Directly, and by the general engine, which alone leaves a journal."""
    return simulate(workload, setting), simulate(workload, setting, journal=True)


def assert_same(direct: Simulation, general: Simulation) -> None:
    """Every figure of both, to the last bit."""
    assert (direct.events, direct.moments) == (general.events, general.moments)
    for field in fields(Outcomes):
        values = [getattr(run.outcomes, field.name) for run in (direct, general)]
        if isinstance(values[0], np.ndarray):
            np.testing.assert_array_equal(values[0], values[1], err_msg=field.name)
        elif isinstance(values[0], Segments):
            for part in fields(Segments):
                np.testing.assert_array_equal(*(getattr(each, part.name) for each in values))
    assert direct.outcomes.reason == general.outcomes.reason
    assert state_of(direct.scheduler) == state_of(general.scheduler)


@pytest.mark.parametrize(
    "policy",
    [
        *DIRECT,
        "afs-l",
        "afs-l:ties=later",
        "afs-l:round=20",
        "fifo:preemptive=true",
        "srtf:round=20,strict=true",
        "las:service=seconds",
    ],
)
@settings(max_examples=60)
@given(data=st.data())
def test_a_direct_run_gives_what_the_general_engine_gives(policy: str, data: st.DataObject) -> None:
    scenario = plain(data.draw(scenarios(COUNTED)))
    composition = WrittenComposition(
        policy,
        "none",
        data.draw(st.sampled_from(["accept-all", "backlog:factor=1.2"])),
        data.draw(st.sampled_from(["oracle", "noisy", "declared"])),
    )
    setting = replace(
        scenario.setting,
        composition=composition,
        tick=data.draw(st.sampled_from([None, 10.0])),
        until=data.draw(st.sampled_from([None, None, 40.0])),
        tracked=data.draw(st.sampled_from([None, (0, 0)])),
    )
    scheduler = setting.header.scheduler()
    assume(DirectRun.of(scheduler, scenario.jobs, Recorder(scenario.cluster)) is not None)
    assert_same(*both(scenario.workload, setting))


def test_many_jobs_at_once_find_room() -> None:
    """More jobs in the system than the first matrix has rows, more changes than the log has."""
    jobs = [linear_job(n, 0.0, 1.0, 50.0 + n % 7) for n in range(3000)]
    setting = Setting(cluster=parse_cluster("250x8"), composition=WrittenComposition("las:round=1"))
    assert_same(*both(Workload(jobs), setting))


@settings(max_examples=50)
@given(scenarios(COUNTED))
def test_a_key_is_the_same_compiled_and_in_numpy(scenario: Scenario) -> None:
    scheduler = scenario.scheduler()
    for number, job in enumerate(scenario.jobs):
        newcomer = scheduler.newcomer(JobSubmitted(0.0, number, job.spec, job.truth))
        if not isinstance(newcomer, str):
            scheduler.jobs.add(number, newcomer[0])
    jobs = JobView(scheduler.jobs, 17.0)
    for kind in map(policies.get, DIRECT):
        policy = kind()
        assert isinstance(policy, OrderPolicy)
        key = policy.compiled_key()
        assert isinstance(key, Key)
        expected = np.asarray(policy.key(jobs, 17.0))
        for loop in (keys_of, cast(Any, keys_of).py_func):
            np.testing.assert_array_equal(loop(int(key), jobs.matrix, len(jobs), 17.0), expected)


def test_a_subclass_with_a_key_of_its_own_does_not_run_directly() -> None:
    class Lifo(Fifo):
        """The last submission first."""

        def key(self, jobs: JobView, now: float) -> np.ndarray:
            return -jobs.number

    setting = Setting(cluster=parse_cluster("1x1"), composition=WrittenComposition("fifo"))
    scheduler = setting.header.scheduler()
    jobs = [linear_job(0, 0.0, 1.0, 10.0)]
    assert DirectRun.of(scheduler, jobs, Recorder(setting.cluster)) is not None
    scheduler.composition = scheduler.composition._replace(policy=Lifo())
    assert DirectRun.of(scheduler, jobs, Recorder(setting.cluster)) is None


@pytest.mark.parametrize(
    "truth",
    [
        Truth(work=10.0, throughput=Amdahl(1.0, 0.9)),
        Truth(work=10.0, failures=(5.0,)),
        Truth(work=10.0, spread_slowdown=0.1),
    ],
)
def test_jobs_that_are_not_plain_do_not_run_directly(truth: Truth) -> None:
    setting = Setting(cluster=parse_cluster("1x2"), composition=WrittenComposition("fifo"))
    spec = linear_job(0, 0.0, 1.0, 10.0).spec
    assert (
        DirectRun.of(setting.header.scheduler(), [Job(spec, truth)], Recorder(setting.cluster))
        is None
    )
