"""Tiresias gives every job the times, waits and preemptions of two simulators that have it.

The authors' own: its LAS schedules ``dlas`` (queues by seconds), ``dlas-gpu`` (by GPU-seconds),
``dlas-gpu-05`` and ``-1`` (with promotion) and ``dlas-gpu-gittins`` (by the index of a file of samples);
``dlas-gpu-gittins-1`` there is ``dlas-gpu-1`` in all but name. They always count GPUs, with the placement
``yarn`` too. The AFS simulator's: one limit, and a job is forgiven once it is started again.
"""

from pathlib import Path

import numpy as np
import pytest
from references import Reference, afs_workload, run, tiresias_workload
from test_afs_simulator import changes_of_gpus, most_gpus_held

from volvelle.metrics.outcomes import Outcomes
from volvelle.model.cluster import parse_cluster
from volvelle.workload.readers.clusters import read_cluster_table

LIMITS = "limits=3250/7200"
POLICY = {
    "dlas": f"tiresias:{LIMITS},service=seconds",
    "dlas-gpu": f"tiresias:{LIMITS}",
    "dlas-gpu-05": f"tiresias:{LIMITS},promote=0.5",
    "dlas-gpu-1": f"tiresias:{LIMITS},promote=1",
    "dlas-gpu-gittins-1": f"tiresias:{LIMITS},promote=1",
}
SMALL = [("60", "n4g4", schedule) for schedule in POLICY] + [
    ("60", "n32g4", "dlas"),
    ("60", "n32g4", "dlas-gpu"),
    ("60", "n2g4", "dlas-gpu"),
]
LOADED = [("philly200", "n12g8"), ("philly1000", "n16g8")]
GITTINS = [("60", "n2g4"), ("60", "n4g4"), ("60", "n32g4"), *LOADED]


@pytest.fixture
def folder(shared: Path) -> Path:
    return shared / "golden" / "tiresias"


def outcomes_of(folder: Path, trace: str, cluster: str, policy: str) -> Outcomes:
    described = read_cluster_table(folder / "clusters" / f"{cluster}.csv")
    return run(tiresias_workload(folder, trace), policy, described)


def differences(path: Path, outcomes: Outcomes) -> list[str]:
    return Reference.read(path, id="job_id").differences(
        outcomes,
        submit_time=outcomes.submit_time,
        first_start=outcomes.first_start,
        end_time=outcomes.finish,
        jct=outcomes.jct,
        pending_time=outcomes.queueing_delay,
        preempt=outcomes.preemptions,
    )


@pytest.mark.parametrize(
    ("trace", "cluster", "schedule"), [*SMALL, *((*case, "dlas-gpu") for case in LOADED)]
)
def test_queues_as_in_the_authors_simulator(
    folder: Path, trace: str, cluster: str, schedule: str
) -> None:
    outcomes = outcomes_of(folder, trace, cluster, f"{POLICY[schedule]},simulator=true")
    path = folder / f"{trace}__{cluster}__count__{schedule}.csv"
    assert differences(path, outcomes) == []


@pytest.mark.parametrize(("trace", "cluster"), GITTINS)
def test_gittins_index_as_in_the_authors_simulator(
    folder: Path, shared: Path, trace: str, cluster: str
) -> None:
    samples = shared / "data" / "tiresias" / "yarn-gput1000.csv"
    policy = f"gittins:{LIMITS},distribution={samples},simulator=true"
    outcomes = outcomes_of(folder, trace, cluster, policy)
    path = folder / f"{trace}__{cluster}__count__dlas-gpu-gittins.csv"
    assert differences(path, outcomes) == []


@pytest.mark.parametrize(("trace", "cluster", "schedule"), SMALL)
def test_the_policy_of_the_paper_gives_the_same_where_few_jobs_fall(
    folder: Path, trace: str, cluster: str, schedule: str
) -> None:
    outcomes = outcomes_of(folder, trace, cluster, POLICY[schedule])
    path = folder / f"{trace}__{cluster}__count__{schedule}.csv"
    assert differences(path, outcomes) == []


@pytest.mark.parametrize(("trace", "cluster"), LOADED)
def test_late_falls_change_the_mean_little_where_many_jobs_fall(
    folder: Path, trace: str, cluster: str
) -> None:
    outcomes = outcomes_of(folder, trace, cluster, POLICY["dlas-gpu"])
    path = folder / f"{trace}__{cluster}__count__dlas-gpu.csv"
    reference = Reference.read(path, id="job_id").columns["jct"]
    assert np.mean(outcomes.jct) == pytest.approx(np.mean(reference), rel=0.1)


@pytest.mark.parametrize(
    ("simulated", "limit"),
    [("Tiresias", "50h"), ("tiresias_1_starve", "1h"), ("tiresias_02_starve", "720")],
)
def test_queues_as_in_the_afs_simulator(shared: Path, simulated: str, limit: str) -> None:
    folder = shared / "golden" / "afs"
    workload = afs_workload(folder, elastic=False)
    policy = f"tiresias:limits={limit},forgive=true"
    outcomes = run(workload, policy, parse_cluster("8x8"), tick=1.0)
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
