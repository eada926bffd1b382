"""Synthetic outcomes: a small simulation without preemption, so that reports have a run to show."""

import heapq
from functools import cache

import numpy as np
from numpy.typing import NDArray

from volvelle.metrics.outcomes import JobStatus, Outcomes, Segments, Steps
from volvelle.model.job import JobClass, JobSpec, Reward


def random_specs(
    count: int, gpus: int, load: float, seed: int
) -> tuple[list[JobSpec], list[float]]:
    """Jobs that offer ``load`` of ``gpus`` GPUs, and how long each takes."""
    draw = np.random.default_rng(seed)
    widths = draw.choice([1.0, 2, 4, 8, 16], count, p=[0.6, 0.12, 0.12, 0.12, 0.04])
    widths = np.minimum(widths, gpus)
    seconds = np.clip(draw.lognormal(7.6, 1.7, count), 20, 4e5)
    gap = float((widths * seconds).mean() / (gpus * load))
    submitted = np.cumsum(draw.exponential(gap, count))
    classes = draw.choice(list(JobClass), count, p=[0.7, 0.2, 0.1])
    specs = [
        JobSpec(
            id=f"job-{i:05d}",
            submit_time=float(submitted[i]),
            gpus=float(widths[i]),
            user=f"user-{draw.zipf(1.6) % 40}",
            pool=("research", "products", "students")[i % 3],
            job_class=JobClass(classes[i]),
            rewards=() if classes[i] == "best-effort" else (Reward(float(seconds[i]) * 4, 1.0),),
        )
        for i in range(count)
    ]
    return specs, seconds.tolist()


def simulated(
    count: int = 200,
    *,
    gpus: int = 64,
    load: float = 0.9,
    seed: int = 7,
    shortest_first: bool = False,
    slots: bool = True,
    until: float = float("inf"),
) -> Outcomes:
    """The outcomes of jobs served in order of submission, or shortest first."""
    specs, seconds = random_specs(count, gpus, load, seed)
    starts, held = _serve(specs, seconds, gpus, shortest_first)
    finish = starts + np.array(seconds)
    return outcomes_of(specs, starts, finish, gpus, held if slots else None, until)


def _serve(
    specs: list[JobSpec], seconds: list[float], gpus: int, shortest_first: bool
) -> tuple[NDArray[np.float64], list[list[int]]]:
    starts = np.full(len(specs), np.nan)
    held: list[list[int]] = [[] for _ in specs]
    free = list(range(gpus))
    running: list[tuple[float, int]] = []
    queue: list[tuple[float, int]] = []
    coming = 0
    while coming < len(specs) or queue:
        arrives = specs[coming].submit_time if coming < len(specs) else float("inf")
        if running and running[0][0] <= arrives:
            now, done = heapq.heappop(running)
            for slot in held[done]:
                heapq.heappush(free, slot)
        else:
            now = arrives
            heapq.heappush(queue, (seconds[coming] if shortest_first else coming, coming))
            coming += 1
        while queue and specs[queue[0][1]].gpus <= len(free):
            job = heapq.heappop(queue)[1]
            held[job] = sorted(heapq.heappop(free) for _ in range(int(specs[job].gpus)))
            starts[job] = now
            heapq.heappush(running, (now + seconds[job], job))
    return starts, held


def outcomes_of(
    specs: list[JobSpec],
    starts: NDArray[np.float64],
    finish: NDArray[np.float64],
    gpus: int,
    held: list[list[int]] | None = None,
    until: float = float("inf"),
) -> Outcomes:
    """Outcomes of jobs with one segment each; what happens after ``until`` has not happened."""
    started, finished = starts < until, finish <= until
    end = min(until, float(np.nanmax(finish, initial=0.0)))
    submitted = np.array([spec.submit_time for spec in specs])
    widths = np.array([spec.gpus for spec in specs])
    rows = np.flatnonzero(started)
    rows = rows[np.argsort(starts[rows], kind="stable")]
    ends = np.minimum(finish, end)
    slots = [held[row] if held else [] for row in rows]
    ran = np.where(started, ends - starts, 0.0)
    status = np.where(finished, JobStatus.FINISHED, np.where(started, "running", "waiting"))
    none = np.zeros(len(specs), dtype=np.int64)
    return Outcomes(
        specs=specs,
        submit_time=submitted,
        gpus=widths,
        exclusive_seconds=finish - starts,
        first_start=np.where(started, starts, np.nan),
        finish=np.where(finished, finish, np.nan),
        gpu_seconds=ran * widths,
        run_seconds=ran,
        preemptions=none,
        restarts=none,
        lost_gpu_seconds=none.astype(float),
        contention=np.ones(len(specs)),
        tracked=np.ones(len(specs), dtype=bool),
        status=status.astype(np.str_),
        reason=[""] * len(specs),
        segments=Segments(
            job=rows,
            start=starts[rows],
            end=ends[rows],
            gpus=widths[rows],
            slot_offsets=np.cumsum([0, *map(len, slots)]),
            slots=np.array([slot for several in slots for slot in several], dtype=np.int64),
        ),
        capacity=Steps(np.array([0.0]), np.array([float(gpus)])),
        end_time=end,
    )


@cache
def small_run() -> Outcomes:
    """Two hundred jobs on 64 GPUs, all finished."""
    return simulated()


def empty_run() -> Outcomes:
    """A run to which nobody submitted a job."""
    nothing = np.empty(0)
    return outcomes_of([], nothing, nothing, 64)
