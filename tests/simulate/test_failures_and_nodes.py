"""Crashes, lost nodes, draining and joining, on examples worked out by hand."""

import itertools
from pathlib import Path
from typing import ClassVar

import msgspec
import numpy as np
import pytest

from volvelle.core.decision import Decision
from volvelle.core.events import BatchSizeChanged, Event, JobFailed
from volvelle.core.fork import Fork
from volvelle.core.log import EachMoment
from volvelle.core.policy import Allocation, Policy
from volvelle.core.scheduler import Scheduler
from volvelle.core.view import View
from volvelle.metrics.outcomes import JobStatus
from volvelle.model.cluster import (
    Cluster,
    FailureProcess,
    NodeChange,
    NodeState,
    parse_cluster,
    read_cluster,
)
from volvelle.model.job import Job, JobSpec, Regime, Truth
from volvelle.model.overheads import Overheads
from volvelle.model.problems import Problem
from volvelle.simulate.nodes import node_changes
from volvelle.simulate.world import World
from volvelle.testing.scenario import Run, Scenario, happen, linear_job

UP, DRAINING, DOWN = NodeState.UP, NodeState.DRAINING, NodeState.DOWN


def failures_of(run: Run) -> list[JobFailed]:
    return [e for entry in run.journal.entries for e in entry.events if isinstance(e, JobFailed)]


def changing(nodes: str, *changes: tuple[float, str, NodeState]) -> Cluster:
    cluster = parse_cluster(nodes)
    return msgspec.structs.replace(cluster, changes=tuple(NodeChange(*c) for c in changes))


def test_a_crash_throws_a_job_back_to_the_last_checkpoint_it_wrote() -> None:
    """Two GPUs; checkpoints at 30 s and 60 s; the crash at 150 units is at 75 s: 15 s are lost."""
    job = linear_job(0, 0.0, 2.0, 100.0, failures=(150.0,))
    run = happen(
        Scenario.of(parse_cluster("1x2"), [job], overheads=Overheads(checkpoint_every=30.0))
    )
    (failure,) = failures_of(run)
    assert (failure.time, failure.work_done, failure.lost_gpu_seconds) == (75.0, 120.0, 30.0)
    assert run.outcomes.finish.tolist() == [115.0]
    assert run.outcomes.lost_gpu_seconds.tolist() == [30.0]
    assert run.outcomes.preemptions.tolist() == [0]
    assert run.outcomes.restarts.tolist() == [1]


def test_without_checkpoints_of_its_own_a_job_begins_anew() -> None:
    job = linear_job(0, 0.0, 1.0, 100.0, failures=(70.0,))
    run = happen(Scenario.of(parse_cluster("1x1"), [job]))
    assert run.outcomes.finish.tolist() == [170.0]


def test_checkpoints_keep_their_cadence_over_a_change_of_batch_size() -> None:
    """A checkpoint every 60 s: at 60 s and, though the batch size changes at 70 s, at 120 s."""
    truth = Truth(work=200.0, regimes=(Regime(0.0, 32), Regime(70.0, 64)), failures=(125.0,))
    job = Job(JobSpec(id="j", submit_time=0.0), truth)
    run = happen(
        Scenario.of(parse_cluster("1x1"), [job], overheads=Overheads(checkpoint_every=60.0))
    )
    assert [failure.work_done for failure in failures_of(run)] == [120.0]


def test_a_job_that_fails_too_often_is_given_up() -> None:
    job = linear_job(0, 0.0, 1.0, 10.0, failures=(1.0, 2.0, 3.0), max_retries=2)
    run = happen(Scenario.of(parse_cluster("1x1"), [job]))
    assert run.outcomes.status.tolist() == [JobStatus.FAILED]
    assert run.outcomes.reason == ["failed 3 times: the job crashed"]
    assert run.world.now == 6.0


def test_a_lost_node_takes_its_jobs_down_and_they_go_on_elsewhere() -> None:
    jobs = [linear_job(0, 0.0, 2.0, 100.0), linear_job(1, 0.0, 2.0, 100.0)]
    cluster = changing("3x2", (40.0, "node-0", DOWN))
    run = happen(Scenario.of(cluster, jobs, placement="first-free"))
    (failure,) = failures_of(run)
    assert (failure.time, failure.number, failure.reason) == (40.0, 0, "node node-0 went down")
    assert run.outcomes.finish.tolist() == [140.0, 100.0]
    assert run.outcomes.segments.slots.tolist() == [0, 1, 2, 3, 4, 5]


