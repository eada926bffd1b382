"""Random states in which jobs are to grow: for the twins of the compiled loops."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from volvelle.core import columns
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.throughput import Table
from volvelle.testing.scenario import Scenario, happen

Floats = NDArray[np.float64]


def plain(loop: Callable[..., Any]) -> Callable[..., Any]:
    """The undecorated function behind a compiled loop."""
    return cast(Callable[..., Any], cast(Any, loop).py_func)


@dataclass(frozen=True)
class Growing:
    """Jobs with GPUs of one type, what is left, and their rates by number of GPUs."""

    matrix: Floats
    rows: NDArray[np.int64]
    gpus: Floats
    free: float
    left: Floats
    table: Floats
    work: Floats

    def under(self, grow: Callable[..., float], *more: object) -> tuple[list[float], list[float]]:
        """GPUs and quotas after ``grow``, which is to account for every GPU."""
        gpus, left = self.gpus.copy(), self.left.copy()
        free = grow(self.matrix, self.rows, gpus, self.free, left, self.table, 0, self.work, *more)
        assert gpus.sum() + free == self.gpus.sum() + self.free
        return gpus.tolist(), left.tolist()


@st.composite
def growings(draw: st.DrawFn) -> Growing:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    jobs, pools, curves = draw(st.integers(1, 9)), draw(st.integers(0, 2)), 3
    m = np.zeros((columns.COUNT, jobs))
    m[columns.NUMBER] = rng.permutation(jobs)
    m[columns.SUBMIT] = np.sort(rng.integers(0, 50, jobs))[m[columns.NUMBER].astype(int)]
    m[columns.LEAST] = rng.integers(1, 3, jobs)
    m[columns.MOST] = m[columns.LEAST] + rng.integers(0, 6, jobs)
    m[columns.POOL] = rng.integers(-1, pools, jobs)
    m[columns.PINNED] = rng.random(jobs) < 0.1
    m[columns.CURVE] = rng.integers(0, curves, jobs)
    served = rng.random(jobs) < 0.8
    steps = rng.choice([0.0, 0.5, 1.0, 1.0, 2.0], (curves, 1, 12))
    steps[:, :, 0] = 0.0
    return Growing(
        matrix=m,
        rows=rng.permutation(np.flatnonzero(served)),
        gpus=np.where(served, m[columns.LEAST], 0.0),
        free=float(rng.integers(0, 12)),
        left=rng.choice([0.0, 1.0, 2.5, 4.0], pools),
        table=np.cumsum(steps, axis=2),
        work=rng.choice([1.0, 2.0, 30.0, 45.5, 1000.0], jobs),
    )


def elastic(number: int, submit: float, work: float, rates: tuple[float, ...]) -> Job:
    most = float(len(rates))
    spec = JobSpec(id=f"{number}", submit_time=submit, gpus=most, min_gpus=1.0, max_gpus=most)
    return Job(spec, Truth(work=work, throughput=Table(rates)))


def first_shares(policy: str, gpus: int, *jobs: Job) -> dict[int, float]:
    """GPUs by job after the first decision with everybody there."""
    outcomes = happen(Scenario.of(parse_cluster(f"1x{gpus}"), jobs, policy=policy)).outcomes
    return shares_at(outcomes, jobs[-1].spec.submit_time)


def shares_at(outcomes: Outcomes, time: float) -> dict[int, float]:
    segments = outcomes.segments
    there = (segments.start <= time) & (time < segments.end)
    return dict(zip(segments.job[there].tolist(), segments.gpus[there].tolist(), strict=True))


LINEAR = (1.0, 2.0, 3.0, 4.0)
