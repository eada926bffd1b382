"""How long jobs take alone, on GPUs of their first wished type."""

from collections.abc import Sequence

import numpy as np

from volvelle.model.arrays import FloatColumn
from volvelle.model.job import Job
from volvelle.model.throughput import LINEAR


def seconds_alone(jobs: Sequence[Job], gpus: FloatColumn) -> FloatColumn:
    """Seconds that each job takes on ``gpus`` GPUs, (jobs,); infinite without any, 0 without work."""
    works = np.array([job.truth.work for job in jobs], dtype=np.float64)
    seconds: FloatColumn = np.full(len(gpus), np.inf)
    np.divide(works, gpus, out=seconds, where=gpus > 0)
    seconds[~(works > 0)] = 0.0
    for row, job in enumerate(jobs):
        if job.truth.throughput is not LINEAR or job.truth.regimes:
            kind = job.spec.gpu_types[0] if job.spec.gpu_types else ""
            seconds[row] = job.seconds_on(float(gpus[row]), kind)
    return seconds
