"""The plain orders give every job the times, waits and preemptions of the Tiresias simulator.

Its placement ``count`` counts GPUs as our ``none`` does. Its ``fjf`` (first job first, skipping what
does not fit) is our ``fifo-skip``, its ``sjf`` (fewest GPUs first) our ``smallest``. Its
``shortest`` and ``shortest-gpu`` sort the list as the last sort left it, so that a tie goes to the job that
was ahead before: our ``tiresias-shortest``. Under ``srtf`` and ``srsf`` it goes to the earlier submission.
"""

from pathlib import Path

import pytest
from references import Reference, rows, run, tiresias_workload

from volvelle.workload.readers.clusters import read_cluster_table
from volvelle.workload.workload import Workload

POLICY = {
    "fifo": "fifo",
    "fjf": "fifo-skip",
    "sjf": "smallest",
    "shortest": "tiresias-shortest:service=seconds",
    "shortest-gpu": "tiresias-shortest",
}

CASES = [
    ("60", cluster, schedule) for cluster in ("n2g4", "n4g4", "n32g4") for schedule in POLICY
] + [
    (trace, cluster, schedule)
    for trace, cluster in (("philly200", "n12g8"), ("philly1000", "n16g8"), ("philly1000", "n48g8"))
    for schedule in ("fifo", "fjf", "shortest", "shortest-gpu")
]


@pytest.fixture
def folder(shared: Path) -> Path:
    return shared / "golden" / "tiresias"


@pytest.mark.parametrize(("trace", "cluster", "schedule"), CASES)
def test_every_job_fares_as_in_the_simulator(
    folder: Path, trace: str, cluster: str, schedule: str
) -> None:
    workload = tiresias_workload(folder, trace)
    assert differences(folder, workload, trace, cluster, schedule) == []


@pytest.mark.parametrize(
    ("trace", "cluster", "schedule"), [case for case in CASES if "shortest" in case[2]]
)
def test_ties_by_submission_are_all_that_differs_under_our_orders(
    folder: Path, trace: str, cluster: str, schedule: str
) -> None:
    """The rules of the simulator, restated with ties by submission, give what ours give."""
    described = read_cluster_table(folder / "clusters" / f"{cluster}.csv")
    order = {"shortest": "srtf", "shortest-gpu": "srsf"}[schedule]
    outcomes = run(tiresias_workload(folder, trace), order, described)
    ours = dict(zip((spec.id for spec in outcomes.specs), outcomes.finish, strict=True))
    assert ours == pytest.approx(restated(folder, trace, described.gpus, schedule))


def restated(folder: Path, trace: str, gpus: float, schedule: str) -> dict[str, int]:
    """When each job ends where the list is sorted anew at each event, equals by submission."""
    to_come = sorted(
        (int(row["submit_time"]), number, row["job_id"], int(row["num_gpu"]), int(row["duration"]))
        for number, row in enumerate(rows(folder / f"{trace}_job.csv"))
    )
    line: list[str] = []
    number: dict[str, int] = {}
    width: dict[str, int] = {}
    left: dict[str, int] = {}
    ended: dict[str, int] = {}
    running: list[str] = []

    def key(job: str) -> tuple[int, int]:
        return left[job] * (width[job] if schedule == "shortest-gpu" else 1), number[job]

    now = 0
    while to_come or line:
        at = min([*(now + left[job] for job in running), *(submit for submit, *_ in to_come[:1])])
        for job in running:
            left[job] -= at - now
        now = at
        ended.update((job, now) for job in line if left[job] == 0)
        line = [job for job in line if left[job] > 0]
        while to_come and to_come[0][0] == now:
            _, place, job, width[job], left[job] = to_come.pop(0)
            number[job] = place
            line.append(job)
        line.sort(key=key)
        free, running = gpus, []
        for job in line:
            if width[job] <= free:
                free -= width[job]
                running.append(job)
    return ended


def differences(
    folder: Path, workload: Workload, trace: str, cluster: str, schedule: str
) -> list[str]:
    described = read_cluster_table(folder / "clusters" / f"{cluster}.csv")
    outcomes = run(workload, POLICY[schedule], described)
    path = folder / f"{trace}__{cluster}__count__{schedule}.csv"
    return Reference.read(path, id="job_id").differences(
        outcomes,
        submit_time=outcomes.submit_time,
        num_gpu=outcomes.gpus,
        first_start=outcomes.first_start,
        end_time=outcomes.finish,
        jct=outcomes.jct,
        pending_time=outcomes.queueing_delay,
        preempt=outcomes.preemptions,
    )
