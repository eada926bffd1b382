"""Declarations of users: names, pools, deadlines and estimates of jobs.

Classes and deadlines follow Chronus (SoCC'21, section 4.1). The first deadline is uniform in [1.2 R, 2 R] for
a job of duration R; a strict job earns 100 by it; a soft job earns 100, and 80, 50, 20 by 1.1, 1.2 and 1.5
times it. Whatever comes later earns the least reward, 1, which no step states.

Users are as unequal as in every published trace: the k-th most active submits 1/k of the jobs of
the first (Zipf). Estimates are the truth times a log-normal factor; people overestimate and write
round numbers (Mu'alem and Feitelson, TPDS 2001), so they are rounded up to a round duration.
"""

from dataclasses import replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from volvelle.model.arrays import FloatColumn
from volvelle.model.job import JobClass, Reward
from volvelle.workload.generators.base import JobColumns, Parameters

_ROUND_MINUTES = np.array(
    [5, 10, 15, 30, 60, 120, 240, 360, 480, 720, 1440, 2880, 4320, 7200, 10080], dtype=np.float64
)

FIRST = (1.2, 2.0)
"""Bounds of the first deadline, in durations."""

SOFT_STEPS = ((1.0, 100.0), (1.1, 80.0), (1.2, 50.0), (1.5, 20.0))
"""Steps of a soft job: deadline in first deadlines, and its reward."""


class DeadlineShares(BaseModel):
    """Which share of the jobs has deadlines; the others are best effort."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)

    strict_share: Annotated[
        float, Field(ge=0, le=1, description="share of jobs with a strict deadline")
    ] = 0.0
    soft_share: Annotated[
        float, Field(ge=0, le=1, description="share of jobs with soft deadlines")
    ] = 0.0

    @model_validator(mode="after")
    def _shares_fit(self) -> "DeadlineShares":
        if self.strict_share + self.soft_share > 1:
            raise ValueError("strict_share and soft_share add up to more than 1")
        return self

    def draw(
        self, rng: np.random.Generator, durations: NDArray[np.float64]
    ) -> tuple[list[JobClass], list[tuple[Reward, ...]]]:
        """The class and the reward steps of jobs that last so many seconds."""
        kinds = rng.random(len(durations))
        low, high = FIRST
        firsts = durations * (low + (high - low) * rng.random(len(kinds)))
        classes: list[JobClass] = []
        rewards: list[tuple[Reward, ...]] = []
        for kind, first in zip(kinds.tolist(), firsts.tolist(), strict=True):
            if kind < self.strict_share:
                classes.append(JobClass.STRICT)
                rewards.append((Reward(first, 100.0),))
            elif kind < self.strict_share + self.soft_share:
                classes.append(JobClass.SOFT)
                rewards.append(tuple(Reward(first * at, value) for at, value in SOFT_STEPS))
            else:
                classes.append(JobClass.BEST_EFFORT)
                rewards.append(())
        return classes, rewards


class Declarations(DeadlineShares, Parameters):
    """Parameters of what users declare; by default they declare nothing but GPUs."""

    users: Annotated[int, Field(ge=0, description="users; 0 leaves jobs without one")] = 0
    pools: Annotated[int, Field(ge=0, description="pools that the users belong to")] = 0
    estimates: Annotated[bool, Field(description="users estimate the duration of their jobs")] = (
        False
    )
    estimate_bias: Annotated[
        float, Field(gt=0, description="median of estimate over duration, before rounding up")
    ] = 1.0
    estimate_sigma: Annotated[
        float, Field(ge=0, description="deviation of the logarithm of the estimates' error")
    ] = 0.5

    def declare(self, rng: np.random.Generator, columns: JobColumns) -> JobColumns:
        """The jobs with users, pools, deadlines and estimates where the parameters ask for them."""
        if self.users:
            columns = self._with_users(rng, columns)
        if self.strict_share or self.soft_share:
            classes, rewards = self.draw(rng, columns.durations)
            columns = replace(columns, classes=classes, rewards=rewards)
        if self.estimates:
            error = np.exp(self.estimate_sigma * rng.standard_normal(len(columns.work)))
            wanted = columns.durations * self.estimate_bias * error
            columns = replace(columns, estimates=rounded_up(wanted))
        return columns

    def _with_users(self, rng: np.random.Generator, columns: JobColumns) -> JobColumns:
        activity = np.cumsum(1.0 / np.arange(1, self.users + 1))
        drawn = np.searchsorted(activity / activity[-1], rng.random(len(columns.work))).tolist()
        width = len(str(self.users))
        users = [f"user-{index + 1:0{width}d}" for index in range(self.users)]
        named = replace(columns, users=[users[index] for index in drawn])
        if not self.pools or columns.pools is not None:
            return named
        pools = [f"pool-{index % self.pools + 1}" for index in range(self.users)]
        return replace(named, pools=[pools[index] for index in drawn])


def rounded_up(seconds: FloatColumn) -> FloatColumn:
    """The next duration that people write: 5, 10, 15, 30 minutes, 1, 2, 4 ... hours, weeks."""
    minutes = seconds / 60.0
    places = np.searchsorted(_ROUND_MINUTES, minutes)
    weeks = np.ceil(minutes / _ROUND_MINUTES[-1]) * _ROUND_MINUTES[-1]
    inside = _ROUND_MINUTES[np.minimum(places, len(_ROUND_MINUTES) - 1)]
    return np.where(places < len(_ROUND_MINUTES), inside, weeks) * 60.0