def test_a_draining_node_keeps_what_runs_and_takes_no_more() -> None:
    jobs = [linear_job(0, 0.0, 1.0, 100.0), linear_job(1, 50.0, 1.0, 10.0)]
    cluster = changing("1x2", (20.0, "node-0", DRAINING), (150.0, "node-0", UP))
    run = happen(Scenario.of(cluster, jobs, placement="first-free"))
    assert run.outcomes.finish.tolist() == [100.0, 160.0]


def test_a_node_that_joins_takes_jobs_from_then_on() -> None:
    jobs = [linear_job(0, 0.0, 2.0, 10.0), linear_job(1, 0.0, 2.0, 10.0)]
    cluster = changing("2x2", (4.0, "node-1", UP))
    run = happen(Scenario.of(cluster, jobs, placement="first-free"))
    assert run.outcomes.first_start.tolist() == [0.0, 4.0]
    assert run.outcomes.capacity.values.tolist() == [2.0, 4.0]


def test_a_job_on_two_lost_nodes_fails_once() -> None:
    cluster = changing(
        "2x2",
        (5.0, "node-0", DOWN),
        (5.0, "node-1", DOWN),
        (9.0, "node-0", UP),
        (9.0, "node-1", UP),
    )
    run = happen(Scenario.of(cluster, [linear_job(0, 0.0, 4.0, 10.0)], placement="first-free"))
    assert len(failures_of(run)) == 1
    assert run.outcomes.finish.tolist() == [19.0]


@pytest.mark.parametrize("tick", [None, 7.0])
def test_batch_sizes_change_at_their_exact_times_and_are_announced(tick: float | None) -> None:
    """10 units at 1/s, 20 at 2/s, 30 at 0.5/s: changes at 10 s and 20 s, the end at 80 s.

    Only the end waits for a tick.
    """
    regimes = (Regime(0.0, 32), Regime(10.0, 64, 2.0), Regime(30.0, 128, 0.5))
    job = Job(JobSpec(id="j", submit_time=0.0), Truth(work=60.0, regimes=regimes))
    run = happen(Scenario.of(parse_cluster("1x1"), [job], tick=tick))
    announced = [
        (event.time, event.batch_size, event.work_done)
        for entry in run.journal.entries
        for event in entry.events
        if isinstance(event, BatchSizeChanged)
    ]
    assert announced == [(10.0, 64, 10.0), (20.0, 128, 30.0)]
    assert run.outcomes.finish.tolist() == [80.0 if tick is None else 84.0]


def test_a_forecast_does_not_repeat_a_crash_that_has_been() -> None:
    """Back at 30 units when it crashes at 50 s, the job has 70 s to go."""
    job = linear_job(0, 0.0, 1.0, 100.0, failures=(50.0,))
    foreseen: list[float] = []

    def look(world: World) -> None:
        if world.now == 50.0:
            foreseen.append(Fork(world.scheduler).until().finish[0])

    scenario = Scenario.of(parse_cluster("1x1"), [job], overheads=Overheads(checkpoint_every=30.0))
    run = happen(scenario, on_moment=look)
    assert foreseen == run.outcomes.finish.tolist() == [120.0]


@pytest.mark.parametrize(("foreseen", "told"), [(True, 110.0), (False, 20.0)])
def test_a_forecast_knows_of_a_node_that_goes_down_only_where_that_is_foreseen(
    foreseen: bool, told: float
) -> None:
    job = linear_job(0, 0.0, 1.0, 20.0)
    cluster = changing("1x1", (10.0, "node-0", DOWN), (90.0, "node-0", UP))
    changes = tuple(msgspec.structs.replace(c, foreseen=foreseen) for c in cluster.changes)
    seen: list[float] = []

    def look(world: World) -> None:
        if world.now == 0.0:
            seen.append(Fork(world.scheduler).until().finish[0])

    scenario = Scenario.of(
        msgspec.structs.replace(cluster, changes=changes), [job], placement="consolidated"
    )
    run = happen(scenario, on_moment=look)
    assert run.outcomes.finish.tolist() == [110.0], "it begins again when the node is back"
    assert seen == [told]


