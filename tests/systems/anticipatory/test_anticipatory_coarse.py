"""Anticipatory scheduling by predictions: roles, GPUs kept, harm control, preemption."""

import numpy as np
import pytest
from hypothesis import given, settings
from test_anticipatory import run, run_together, workloads, workloads_on_nodes
from test_bounds import within_limits

from volvelle.core import machine
from volvelle.core import policy as policy_module
from volvelle.core.composition import WrittenComposition
from volvelle.core.forward.advance import advance
from volvelle.core.groups import over_all
from volvelle.core.policy import Policy
from volvelle.core.state import Rules, State
from volvelle.core.view import View
from volvelle.metrics.baseline import against
from volvelle.model.cluster import Cluster, Node, Pool
from volvelle.model.job import Job
from volvelle.model.overheads import Overheads
from volvelle.model.problems import Problem
from volvelle.simulate.run import Setting, simulate
from volvelle.systems.anticipatory import coarse, kinds, memory
from volvelle.systems.anticipatory.coarse import Anticipatory
from volvelle.testing.scenario import Scenario, happen, linear_job
from volvelle.workload.workload import Workload

QUANTA = "quanta=10/100"


def cluster(*quotas: float) -> Cluster:
    pools = tuple(Pool(name, quota, lends=True) for name, quota in zip("ab", quotas, strict=True))
    return Cluster((Node("node", int(sum(quotas))),), pools)


@settings(max_examples=30, deadline=None)
@given(workloads())
def test_nobody_is_late_where_pools_lend_nothing(workload: tuple[Cluster, list[Job]]) -> None:
    """Levels stay at 1: two lanes alone make nobody later."""
    alone = run("fcfs-pools", *workload)
    shared = run("anticipatory:harm=1e-9,step=1e-9", *workload)
    assert (shared.finish <= alone.finish + 1e-6).all()


@settings(max_examples=4, deadline=None)
@given(workloads_on_nodes(most=12))
def test_nobody_is_late_on_nodes_where_pools_lend_nothing(
    workload: tuple[Cluster, list[Job]],
) -> None:
    alone, _ = run_together("fcfs-pools:locality=true", *workload)
    shared, _ = run_together("anticipatory:locality=true,harm=1e-9,step=1e-9", *workload)
    assert (shared.finish <= alone.finish + 1e-6).all()


def test_what_is_kept_is_a_whole_node() -> None:
    """Two of b's GPUs are kept for its job that waits: guests fill the node that is used already."""
    pools = (Pool("a", 4.0, lends=True), Pool("b", 8.0, lends=True))
    nodes = tuple(Node(f"node-{at}", 4) for at in range(3))
    jobs = [
        linear_job(0, 0.0, 4, 500.0, pool="a"),
        linear_job(1, 0.0, 2, 500.0, pool="b"),
        linear_job(2, 100.0, 2, 9.0, pool="a"),
        linear_job(3, 101.0, 4, 50.0, pool="b"),
    ]
    found, stood = run_together(f"anticipatory:{QUANTA},locality=true", Cluster(nodes, pools), jobs)
    assert found.first_start[3] == 101.0
    assert stood[1] == stood[2]


def test_locality_and_preemption_are_not_combined() -> None:
    with pytest.raises(Problem, match="locality and preempt"):
        run("anticipatory:locality=true,preempt=true", cluster(2, 2), [])


@settings(max_examples=60, deadline=None)
@given(workloads())
def test_who_is_late_is_known_in_hindsight(workload: tuple[Cluster, list[Job]]) -> None:
    """Without knowing how long jobs take; nobody who is not late is counted."""
    alone = run("fcfs-pools", *workload)
    scenario = Scenario.of(
        *workload, policy=f"anticipatory:harm=1,step=1,{QUANTA}", estimator="noisy:error=0.5"
    )
    found = happen(scenario)
    policy = found.scheduler.composition.policy
    assert isinstance(policy, Anticipatory)
    late, known = policy.harmed.sum(axis=1).tolist()
    truly = int((found.outcomes.first_start > alone.first_start + 1e-6).sum())
    unknown = len(workload[1]) - known
    assert 0 <= truly - late <= unknown


@settings(max_examples=20, deadline=None)
@given(workloads())
def test_machine_code_decides_as_its_plain_twin(workload: tuple[Cluster, list[Job]]) -> None:
    policy = f"anticipatory:{QUANTA},preempt=true,bounded=true"
    compiled = run(policy, *workload)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy_module, "over_all", lambda decide: vars(over_all(decide))["py_func"])
        patch.setattr(coarse, "kinds_of", kinds.kinds_of.py_func)
        plain = run(policy, *workload)
    np.testing.assert_array_equal(compiled.first_start, plain.first_start)
    np.testing.assert_array_equal(compiled.finish, plain.finish)


