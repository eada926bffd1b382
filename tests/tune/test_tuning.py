"""The search for trade-offs: what candidates are measured by, the front, its file, and resuming."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from systems_here import needs

from volvelle.core.composition import WrittenComposition
from volvelle.core.policy import policies
from volvelle.metrics.catalogue import read_objective
from volvelle.model.cluster import Cluster, FailureProcess, parse_cluster
from volvelle.model.job import Job, Truth
from volvelle.model.problems import Problem
from volvelle.model.throughput import Amdahl
from volvelle.report.charts.marks import Panel, Rect
from volvelle.simulate.run import Setting, simulate
from volvelle.simulate.sources import generated
from volvelle.testing.scenario import linear_job
from volvelle.tune.evaluate import evaluate
from volvelle.tune.front import Candidate, Front, front_of, read_evaluated
from volvelle.tune.picture import drawing
from volvelle.tune.samples import draw, split
from volvelle.tune.search import Search, SearchProgress, tune
from volvelle.workload.workload import Workload

pytestmark = needs("pcs")

CLUSTER = parse_cluster("2x8")
HISTORY = generated("lognormal:jobs=240,load=1.5", 3, 16).workload
SETTING = Setting(cluster=CLUSTER, composition=WrittenComposition("pcs"))
JCT, ERROR = read_objective("jct:mean"), read_objective("pred_error:p99")
SMALL = Search(objectives=(JCT, ERROR), candidates=16, samples=2, jobs=120, population=6, seed=1)
REFINED = replace(SMALL, refine=18)


@pytest.fixture(scope="module")
def front() -> Front:
    return tune(HISTORY, SETTING, SMALL, workers=1)


def test_predictions_are_made_where_an_objective_asks_for_them() -> None:
    setting = SETTING
    outcomes = simulate(HISTORY, replace(setting, predict=True)).outcomes
    assert evaluate(HISTORY, setting, [ERROR]) == (ERROR.of(outcomes),)
    assert np.isfinite(ERROR.of(outcomes))


def late_crash() -> Workload:
    """Jobs of which one crashes."""
    jobs = [linear_job(n, 3.0 * n, 1.0, 20.0 + 7 * (n % 5)) for n in range(40)]
    jobs[20] = linear_job(20, 60.0, 1.0, 20.0, failures=(5.0,))
    return Workload(jobs)


def formulas() -> Workload:
    """Jobs of which some are as fast as a formula says."""
    jobs = [linear_job(n, 3.0 * n, 1.0 + n % 3, 20.0 + 7 * (n % 5)) for n in range(40)]
    formula = Amdahl(1.0, 0.9)
    jobs[3::7] = [Job(j.spec, Truth(work=j.truth.work, throughput=formula)) for j in jobs[3::7]]
    return Workload(jobs)


FLAKY = msgspec.structs.replace(
    parse_cluster("4x1"), failures=FailureProcess(mtbf_seconds=100.0, mttr_seconds=30.0)
)


@pytest.mark.parametrize(
    ("workload", "cluster", "placement"),
    [
        (late_crash(), parse_cluster("1x4"), "none"),
        (formulas(), parse_cluster("1x4"), "none"),
        (late_crash(), FLAKY, "first-free"),
        (HISTORY, SETTING.cluster, "none"),
    ],
    ids=["a crash", "formulas", "nodes that fail", "linear jobs"],
)
@pytest.mark.parametrize("policy", ["srsf", "pcs:thresholds=1h/1d,disparity=1"])
def test_predictions_are_those_of_an_interpreted_run(
    workload: Workload, cluster: Cluster, placement: str, policy: str
) -> None:
    setting = Setting(cluster=cluster, composition=WrittenComposition(policy, placement))
    predicting = replace(setting, predict=True)
    outcomes = simulate(workload, predicting, compiled=False).outcomes
    expected = [objective.of(outcomes) for objective in (JCT, ERROR)]
    np.testing.assert_allclose(evaluate(workload, setting, (JCT, ERROR)), expected, rtol=1e-9)


def test_what_needs_more_than_times_is_measured_too() -> None:
    objectives = [read_objective("utilisation"), read_objective("preemptions:max"), JCT]
    outcomes = simulate(HISTORY, SETTING).outcomes
    expected = [objective.of(outcomes) for objective in objectives]
    assert evaluate(HISTORY, SETTING, objectives) == pytest.approx(expected)


def test_samples_of_each_part_come_from_that_part() -> None:
    parts = split(HISTORY, 0.25)
    assert [len(part) for part in parts] == [180, 60]
    drawn = draw(parts, samples=2, jobs=100, gpus=16, seed=0)
    again = draw(parts, samples=2, jobs=100, gpus=16, seed=0)
    for part, samples, same in zip(parts, drawn, again, strict=True):
        for one, other in zip(samples, same, strict=True):
            assert len(one) == 100
            assert one.submit_times[0] == 0.0
            np.testing.assert_array_equal(one.durations, other.durations)
            assert set(one.gpus) <= set(part.gpus)
        assert not np.array_equal(samples[0].durations, samples[1].durations)


@pytest.fixture(scope="module")
def refined() -> Front:
    return tune(HISTORY, SETTING, REFINED, workers=1)


def test_the_front_is_what_nobody_beats(front: Front) -> None:
    means = np.array([point.mean for point in front.points])
    tried = np.array([one.mean for one in front.evaluated])
    assert len(front.evaluated) == 16
    assert len(means) >= 3
    assert (np.diff(means[:, 0]) > 0).all()
    assert (np.diff(means[:, 1]) < 0).all()
    for mean in tried:
        assert any((point <= mean).all() for point in means)
    assert front.picks["fastest"] == 0
    assert front.picks["most-predictable"] == len(means) - 1
    assert 0 < front.picks["balanced"] < len(means) - 1
    # One queue and no cap is first in, first out, of which every prediction comes true.
    assert means[-1, 1] == pytest.approx(0.0, abs=1e-6)


def test_points_carry_what_they_are(front: Front) -> None:
    document = json.loads(json.dumps(front.as_json(), allow_nan=False))
    for point in document["points"]:
        policy: Any = policies.make(point["written"])
        assert policy.name == "pcs"
        weights = [queue["weight"] for queue in point["queues"]]
        np.testing.assert_allclose(weights, policy.queue_weights)
        for objective in ("jct:mean", "eta_error:p99"):
            for part in ("train", "test"):
                figures = point[part][objective]
                assert figures["low"] <= figures["mean"] <= figures["high"]
                assert len(figures["samples"]) == 2


def test_costs_are_said_in_words(front: Front) -> None:
    fastest, last = front.points[0], front.points[-1]
    said = front.in_words(len(front.points) - 1)
    before = f"{fastest.mean[1]:,.0f} %" if fastest.mean[1] >= 99.95 else f"{fastest.mean[1]:.3g} %"
    assert said.startswith(f"p99 ETA error falls from {before} to 0 %, for ")
    assert float(said.split(", for ")[1].split("x")[0]) == pytest.approx(
        last.mean[0] / fastest.mean[0], abs=0.01
    )


def test_a_search_is_repeatable_whatever_the_workers(front: Front) -> None:
    again = tune(HISTORY, SETTING, SMALL, workers=2)
    assert again.as_json() == front.as_json()


def test_a_search_does_not_depend_on_earlier_ones(front: Front) -> None:
    tune(HISTORY, SETTING, replace(SMALL, objectives=(JCT, read_objective("makespan"))), workers=1)
    assert (
        tune(HISTORY, SETTING, replace(SMALL, candidates=48), workers=1).as_json()
        == tune(HISTORY, SETTING, replace(SMALL, candidates=48), workers=1).as_json()
    )


def test_other_seeds_and_algorithms_go_other_ways(front: Front) -> None:
    other = tune(HISTORY, SETTING, replace(SMALL, algorithm="nsga2"), workers=1)
    assert [one.parameters for one in other.evaluated[:6]] == [
        one.parameters for one in front.evaluated[:6]
    ]
    seeded = tune(HISTORY, SETTING, replace(SMALL, seed=2), workers=1)
    assert seeded.evaluated != front.evaluated


@pytest.mark.parametrize("at", [10, 24])
def test_an_interrupted_search_keeps_what_it_found_and_goes_on(
    refined: Front, tmp_path: Path, at: int
) -> None:
    def stop(progress: SearchProgress) -> None:
        assert progress.candidates == 34
        if progress.done >= at:
            raise KeyboardInterrupt

    stopped = tune(HISTORY, SETTING, REFINED, workers=2, progress=stop)
    assert not stopped.complete
    assert at <= len(stopped.evaluated) < at + 6
    path = stopped.write(tmp_path)
    resumed = tune(
        HISTORY,
        SETTING,
        REFINED,
        workers=1,
        known=lambda described: read_evaluated(path, described),
    )
    assert resumed.as_json() == refined.as_json()


def test_a_finished_search_is_refined_by_resuming(
    front: Front, refined: Front, tmp_path: Path
) -> None:
    path = front.write(tmp_path)
    found = tune(
        HISTORY,
        SETTING,
        REFINED,
        workers=1,
        known=lambda described: read_evaluated(path, described),
    )
    assert found.as_json() == refined.as_json()


def test_another_search_is_not_resumed(front: Front, tmp_path: Path) -> None:
    path = front.write(tmp_path)
    for search, what in ((replace(SMALL, seed=7), "seed"), (replace(SMALL, jobs=50), "jobs")):
        with pytest.raises(Problem, match=f"of another search: its {what} is"):
            tune(HISTORY, SETTING, search, known=lambda found: read_evaluated(path, found))
    longer = tune(
        HISTORY,
        SETTING,
        replace(SMALL, candidates=20),
        workers=1,
        known=lambda found: read_evaluated(path, found),
    )
    assert longer.evaluated[:16] == front.evaluated


def test_parameters_that_are_not_searched_stay() -> None:
    setting = replace(SETTING, composition=WrittenComposition("pcs:round=600,efficiency=0.3"))
    search = replace(SMALL, candidates=4, objectives=(JCT, read_objective("makespan")))
    found = tune(HISTORY, setting, search, workers=1)
    for point in found.evaluated:
        written = point.parameters.split(",")
        assert written[0] == "round=600"
        assert sum(part.startswith("efficiency=") for part in written) == 1


@pytest.mark.parametrize("policy", ["tiresias", "themis"])
def test_other_policies_are_searched_too(policy: str) -> None:
    setting = replace(SETTING, composition=WrittenComposition(policy))
    search = replace(
        SMALL, candidates=3, samples=1, jobs=40, objectives=(JCT, read_objective("rho:max"))
    )
    found = tune(HISTORY, setting, search, workers=1)
    assert len(found.evaluated) == 3
    assert all(point.test for point in found.points)


def test_refining_goes_on_from_what_was_found(front: Front, refined: Front) -> None:
    assert refined.evaluated[:16] == front.evaluated
    beside = refined.evaluated[16:]
    assert len(beside) == 18
    assert all(one.refined for one in beside)
    assert not any(one.refined for one in front.evaluated)
    better = [point for point in refined.points if point.refined]
    assert better
    for point in front.points:
        assert any((np.array(new.mean) <= point.mean).all() for new in refined.points)
    for written in (point["written"] for point in refined.as_json()["points"]):
        policies.make(written)


def test_refined_points_carry_what_they_are(refined: Front) -> None:
    document = json.loads(json.dumps(refined.as_json(), allow_nan=False))
    assert [one.get("refined", False) for one in document["evaluated"]] == [False] * 16 + [
        True
    ] * 18
    for point, one in zip(document["points"], refined.points, strict=True):
        policy: Any = policies.make(point["written"])
        assert policy.name == "pcs"
        weights = [queue["weight"] for queue in point["queues"]]
        np.testing.assert_allclose(weights, policy.queue_weights)
        limits = [queue["up_to_gpu_seconds"] for queue in point["queues"]]
        assert point["searched"]["zeta_min"] == pytest.approx(policy.efficiency)
        if one.refined:
            numbered = (
                f"{name} {i}" for name in ("threshold", "W") for i in range(1, len(limits) + 1)
            )
            assert [*point["searched"]] == [*numbered, "delta", "zeta_min"]
            assert point["searched"]["delta"] == pytest.approx(policy.delta)
            reached = [point["searched"][f"threshold {i}"] for i in range(1, len(limits))]
            assert reached == pytest.approx(limits[:-1])


def test_parameters_stay_while_refining() -> None:
    setting = replace(SETTING, composition=WrittenComposition("pcs:round=600,efficiency=0.3"))
    search = replace(SMALL, candidates=3, refine=4, objectives=(JCT, read_objective("makespan")))
    for point in tune(HISTORY, setting, search, workers=1).evaluated:
        written = point.parameters.split(",")
        assert written[0] == "round=600"
        assert sum(part.startswith("efficiency=") for part in written) == 1


def _sees(*means: tuple[float, float]) -> tuple[str, float]:
    """The words under the chart's title, and the last square's place from the left, as a share of all."""
    tried = tuple(Candidate((), "", (mean,)) for mean in means)
    chosen = tuple(front_of(tried, (JCT, ERROR)))
    drawn = drawing(Front("las", (JCT, ERROR), chosen, tried, {}), 0, 1)
    (panel,) = (mark for mark in drawn.marks if isinstance(mark, Panel))
    squares = [mark for mark in panel.marks if isinstance(mark, Rect)]
    last = squares[len(means) - 1]
    return drawn.description, (last.x + last.width / 2 - panel.x) / panel.width


def test_a_configuration_far_off_is_drawn_at_the_end_of_the_axis_of_tunes_chart() -> None:
    near = [(100.0 + at, 20.0 - at) for at in range(10)]
    words, _ = _sees(*near)
    assert "beyond" not in words
    words, place = _sees(*near, (109.5, 12.0), (900.0, 21.0))
    assert "1 beyond an axis is drawn at its end" in words
    assert place == pytest.approx(0.97, abs=0.03)
    words, _ = _sees(*near, (900.0, 1.0))  # of the front
    assert "of a log scale" in words


def test_a_policy_without_a_finer_space_is_not_refined() -> None:
    setting = replace(SETTING, composition=WrittenComposition("tiresias"))
    with pytest.raises(Problem, match=r"'tiresias' does not say how .* Leave refine out"):
        tune(HISTORY, setting, REFINED, workers=1)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=30))
def test_a_front_dominates_all_and_itself_in_nothing(figures: list[tuple[int, int]]) -> None:
    tried = [Candidate((), str(n), (tuple(map(float, f)),)) for n, f in enumerate(figures)]
    kept = [one.mean for one in front_of(tried, (JCT, ERROR))]
    assert len(set(kept)) == len(kept)
    for one in tried:
        assert any(k[0] <= one.mean[0] and k[1] <= one.mean[1] for k in kept)
    for k in kept:
        assert not any(o != k and o[0] <= k[0] and o[1] <= k[1] for o in kept)


def test_higher_may_be_better() -> None:
    busy = read_objective("utilisation")
    tried = [
        Candidate((), str(n), (f,))
        for n, f in enumerate([(10.0, 50.0), (20.0, 60.0), (20.0, 55.0)])
    ]
    assert [one.mean for one in front_of(tried, (JCT, busy))] == [(10.0, 50.0), (20.0, 60.0)]


@pytest.mark.parametrize(
    ("search", "said"),
    [
        (replace(SMALL, objectives=(JCT,)), "a trade-off needs two objectives, 1 given"),
        (replace(SMALL, objectives=(JCT, JCT)), "a trade-off needs two objectives, 1 given"),
        (
            replace(SMALL, objectives=(JCT, read_objective("eta_p90_coverage"))),
            "'eta_p90_coverage' is neither better high nor low",
        ),
        (replace(SMALL, candidates=0), "candidates is 0"),
        (replace(SMALL, refine=-1), "refine is -1"),
        (replace(SMALL, test=-0.1), "the share of the history to test on is -0.1"),
        (replace(SMALL, test=0.01), "the test window of .* has 2 of its 240 jobs"),
        (
            replace(SMALL, objectives=(JCT, read_objective("deadline_miss"))),
            "objective deadline_miss:mean has no figure on this workload",
        ),
    ],
)
def test_what_cannot_be_searched_is_refused(search: Search, said: str) -> None:
    with pytest.raises(Problem, match=said):
        tune(HISTORY, SETTING, search, workers=1)


def test_a_policy_without_a_space_is_refused() -> None:
    setting = replace(SETTING, composition=WrittenComposition("fifo"))
    with pytest.raises(Problem, match=r"'fifo' does not say what a search may vary.*pcs"):
        tune(HISTORY, setting, SMALL)
    few = Workload(HISTORY.jobs[:20])  # too few to be split, which would help nobody
    with pytest.raises(Problem, match=r"'fifo' does not say what a search may vary"):
        tune(few, setting, SMALL)


def test_tracking_is_refused() -> None:
    with pytest.raises(Problem, match="measures all jobs of its samples"):
        tune(HISTORY, replace(SETTING, tracked=(3, 9)), SMALL)


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymoo.algorithms.moo.spea2", None)
    with pytest.raises(Problem, match=r"needs the package pymoo.*-e '.\[tune\]'"):
        tune(HISTORY, SETTING, SMALL, workers=1)


def test_without_samples_candidates_are_tried_on_the_history_itself() -> None:
    as_it_was = replace(SMALL, samples=0, test=0.0)
    found = tune(HISTORY, SETTING, as_it_was, workers=1)
    for one in found.points:
        written = f"pcs:{one.parameters}"
        composition = msgspec.structs.replace(SETTING.composition, policy=written)
        alone = evaluate(HISTORY, replace(SETTING, composition=composition), SMALL.objectives)
        assert one.mean == pytest.approx(alone)
        assert one.tested == ()
    later = tune(HISTORY, SETTING, replace(SMALL, samples=0, test=0.25), workers=1)
    assert all(len(one.tested) == len(SMALL.objectives) for one in later.points)


def test_a_failing_candidate_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> tuple[float, ...]:
        raise Problem("cannot be solved")

    monkeypatch.setattr("volvelle.tune.evaluators.evaluate", fail)
    with pytest.raises(Problem, match="cannot be solved"):
        tune(HISTORY, SETTING, SMALL, workers=1)
