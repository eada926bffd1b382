"""The baseline for elastic policies: AFS-L as one writes it on an afternoon, after the text of the paper.

Jobs are objects in a list; at every event each has its time left computed anew for every comparison. It gives
the same completion times as Volvelle (the benchmark checks), so the ratio is one of speed alone.
"""

import math
from dataclasses import dataclass

from volvelle.model.throughput import ThroughputModel
from volvelle.workload.workload import Workload

SLACK = 1e-9


@dataclass
class NaiveJob:
    number: int
    submit: float
    most: float
    left: float
    throughput: ThroughputModel
    gpus: float = 0.0
    finish: float = math.nan

    def seconds(self, gpus: float) -> float:
        """Time left on so many GPUs."""
        rate = self.throughput.rate(gpus)
        return self.left / rate if rate > 0 else math.inf

    def gain(self) -> float:
        """How much quicker it would be with one GPU more."""
        return self.seconds(self.gpus) / self.seconds(self.gpus + 1)


def beats(one: NaiveJob, best: NaiveJob) -> bool:
    """Whether ``one`` wins the next GPU from ``best``, who met the others before."""
    if one.seconds(one.gpus) < best.seconds(best.gpus):
        return one.gain() + 1 / best.gain() > 2 + SLACK
    return not best.gain() + 1 / one.gain() > 2 + SLACK


def share(active: list[NaiveJob], gpus: float) -> None:
    """GPUs for everybody: one each, then each further one to the winner of a contest."""
    if sum(job.most for job in active) <= gpus:
        for job in active:
            job.gpus = job.most
        return
    for job in active:
        job.gpus = 0.0
    free = gpus
    for job in sorted(active, key=lambda job: (job.seconds(1), job.number)):
        if free >= 1:
            job.gpus, free = 1.0, free - 1
    while free >= 1:
        best = None
        for job in active:
            if 0 < job.gpus < job.most and (best is None or beats(job, best)):
                best = job
        if best is None:
            return
        best.gpus, free = best.gpus + 1, free - 1


def simulate_naively(workload: Workload, gpus: float) -> tuple[list[float], int]:
    """Finish times of jobs that run on one GPU or more, and how many events it took."""
    jobs = [
        NaiveJob(
            number,
            job.spec.submit_time,
            job.spec.most_gpus,
            job.truth.work,
            job.truth.throughput,
        )
        for number, job in enumerate(workload.jobs)
    ]
    coming, events = 0, 0
    active: list[NaiveJob] = []
    now = 0.0
    while active or coming < len(jobs):
        arrival = jobs[coming].submit if coming < len(jobs) else math.inf
        end = min((now + job.seconds(job.gpus) for job in active if job.gpus), default=math.inf)
        later = min(arrival, end)
        for job in active:
            if job.gpus:
                job.left -= (later - now) * job.throughput.rate(job.gpus)
        now = later
        for job in [job for job in active if job.gpus and job.seconds(job.gpus) <= 1e-9]:
            job.finish = now
            active.remove(job)
            events += 1
        while coming < len(jobs) and jobs[coming].submit <= now:
            active.append(jobs[coming])
            coming += 1
            events += 1
        share(active, gpus)
    return [job.finish for job in jobs], events
