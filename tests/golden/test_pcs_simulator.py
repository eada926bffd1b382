"""FIFO and SRSF give elastic jobs the starts and finishes of the PCS simulator (times to 1 us).

All its policies are elastic and take GPUs back from jobs later in the order at every event, FIFO
too. Its SRSF (what it calls Tiresias) goes by remaining seconds at full width x the most GPUs a job can
use, as ours does.
"""

from pathlib import Path

import numpy as np
import pytest
from references import Reference, pcs_workload, run

from volvelle.metrics.fairness import fair_finish
from volvelle.model.cluster import parse_cluster

POLICY = {"FIFO": "fifo:preemptive=true,elastic=true", "SRSF": "srsf:elastic=true"}

GPUS = {
    "themis1_n100": 64,
    "gavel_n150": 64,
    "gavelreal_n150": 64,
    "gavel_g16_n200": 16,
    "t0e4a51_g16_n200": 16,
    "t0e4a51_n600": 64,
    "tee9e8c_n200": 64,
}

STARTED_FOR_NO_TIME = {("t0e4a51_g16_n200", "SRSF"): "114"}
"""Jobs of one moment come one after another there, each with a decision of its own: job 114 is given
GPUs that job 115, submitted at the same microsecond, takes away before any time has passed."""


@pytest.mark.parametrize("simulated", POLICY)
@pytest.mark.parametrize("case", GPUS)
def test_every_job_fares_as_in_the_simulator(shared: Path, case: str, simulated: str) -> None:
    folder = shared / "golden" / "pcs"
    outcomes = run(pcs_workload(folder, case), POLICY[simulated], parse_cluster(f"1x{GPUS[case]}"))
    reference = Reference.read(folder / f"{case}__{simulated}.csv", id="app_id")
    assert not reference.differences(
        outcomes, submit_s=outcomes.submit_time, end_s=outcomes.finish, jct_s=outcomes.jct
    )
    differ = reference.differences(outcomes, start_s=outcomes.first_start)
    if (case, simulated) in STARTED_FOR_NO_TIME:
        id = STARTED_FOR_NO_TIME[case, simulated]
        [only] = differ
        assert f"job {id}:" in only
        row = reference.ids.index(id)
        submitted = reference.columns["submit_s"]
        assert reference.columns["start_s"][row] == submitted[row]
        assert np.count_nonzero(submitted == submitted[row]) == 2
    else:
        assert differ == []


@pytest.mark.parametrize("case", GPUS)
def test_contention_and_unfairness_under_fifo_are_those_of_the_simulator(
    shared: Path, case: str
) -> None:
    folder = shared / "golden" / "pcs"
    workload = pcs_workload(folder, case)
    outcomes = run(workload, POLICY["FIFO"], parse_cluster(f"1x{GPUS[case]}"))
    reference = Reference.read(folder / f"{case}__FIFO.csv", id="app_id")
    work = np.array([job.truth.work for job in workload])
    fair = fair_finish(work, outcomes.gpus, outcomes.contention, GPUS[case])
    assert not reference.differences(
        outcomes,
        avg_contention=outcomes.contention,
        fft_s=fair,
        unfairness=np.maximum(outcomes.jct / fair - 1.0, 0.0),
    )
