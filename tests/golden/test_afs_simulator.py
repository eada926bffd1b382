"""Our policies give every job the times and GPUs of the AFS simulator (240 jobs, 64 GPUs).

There every end is noticed at the next whole second: our tick of 1 s. Its FIFO skips what does not
fit and never preempts. Policies that are not elastic take a job's request for the most it can use. Its
AFS-L is called Opt2Jobs, its AFS-P OptPP; that throws coins, so averages of several seeds are compared.
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


@pytest.fixture(scope="module")
def of_coins(shared: Path) -> FloatColumn:
    """What `measures` says of eight runs with coins: (seeds, measures)."""
    policies = [f"afs-p:ties=coin,seed={seed}" for seed in range(8)]
    return np.array([measures(afs_p(shared, policy)) for policy in policies])


def test_coins_fall_about_as_in_the_simulator(shared: Path, of_coins: FloatColumn) -> None:
    """Mean completion times of all seeds within 0.5 %; changes of GPUs and most held within 7 %."""
    theirs = simulated(shared)
    assert np.all(np.abs(of_coins / theirs - 1) < (0.005, 0.005, 0.07, 0.07))


def test_the_narrower_one_is_another_rule(shared: Path, of_coins: FloatColumn) -> None:
    """As fast, with fewer changes of GPUs and narrower jobs than with any coins."""
    ours, theirs = measures(afs_p(shared, "afs-p")), simulated(shared)
    assert np.all(np.abs(ours[:2] / theirs[:2] - 1) < 0.005)
    assert np.all(ours[2:] < 0.95 * of_coins[:, 2:].min(axis=0))
    assert np.all(ours[2:] < 0.95 * theirs[2:])


def afs_p(shared: Path, policy: str) -> Outcomes:
    workload = afs_workload(shared / "golden" / "afs", elastic=True)
    return run(workload, policy, parse_cluster("8x8"), tick=1.0)


def measures(outcomes: Outcomes) -> FloatColumn:
    """Mean and median completion time, changes of GPUs in all, most GPUs held on average."""
    changes, most = changes_of_gpus(outcomes).sum(), most_gpus_held(outcomes).mean()
    return np.array([outcomes.jct.mean(), np.median(outcomes.jct), changes, most])


def simulated(shared: Path) -> FloatColumn:
    """The same of the simulator's run."""
    path = shared / "golden" / "afs" / "afs_tiresias240_64gpu_OptPP.csv"
    theirs = Reference.read(path, id="job_id").columns
    jct, changes, most = theirs["jct_s"], theirs["alloc_changes"], theirs["max_gpus_used"]
    return np.array([jct.mean(), np.median(jct), changes.sum(), most.mean()])


def most_gpus_held(outcomes: Outcomes) -> FloatColumn:
    most = np.zeros(len(outcomes))
    np.maximum.at(most, outcomes.segments.job, outcomes.segments.gpus)
    return most


def changes_of_gpus(outcomes: Outcomes) -> FloatColumn:
    """Starts, resizes and preemptions; the end is none."""
    given = np.bincount(outcomes.segments.job, minlength=len(outcomes))
    return np.asarray(given + outcomes.preemptions, dtype=np.float64)