def test_a_run_in_which_nothing_more_can_happen_ends_though_nodes_go_on_failing() -> None:
    cluster = msgspec.structs.replace(
        parse_cluster("2x1"), failures=FailureProcess(mtbf_seconds=100.0, mttr_seconds=10.0)
    )
    jobs = [linear_job(0, 0.0, 1.0, 10.0), linear_job(1, 0.0, 1.0, 10.0)]
    scenario = Scenario.of(cluster, jobs, placement="first-free", policy="fifo-skip")
    waiting = happen(scenario, scheduler=under(NeverStarts(), scenario))
    assert waiting.outcomes.status.tolist() == [JobStatus.WAITING] * 2


def test_a_run_ends_though_its_policy_asks_again_and_again_to_no_effect() -> None:
    scenario = Scenario.of(parse_cluster("1x1"), [linear_job(0, 0.0, 1.0, 10.0)])
    assert happen(scenario, scheduler=under(Restless(), scenario)).outcomes.status.tolist() == [
        JobStatus.WAITING
    ]


class NeverStarts(Policy):
    """Lets everybody wait for ever."""

    name: ClassVar[str] = "never"

    def allocate(self, view: View) -> Allocation:
        return Allocation(np.zeros(len(view.jobs)))


class Restless(NeverStarts):
    """Wants to be asked every second, and never starts anything."""

    def next_wake(self, view: View) -> float | None:
        return view.now + 1.0


def under(policy: Policy, scenario: Scenario) -> Scheduler:
    composition = scenario.setting.composition.build()._replace(policy=policy)
    return Scheduler(scenario.cluster, composition)


def test_a_repair_does_not_bring_back_a_node_that_the_plan_has_down() -> None:
    cluster = msgspec.structs.replace(
        changing("3x1", (500.0, "node-1", DOWN), (900.0, "node-1", UP)),
        failures=FailureProcess(mtbf_seconds=40.0, mttr_seconds=20.0),
    )
    states = {node.name: UP for node in cluster.nodes}
    for change in itertools.takewhile(lambda change: change.time < 2000, node_changes(cluster, 3)):
        assert change.state is not states[change.name], "a change changes something"
        states[change.name] = change.state
        if 500.0 <= change.time < 900.0:
            assert states["node-1"] is DOWN


def test_a_trace_says_when_nodes_are_down(tmp_path: Path) -> None:
    (tmp_path / "down.csv").write_text("node,down,up\nn-1,10,1m\nn-0,20,30\n")
    file = tmp_path / "cluster.toml"
    file.write_text('[[nodes]]\nname="n"\ncount=2\ngpus=1\n[failures]\ntrace="down.csv"\n')
    cluster = read_cluster(file)
    assert [(each.time, each.node, each.state) for each in cluster.changes] == [
        (10.0, "n-1", DOWN),
        (20.0, "n-0", DOWN),
        (30.0, "n-0", UP),
        (60.0, "n-1", UP),
    ]
    assert not any(each.foreseen for each in cluster.changes), "a failure is no maintenance"
    (tmp_path / "down.csv").write_text("node,down,up\nn-1,60,10\n")
    with pytest.raises(Problem, match="node 'n-1' is down from 60 to 10 s"):
        read_cluster(file)


def test_weibull_times_have_the_mean_that_is_said_and_more_short_ones() -> None:
    def lasted(shape: float) -> list[float]:
        failures = FailureProcess(mtbf_seconds=1000.0, mttr_seconds=1e-6, shape=shape)
        changes = node_changes(msgspec.structs.replace(parse_cluster("1x1"), failures=failures), 1)
        times = [change.time for change in itertools.islice(changes, 20_000)]
        return list(np.diff([0.0, *times[::2]]))

    early, even = lasted(0.5), lasted(1.0)
    assert np.mean(early) == pytest.approx(1000.0, rel=0.05)
    assert np.mean(np.array(early) < 100.0) > 3 * np.mean(np.array(even) < 100.0)


class Breaking(NeverStarts):
    """Fails at 2 s."""

    def allocate(self, view: View) -> Allocation:
        if view.now == 2.0:
            raise LookupError("the third decision")
        return super().allocate(view)


def test_an_error_of_a_policy_is_what_is_raised_and_what_went_before_is_kept() -> None:
    seen: list[float] = []

    class Watching(EachMoment):
        def record(self, time: float, events: tuple[Event, ...], decision: Decision) -> None:
            seen.append(time)

    jobs = [linear_job(number, float(number), 1.0, 5.0) for number in range(4)]
    scenario = Scenario.of(parse_cluster("1x1"), jobs)
    with pytest.raises(Problem, match=r"LookupError: .*the third decision"):
        happen(scenario, Watching(), scheduler=under(Breaking(), scenario))
    assert seen == [0.0, 1.0]
