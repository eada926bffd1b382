"""Told times are judged in each class of jobs that can be told apart at submission."""

from dataclasses import replace

import numpy as np
import pytest

from volvelle.metrics.outcomes import Outcomes
from volvelle.metrics.told import Told, told_sentence
from volvelle.model.cluster import parse_cluster
from volvelle.report.told import told_side_by_side
from volvelle.simulate.run import simulate
from volvelle.testing.scenario import Scenario, linear_job


def outcomes() -> Outcomes:
    """Of 500 jobs that run at once for 10 s, the first 250 keep a P90 of 20 s, later ones none of 5 s."""
    jobs = [linear_job(n, 20.0 * n, 1.0 if n < 250 else 2.0, 10.0) for n in range(500)]
    scenario = Scenario.of(parse_cluster("1x2"), jobs, policy="fifo")
    found = simulate(scenario.workload, scenario.setting).outcomes
    p90 = found.submit_time + np.where(np.arange(500) < 250, 20.0, 5.0)
    p50 = found.submit_time + np.where(np.arange(500) < 250, 10.0, 5.0)
    predicted = found.submit_time + 10.0
    return replace(found, predicted_finish=predicted, predicted_p50=p50, predicted_p90=p90)


def told_by(found: Outcomes) -> Told:
    told = Told.of(found)
    assert told is not None
    return told


def test_classes_say_where_told_times_hold_and_where_not() -> None:
    classes = {each.name: each for each in told_by(outcomes()).classes}
    assert (classes["all jobs"].jobs, classes["all jobs"].p90) == (500, 50.0)
    assert classes["GPUs: to 1"][1:] == (250, 50.0, 100.0)
    assert classes["GPUs: to 2"][1:] == (250, 0.0, 0.0)
    assert classes["jobs in the system: to 4"].jobs == 500
    assert classes["seconds predicted: to 300"].p90 == 50.0
    assert sum(each.jobs for each in classes.values()) == 5 * 500


def test_a_sentence_names_the_class_that_is_furthest_off_and_how_sharp_p90_is() -> None:
    found = outcomes()
    assert told_by(found).sharpness == pytest.approx(1.25)
    assert told_sentence(told_by(found)) == (
        "Of 500 jobs 50 % finished by their P90 (90 % should), 25 % by their P50 (50 % should): "
        "told times were too early for most. P90 is 1.25 "
        "times as far away as the time predicted (median). Of 5 groups, of jobs alike at submission in GPUs, "
        "predicted time or jobs before them, 0 have 85 to 95 % that finished by their P90; furthest off: "
        "GPUs up to 2, 0 %."
    )
    assert told_sentence(Told.of(replace(found, predicted_p90=None))) == ""


def test_a_comparison_has_a_row_for_each_run_that_told_times() -> None:
    found = outcomes()
    quiet = replace(found, predicted_p90=None)
    assert told_side_by_side({"fifo": quiet}) == []
    [table] = told_side_by_side({"fifo": quiet, "srsf": found})
    assert table.rows == (("srsf", 25.0, 50.0, "0 of 5", "GPUs: to 2 (0 %)", 1.25),)
