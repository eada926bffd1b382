"""How good a policy is on a workload: its objectives."""

from collections.abc import Sequence
from dataclasses import replace

from volvelle.metrics.catalogue import Objective
from volvelle.metrics.outcomes import Outcomes
from volvelle.simulate.run import Setting, simulate
from volvelle.workload.workload import Workload

_PREDICTED = "eta_"
_INTERVALS = frozenset(("eta_p50_coverage", "eta_p90_coverage", "eta_p90_width"))


def evaluate(
    workload: Workload, setting: Setting, objectives: Sequence[Objective]
) -> tuple[float, ...]:
    """The figure of each objective, in its metric's unit; NaN where there is none."""
    outcomes = outcomes_for(workload, setting, objectives)
    return tuple(objective.of(outcomes) for objective in objectives)


def outcomes_for(workload: Workload, setting: Setting, objectives: Sequence[Objective]) -> Outcomes:
    """Outcomes that hold what ``objectives`` ask for, predictions included where they do."""
    names = {objective.metric.name for objective in objectives}
    predict = any(name.startswith(_PREDICTED) for name in names)
    play_outs = setting.play_outs if names & _INTERVALS else 0
    return simulate(workload, replace(setting, predict=predict, play_outs=play_outs)).outcomes
