"""How good a policy is on a workload: its objectives."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from volvelle.metrics.catalogue import Objective
from volvelle.metrics.outcomes import Outcomes
from volvelle.metrics.recorder import Recorder
from volvelle.simulate.arrivals import ArrivalTable
from volvelle.simulate.predict import run_and_predict
from volvelle.simulate.run import Setting, check, simulate
from volvelle.simulate.world import World
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
    intervals = bool(names & _INTERVALS)
    whole = (setting.tick, setting.until, setting.tracked, setting.synthesis) == (None,) * 4
    if predict and not intervals and whole:
        outcomes = _predicted_outcomes(workload, setting)
        if outcomes is not None:
            return outcomes
    return simulate(workload, replace(setting, predict=predict)).outcomes


def _predicted_outcomes(workload: Workload, setting: Setting) -> Outcomes | None:
    """Outcomes with predictions but without their quantiles; None where Python is to be asked."""
    check(workload, setting)
    scheduler = setting.header.scheduler()
    recorder = Recorder(setting.cluster, setting.power)
    arrivals = ArrivalTable(scheduler, workload.jobs)
    recorder.expect(arrivals.specs)
    world = World(scheduler, arrivals, [recorder], compiled=True)
    predicted = run_and_predict(world)
    if predicted is None:
        return None
    tracked = np.ones(len(workload), dtype=np.bool_)
    outcomes = recorder.outcomes(workload.durations, tracked, workload.single_gpu_seconds)
    return replace(outcomes, predicted_finish=predicted)
