"""Workloads to try candidates on: random samples of a history (PCS, OSDI'24, section 3.3).

The history is cut in two by time: samples of the earlier part choose, samples of the later part test
the choice. A sample is a workload of about a thousand jobs like that part's
(`volvelle.workload.fitting`): jobs are resampled whole, in blocks with their gaps, so that besides the
distribution of sizes and the rate of submission, bursts and the rhythm of the week stay (the paper samples
sizes and the average rate). Jobs that request more GPUs than the cluster has are left out. With no samples
candidates are tried on the part itself: for a look back, not ahead.
"""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from volvelle.model.problems import Problem
from volvelle.workload.fitting import like
from volvelle.workload.workload import Workload

_FEWEST = 20
"""Jobs below which a part of a history says nothing about the rest."""


class Samples(NamedTuple):
    """Workloads to choose by, and workloads to test the choice on."""

    train: tuple[Workload, ...]
    test: tuple[Workload, ...]

    @property
    def all(self) -> tuple[Workload, ...]:
        """Both, those to choose by first."""
        return self.train + self.test


def split(history: Workload, test_share: float) -> tuple[Workload, Workload]:
    """The earlier and the later part, by jobs; none later for 0. Raises `Problem` for nearly empty ones."""
    if not 0.0 <= test_share < 1.0:
        raise Problem(
            f"the share of the history to test on is {test_share:g}",
            mend="give a number from 0 to less than 1, as in 0.25",
            usage=True,
        )
    cut = round(len(history) * (1.0 - test_share))
    parts = (Workload(history.jobs[:cut]), Workload(history.jobs[cut:]))
    for part, what in zip(parts, ("train", "test"), strict=True):
        if len(part) < _FEWEST and (test_share or what == "train"):
            raise Problem(
                f"the {what} window of {history.name or 'the history'} has {len(part)} of its "
                f"{len(history)} jobs, too few to sample from",
                mend=f"give a longer history, or another share to test on ({_FEWEST} jobs at least)",
                usage=True,
            )
    return parts


def draw(parts: Sequence[Workload], *, samples: int, jobs: int, gpus: float, seed: int) -> Samples:
    """``samples`` workloads of ``jobs`` jobs like each of the two ``parts``, for ``gpus`` GPUs.

    0: each part as it is. A part without jobs has none.
    """
    drawn: list[tuple[Workload, ...]] = []
    for number, part in enumerate(parts):
        if not len(part):
            drawn.append(())
            continue
        if not samples:
            fitting = tuple(job for job in part.jobs if job.spec.least_gpus <= gpus)
            drawn.append((Workload(fitting).rebased(),))
            continue
        fitted = like(part, jobs=jobs, gpus=int(gpus), cluster_gpus=int(gpus))
        drawn.append(
            tuple(
                fitted.generate(np.random.default_rng([seed, number, sample])).rebased()
                for sample in range(samples)
            )
        )
    return Samples(*drawn)


def fingerprint(history: Workload) -> str:
    """The same for the same jobs at the same times."""
    columns = np.stack([history.submit_times, history.gpus, history.durations])
    return hashlib.sha256(columns.tobytes()).hexdigest()[:16]
