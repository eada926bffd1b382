"""Random small windows, and by hand what can be done in them at best."""

from collections.abc import Callable
from functools import cache
from itertools import combinations
from typing import Any, NamedTuple, cast

import numpy as np
from hypothesis import strategies as st

from volvelle.plan.plan import Window
from volvelle.systems.chronus.deadlines import DeadlineJobs
from volvelle.systems.shockwave.rounds import RoundJobs


def plain(loop: Callable[..., Any]) -> Callable[..., Any]:
    """The undecorated function behind a compiled loop."""
    return cast(Callable[..., Any], cast(Any, loop).py_func)


class DeadlineCase(NamedTuple):
    """Jobs, a window of slots of 10 s, GPUs by slot."""

    jobs: DeadlineJobs
    window: Window
    capacity: np.ndarray[tuple[int], np.dtype[np.float64]]

    @property
    def best(self) -> float:
        """The value of the best plan there is, by trying all."""
        jobs, count = self.jobs, len(self.jobs.number)

        @cache
        def after(slot: int, left: tuple[int, ...]) -> float:
            if slot == self.window.slots:
                return 0.0
            able = [row for row in range(count) if left[row] > 0]
            most = 0.0
            for many in range(len(able) + 1):
                for rows in combinations(able, many):
                    if jobs.gpus[list(rows)].sum() > self.capacity[slot]:
                        continue
                    then, earned = list(left), 0.0
                    for row in rows:
                        then[row] -= 1
                        in_time = np.minimum(jobs.deadline[row], self.window.slots) > slot
                        if then[row] == 0:
                            earned += jobs.value[row][in_time].max(initial=0.0)
                    most = max(most, earned + after(slot + 1, tuple(then)))
            return most

        return after(0, tuple(jobs.slots.tolist()))

    def with_jobs(self, jobs: DeadlineJobs) -> "DeadlineCase":
        """The same window with other jobs."""
        return self._replace(jobs=jobs)


@st.composite
def deadline_jobs(draw: st.DrawFn, most: int, first: int = 0) -> DeadlineJobs:
    count = draw(st.integers(1, most))
    steps = draw(st.integers(1, 2))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    deadline = np.sort(rng.integers(-1, 8, (count, steps)), axis=1)
    value = -np.sort(-rng.integers(0, 10, (count, steps)).astype(float), axis=1)
    return DeadlineJobs(
        number=first + rng.permutation(count),
        gpus=rng.integers(1, 5, count).astype(float),
        slots=rng.integers(1, 4, count),
        deadline=deadline,
        value=value,
        running=rng.random(count) < 0.3,
    )


@st.composite
def deadline_cases(draw: st.DrawFn, most: int = 5) -> DeadlineCase:
    jobs = draw(deadline_jobs(most))
    slots = draw(st.integers(1, 5))
    capacity = np.array(draw(st.lists(st.integers(1, 6), min_size=slots, max_size=slots)))
    return DeadlineCase(jobs, Window(100.0, 10.0, slots), capacity.astype(np.float64))


class RoundCase(NamedTuple):
    """Jobs, a window of rounds of 10 s, how many GPUs, and what a second of the makespan costs."""

    jobs: RoundJobs
    window: Window
    gpus: float
    makespan_weight: float

    def worth(self, rounds: tuple[int, ...]) -> float:
        """The objective with so many rounds of each job, over that with none; makespans by equation 10."""
        jobs, total = self.jobs, 0.0
        for row, many in enumerate(rounds):
            total += float(jobs.gain[row, :many].sum())
            if (
                many
                and jobs.restart is not None
                and not (jobs.running is not None and jobs.running[row])
            ):
                total -= float(jobs.restart[row])
        return total + self.makespan_weight * (
            self.makespan((0,) * len(rounds)) - self.makespan(rounds)
        )

    def makespan(self, rounds: tuple[int, ...]) -> float:
        left = np.maximum(self.jobs.seconds - 10.0 * np.array(rounds), 0.0)
        return max(float((left * self.jobs.gpus).sum()) / self.gpus, float(left.max()))

    @property
    def best(self) -> float:
        """The value of the best plan there is, by trying all."""
        count = len(self.jobs.number)
        most = np.ceil(self.jobs.seconds / 10.0)
        reached = {(0,) * count}
        subsets = [
            rows
            for many in range(count + 1)
            for rows in combinations(range(count), many)
            if self.jobs.gpus[list(rows)].sum() <= self.gpus
        ]
        for _ in range(self.window.slots):
            reached = {
                tuple(n + (row in rows) for row, n in enumerate(rounds))
                for rounds in reached
                for rows in subsets
            }
            reached = {rounds for rounds in reached if np.all(np.array(rounds) <= most)}
        return max(map(self.worth, reached))


@st.composite
def round_cases(draw: st.DrawFn, *, simple: bool) -> RoundCase:
    """simple: gains fall, restarts cost nothing, and run times are whole rounds."""
    count, slots = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    gain = rng.uniform(0.0, 1.0, (count, slots))
    seconds = rng.integers(0, 70, count).astype(float)
    jobs = RoundJobs(
        number=rng.permutation(count),
        gpus=rng.integers(1, 5, count).astype(float),
        gain=-np.sort(-gain, axis=1) if simple else gain - 0.1,
        seconds=10.0 * np.floor(seconds / 10.0) if simple else seconds,
        restart=None if simple else rng.uniform(0.0, 0.5, count),
        running=rng.random(count) < 0.4,
    )
    weight = draw(st.sampled_from([0.0, 0.01, 1.0]))
    return RoundCase(jobs, Window(0.0, 10.0, slots), float(draw(st.integers(1, 6))), weight)
