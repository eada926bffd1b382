"""Random small windows, and by hand what can be done in them at best."""

from collections.abc import Callable
from functools import cache
from itertools import combinations
from typing import Any, NamedTuple, cast

import numpy as np
from hypothesis import strategies as st

from volvelle.plan.deadlines import DeadlineJobs
from volvelle.plan.plan import Window


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