def predicted(policy: Policy) -> np.ndarray:
    """Chances and loads that were predicted last, and where predictions do not hold."""
    assert isinstance(policy, Anticipatory)
    return np.array(policy._known.predictions[:3])


class PlainMachine:
    """The forward loop over arrays, interpreted: nothing has to be compiled."""

    def __init__(self, state: State) -> None:
        self._state = state

    def advance(self, rules: Rules, until: float, moments: int) -> int:
        return advance(self._state, rules, until, moments)


@settings(max_examples=12, deadline=None)
@given(workloads())
def test_kinds_that_are_kept_decide_as_kinds_made_of_all_jobs(
    workload: tuple[Cluster, list[Job]],
) -> None:
    """To the last bit, with predictions seen to hold or not, and where kinds or the past need more room."""
    where, jobs = workload
    composition = WrittenComposition(f"anticipatory:{QUANTA},least_recall=0.9")
    setting = Setting(cluster=where, composition=composition)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "Machine", PlainMachine)
        asked = simulate(Workload(tuple(jobs)), setting, compiled=False)
        for room, most in ((64, 512), (6, 2)):
            patch.setattr(memory, "_ROOM", room)
            patch.setattr(memory, "_KINDS", most)
            kept = simulate(Workload(tuple(jobs)), setting, compiled=True)
            assert kept.scheduler.rules.yields
            np.testing.assert_array_equal(kept.outcomes.first_start, asked.outcomes.first_start)
            np.testing.assert_array_equal(kept.outcomes.finish, asked.outcomes.finish)
            ours, theirs = (predicted(run.scheduler.composition.policy) for run in (kept, asked))
            np.testing.assert_array_equal(ours, theirs)


def test_machine_code_keeps_kinds_as_its_plain_twin_does() -> None:
    """Compiled, as all runs of some thousand jobs are."""
    jobs = [
        linear_job(n, 3.0 * n, 1 + n % 3, 8.0 + 11.0 * (n % 5), pool="ab"[n % 2]) for n in range(60)
    ]
    where = cluster(4, 4)
    setting = Setting(cluster=where, composition=WrittenComposition(f"anticipatory:{QUANTA}"))
    plain, kept = (
        simulate(Workload(tuple(jobs)), setting, compiled=each) for each in (False, True)
    )
    assert kept.scheduler.rules.yields
    np.testing.assert_array_equal(kept.outcomes.first_start, plain.outcomes.first_start)
    np.testing.assert_array_equal(kept.outcomes.finish, plain.outcomes.finish)


@settings(max_examples=40, deadline=None)
@given(workloads())
def test_nobody_is_late_where_it_is_known_how_much_comes(
    workload: tuple[Cluster, list[Job]],
) -> None:
    """Section 6.3: perfect coarse predictions do no harm, nor do borrowers that could be stopped."""
    where, jobs = workload
    names = [pool.name for pool in where.pools]

    def expected(policy: Anticipatory, view: View) -> np.ndarray:
        found = np.zeros((2, len(names)))
        for at, quantum in enumerate((10.0, 100.0)):
            for job in jobs:
                if view.now < job.spec.submit_time <= view.now + quantum:
                    found[at, names.index(job.spec.pool)] += job.spec.gpus
        return found

    alone = run("fcfs-pools", *workload)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Anticipatory, "expected", expected)
        shared = run(f"anticipatory:{QUANTA}", *workload)
    assert (shared.finish <= alone.finish + 1e-6).all()


def test_a_quiet_pool_lends_for_as_long_as_it_is_known_to_be_quiet() -> None:
    jobs = [
        linear_job(0, 0.0, 2, 1000.0, pool="a"),
        linear_job(1, 5.0, 1, 8.0, pool="a"),  # nothing is known of 10 s yet
        linear_job(2, 60.0, 1, 9.0, pool="a"),
        linear_job(3, 61.0, 1, 90.0, pool="a"),  # 100 s are known from 100 on
    ]
    found = run(f"anticipatory:{QUANTA}", cluster(2, 2), jobs)
    assert found.first_start.tolist() == [0.0, 10.0, 60.0, 100.0]


def busy(after: float = 5.0, lasting: float = 30.0) -> list[Job]:
    """Pool b has a job of 2 GPUs every 20 seconds; a would borrow between them."""
    jobs = [linear_job(0, 0.0, 2, 900.0, pool="a")]
    for at in range(1, 30):
        jobs.append(linear_job(len(jobs), 20.0 * at, 2, 2.0, pool="b"))
        jobs.append(linear_job(len(jobs), 20.0 * at + after, 1, lasting, pool="a"))
    return jobs


