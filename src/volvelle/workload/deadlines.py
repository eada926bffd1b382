"""Classes and deadlines for jobs that have none, after Chronus (SoCC'21, section 4.1).

The first deadline is uniform in [1.2 R, 2 R] for a job of duration R; a strict job earns 100 by it; a soft
job earns 100, and 80, 50, 20 by 1.1, 1.2 and 1.5 times it. Whatever comes later earns the least reward, 1,
which no step states.
"""

from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from volvelle.model.job import JobClass, Reward

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
