"""The synthesizer's choices, by hand, and what it is asked for in words."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from volvelle.core.events import Recomposed
from volvelle.core.scheduler import Scheduler
from volvelle.metrics.outcomes import Choice
from volvelle.model.cluster import parse_cluster
from volvelle.model.problems import Problem
from volvelle.report.choices import choices, shares
from volvelle.simulate.experiment import Experiment
from volvelle.simulate.synthesis import Synthesis, read_foreseen
from volvelle.systems.blox.synthesizer import Synthesizer
from volvelle.testing.scenario import Scenario, happen, linear_job

BOTH = ("fifo", "srtf")


def scenario_of(*seconds: float, synthesis: Synthesis) -> Scenario:
    """Jobs on one GPU that all come at once."""
    jobs = [linear_job(n, 0.0, 1.0, length) for n, length in enumerate(seconds)]
    scenario = Scenario.of(parse_cluster("1x1"), jobs)
    return replace(scenario, setting=replace(scenario.setting, synthesis=synthesis))


def test_the_policy_with_the_lower_mean_jct_goes_on() -> None:
    """At 100 s the first, long job has 900 s to go; shortest remaining time first pays."""
    synthesis = Synthesis(policies=BOTH, admissions=("accept-all",), every=100.0)
    run = happen(scenario_of(1000.0, 50.0, 60.0, synthesis=synthesis))
    assert run.outcomes.choices == (Choice(100.0, "srtf", "accept-all"),)
    assert run.outcomes.finish.tolist() == [1110.0, 150.0, 210.0]


def test_of_equals_the_one_that_rules_goes_on() -> None:
    synthesis = Synthesis(policies=BOTH, admissions=("accept-all",), every=100.0)
    run = happen(scenario_of(250.0, 300.0, 350.0, synthesis=synthesis))
    assert run.outcomes.choices == (Choice(100.0, "fifo", "accept-all"),)


def test_an_admission_can_be_what_differs_and_the_jobs_at_the_door_count() -> None:
    jobs = [linear_job(n, 0.0, 1.0, 500.0) for n in range(2)]
    jobs += [linear_job(2, 10.0, 1.0, 20.0)]
    scenario = Scenario.of(parse_cluster("1x1"), jobs, policy="srtf")
    synthesis = Synthesis(
        policies=("srtf",), admissions=("backlog:factor=1", "accept-all"), every=100.0
    )
    setting = replace(scenario.setting, synthesis=synthesis)
    setting = replace(
        setting,
        composition=type(setting.composition)("srtf", "none", "backlog:factor=1", "oracle"),
    )
    run = happen(replace(scenario, setting=setting))
    assert run.outcomes.choices[0] == Choice(100.0, "srtf", "accept-all")
    assert run.outcomes.finish[2] == 120.0


def test_two_objectives_take_the_least_of_the_worst_ratios() -> None:
    """LAS answers sooner, FIFO ends sooner on average; the ratio of waits is far worse."""
    synthesis = Synthesis(
        policies=("fifo", "las:round=100"), admissions=("accept-all",), every=100.0,
        objectives=("jct:mean", "responsiveness:mean"),
    )  # fmt: skip
    both = happen(scenario_of(5000.0, 5000.0, 5000.0, synthesis=synthesis)).outcomes.choices
    assert both[0].policy == "las:round=100"
    alone = Synthesis(policies=synthesis.policies, admissions=("accept-all",), every=100.0)
    assert happen(scenario_of(5000.0, 5000.0, 5000.0, synthesis=alone)).outcomes.choices[0] == (
        Choice(100.0, "fifo", "accept-all")
    )


def test_nobody_is_asked_while_nobody_is_there() -> None:
    synthesis = Synthesis(policies=BOTH, admissions=("accept-all",), every=100.0)
    jobs = [linear_job(0, 0.0, 1.0, 50.0), linear_job(1, 950.0, 1.0, 200.0)]
    scenario = Scenario.of(parse_cluster("1x1"), jobs)
    asked: list[float] = []

    class Asked(Synthesizer):
        def choose(self, scheduler: Scheduler, now: float) -> list[Recomposed]:
            asked.append(now)
            return super().choose(scheduler, now)

    happen(scenario, switcher=Asked(synthesis))
    assert asked == [1000.0, 1100.0]


def test_a_switch_is_an_event_and_an_unknown_policy_is_refused() -> None:
    scheduler = Scenario.of(parse_cluster("1x1"), [linear_job(0, 0.0, 1.0, 9.0)]).scheduler()
    scheduler.handle(0.0, [Recomposed(0.0, "srtf", "backlog:factor=2")])
    assert scheduler.composition.policy.label == "srtf"
    assert scheduler.composition.admission.label == "backlog:factor=2"
    with pytest.raises(Problem, match="unknown policy"):
        scheduler.handle(1.0, [Recomposed(1.0, "no-such", "accept-all")])


def test_the_time_each_ruled_is_shared_out_and_drawn() -> None:
    synthesis = Synthesis(policies=BOTH, admissions=("accept-all",), every=100.0)
    outcomes = happen(scenario_of(1000.0, 50.0, 60.0, synthesis=synthesis)).outcomes
    assert shares(outcomes) == {"srtf + accept-all": 1.0}
    three = replace(
        outcomes,
        choices=(Choice(0.0, "a", "x"), Choice(100.0, "b", "x"), Choice(400.0, "a", "x")),
        end_time=1000.0,
    )
    assert shares(three) == pytest.approx({"a + x": 0.7, "b + x": 0.3})
    drawing = choices(three)
    assert "Policy and admission chosen" in drawing.title
    assert np.isfinite(drawing.height)


def test_an_experiment_adds_one_run_to_the_grid() -> None:
    experiment = Experiment.of(
        None,
        {
            "generate": "gavel", "cluster": "1x1", "policies": ["fifo", "las"],
            "admissions": ["accept-all", "backlog"], "synthesize": "jct:p99",
            "synthesize_every": "10m",
        },
    )  # fmt: skip
    *static, last = experiment.runs(experiment.read_cluster())
    assert len(static) == 4
    assert last.name == "synthesizer"
    assert last.setting.synthesis == Synthesis(
        policies=("fifo", "las"), admissions=("accept-all", "backlog"), objectives=("jct:p99",),
        every=600.0,
    )  # fmt: skip


@pytest.mark.parametrize("text", ["rho:max", "jtc", "jct:p101"])
def test_what_no_forecast_tells_is_refused(text: str) -> None:
    with pytest.raises(Problem):
        read_foreseen(text)


def test_results_survive_the_run_directory(tmp_path: Path) -> None:
    from volvelle.simulate.run_directory import load_outcomes, write_outcomes

    synthesis = Synthesis(policies=BOTH, admissions=("accept-all",), every=100.0)
    outcomes = happen(scenario_of(1000.0, 50.0, 60.0, synthesis=synthesis)).outcomes
    write_outcomes(outcomes, tmp_path / "outcomes.npz")
    assert load_outcomes(tmp_path / "outcomes.npz").choices == outcomes.choices