def test_gpus_are_kept_for_work_that_is_expected_and_why_says_for_whom() -> None:
    workload = cluster(2, 2), busy()
    alone, greedy = run("fcfs-pools", *workload), run("mmfs", *workload)
    said: set[str] = set()
    scenario = Scenario.of(*workload, policy=f"anticipatory:{QUANTA},threshold=0.1")

    def look(world: object) -> None:
        policy = scheduler.composition.policy
        said.update(policy.why(number) for number in range(len(workload[1])))

    scheduler = scenario.scheduler()
    found = happen(scenario, scheduler=scheduler, on_moment=look).outcomes
    assert against(found, alone).slowed < against(greedy, alone).slowed
    assert "GPUs of pool b are kept for work expected within 100s" in said


def test_a_pool_that_may_be_harmed_counts_on_work_from_the_threshold_on() -> None:
    """Where a pool lends all, only certain work would count if there were no threshold."""
    written = f"anticipatory:{QUANTA},harm=1,threshold="
    workload = cluster(2, 2), within_limits(busy(13.0, 9.0))
    alone = run("fcfs-pools", *workload)
    late = [against(run(f"{written}{at}", *workload), alone).slowed for at in (0.1, 1.0)]
    assert late[0] < late[1]


def test_predictions_that_do_not_hold_are_noticed_and_said_in_the_journal() -> None:
    scenario = Scenario.of(
        cluster(2, 2), busy(), policy=f"anticipatory:{QUANTA},threshold=1,least_recall=0.5"
    )
    journal = happen(scenario).journal
    notices = [notice for entry in journal.entries for notice in entry.decision.notices]
    assert any("within 10s do not hold (recall 0.00" in notice for notice in notices)


def test_a_policy_trains_itself_on_what_it_saw_and_goes_by_that() -> None:
    """After the last job rates still say that work comes; who learned from quiet moments knows better."""
    pytest.importorskip("lightgbm")
    scenario = Scenario.of(cluster(2, 2), busy(), policy="anticipatory:quanta=10/20,refit=250")
    found = happen(scenario)
    notices = [notice for entry in found.journal.entries for notice in entry.decision.notices]
    trained = [notice for notice in notices if notice.startswith("trained on")]
    assert trained[0] == "trained on 25 arrivals in 2 pools"
    policy = found.scheduler.composition.policy
    assert isinstance(policy, Anticipatory)
    rates = policy._known.past.recent(600.0, np.array([10.0, 20.0]), policy.recent)[0]
    assert (rates[1] > 0.9).all()
    assert (policy._known.predictions.chances[1] < 0.1).all()


def test_a_pool_that_was_harmed_more_than_it_may_lends_nothing() -> None:
    workload = cluster(2, 2), within_limits(busy(13.0, 9.0))
    policy = f"anticipatory:{QUANTA},step=1,harm="
    alone = run("fcfs-pools", *workload)
    slowed = [against(run(policy + rate, *workload), alone).slowed for rate in ("0.01", "1")]
    assert slowed[0] <= 1 < slowed[1]
    journal = happen(Scenario.of(*workload, policy=policy + "0.2")).journal
    notices = [notice for entry in journal.entries for notice in entry.decision.notices]
    assert any(notice.startswith("pool b lends again") for notice in notices)
    assert any(notice.startswith("pool b lends nothing: ") for notice in notices)


def test_borrowers_that_may_be_stopped_give_way() -> None:
    jobs = [
        linear_job(0, 0.0, 2, 500.0, pool="a"),
        linear_job(1, 150.0, 2, 90.0, pool="a"),
        linear_job(2, 160.0, 2, 10.0, pool="b"),
    ]
    kept = run(f"anticipatory:{QUANTA}", cluster(2, 2), jobs)
    assert kept.first_start.tolist() == [0.0, 150.0, 240.0]
    stopped = run(f"anticipatory:{QUANTA},preempt=true", cluster(2, 2), jobs)
    assert stopped.first_start.tolist() == [0.0, 150.0, 160.0]
    assert stopped.preemptions.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("checkpoint", "restore", "stops"),
    [(8.0, 0.0, 1), (10.0, 0.0, 0), (0.0, 10.0, 0), (5.0, 5.0, 0)],
)
def test_borrowers_that_are_dear_to_stop_are_waited_for(
    checkpoint: float, restore: float, stops: int
) -> None:
    """A stop and the start after it may cost a tenth of the 90 s that the borrower needs."""
    jobs = [
        linear_job(0, 0.0, 2, 500.0, pool="a"),
        linear_job(1, 150.0, 2, 90.0, pool="a"),
        linear_job(2, 160.0, 2, 10.0, pool="b"),
    ]
    written, costs = (
        f"anticipatory:{QUANTA},preempt=true",
        Overheads(restore=restore, checkpoint=checkpoint),
    )
    found = happen(Scenario.of(cluster(2, 2), jobs, policy=written, overheads=costs)).outcomes
    assert found.preemptions.tolist() == [0, stops, 0]


def test_a_model_that_is_not_there_is_an_error() -> None:
    with pytest.raises(Problem, match="no model of arrivals at"):
        run(f"anticipatory:{QUANTA},model=/nowhere/model.json", cluster(2, 2), busy())
