"""Summaries, the catalogue of metrics and objectives written ``name:measure``."""

import csv
import json
import pickle
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured_runs import Ran, outcomes_of, runs

from volvelle.metrics import catalogue, measures
from volvelle.metrics.catalogue import Metric, measure, metrics, read_objective
from volvelle.metrics.outcomes import JobStatus, Outcomes
from volvelle.metrics.per_job import jct
from volvelle.metrics.summary import figure, summarise
from volvelle.model.problems import Problem

# completion times 10, 20, 30, 40 and, not tracked, 1000
OUTCOMES = outcomes_of(
    [
        Ran(0, [(0, 10, 8)], gpus=8, pool="a", user="x"),
        Ran(0, [(10, 20, 8)], gpus=8, pool="a", user="y"),
        Ran(0, [(20, 30, 2)], gpus=2, pool="b", user="x"),
        Ran(0, [(30, 40, 10)], gpus=10, pool="b", user="x"),
        Ran(0, [(960, 1000, 1)], tracked=False),
        Ran(0, status=JobStatus.REJECTED, gpus=64, pool="b"),
    ],
    capacity=10,
)


def test_a_summary_measures_the_tracked_jobs() -> None:
    summary = summarise(OUTCOMES)
    jct = summary.total.figures["jct"]
    assert (summary.submitted, summary.total.jobs, jct.count) == (6, 5, 4)
    assert summary.total.statuses["finished"] == 4
    assert summary.total.statuses["rejected"] == 1
    # linear between ranks: 30 + 0.7 * 10 and 30 + 0.97 * 10
    assert jct.values == pytest.approx({"mean": 25, "p50": 25, "p90": 37, "p99": 39.7, "max": 40})
    assert summary.run["makespan"] == 40


def test_groups_by_pool_user_class_and_width() -> None:
    groups = summarise(OUTCOMES).groups
    assert list(groups) == ["pool", "user", "class", "width"]
    assert {
        name: group.figures["jct"].values["mean"] for name, group in groups["pool"].items()
    } == {
        "a": 15,
        "b": 35,
    }
    assert groups["pool"]["b"].jobs == 3
    assert list(groups["width"]) == ["2", "8", "10", "64"]
    assert groups["user"]["x"].figures["jct"].count == 3
    assert list(groups["class"]) == ["best-effort"]


def test_a_run_is_summarised_once() -> None:
    assert summarise(OUTCOMES) is summarise(OUTCOMES)
    again = pickle.loads(pickle.dumps(OUTCOMES))
    assert not again.derived
    assert summarise(again).as_json() == summarise(OUTCOMES).as_json()


def test_json_has_every_metric_and_no_nan() -> None:
    document = summarise(OUTCOMES).as_json()
    text = json.dumps(document, allow_nan=False)
    assert json.loads(text) == document
    assert list(document["metrics"]) == list(metrics.all())
    assert document["metrics"]["rho"] == {
        "unit": "1", "count": 0, "mean": None, "p50": None, "p90": None, "p99": None, "max": None,
    }  # fmt: skip
    assert document["metrics"]["makespan"] == {"unit": "s", "value": 40.0}
    assert document["by"]["pool"]["a"]["metrics"]["jct"]["mean"] == 15


def test_objectives_are_written_name_and_measure() -> None:
    assert measure(OUTCOMES, "jct:avg") == measure(OUTCOMES, "jct") == 25
    assert measure(OUTCOMES, "jct:p90") == pytest.approx(37)
    assert measure(OUTCOMES, "jct:max") == 40
    assert measure(OUTCOMES, "jct:total") == 100
    assert measure(OUTCOMES, "makespan") == 40
    assert measure(OUTCOMES, "utilisation") == pytest.approx(100 * 320 / 10_000)
    assert measure(OUTCOMES, "busy_gpus:max") == 10
    assert measure(OUTCOMES, "queue_length:max") == 4
    assert np.isnan(measure(OUTCOMES, "deadline_miss"))
    assert str(read_objective("jct:median")) == "jct:p50"
    assert str(read_objective("makespan")) == "makespan"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("jtc:p99", r"unknown metric 'jtc' \(did you mean 'jct'\?\). See: volvelle list metrics"),
        ("jct:p999", r"unknown measure 'p999' \(did you mean 'p99'\?\)"),
        ("jct:", "unknown measure ''"),
        ("makespan:p99", "one number for the run and has no measure 'p99'. Write makespan"),
    ],
)
def test_an_unknown_objective_says_what_is_known(text: str, says: str) -> None:
    with pytest.raises(Problem, match=says):
        read_objective(text)


