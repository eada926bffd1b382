"""AFS-L and Themis give elastic jobs the starts and finishes of the PCS simulator (times to 1 us).

Its AFS is the greedy of the paper in the form of pairs, the same as ours but for one tie: of two jobs
with the same time left where only one gets a GPU, it takes the later submission, we the earlier (unless
told ``ties=later``). Its Themis auctions all GPUs at every event and after every lease, which lasts 10 min,
or 10 s where the workload's unit is taken to be the minute (gavel).
"""

from pathlib import Path

import numpy as np
import pytest
from references import Reference, pcs_workload, run

from volvelle.model.cluster import parse_cluster

GPUS = {
    "themis1_n100": 64,
    "gavel_n150": 64,
    "gavelreal_n150": 64,
    "gavel_g16_n200": 16,
    "t0e4a51_g16_n200": 16,
    "t0e4a51_n600": 64,
    "tee9e8c_n200": 64,
}
LEASE = {
    "themis1_n100": 600,
    "tee9e8c_n200": 600,
    "gavel_n150": 10,
    "gavelreal_n150": 10,
    "gavel_g16_n200": 10,
}


def differences(shared: Path, case: str, simulated: str, policy: str) -> list[str]:
    folder = shared / "golden" / "pcs"
    outcomes = run(pcs_workload(folder, case), policy, parse_cluster(f"1x{GPUS[case]}"))
    reference = Reference.read(folder / f"{case}__{simulated}.csv", id="app_id")
    return reference.differences(
        outcomes,
        submit_s=outcomes.submit_time,
        start_s=outcomes.first_start,
        end_s=outcomes.finish,
        jct_s=outcomes.jct,
    )


@pytest.mark.parametrize("case", GPUS)
def test_every_job_fares_as_under_the_simulators_afs(shared: Path, case: str) -> None:
    assert differences(shared, case, "AFS", "afs-l:ties=later") == []


@pytest.mark.parametrize("case", LEASE)
def test_every_job_fares_as_under_the_simulators_themis(shared: Path, case: str) -> None:
    assert differences(shared, case, "THEMIS", f"themis:lease={LEASE[case]}") == []


def test_the_earlier_of_two_equals_first_exchanges_them_and_changes_nothing_else(
    shared: Path,
) -> None:
    """Twice two jobs of one GPU have the same time left when the later one comes."""
    case, pairs = "t0e4a51_n600", {387: 390, 404: 420}
    folder = shared / "golden" / "pcs"
    outcomes = run(pcs_workload(folder, case), "afs-l", parse_cluster(f"1x{GPUS[case]}"))
    reference = Reference.read(folder / f"{case}__AFS.csv", id="app_id")
    finish = outcomes.finish.copy()
    for one, other in pairs.items():
        assert finish[one] < finish[other]
        finish[[one, other]] = finish[[other, one]]
    assert reference.differences(outcomes, end_s=finish, start_s=outcomes.first_start) == []
    assert np.all(outcomes.gpus[[*pairs, *pairs.values()]] == 1.0)
