"""Machine code against the same loops interpreted, and orders that are kept against asking for them."""

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from systems_here import needs, of

from volvelle.core import columns
from volvelle.core.composition import WrittenComposition
from volvelle.core.order_policy import OrderPolicy, kept_order
from volvelle.core.orders import interpreted_keys, rounded
from volvelle.core.policy import Allocation, Policy, policies
from volvelle.core.scheduler import Scheduler
from volvelle.core.state import ASKED, KERNEL, Jobs, State
from volvelle.core.view import JobView, View
from volvelle.model.cluster import parse_cluster
from volvelle.simulate.run import Setting, simulate
from volvelle.testing.scenario import Run, Scenario, happen, linear_job, tabled
from volvelle.testing.strategies import EVERYTHING, Features, scenarios
from volvelle.workload.workload import Workload

ORDERS = [
    name
    for name, kind in policies.all().items()
    if issubclass(kind, OrderPolicy) and kept_order(kind()) is not None
]
VARIANTS = [
    "fifo:preemptive=true",
    "fifo:elastic=false",
    "fifo:round=30",
    "sjf:preemptive=true,strict=true",
    "srtf:round=20",
    "srtf:elastic=false",
    "srsf:preemptive=false",
    "las:round=25,service=seconds,strict=true",
]
COUNTED = Features(slots=False, nodes=False)
TABULATED = Features(
    regimes=False,
    failures=False,
    amounts=False,
    sharing=False,
    dependencies=True,
    limits=True,
)


@pytest.mark.parametrize("policy", [*ORDERS, *VARIANTS, "max-min", of("tiresias", "tiresias")])
@settings(max_examples=10)
@given(scenario=scenarios(EVERYTHING))
def test_a_compiled_run_is_the_interpreted_one_to_the_last_bit(
    policy: str, scenario: Scenario
) -> None:
    scenario = scenario.under(policy)
    assert happen(scenario, compiled=True).journal_bytes == happen(scenario).journal_bytes


@pytest.mark.parametrize(
    "policy",
    [
        of("afs", "afs-l"),
        of("afs", "afs-l:ties=later,round=30"),
        "easy",
        "easy:round=30",
        "conservative",
        of("anticipatory", "fcfs-pools"),
        of("anticipatory", "ssf:strict=false"),
        of("anticipatory", "gssf:round=30"),
        of("anticipatory", "mmfs"),
        of("anticipatory", "hived-nonpreemptive"),
        of("anticipatory", "anticipatory:quanta=10/100"),
        of("pcs", "pcs"),
        of("pcs", "pcs:thresholds=20/100,disparity=1,efficiency=0.8"),
        of("pcs", "pcs:thresholds=60,weights=9/1,efficiency=0.9,delta=0.1"),
    ],
)
@settings(max_examples=10)
@given(scenario=scenarios(TABULATED))
def test_a_policy_decides_the_same_as_machine_code(policy: str, scenario: Scenario) -> None:
    scenario = tabled(scenario.under(policy))
    scenario = scenario.counted() if policy.startswith("pcs") else scenario
    compiled = happen(scenario, compiled=True)
    assert compiled.scheduler.rules.decides == KERNEL
    assert compiled.journal_bytes == happen(scenario).journal_bytes
    if policy.startswith("pcs"):
        with patch.object(policies.get("pcs"), "kernel", Policy.kernel):  # by all jobs at once
            asked = happen(scenario)
        assert asked.scheduler.rules.decides == ASKED
        assert compiled.journal_bytes == asked.journal_bytes


@pytest.mark.parametrize("policy", [*ORDERS, *VARIANTS])
@settings(max_examples=10)
@given(scenario=scenarios(EVERYTHING), counted=st.booleans())
def test_keeping_an_order_decides_what_serving_everybody_anew_does(
    policy: str, scenario: Scenario, counted: bool
) -> None:
    scenario = scenario.under(policy)
    scenario = scenario.counted() if counted else scenario
    assert _asked(scenario).journal_bytes == happen(scenario).journal_bytes


def _asked(scenario: Scenario) -> Run:
    """The same under a policy that has to be asked for an allocation of all jobs."""
    composition = scenario.setting.composition.build()
    kind = type(composition.policy)

    class Asked(kind):  # type: ignore[misc, valid-type]
        def allocate(self, view: View) -> Allocation:
            allocation: Allocation = super().allocate(view)
            return allocation

    policy = Asked(**composition.policy.model_dump())
    assert kept_order(policy) is None
    made = scenario.scheduler()
    scheduler = Scheduler(
        scenario.cluster,
        composition._replace(policy=policy),
        overheads=made.overheads,
        seed=made.seed,
    )
    return happen(scenario, scheduler=scheduler)


def test_many_jobs_at_once_find_room() -> None:
    """More jobs in the system than the first tables have rows, more changes than the log has."""
    jobs = [linear_job(n, 0.0, 1.0, 50.0 + n % 7) for n in range(3000)]
    setting = Setting(cluster=parse_cluster("250x8"), composition=WrittenComposition("las:round=1"))
    compiled, interpreted = (
        simulate(Workload(jobs), setting, compiled=each).outcomes for each in (True, False)
    )
    np.testing.assert_array_equal(compiled.finish, interpreted.finish)
    np.testing.assert_array_equal(compiled.preemptions, interpreted.preemptions)


@needs("allox")
def test_columns_of_jobs_are_in_one_order_interpreted_and_compiled() -> None:
    """Of loops that Python calls with them one object file serves both; allox has columns of its own."""
    jobs = [linear_job(n, 0.0, 1.0, 50.0) for n in range(3)]
    scenario = Scenario.of(parse_cluster("1x2"), jobs, policy="allox")
    for compiled, rows in ((False, [2, 0, 1]), (True, np.array([2, 0, 1]))):
        state = happen(scenario, compiled=compiled).scheduler.state
        view = JobView(state, 0.0, rows)
        own = view.own
        own[:] = 7.0
        assert view.matrix.flags.c_contiguous
        assert np.shares_memory(own, view.matrix), "written before all columns were read"
        view.keep_own()
        assert len(own) and (JobView(state, 0.0, rows).matrix_of([2])[-len(own) :] == 7.0).all()


@settings(max_examples=20)
@given(scenarios(COUNTED))
def test_a_key_is_the_same_for_one_job_and_for_all(scenario: Scenario) -> None:
    for policy in map(policies.make, ORDERS):
        assert isinstance(policy, OrderPolicy)

        def check(world: object, policy: OrderPolicy = policy) -> None:
            scheduler = world.scheduler  # type: ignore[attr-defined]
            jobs: JobView = scheduler.view().jobs
            key, rows = kept_order(policy), list(scheduler.known.rows.values())
            assert key is not None
            keys = [0.0] * len(rows)
            interpreted_keys(key)(scheduler.state.jobs, rows, 0, len(rows), jobs.now, keys)
            expected = np.asarray(policy.key(jobs, jobs.now), dtype=np.float64)
            by_row = dict(zip(map(int, jobs.rows), expected.tolist(), strict=True))
            assert keys == [rounded(by_row[row]) for row in rows]

        happen(replace(scenario, jobs=scenario.jobs[:4]), on_moment=check)


def test_columns_for_compiled_policies_are_those_of_jobs() -> None:
    names = {name.upper(): place for place, name in enumerate(Jobs.float_columns)}
    told = {name: value for name, value in vars(columns).items() if name.isupper()}
    assert told.pop("COUNT") == len(JobView(State(), 0.0).matrix)
    assert told.items() <= names.items()
