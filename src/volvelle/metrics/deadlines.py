"""Deadlines kept and missed, and what finishing in time was worth (Chronus, SoCC'21, section 4.2).

A job's declared rewards are a step function of its completion time: the best step whose deadline
it keeps is what it earns. Its deadline is that of its most valuable step (the latest, if several
are worth the same), so a soft job that earns less than its best has missed it.

A rejected or failed job misses. A cancelled job is NaN, and so is one that could still keep its
deadline when the run ended. Jobs without rewards have no deadline and are NaN throughout.
"""

from dataclasses import dataclass

import numpy as np

from volvelle.metrics import per_job
from volvelle.metrics.outcomes import JobStatus, Outcomes, once
from volvelle.model.arrays import BoolColumn, FloatColumn, IntColumn

_FLOOR = 1.0 / 100.0  # Chronus' RW_min : RW_max


@dataclass(frozen=True)
class _RewardSteps:
    """Steps of all jobs: number ``i`` pays ``value[i]`` to ``job[i]`` within ``deadline[i]`` s."""

    job: IntColumn
    deadline: FloatColumn
    value: FloatColumn


def deadline_seconds(outcomes: Outcomes) -> FloatColumn:
    """Seconds after submission by which the job earns its full reward; NaN without rewards."""
    steps = _reward_steps(outcomes)
    best = _highest(outcomes, steps, np.ones(len(steps.job), dtype=np.bool_))
    top = steps.value == best[steps.job]
    deadline = np.full(len(outcomes), np.nan)
    np.fmax.at(deadline, steps.job[top], steps.deadline[top])
    return deadline


def missed(outcomes: Outcomes) -> FloatColumn:
    """1 where the deadline was missed, 0 where it was kept, NaN where there is nothing to say."""
    return _late(outcomes, deadline_seconds(outcomes))


def first_missed(outcomes: Outcomes) -> FloatColumn:
    """1 where the first of the job's deadlines was missed, 0 where it was kept, NaN as for `missed`."""
    first = np.array(
        [min((r.deadline_seconds for r in spec.rewards), default=np.nan) for spec in outcomes.specs]
    )
    return _late(outcomes, first)


def earned_value(outcomes: Outcomes) -> FloatColumn:
    """The value of the best reward the job earned, 0 if it missed them all.

    NaN without rewards, for a cancelled job, and while one of its rewards is still to be had.
    """
    steps = _reward_steps(outcomes)
    taken = steps.deadline >= per_job.jct(outcomes)[steps.job]
    last = np.full(len(outcomes), np.nan)
    np.fmax.at(last, steps.job, steps.deadline)
    value = np.nan_to_num(_highest(outcomes, steps, taken), nan=0.0)
    return np.where(np.isnan(_late(outcomes, last)), np.nan, value)


def weighted_miss(outcomes: Outcomes) -> FloatColumn:
    """Each job's term of Chronus' weighted deadline miss rate, 0 to 1.

    ``1 - (RW - RW_min) / (RW_max - RW_min)``. Equation 9 is printed without the ``1 -``,
    which is a hit rate; the text and the figures mean the miss rate. A job that earned nothing has
    ``RW = RW_min``. RW_max is the largest value any job declares and RW_min a hundredth
    of it, the proportion of the paper's 100 and 1.
    """
    steps = _reward_steps(outcomes)
    most = float(steps.value.max(initial=0.0))
    least = most * _FLOOR
    earned = np.clip(earned_value(outcomes), least, most)
    return 1.0 - per_job.ratio(earned - least, np.full(len(outcomes), most - least))


@once
def _reward_steps(outcomes: Outcomes) -> _RewardSteps:
    steps = [spec.rewards for spec in outcomes.specs]
    return _RewardSteps(
        np.repeat(np.arange(len(steps)), [len(rewards) for rewards in steps]),
        np.array(
            [step.deadline_seconds for rewards in steps for step in rewards], dtype=np.float64
        ),
        np.array([step.value for rewards in steps for step in rewards], dtype=np.float64),
    )


def _highest(outcomes: Outcomes, steps: _RewardSteps, chosen: BoolColumn) -> FloatColumn:
    """The largest value among each job's ``chosen`` steps; NaN where it has none."""
    best = np.full(len(outcomes), np.nan)
    np.fmax.at(best, steps.job[chosen], steps.value[chosen])
    return best


def _late(outcomes: Outcomes, deadline: FloatColumn) -> FloatColumn:
    """1 where the job did not finish within ``deadline``, 0 where it did, NaN where undecided."""
    late = (~(per_job.jct(outcomes) <= deadline)).astype(np.float64)
    still_there = per_job.has_status(outcomes, JobStatus.RUNNING, JobStatus.WAITING)
    open_yet = still_there & (outcomes.end_time - outcomes.submit_time < deadline)
    undecided = open_yet | per_job.has_status(outcomes, JobStatus.CANCELLED)
    return np.where(undecided | np.isnan(deadline), np.nan, late)
