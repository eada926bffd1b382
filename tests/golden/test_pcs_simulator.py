"""FIFO and SRSF give elastic jobs the starts and finishes of the PCS simulator (times to 1 us).

All its policies are elastic and take GPUs back from jobs later in the order at every event, FIFO
too. Its SRSF (what it calls Tiresias) goes by remaining seconds at full width x the most GPUs a job can
use, as ours does; ours takes keys as equal that differ by less than sums of floats are right to.
"""

from math import inf
from pathlib import Path

import numpy as np
import pytest
from references import Reference, pcs_workload, run

from volvelle.metrics.fairness import fair_finish
from volvelle.model.arrays import FloatColumn
from volvelle.model.cluster import parse_cluster
from volvelle.workload.reading import read_trace
from volvelle.workload.workload import Workload

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


def test_six_of_2465_jobs_end_otherwise_where_keys_differ_in_their_last_digits(
    shared: Path,
) -> None:
    """Under `srsf`, where submission decides; in none under `tiresias-shortest`, which keeps all digits."""
    speedups = shared / "golden" / "pcs" / "speedup_tables.csv"
    trace = shared / "data" / "philly-pcs" / "trace_0e4a51.csv"
    workload = read_trace(trace, options={"speedups": speedups})
    theirs, cluster = restated(workload, 64), parse_cluster("1x64")
    for policy, otherwise in (("tiresias-shortest", 0), (POLICY["SRSF"], 6)):
        ours = run(workload, policy, cluster).finish
        assert np.count_nonzero(abs(ours - theirs) > 1e-3) == otherwise


def restated(workload: Workload, gpus: int) -> FloatColumn:
    """When each job ends where its SRSF sorts the list of jobs anew at each event."""
    most = [int(job.spec.gpus) for job in workload]
    models = [job.truth.throughput for job in workload]
    rates = [
        [0.0, *map(model.rate, range(1, n + 1))] for model, n in zip(models, most, strict=True)
    ]
    left = [job.truth.work for job in workload]
    comes = [*(job.spec.submit_time for job in workload), inf]
    ended, now, coming = np.zeros(len(left)), 0.0, 0
    line: list[int] = []
    rate: dict[int, float] = {}
    while line or comes[coming] < inf:
        ends = {job: round(now + left[job] / rate[job], 6) for job in line if rate[job] > 0}
        at = min([comes[coming], *ends.values()])
        for job in ends:
            left[job] = max(left[job] - rate[job] * (at - now), 0.0)
        now, over = at, [job for job, end in ends.items() if end == at]
        ended[over] = now
        line = [job for job in line if job not in over]
        if not over:
            line.append(coming)
            coming += 1
        line.sort(key=lambda job: left[job] * most[job] / rates[job][-1])
        free = gpus
        for job in line:
            given = min(free, most[job])
            rate[job], free = rates[job][given], free - given
    return ended


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
