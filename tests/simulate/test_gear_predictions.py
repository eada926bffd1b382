"""Predictions at every submission by the compiled loop against the general engine's."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from strategies import Scenario, scenarios
from test_gear import PLAIN, POLICIES, same, tabled
from volvelle.simulate.gear import play_and_predict
from volvelle.simulate.gear.foresight import foresee

from volvelle.simulate import gear
from volvelle.simulate.run import simulate
from volvelle.workload.workload import Workload

AT_EVENTS = [policy for policy in POLICIES if "round" not in policy and policy != "las"]


@pytest.mark.parametrize("policy", AT_EVENTS)
@settings(max_examples=25)
@given(scenario=scenarios(PLAIN))
def test_every_prediction_is_the_same(policy: str, scenario: Scenario) -> None:
    scenario = tabled(scenario.under(policy))
    foreseen = play_and_predict(scenario.jobs, scenario.setting)
    setting = replace(scenario.setting, predict=True, play_outs=0)
    outcomes = simulate(Workload(scenario.jobs), setting).outcomes
    assert foreseen is not None
    assert outcomes.predicted_finish is not None
    same(foreseen.start, outcomes.first_start)
    same(foreseen.finish, outcomes.finish)
    same(foreseen.predicted, outcomes.predicted_finish)


@pytest.mark.parametrize("policy", ["srtf", "pcs:thresholds=20/100,disparity=1,efficiency=0.8"])
@settings(max_examples=5)
@given(scenario=scenarios(PLAIN))
def test_predictions_are_the_same_compiled_and_plain(policy: str, scenario: Scenario) -> None:
    scenario = tabled(scenario.under(policy))
    compiled = play_and_predict(scenario.jobs, scenario.setting)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gear, "foresee", foresee.py_func)  # type: ignore[attr-defined]
        plain = play_and_predict(scenario.jobs, scenario.setting)
    assert compiled is not None
    assert plain is not None
    for ours, theirs in zip(compiled, plain, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("policy", ["las", "fifo:round=30", "tiresias"])
@settings(max_examples=1)
@given(scenario=scenarios(PLAIN))
def test_what_the_loop_does_not_know_is_left_to_the_engine(policy: str, scenario: Scenario) -> None:
    scenario = scenario.under(policy)
    assert play_and_predict(scenario.jobs, scenario.setting) is None
