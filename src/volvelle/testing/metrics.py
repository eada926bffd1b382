"""Promises of metrics."""

import pickle

import numpy as np

from volvelle.metrics.catalogue import Metric, metrics, read_objective
from volvelle.metrics.outcomes import Outcomes, Steps
from volvelle.metrics.summary import summarise
from volvelle.testing.promises import Promises, on_random
from volvelle.testing.scenario import Scenario, happen
from volvelle.testing.strategies import Features, scenarios

metric_promises: Promises[Metric] = Promises(metrics.written)
_SCENARIOS = scenarios(Features(deadlines=True, losses=True))


@metric_promises.promise()
def a_line_says_what_it_is(metric: str) -> None:
    """The docstring, which lists and pages show."""
    assert 10 < len(metrics.written(metric).description) < 100


@metric_promises.promise()
def any_run_is_measured_and_left_as_it_is(metric: str) -> None:
    """Jobs that finish, fail, are rejected or still wait; what is measured is of its kind, twice the same."""
    measured = metrics.written(metric)

    def check(scenario: Scenario) -> None:
        outcomes = happen(scenario).outcomes
        before = pickle.dumps(outcomes)
        first, again = _numbers(measured, outcomes), _numbers(measured, outcomes)
        np.testing.assert_equal(first, again)
        assert pickle.dumps(outcomes) == before

    on_random(5, check, scenario=_SCENARIOS)


@metric_promises.promise()
def another_process_measures_the_same(metric: str) -> None:
    """A metric and outcomes that were sent there, and the summary of a run, by its name."""
    measured = metrics.written(metric)

    def check(scenario: Scenario) -> None:
        outcomes = happen(scenario).outcomes
        there, of = pickle.loads(pickle.dumps((measured, outcomes)))
        np.testing.assert_equal(_numbers(there, of), _numbers(measured, outcomes))
        objective = read_objective(metric)
        np.testing.assert_equal(summarise(of).figure(objective), objective.of(outcomes))
        assert measured.name in summarise(of).as_json()["metrics"]

    on_random(2, check, scenario=_SCENARIOS)


def _numbers(metric: Metric, outcomes: Outcomes) -> object:
    """Measurements, as numbers that can be compared."""
    found = metric(outcomes)
    return (found.times, found.values) if isinstance(found, Steps) else found
