"""The plain orders give every job the times, waits and preemptions of the Tiresias simulator.

Its placement ``count`` counts GPUs as our ``none`` does. Its ``fjf`` (first job first, skipping what
does not fit) is our ``fifo-skip``, its ``sjf`` (fewest GPUs first) our ``smallest``, its ``shortest``
``srtf`` and its ``shortest-gpu`` ``srsf``.
"""

from pathlib import Path

import pytest
from references import Reference, run, tiresias_workload

from volvelle.workload.readers.clusters import read_cluster_table
from volvelle.workload.workload import Workload

POLICY = {
    "fifo": "fifo",
    "fjf": "fifo-skip",
    "sjf": "smallest",
    "shortest": "srtf",
    "shortest-gpu": "srsf",
}

CASES = [
    ("60", cluster, schedule) for cluster in ("n2g4", "n4g4", "n32g4") for schedule in POLICY
] + [
    (trace, cluster, schedule)
    for trace, cluster in (("philly200", "n12g8"), ("philly1000", "n16g8"))
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
