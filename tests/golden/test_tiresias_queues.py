"""Tiresias gives every job the times, waits and preemptions of two simulators that have it.

The authors' own: its LAS schedules ``dlas`` (queues by seconds), ``dlas-gpu`` (by GPU-seconds),
``dlas-gpu-05`` and ``-1`` (with promotion) and ``dlas-gpu-gittins`` (by the index of a file of samples);
``dlas-gpu-gittins-1`` there is ``dlas-gpu-1`` in all but name. They always count GPUs, with the placement
``yarn`` too. The AFS simulator's: one limit, and a job is forgiven once it is started again.
"""

from bisect import bisect_right
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from pathlib import Path

import numpy as np
import pytest
from references import Reference, afs_workload, rows, run, tiresias_workload
from test_afs_simulator import changes_of_gpus, most_gpus_held

from volvelle.core.policy import policies
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.cluster import parse_cluster
from volvelle.systems.tiresias.reproductions.gittins import GittinsSimulator
from volvelle.systems.tiresias.reproductions.tiresias import indices_of_samples
from volvelle.workload.readers.clusters import read_cluster_table

LIMITS = "limits=3250/7200"
POLICY = {
    "dlas": f"tiresias:{LIMITS},service=seconds",
    "dlas-gpu": f"tiresias:{LIMITS}",
    "dlas-gpu-05": f"tiresias:{LIMITS},promote=0.5",
    "dlas-gpu-1": f"tiresias:{LIMITS},promote=1",
    "dlas-gpu-gittins-1": f"tiresias:{LIMITS},promote=1",
}


def simulated(policy: str) -> str:
    """The same as in the authors' simulator."""
    return policy.replace("tiresias:", "tiresias-simulator:")


SMALL = [("60", "n4g4", schedule) for schedule in POLICY] + [
    ("60", "n32g4", "dlas"),
    ("60", "n32g4", "dlas-gpu"),
    ("60", "n2g4", "dlas-gpu"),
]
LOADED = [("philly200", "n12g8"), ("philly1000", "n16g8")]
GITTINS = [("60", "n2g4"), ("60", "n4g4"), ("60", "n32g4"), *LOADED, ("philly1000", "n48g8")]


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
    outcomes = outcomes_of(folder, trace, cluster, simulated(POLICY[schedule]))
    path = folder / f"{trace}__{cluster}__count__{schedule}.csv"
    assert differences(path, outcomes) == []


@pytest.mark.parametrize(("trace", "cluster"), GITTINS)
def test_gittins_index_as_in_the_authors_simulator(
    folder: Path, shared: Path, trace: str, cluster: str
) -> None:
    samples = shared / "data" / "tiresias" / "yarn-gput1000.csv"
    policy = f"gittins-simulator:{LIMITS},distribution={samples}"
    outcomes = outcomes_of(folder, trace, cluster, policy)
    path = folder / f"{trace}__{cluster}__count__dlas-gpu-gittins.csv"
    assert differences(path, outcomes) == []


def indices(sizes: list[float], quantum: int, halves: str) -> list[float]:
    """The simulator's index of a job one unit short of each of ``sizes``, rounded as exact decimals."""

    def rounded(number: float, digits: int) -> float:
        return float(Decimal(number).quantize(Decimal(1).scaleb(-digits), halves))

    found = []
    for size in sizes:
        first = bisect_right(sizes, size - 1)
        last = bisect_right(sizes, size - 1 + quantum)
        if size + quantum > sizes[-1]:
            last = len(sizes) - 1
        alive = len(sizes) - first
        mean = (sum(sizes[first:last]) + quantum * (len(sizes) - last)) // alive
        found.append(rounded(rounded((last - first) / alive, 5) * 1e6 / mean, 4))
    return found


def test_gittins_indices_are_rounded_as_in_the_authors_simulator(shared: Path) -> None:
    """Halves away from zero (Python 2): two of its 1,001 indices come out otherwise if to even."""
    path = shared / "data" / "tiresias" / "yarn-gput1000.csv"
    policy = policies.make(f"gittins-simulator:distribution={path}")
    assert isinstance(policy, GittinsSimulator)
    sizes = policy.samples.tolist()
    away, even = (indices(sizes, 3250, halves) for halves in (ROUND_HALF_UP, ROUND_HALF_EVEN))
    memory = policy.kernel(named=False).memory
    assert indices_of_samples(policy.samples - 1, memory).tolist() == away
    apart = [size for size, one, other in zip(sizes, away, even, strict=True) if one != other]
    assert apart == [14159.0, 209852.0]


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
    [
        ("Tiresias", "50h"),
        ("tiresias_1_starve", "1h"),
        pytest.param("tiresias_02_starve", "720", marks=pytest.mark.slow),
    ],
)
def test_queues_as_in_the_afs_simulator(shared: Path, simulated: str, limit: str) -> None:
    folder = shared / "golden" / "afs"
    workload = afs_workload(folder, elastic=False)
    policy = f"tiresias-afs:limits={limit}"
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


