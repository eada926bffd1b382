"""Orders and max-min sharing give every job the times and GPUs of the AFS simulator (240 jobs, 64 GPUs).

There every end is noticed at the next whole second: our tick of 1 s. Its FIFO skips what does not
fit and never preempts. Policies that are not elastic take a job's request for the most it can use.
"""

from pathlib import Path

import numpy as np
import pytest
from references import FloatColumn, Reference, afs_workload, run

from volvelle.metrics.outcomes import Outcomes
from volvelle.model.cluster import parse_cluster


@pytest.mark.parametrize(
    ("simulated", "policy", "elastic"),
    [
        ("FIFO", "fifo-skip", False),
        ("SRTF", "srtf", False),
        ("SRSF", "srsf", False),
        ("MaxMin", "max-min", True),
    ],
)
def test_every_job_fares_as_in_the_simulator(
    shared: Path, simulated: str, policy: str, elastic: bool
) -> None:
    folder = shared / "golden" / "afs"
    outcomes = run(afs_workload(folder, elastic=elastic), policy, parse_cluster("8x8"), tick=1.0)
    reference = Reference.read(folder / f"afs_tiresias240_64gpu_{simulated}.csv", id="job_id")
    assert not reference.differences(
        outcomes,
        arrival_s=outcomes.submit_time,
        first_sched_s=outcomes.first_start,
        finish_s=outcomes.finish,
        jct_s=outcomes.jct,
        max_gpus_used=most_gpus_held(outcomes),
        alloc_changes=changes_of_gpus(outcomes),
    )


def most_gpus_held(outcomes: Outcomes) -> FloatColumn:
    most = np.zeros(len(outcomes))
    np.maximum.at(most, outcomes.segments.job, outcomes.segments.gpus)
    return most


def changes_of_gpus(outcomes: Outcomes) -> FloatColumn:
    """Starts, resizes and preemptions; the end is none."""
    given = np.bincount(outcomes.segments.job, minlength=len(outcomes))
    return np.asarray(given + outcomes.preemptions, dtype=np.float64)
