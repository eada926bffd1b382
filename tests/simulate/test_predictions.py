"""Predictions at submission and at every event: what they know, and what they leave out."""

import math
from dataclasses import replace

import pytest
from strategies import Scenario, linear_job

from volvelle.core.composition import WrittenComposition
from volvelle.metrics import per_job
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Job
from volvelle.model.overheads import Overheads
from volvelle.simulate.run import Simulation, simulate

LONG = linear_job(0, 0.0, 1.0, 100.0)
SHORT = linear_job(1, 10.0, 1.0, 30.0)


def predicted(
    *jobs: Job,
    policy: str,
    cluster: str = "1x1",
    overheads: Overheads | None = None,
    placement: str = "none",
    refresh: bool = False,
) -> Simulation:
    scenario = Scenario.of(
        parse_cluster(cluster), jobs, policy=policy, overheads=overheads, placement=placement
    )
    setting = replace(scenario.setting, predict=True, refresh=refresh)
    return simulate(scenario.workload, setting)


def finishes(simulation: Simulation) -> list[float]:
    assert simulation.outcomes.predicted_finish is not None
    return [*simulation.outcomes.predicted_finish.tolist()]


def test_without_being_asked_for_there_are_none() -> None:
    scenario = Scenario.of(parse_cluster("1x1"), [LONG])
    assert simulate(scenario.workload, scenario.setting).outcomes.predicted_finish is None


def test_a_prediction_knows_nobody_who_comes_later() -> None:
    simulation = predicted(LONG, SHORT, policy="srtf")
    assert finishes(simulation) == [100.0, 40.0]
    assert simulation.outcomes.finish.tolist() == [130.0, 40.0]
    assert per_job.signed_prediction_error(simulation.outcomes).tolist() == [30.0, 0.0]


def test_of_one_moment_each_knows_those_before_it() -> None:
    jobs = [linear_job(n, 5.0, 1.0, seconds) for n, seconds in enumerate([30.0, 20.0, 10.0])]
    assert finishes(predicted(*jobs, policy="srtf")) == [35.0, 25.0, 15.0]


def test_a_job_that_can_never_run_has_no_prediction() -> None:
    wide = linear_job(1, 10.0, 2.0, 30.0)
    first, second = finishes(predicted(LONG, wide, policy="fifo"))
    assert first == 100.0
    assert math.isnan(second)


@pytest.mark.parametrize("placement", ["none", "first-free"])
def test_preemption_and_restore_are_part_of_the_play_out(placement: str) -> None:
    """The short job waits 3 s for the checkpoint and 1 s for its start."""
    costs = Overheads(start=1.0, restore=5.0, checkpoint=3.0)
    again = linear_job(2, 50.0, 1.0, 1000.0)
    simulation = predicted(LONG, SHORT, again, policy="srtf", overheads=costs, placement=placement)
    assert finishes(simulation)[:2] == [101.0, 44.0]
    # 9 s of 100 done by then; 91 s from 44 s + 5 s on, and behind it the third, from 140 s + 1 s
    assert simulation.outcomes.finish.tolist() == [140.0, 44.0, 1141.0]
    assert finishes(simulation)[2] == 1141.0


def test_a_checkpoint_that_is_being_written_holds_its_gpus() -> None:
    """The third comes while the first still writes its checkpoint, which the second waits for."""
    costs = Overheads(checkpoint=8.0)
    third = linear_job(2, 12.0, 1.0, 5.0)
    simulation = predicted(LONG, SHORT, third, policy="srtf", overheads=costs)
    assert finishes(simulation)[2] == simulation.outcomes.finish[2] == 23.0


def test_jobs_at_the_door_are_part_of_it() -> None:
    scenario = Scenario.of(parse_cluster("1x1"), [LONG, SHORT, linear_job(2, 20.0, 1.0, 7.0)])
    one_at_a_time = WrittenComposition("srtf", admission="backlog:factor=1")
    setting = replace(scenario.setting, predict=True, composition=one_at_a_time)
    simulation = simulate(scenario.workload, setting)
    assert finishes(simulation) == simulation.outcomes.finish.tolist() == [100.0, 130.0, 137.0]


def test_predictions_are_refreshed_at_every_event() -> None:
    simulation = predicted(LONG, SHORT, policy="srtf", refresh=True)
    seen = [(each.time, each.forecast.finish) for each in simulation.refreshed]
    assert seen == [
        (0.0, {0: 100.0}),
        (10.0, {0: 130.0, 1: 40.0}),
        (40.0, {0: 130.0}),
        (130.0, {}),
    ]
