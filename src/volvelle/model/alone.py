"""How long jobs take alone, on GPUs of their first wished type."""

from collections.abc import Sequence

import numpy as np

from volvelle.model.arrays import FloatColumn
from volvelle.model.job import Job
from volvelle.model.throughput import LINEAR


def seconds_alone(jobs: Sequence[Job], gpus: FloatColumn) -> FloatColumn:
    """Seconds that each job takes on ``gpus`` GPUs, (jobs,); infinite without any, 0 without work."""
    works = np.empty(len(jobs))
    unlike: dict[int, float] = {}
    for row, job in enumerate(jobs):
        truth = job.truth
        works[row] = truth.work
        if truth.throughput is not LINEAR or truth.regimes:
            unlike[row] = job.seconds_on(float(gpus[row]), next(iter(job.spec.gpu_types), ""))
    seconds: FloatColumn = np.full(len(gpus), np.inf)
    np.divide(works, gpus, out=seconds, where=gpus > 0)
    seconds[~(works > 0)] = 0.0
    seconds[list(unlike)] = list(unlike.values())
    return seconds
