"""Where a simulation ends, what is measured, and when ends are noticed."""

import dataclasses
import signal

import pytest

from volvelle.metrics.outcomes import JobStatus
from volvelle.model.cluster import NodeChange, NodeState, parse_cluster
from volvelle.model.problems import Problem
from volvelle.simulate.interrupt import asked_to_stop
from volvelle.simulate.run import Progress, Simulation, simulate
from volvelle.testing.scenario import Scenario, linear_job
from volvelle.workload.workload import Workload

QUEUE = Scenario.of(parse_cluster("1x1"), [linear_job(n, 0.0, 1.0, 10.0) for n in range(6)])


def simulated(
    *,
    scenario: Scenario = QUEUE,
    until: float | None = None,
    tick: float | None = None,
    tracked: tuple[int, int] | None = None,
) -> Simulation:
    setting = dataclasses.replace(scenario.setting, until=until, tick=tick, tracked=tracked)
    return simulate(scenario.workload, setting)


def test_until_cuts_what_runs_and_leaves_the_rest_waiting() -> None:
    outcomes = simulated(until=25.0).outcomes
    expected = [JobStatus.FINISHED] * 2 + [JobStatus.RUNNING] + [JobStatus.WAITING] * 3
    assert outcomes.status.tolist() == expected
    assert outcomes.gpu_seconds.tolist() == [10.0, 10.0, 5.0, 0.0, 0.0, 0.0]
    assert outcomes.end_time == 25.0


def test_a_run_ends_with_its_tracked_jobs() -> None:
    simulation = simulated(tracked=(1, 3))
    assert simulation.outcomes.end_time == 40.0
    assert simulation.outcomes.tracked.tolist() == [False, True, True, True, False, False]


def test_ends_are_noticed_at_ticks() -> None:
    assert simulated(tick=4.0).outcomes.finish.tolist() == [12.0, 24.0, 36.0, 48.0, 60.0, 72.0]


def test_an_end_on_a_tick_is_noticed_at_once() -> None:
    assert simulated(tick=5.0).outcomes.finish.tolist() == [10.0, 20.0, 30.0, 40.0, 50.0, 60.0]


@pytest.mark.parametrize(
    ("workload", "change", "said"),
    [
        (Workload([], "empty"), {}, "the workload 'empty' has no jobs"),
        (QUEUE.workload, {"tracked": (3, 6)}, "cannot track jobs 3 to 6 of 6"),
        (QUEUE.workload, {"tracked": (3, 2)}, "cannot track jobs 3 to 2 of 6"),
    ],
)
def test_what_does_not_go_together_is_said(
    workload: Workload, change: dict[str, tuple[int, int]], said: str
) -> None:
    with pytest.raises(Problem, match=said):
        simulate(workload, dataclasses.replace(QUEUE.setting, **change))  # type: ignore[arg-type]


def test_nodes_that_change_need_a_placement_that_names_gpus() -> None:
    cluster = dataclasses.replace(
        QUEUE.setting,
        cluster=type(QUEUE.cluster)(
            QUEUE.cluster.nodes, changes=(NodeChange(1.0, "node-0", NodeState.DOWN),)
        ),
    )
    with pytest.raises(Problem, match="placement 'none' does not know which jobs"):
        simulate(QUEUE.workload, cluster)


def test_an_interrupted_run_keeps_what_is_done() -> None:
    def interrupt(progress: Progress) -> None:
        raise KeyboardInterrupt

    jobs = [linear_job(n, float(n), 1.0, 0.5) for n in range(8000)]
    scenario = Scenario.of(parse_cluster("1x1"), jobs)
    simulation = simulate(scenario.workload, scenario.setting, progress=interrupt)
    assert simulation.interrupted
    assert 0 < (simulation.outcomes.status == JobStatus.FINISHED).sum() < 8000


def test_an_interruption_waits_for_the_end_of_the_moment() -> None:
    with asked_to_stop() as stopped:
        assert not stopped()
        signal.raise_signal(signal.SIGINT)
        assert stopped()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
