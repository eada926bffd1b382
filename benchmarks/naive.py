"""The baseline of the benchmarks: a simulator as one writes it on an afternoon.

Jobs are objects in a list; at every event all of them are sorted again and served in order. It gives the
same completion times as Volvelle (the benchmark checks), so the ratio is one of speed alone.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from volvelle.workload.workload import Workload


@dataclass
class NaiveJob:
    number: int
    submit: float
    gpus: float
    remaining: float
    attained: float = 0.0
    running: bool = False
    finish: float = math.nan


Key = Callable[[NaiveJob], float]

KEYS: dict[str, Key] = {
    "fifo": lambda job: job.number,
    "srtf": lambda job: job.remaining,
    "srsf": lambda job: (job.remaining + 1e-6) * job.gpus,
}


def simulate_naively(workload: Workload, gpus: float, policy: str) -> tuple[list[float], int]:
    """Finish times in order of submission, and how many events it took."""
    jobs = [
        NaiveJob(number, job.spec.submit_time, job.spec.gpus, job.truth.work / job.spec.gpus)
        for number, job in enumerate(workload.jobs)
    ]
    key, preemptive, strict = KEYS[policy], policy != "fifo", policy == "fifo"
    waiting_for = 0
    active: list[NaiveJob] = []
    now, events = 0.0, 0
    while active or waiting_for < len(jobs):
        arrival = jobs[waiting_for].submit if waiting_for < len(jobs) else math.inf
        end = min((now + job.remaining for job in active if job.running), default=math.inf)
        later = min(arrival, end)
        for job in active:
            if job.running:
                job.remaining -= later - now
                job.attained += later - now
        now = later
        for job in [job for job in active if job.running and job.remaining <= 1e-9]:
            job.finish = now
            active.remove(job)
            events += 1
        while waiting_for < len(jobs) and jobs[waiting_for].submit <= now:
            active.append(jobs[waiting_for])
            waiting_for += 1
            events += 1
        free = gpus - (0.0 if preemptive else sum(job.gpus for job in active if job.running))
        for job in sorted(active, key=key):
            if not preemptive and job.running:
                continue
            if job.gpus <= free:
                job.running, free = True, free - job.gpus
            elif strict:
                break
            else:
                job.running = False
    return [job.finish for job in jobs], events