def test_a_run_without_jobs_can_be_summarised() -> None:
    nothing = outcomes_of([], end=0)
    summary = summarise(nothing)
    assert summary.total.jobs == 0
    assert summary.groups == {"pool": {}, "user": {}, "class": {}, "width": {}}
    json.dumps(summary.as_json(), allow_nan=False)


@given(runs())
def test_measures_grow_with_the_percentile(outcomes: Outcomes) -> None:
    for name, metric in metrics.all().items():
        if metric.kind == "run":
            continue
        ladder = [measure(outcomes, f"{name}:{m}") for m in ("min", "p50", "p90", "p99", "max")]
        assert all(np.isnan(low) or low <= high for low, high in pairwise(ladder))


@given(runs())
def test_groups_hold_every_tracked_job_once(outcomes: Outcomes) -> None:
    summary = summarise(outcomes)
    for groups in summary.groups.values():
        assert sum(group.jobs for group in groups.values()) == summary.total.jobs


@given(runs())
def test_the_summary_has_the_figures_that_objectives_ask_for(outcomes: Outcomes) -> None:
    for name, metric in metrics.all().items():
        texts = [name] if metric.kind == "run" else [f"{name}:{m}" for m in measures.STANDARD]
        for objective in map(read_objective, [*texts, "jct:p75"]):
            np.testing.assert_equal(figure(outcomes, objective), objective.of(outcomes))


@given(st.lists(st.lists(st.floats(-1e6, 1e9) | st.sampled_from([0.0, 1.0]), max_size=40)))
def test_groups_are_measured_as_each_alone(groups: list[list[float]]) -> None:
    bounds = np.cumsum([0, *map(len, groups)])
    together = measures.of_groups(np.array([v for g in groups for v in g], dtype=float), bounds)
    alone = [measures.of_jobs(np.array(g, dtype=float), *measures.STANDARD) for g in groups]
    np.testing.assert_array_equal(list(zip(*together.values(), strict=True)), alone or [])


@pytest.mark.parametrize("case", ["themis1_n100", "t0e4a51_n600", "tee9e8c_n200"])
@pytest.mark.parametrize("policy", ["FIFO", "SRSF", "PCS_jct"])
def test_aggregates_of_pcs(shared: Path, case: str, policy: str) -> None:
    folder = shared / "golden" / "pcs"
    with (folder / f"{case}__{policy}.csv").open(newline="") as file:
        jobs = list(csv.DictReader(file))
    with (folder / "summary.csv").open(newline="") as file:
        lines = {(line["case"], line["policy"]): line for line in csv.DictReader(file)}
    expected = lines[case, policy]
    jct = np.array([float(job["jct_s"]) for job in jobs])
    ours = measures.of_jobs(jct, "mean", "p50", "p90", "p99")
    theirs = [float(expected[f"{m}_jct"]) for m in ("avg", "p50", "p90", "p99")]
    assert ours == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ({"unit": "minutes"}, "'odd': unit is 'minutes'. Write one of 's', '%',"),
        ({"kind": "jobs"}, "'odd': kind is 'jobs'"),
        ({"kind": "run"}, r"of kind 'run' gave ndarray of shape \(6,\). Return a number"),
        ({"kind": "time"}, "of kind 'time' gave ndarray"),
    ],
)
def test_a_metric_that_is_not_what_it_says_is_named(declared: dict[str, Any], says: str) -> None:
    fields = {"title": "odd", "unit": "s", "better": "lower", "kind": "job"} | declared
    with pytest.raises(Problem, match=says):
        Metric(name="odd", of=jct, **fields)(OUTCOMES)


def test_two_metrics_of_one_name_are_an_error_that_names_both() -> None:
    says = r"two metrics are called 'jct': volvelle.metrics.per_job: jct and \w+: test_two.*other"
    with pytest.raises(Problem, match=says):

        @catalogue.metric("jct", "s")
        def other(outcomes: Outcomes) -> float:
            """Nothing."""
            return 0.0
