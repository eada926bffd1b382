"""Habits of users who submit again when their jobs have ended: a closed loop, fitted to a trace.

A user's **batches** are jobs submitted within ``batch_gap`` of each other, a sweep for instance. A batch
**follows** the one before where it was submitted after all of that had ended, and within ``patience``; what
passed in between is the **think time**. A trace that is replayed in an open loop submits such a batch when
the trace did, whatever the scheduler makes of the jobs before. In a closed loop it comes when they have
ended, and the user has thought.

Anticipatory scheduling (SIA, section 2) sees such users in its traces; section 6.1 replays them in an open
loop, and conjectures that its gains grow in a closed one. Think times as quantiles, and a share of batches
that follow, are ours.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from volvelle.model.arrays import FloatColumn
from volvelle.model.job import Job
from volvelle.model.problems import Problem
from volvelle.model.toml import read_toml
from volvelle.model.units import HOUR, MINUTE
from volvelle.model.validation import Seconds, describe_validation
from volvelle.workload.workload import Workload

_QUANTILES = 21
"""How many quantiles of think times are kept, from the shortest to the longest."""


def _rising(quantiles: tuple[float, ...]) -> tuple[float, ...]:
    if any(later < earlier for earlier, later in pairwise(quantiles)):
        raise ValueError("quantiles rise from the shortest to the longest")
    return quantiles


@dataclass(frozen=True)
class UserBatch:
    """Jobs that a user submits together, with their times as in the trace.

    after: which batch has to end before (an index; None: none, they come at their own times). think: seconds
    from its end to the first of these.
    """

    jobs: tuple[Job, ...]
    after: int | None = None
    think: float = 0.0

    def at(self, time: float) -> Iterator[Job]:
        """The jobs, the first of them submitted at ``time``."""
        first = self.jobs[0].spec.submit_time
        for job in self.jobs:
            submit = time + (job.spec.submit_time - first)
            yield Job(
                msgspec.structs.replace(job.spec, submit_time=submit, after=()),
                job.truth,
                job.training,
            )


class Habits(BaseModel):
    """Closed-loop users of a workload. Jobs without a user are those of one user of each pool."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    batch_gap: Annotated[Seconds, Field(ge=0)] = Field(
        5 * MINUTE, description="a user's jobs less apart than this are one batch"
    )
    patience: Annotated[Seconds, Field(gt=0)] = Field(
        8 * HOUR, description="who comes back later than this did not wait for the batch before"
    )
    follows: Annotated[float, Field(ge=0, le=1)] = Field(
        1.0, description="share of batches, but a user's first, that follow the one before"
    )
    think: Annotated[
        tuple[Annotated[float, Field(ge=0, allow_inf_nan=False)], ...],
        Field(min_length=1),
        AfterValidator(_rising),
    ] = Field((10 * MINUTE,), description="quantiles of think times, seconds, the shortest first")

    @classmethod
    def read(cls, path: Path) -> "Habits":
        """From a TOML file. Raises `Problem`."""
        try:
            return cls.model_validate(read_toml(path))
        except ValidationError as error:
            raise Problem(f"{path}: {describe_validation(error, cls)}", usage=True) from None

    @property
    def written(self) -> str:
        """As a TOML file that `read` reads."""
        lines = [f"{key} = {value!r}" for key, value in self.model_dump().items() if key != "think"]
        quantiles = ", ".join(f"{value:.6g}" for value in self.think)
        return "\n".join([*lines, f"think = [{quantiles}]"]) + "\n"

    def batches(self, workload: Workload, seed: int) -> list[UserBatch]:
        """The batches of all users, by their first job; which follow, and after how long, is drawn."""
        found: list[UserBatch] = []
        last: dict[tuple[str, str], int] = {}
        rng = np.random.default_rng([seed, len(workload)])
        shares = np.linspace(0.0, 1.0, len(self.think))
        for user, rows in sorted(_batches(workload, self.batch_gap), key=lambda each: each[1][0]):
            waits, place = rng.random(2).tolist()  # the same draws whatever the habits
            after = last.get(user) if waits < self.follows else None
            think = float(np.interp(place, shares, self.think))
            found.append(UserBatch(tuple(workload.jobs[row] for row in rows), after, think))
            last[user] = len(found) - 1
        return found


def fit_habits(
    workload: Workload,
    *,
    ends: FloatColumn | None = None,
    batch_gap: float = 5 * MINUTE,
    patience: float = 8 * HOUR,
) -> Habits:
    """The habits of the users of a trace.

    ends: when each job ended, seconds (None: as if none had waited). Raises `Problem` where no batch follows
    another.
    """
    finish = workload.submit_times + workload.durations if ends is None else ends
    thought, others = [], 0
    before: dict[tuple[str, str], list[int]] = {}
    for user, rows in sorted(_batches(workload, batch_gap), key=lambda each: each[1][0]):
        if user in before:
            passed = float(workload.submit_times[rows[0]] - np.max(finish[before[user]]))
            if 0.0 <= passed <= patience:
                thought.append(passed)
            else:
                others += 1
        before[user] = rows
    if not thought:
        raise Problem(
            f"no batch of {workload.name or 'the trace'} follows another of the same user",
            mend="give a trace with users, or a longer patience",
        )
    quantiles = np.quantile(thought, np.linspace(0.0, 1.0, _QUANTILES))
    return Habits(
        batch_gap=batch_gap,
        patience=patience,
        follows=len(thought) / (len(thought) + others),
        think=tuple(quantiles.tolist()),
    )


def _batches(workload: Workload, gap: float) -> Iterator[tuple[tuple[str, str], list[int]]]:
    """Rows that each user submitted together."""
    by_user: dict[tuple[str, str], list[int]] = {}
    for row, spec in enumerate(workload.specs):
        by_user.setdefault((spec.pool, spec.user), []).append(row)
    times: NDArray[np.float64] = workload.submit_times
    for user, rows in by_user.items():
        breaks = np.flatnonzero(np.diff(times[rows]) > gap) + 1
        for part in np.split(np.array(rows), breaks):
            yield user, part.tolist()
