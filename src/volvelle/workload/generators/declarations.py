"""Declarations of users: names, pools, deadlines and estimates of jobs.

Deadlines follow Chronus (`volvelle.workload.deadlines`).

Users are as unequal as in every published trace: the k-th most active submits 1/k of the jobs of
the first (Zipf). Estimates are the truth times a log-normal factor; people overestimate and write
round numbers (Mu'alem and Feitelson, TPDS 2001), so they are rounded up to a round duration.
"""

from dataclasses import replace
from typing import Annotated

import numpy as np
from pydantic import Field

from volvelle.model.arrays import FloatColumn
from volvelle.workload.deadlines import DeadlineShares
from volvelle.workload.generators.base import JobColumns, Parameters

_ROUND_MINUTES = np.array(
    [5, 10, 15, 30, 60, 120, 240, 360, 480, 720, 1440, 2880, 4320, 7200, 10080], dtype=np.float64
)


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
