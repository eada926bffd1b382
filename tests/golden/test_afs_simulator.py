"""Our policies give every job the times and GPUs of the AFS simulator (240 jobs, 64 GPUs).

There every end is noticed at the next whole second: our tick of 1 s. Its FIFO skips what does not
fit and never preempts. Policies that are not elastic take a job's request for the most it can use. Its
AFS-L is called Opt2Jobs, its AFS-P OptPP; that throws coins, so averages are compared.
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
        ("Opt2Jobs", "afs-l", True),
        ("Optimus", "optimus", True),
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


def test_afs_p_fares_on_average_as_in_the_simulator(shared: Path) -> None:
    folder = shared / "golden" / "afs"
    outcomes = run(afs_workload(folder, elastic=True), "afs-p", parse_cluster("8x8"), tick=1.0)
    theirs = Reference.read(folder / "afs_tiresias240_64gpu_OptPP.csv", id="job_id").columns
    waits = theirs["first_sched_s"] - theirs["arrival_s"]
    assert outcomes.jct.mean() == pytest.approx(theirs["jct_s"].mean(), rel=0.005)
    assert np.median(outcomes.jct) == pytest.approx(np.median(theirs["jct_s"]), rel=0.005)
    assert outcomes.finish.max() == pytest.approx(theirs["finish_s"].max(), rel=0.01)
    assert np.mean(outcomes.first_start - outcomes.submit_time) == pytest.approx(
        waits.mean(), rel=0.02
    )


def most_gpus_held(outcomes: Outcomes) -> FloatColumn:
    most = np.zeros(len(outcomes))
    np.maximum.at(most, outcomes.segments.job, outcomes.segments.gpus)
    return most


def changes_of_gpus(outcomes: Outcomes) -> FloatColumn:
    """Starts, resizes and preemptions; the end is none."""
    given = np.bincount(outcomes.segments.job, minlength=len(outcomes))
    return np.asarray(given + outcomes.preemptions, dtype=np.float64)
