"""Shockwave's simulator on its 120-job trace, 32 GPUs: averages, with the jobs' batch sizes changing.

Compared are runs without its 1000 s throttle (the ``_reset0`` files), max-min fairness with the throttled
run too. Its max-min fairness, its Themis
(finish-time fairness), its makespan policy (OSSP) and its largest sum of throughputs (MST, which counts
steps of the batch size at hand) are Gavel's programs on one GPU type, its FIFO is ours in rounds. The
auction of our ``themis`` is another thing than what the file calls Themis, and fares better (mean JCT
7,200 s against 9,900 s, worst rho 2.0 against 2.8). A round is 120 s, a start or resume costs 20 s. The
worst rho is what its files call static: completion time over profile run time times jobs per GPU.

What remains is explained by what we do not repeat, as the README of the reference results lists it: there
a change of batch size comes a round late, is rounded up to whole epochs (work for nothing), and may
hold a job's GPUs for rounds in which it does nothing; a round ends with its slowest job, a little before
120 s; of the many optima of its programs an interior-point solver picks one, a simplex another; its Themis
counts the steps that a change of batch size takes away as steps done.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from references import rows

from volvelle.core.composition import WrittenComposition
from volvelle.core.view import FloatColumn
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.cluster import parse_cluster
from volvelle.model.overheads import Overheads
from volvelle.simulate.run import Setting, simulate
from volvelle.workload.reading import read_trace

GPUS = 32
POLICIES = {
    "fifo:round=120": "fifo",
    "gavel-las:round=120": "max_min_fairness",
    "gavel-ftf:round=120": "finish_time_fairness",
    "gavel-makespan:round=120": "min_total_duration",
    "gavel-throughput:round=120,steps=true": "max_sum_throughput_perf",
    "gandiva-fair": "gandiva_fair",
    "allox": "allox",
}

PUBLISHED_MAKESPAN, PUBLISHED_RHO = 24_418.0, 2.0
"""The largest of the published runs of Shockwave on this trace."""
PUBLISHED_JCT = 9_958.0


def run(shared: Path, policy: str, estimator: str = "oracle") -> Outcomes:
    folder = shared / "data" / "shockwave"
    options = {"throughputs": folder / "tacc_throughputs.json", "gpu_type": "v100"}
    setting = Setting(
        cluster=parse_cluster(f"{GPUS}x1"),
        composition=WrittenComposition(policy, estimator=estimator),
        overheads=Overheads(start=20.0, restore=20.0),
    )
    return simulate(
        read_trace(folder / "120_jobs_32_gpus.trace", options=options), setting
    ).outcomes


def static_rho(shared: Path, outcomes: Outcomes) -> FloatColumn:
    """Rho as the simulator's files call static, of each job."""
    jobs = rows(shared / "golden" / "shockwave" / "jobs_120_32.csv")
    profile = {row["job_id"]: float(row["profile_runtime_s"]) for row in jobs}
    alone = np.array([profile[spec.id] for spec in outcomes.specs])
    rho: FloatColumn = outcomes.jct / (alone * len(alone) / GPUS)
    return rho


@pytest.mark.parametrize("policy", POLICIES)
def test_averages_are_those_of_the_simulator(shared: Path, policy: str) -> None:
    golden = shared / "golden" / "shockwave"
    reference = json.loads((golden / f"summary_120_32_{POLICIES[policy]}_reset0.json").read_text())
    outcomes = run(shared, policy)
    worst = static_rho(shared, outcomes).max()
    assert outcomes.finish.max() == pytest.approx(reference["makespan_s"], rel=0.05)
    assert outcomes.jct.mean() == pytest.approx(reference["avg_jct_s"], rel=0.05)
    assert worst == pytest.approx(reference["worst_ftf"], rel=0.10)


@pytest.mark.parametrize(
    ("ways", "longer"), [(",reallocate=1000,by_type=true", 0.011), ("", -0.211)]
)
def test_its_throttle_is_a_least_time_between_allocations(
    shared: Path, ways: str, longer: float
) -> None:
    """Who comes within 1000 s of an allocation waits for the next: 27 % of the mean completion time."""
    golden = shared / "golden" / "shockwave"
    reference = json.loads((golden / "summary_120_32_max_min_fairness.json").read_text())
    outcomes = run(shared, f"gavel-las:round=120{ways}")
    apart = outcomes.jct.mean() / reference["avg_jct_s"] - 1
    assert apart == pytest.approx(longer, abs=0.002)


def test_shockwave_is_as_quick_and_as_fair_as_its_published_runs(shared: Path) -> None:
    """Makespan and worst rho are within what was published or better; mean JCT is a tenth worse.

    Published: 23,399 to 24,418 s, rho 1.50 to 2.00, mean JCT 9,958 s. The policy's defaults were chosen on
    this trace (decision 38), so this guards a result and is no evidence for it; the bound on the mean JCT
    is what is reached.
    """
    outcomes = run(shared, "shockwave", "regimes")
    assert outcomes.finish.max() <= PUBLISHED_MAKESPAN
    assert static_rho(shared, outcomes).max() <= PUBLISHED_RHO
    assert outcomes.jct.mean() == pytest.approx(PUBLISHED_JCT, rel=0.12)
