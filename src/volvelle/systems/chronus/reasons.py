"""Why jobs are not guaranteed what they ask for, as numbers in the memory and in words."""

from volvelle.core.decision import Promise
from volvelle.core.promises import beyond_share
from volvelle.model.arrays import Floats
from volvelle.model.job import JobSpec
from volvelle.model.units import format_duration
from volvelle.systems.chronus.memory import (
    TOLD_EARLIEST,
    TOLD_FINISH,
    TOLD_JOB,
    TOLD_STEP,
    TOLD_VALUE,
    TOLD_WHY,
    USER_SHARE,
    capacity_of,
)

(
    NOTHING,
    NOT_BEFORE_IT_STARTS,
    TOO_LONG,
    SHARE_OF_USER,
    SHARE_OF_POOL,
    LONG_CHECKPOINT,
    TOO_MUCH,
    POOL_IS_FULL,
    SMALLER_JOBS,
    LEASES,
    IMPOSSIBLE,
) = range(11)
"""Values of `TOLD_WHY`; NOTHING where it is guaranteed something. `TOLD_VALUE` is the GPUs taken of a share,
the period over which it is too much, seconds, or the margin."""
_WORDS = {
    NOT_BEFORE_IT_STARTS: "it may not be preempted, so nothing is guaranteed before it starts",
    TOO_LONG: "its time limit ends it before it is done",
    LONG_CHECKPOINT: "guarantees made before leave no time for a checkpoint as long as its own",
    TOO_MUCH: "with the jobs no larger of the last {period} it needs all GPUs for longer than that",
    POOL_IS_FULL: "guarantees to jobs of its pool need all of its GPUs",
    SMALLER_JOBS: "GPUs are kept for guarantees made before and for smaller jobs to come",
    LEASES: "whole leases for its estimate{more}, beside those of guarantees made before, end "
    "after its deadline",
    IMPOSSIBLE: "it cannot be through by then any more",
}


def steps_of(spec: JobSpec) -> list[tuple[float, int]]:
    """When each step of a job is due, seconds, and which it is: the most valuable first, then the latest."""
    steps = [
        (-reward.value, -reward.deadline_seconds, step)
        for step, reward in enumerate(spec.rewards)
        if reward.value > 0.0
    ]
    return [(spec.submit_time - due, step) for _, due, step in sorted(steps)]


def promise_of(told: Floats, spec: JobSpec, memory: Floats) -> Promise:
    """The promise to a job that is told so, see `volvelle.systems.chronus.memory.TOLD_JOB`."""
    number, why, value = int(told[TOLD_JOB]), int(told[TOLD_WHY]), float(told[TOLD_VALUE])
    if why == NOTHING:
        place = int(told[TOLD_STEP])
        step = steps_of(spec)[place][1] if place >= 0 else -1
        return Promise(number, float(told[TOLD_FINISH]), step)
    if why in (SHARE_OF_USER, SHARE_OF_POOL):
        whose = ("user", "pool")[why - SHARE_OF_USER]
        share = float(memory[USER_SHARE + why - SHARE_OF_USER])
        limit = share * float(capacity_of(memory).sum())
        return Promise(number, reason=beyond_share(whose, spec, value, limit))
    more = f" and {value:.0%} more" if value else ""
    reason = _WORDS[why].format(period=format_duration(value), more=more)
    earliest = float(told[TOLD_EARLIEST])
    return Promise(number, earliest=earliest if earliest < float("inf") else None, reason=reason)
