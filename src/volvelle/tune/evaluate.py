"""How good a policy is on a workload: its objectives, by the compiled loop where it knows all of it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from volvelle.metrics.catalogue import Objective
from volvelle.metrics.outcomes import FloatColumn, JobStatus, Outcomes, Segments, Steps
from volvelle.simulate.gear import play, play_and_predict
from volvelle.simulate.run import Setting, simulate
from volvelle.workload.workload import Workload

FROM_TIMES = frozenset(
    (
        "jct",
        "responsiveness",
        "slowdown",
        "eta_error",
        "eta_signed_error",
        "rho",
        "rho_static",
        "rho_contention",
        "unfair",
        "unfairness",
        "deadline_miss",
        "weighted_deadline_miss",
        "earned_value",
        "makespan",
    )
)
"""Metrics that need no more than when jobs start, finish, and were predicted to."""

_PREDICTED = "eta_"
_INTERVALS = ("eta_p50_coverage", "eta_p90_coverage", "eta_p90_width")


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
    if names <= FROM_TIMES:
        if predict:
            foreseen = play_and_predict(workload.jobs, setting)
            if foreseen is not None:
                return _outcomes(
                    workload, setting, foreseen.start, foreseen.finish, foreseen.predicted
                )
        elif (played := play(workload.jobs, setting)) is not None:
            return _outcomes(workload, setting, played.start, played.finish, None)
    play_outs = setting.play_outs if names & set(_INTERVALS) else 0
    return simulate(workload, replace(setting, predict=predict, play_outs=play_outs)).outcomes


def _outcomes(
    workload: Workload,
    setting: Setting,
    start: FloatColumn,
    finish: FloatColumn,
    predicted: FloatColumn | None,
) -> Outcomes:
    """Outcomes of which only times are known; what is not is NaN."""
    jobs = len(workload)
    unknown, none = np.full(jobs, np.nan), np.zeros(0)
    whole = np.zeros(0, dtype=np.int64)
    return Outcomes(
        specs=[job.spec for job in workload.jobs],
        submit_time=workload.submit_times,
        gpus=workload.gpus,
        exclusive_seconds=workload.durations,
        first_start=start,
        finish=finish,
        gpu_seconds=unknown,
        run_seconds=unknown,
        preemptions=np.zeros(jobs, dtype=np.int64),
        restarts=np.zeros(jobs, dtype=np.int64),
        lost_gpu_seconds=unknown,
        contention=contention(workload.submit_times, finish),
        tracked=np.ones(jobs, dtype=np.bool_),
        status=np.where(np.isnan(finish), JobStatus.RUNNING.value, JobStatus.FINISHED.value),
        reason=[""] * jobs,
        segments=Segments(whole, none, none, none, np.zeros(1, dtype=np.int64), whole),
        capacity=Steps(np.zeros(1), np.array([float(setting.cluster.gpus)])),
        end_time=float(np.nanmax(finish)),
        single_gpu_seconds=workload.single_gpu_seconds,
        predicted_finish=predicted,
    )


def contention(submit: FloatColumn, finish: FloatColumn) -> FloatColumn:
    """Jobs in the system averaged over the events of each job's stay, as `Recorder` counts them.

    Of events at one time, ends come first; the job's own arrival counts twice (PCS' simulator).
    """
    jobs = len(submit)
    times = np.concatenate([finish, submit])
    arrival = np.repeat([False, True], jobs)
    order = np.lexsort((arrival, times))
    place = np.empty(2 * jobs, dtype=np.int64)
    place[order] = np.arange(2 * jobs)
    active = np.cumsum(np.where(arrival[order], 1, -1))
    summed = np.concatenate([[0], np.cumsum(active)])
    came, left = place[jobs:], place[:jobs]
    before = np.where(came > 0, active[came - 1], 0)
    met = summed[left] - (summed[came] - before - 1)
    return np.where(np.isnan(finish), np.nan, met / (left - (came - 1)))
