"""Policies that decide in rounds give every tracked job the rounds of the Blox simulator.

There a job that ends within a round is seen to at its end, and a first round is known by its end too.
Its LAS counts seconds of running, not GPU-seconds.
"""

from pathlib import Path

import numpy as np
import pytest
from references import Reference, blox_workload, run

from volvelle.model.cluster import parse_cluster

ROUND = 300.0

POLICY = {
    "Fifo": "fifo:round=300",
    "Las": "las:round=300,service=seconds",
    "Srtf": "srtf:round=300",
}


@pytest.mark.parametrize("simulated", POLICY)
@pytest.mark.parametrize(("stream", "cluster"), [("s1_l4", "16x8"), ("s2_l2_32gpu", "4x8")])
def test_every_tracked_job_fares_as_in_the_simulator(
    shared: Path, stream: str, cluster: str, simulated: str
) -> None:
    folder = shared / "golden" / "blox"
    workload = blox_workload(folder, stream)
    # The simulator was stopped about when its stream of jobs ends; under LAS some had not finished.
    until = float(workload.submit_times[-1])
    outcomes = run(workload, POLICY[simulated], parse_cluster(cluster), until=until)
    seed, _, rest = stream.partition("_")
    reference = Reference.read(folder / f"blox_{seed}_{simulated}_{rest}.csv", id="job_id")
    finish = np.ceil(outcomes.finish / ROUND) * ROUND
    first_round_end = outcomes.first_start + ROUND
    assert not reference.differences(
        outcomes,
        submit_s=outcomes.submit_time,
        first_round_end_s=first_round_end,
        finish_s=finish,
        jct_s=finish - outcomes.submit_time,
        responsiveness_s=first_round_end - outcomes.submit_time,
    )