def restated(
    folder: Path, trace: str, gpus: int, knob: float, limits: tuple[int, ...] = (3250, 7200)
) -> tuple[dict[str, int], int]:
    """When each job ends by the rules of the authors' simulator, and how many promotions there are."""
    table = [
        (int(row["submit_time"]), row["job_id"], int(row["num_gpu"]), int(row["duration"]))
        for row in rows(folder / f"{trace}_job.csv")
    ]
    to_come = sorted(table, key=lambda job: job[0])
    queues: list[list[str]] = [[] for _ in range(len(limits) + 1)]
    width: dict[str, int] = {}
    left: dict[str, int] = {}
    ran: dict[str, int] = {}
    waited: dict[str, int] = {}
    ended: dict[str, int] = {}
    running: set[str] = set()
    now = promotions = 0
    while to_come or any(queues):
        ends = [now + left[job] for job in running]
        moves = [
            now + (limits[q] - ran[job]) // width[job]
            for q, queue in enumerate(queues[:-1])
            for job in queue
            if job in running
        ]
        for job in (job for queue in queues[1:] for job in queue if job not in running):
            if ran[job] and int(ran[job] * knob - waited[job]) > 0:
                moves.append(now + int(ran[job] * knob - waited[job]))
        at = min([*ends, *(submit for submit, *_ in to_come[:1]), *moves])
        for job in [job for queue in queues for job in queue]:
            if job in running:
                ran[job] += at - now
                left[job] -= at - now
            elif ran[job]:
                waited[job] += at - now
        now = at
        for queue in queues:
            for job in [job for job in queue if job in running and left[job] == 0]:
                queue.remove(job)
                running.remove(job)
                ended[job] = now
        while to_come and to_come[0][0] == now:
            _, job, width[job], left[job] = to_come.pop(0)
            ran[job] = waited[job] = 0
            queues[0].append(job)
        for job in sorted((job for queue in queues for job in queue), key=list(left).index):
            q = next(q for q, queue in enumerate(queues) if job in queue)
            if job in running and q < len(limits) and ran[job] * width[job] >= limits[q]:
                queues[q].remove(job)
                queues[q + 1].append(job)
            elif job not in running and q and ran[job] and waited[job] >= int(ran[job] * knob):
                queues[q].remove(job)
                queues[0].append(job)
                ran[job] = waited[job] = 0
                promotions += 1
        free, running = gpus, set()
        for job in (job for queue in queues for job in queue):
            if width[job] <= free:
                free -= width[job]
                running.add(job)
        queues = [sorted(queue, key=lambda job: job not in running) for queue in queues]
    return ended, promotions


@pytest.mark.parametrize("knob", [0.5, 1, 8])
def test_promotion_as_in_the_authors_simulator(folder: Path, knob: float) -> None:
    """None of the results there has a promotion, so its rules are restated and run on a loaded trace."""
    ended, promotions = restated(folder, "philly200", 96, knob)
    policy = simulated(f"{POLICY['dlas-gpu']},promote={knob}")
    outcomes = outcomes_of(folder, "philly200", "n12g8", policy)
    assert promotions > 0
    finish = dict(zip((spec.id for spec in outcomes.specs), outcomes.finish, strict=True))
    assert finish == pytest.approx(ended, rel=1e-6)


def test_queues_by_the_simulators_rules_where_its_stale_ends_spoil_its_results(
    folder: Path,
) -> None:
    """There a job that was to end at the next arrival ends then, also where it was preempted before."""
    ended, promotions = restated(folder, "philly1000", 384, knob=1e9)
    policy = simulated(POLICY["dlas-gpu"])
    outcomes = outcomes_of(folder, "philly1000", "n48g8", policy)
    finish = dict(zip((spec.id for spec in outcomes.specs), outcomes.finish, strict=True))
    assert promotions == 0
    assert finish == pytest.approx(ended, rel=1e-6)
    path = folder / "philly1000__n48g8__count__dlas-gpu.csv"
    theirs = Reference.read(path, id="job_id").columns["jct"]
    assert np.mean(outcomes.jct) == pytest.approx(np.mean(theirs), rel=0.005)
