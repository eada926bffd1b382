"""Shockwave's simulator on its traces, 120 jobs on 32 GPUs and 220 on 64, with batch sizes that change.

Files ``_reset0`` are runs without its 1000 s throttle; of 220 jobs there are only throttled ones, which
``reallocate=1000,by_type=true`` repeats. Its max-min fairness, its Themis (finish-time fairness), its
makespan policy (OSSP) and its largest sum of throughputs (MST, which counts steps of the batch size at
hand) are Gavel's programs on one GPU type, its FIFO is ours in rounds. The auction of our ``themis`` is
another thing than what the file calls Themis, and fares better (mean JCT 7,200 s against 9,900 s, worst rho
2.0 against 2.8). A round is 120 s, a start or resume costs 20 s. The worst rho is what its files call
static: completion time over profile run time times jobs per GPU.

Makespans are within 3.2 % (`MAKESPAN`) and mean completion times within 5 %, but for OSSP's (`APART`).
Job by job agreement is pinned, not reached (`MEDIANS`): only AlloX on 220 jobs has most within 1 %.
What explains it is what we do not repeat, as the README of the reference results lists it: there a change of
batch size comes a round late, is rounded up to whole epochs (work for nothing), and may hold a job's GPUs
for rounds in which it does nothing; a round ends with its slowest job, a little before 120 s; its FIFO
interrupts 102 of 120 jobs, of which it stops none for another; of the many optima of its programs an
interior-point solver picks one, a simplex another (of MST the one in which jobs alike take turns,
``ties=alike``; of Themis, which on 220 jobs leaves half of the GPUs open in each allocation, the centre,
``ties=centre``); its Themis counts the steps that a change of batch size takes away as steps done
(``steps=true``); and no such change has it work fractions out anew.
"""

import csv
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from references import rows

from volvelle.core.composition import WrittenComposition
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.arrays import FloatColumn
from volvelle.model.cluster import parse_cluster
from volvelle.model.overheads import Overheads
from volvelle.simulate.run import Setting, simulate
from volvelle.workload.reading import read_trace

POLICIES = {
    "fifo": "fifo:round=120",
    "max_min_fairness": "gavel-las:round=120",
    "finish_time_fairness": "gavel-ftf:round=120,steps=true,ties=centre",
    "min_total_duration": "gavel-makespan:round=120",
    "max_sum_throughput_perf": "gavel-throughput:round=120,steps=true,ties=alike",
    "gandiva_fair": "gandiva-fair:round=120",
    "allox": "allox:round=120",
}
THROTTLE = ",reallocate=1000,by_type=true"


class Trace(NamedTuple):
    """One of the simulator's, and what its files are called by."""

    name: str
    tag: str
    gpus: int


SMALL, LARGE = Trace("120_jobs_32_gpus", "120_32", 32), Trace("220_jobs_64_gpus", "220_64", 64)

MEDIANS = {
    ("120_32", "fifo"): 0.028,
    ("120_32", "max_min_fairness"): 0.042,
    ("120_32", "finish_time_fairness"): 0.046,
    ("120_32", "min_total_duration"): 0.012,
    ("120_32", "max_sum_throughput_perf"): 0.018,
    ("120_32", "gandiva_fair"): 0.019,
    ("120_32", "allox"): 0.049,
    ("220_64", "max_min_fairness"): 0.021,
    ("220_64", "finish_time_fairness"): 0.025,
    ("220_64", "min_total_duration"): 0.009,
    ("220_64", "max_sum_throughput_perf"): 0.018,
    ("220_64", "gandiva_fair"): 0.041,
    ("220_64", "allox"): 0.003,
}
"""By how much half of the jobs' completion times differ at most, of the policies that have a file."""

APART = {("220_64", "min_total_duration"): 0.058}
"""Mean completion times that are not within 5 %. Every X that ends all jobs by the least makespan is optimal
for OSSP; its solver answers from inside the set of those up to 5 % worse, ours with a corner of the best."""

MAKESPAN = {("120_32", "finish_time_fairness"): -0.042}
"""Makespans that are not within 3.2 %; with the throttle this one is 0.2 % shorter."""

PUBLISHED_MAKESPAN, PUBLISHED_RHO = 24_418.0, 2.0
"""The largest of the published runs of Shockwave on the 120 jobs."""
PUBLISHED_JCT = 9_958.0


def throughputs(shared: Path, trace: Trace, folder: Path) -> Path:
    """The file that the trace was run with; that of the larger one is put together from the table of both."""
    if trace is SMALL:
        return shared / "data" / "shockwave" / "tacc_throughputs.json"
    table = {
        str((row["job_type"], int(row["scale_factor"]))): {"null": float(row["steps_per_s"])}
        for row in rows(shared / "golden" / "shockwave" / "throughputs_v100.csv")
        if row["file"].startswith("wisr")
    }
    path = folder / "wisr_throughputs.json"
    path.write_text(json.dumps({"v100": table}))
    return path


def run(
    shared: Path, folder: Path, policy: str, estimator: str = "oracle", trace: Trace = SMALL
) -> Outcomes:
    options = {"throughputs": throughputs(shared, trace, folder), "gpu_type": "v100"}
    setting = Setting(
        cluster=parse_cluster(f"{trace.gpus}x1"),
        composition=WrittenComposition(policy, estimator=estimator),
        overheads=Overheads(start=20.0, restore=20.0),
    )
    file = shared / "data" / "shockwave" / f"{trace.name}.trace"
    return simulate(read_trace(file, options=options), setting).outcomes


def static_rho(shared: Path, outcomes: Outcomes, trace: Trace = SMALL) -> FloatColumn:
    """Rho as the simulator's files call static, of each job."""
    jobs = rows(shared / "golden" / "shockwave" / f"jobs_{trace.tag}.csv")
    profile = {row["job_id"]: float(row["profile_runtime_s"]) for row in jobs}
    alone = np.array([profile[spec.id] for spec in outcomes.specs])
    rho: FloatColumn = outcomes.jct / (alone * len(alone) / trace.gpus)
    return rho


@pytest.mark.parametrize("key", MEDIANS, ids=" ".join)
def test_averages_are_those_of_the_simulator(
    shared: Path, tmp_path: Path, key: tuple[str, str]
) -> None:
    tag, name = key
    trace, policy = (SMALL if tag == SMALL.tag else LARGE), POLICIES[name]
    file = f"{tag}_{name}_reset0" if trace is SMALL else f"{tag}_{name}"
    golden = shared / "golden" / "shockwave"
    reference = json.loads((golden / f"summary_{file}.json").read_text())
    outcomes = run(shared, tmp_path, policy + ("" if trace is SMALL else THROTTLE), trace=trace)
    later = outcomes.finish.max() / reference["makespan_s"] - 1
    if key in MAKESPAN:
        assert later == pytest.approx(MAKESPAN[key], abs=0.002)
    else:
        assert abs(later) <= 0.032
    longer = outcomes.jct.mean() / reference["avg_jct_s"] - 1
    if key in APART:
        assert longer == pytest.approx(APART[key], abs=0.002)
    else:
        assert abs(longer) <= 0.05
    assert static_rho(shared, outcomes, trace).max() == pytest.approx(
        reference["worst_ftf"], rel=0.10
    )
    with (golden / f"perjob_{file}.csv").open(encoding="utf-8", newline="") as lines:
        theirs = {row["job_id"]: float(row["jct_s"]) for row in csv.DictReader(lines)}
    jct = np.array([theirs[spec.id] for spec in outcomes.specs])
    assert np.median(abs(outcomes.jct / jct - 1)) == pytest.approx(MEDIANS[key], abs=0.001)


@pytest.mark.parametrize(("ways", "longer"), [(THROTTLE, 0.011), ("", -0.211)])
def test_its_throttle_is_a_least_time_between_allocations(
    shared: Path, tmp_path: Path, ways: str, longer: float
) -> None:
    """Who comes within 1000 s of an allocation waits for the next: 27 % of the mean completion time."""
    golden = shared / "golden" / "shockwave"
    reference = json.loads((golden / "summary_120_32_max_min_fairness.json").read_text())
    outcomes = run(shared, tmp_path, f"gavel-las:round=120{ways}")
    apart = outcomes.jct.mean() / reference["avg_jct_s"] - 1
    assert apart == pytest.approx(longer, abs=0.002)


def test_its_ossp_is_one_of_many_with_its_makespan(shared: Path, tmp_path: Path) -> None:
    """Two answers of ours with the makespan of its run have its worst rho and mean JCT between them."""
    golden = shared / "golden" / "shockwave"
    theirs = json.loads((golden / "summary_120_32_min_total_duration_reset0.json").read_text())
    policy = POLICIES["min_total_duration"]
    late, early = (run(shared, tmp_path, policy + ways) for ways in ("", ",early=true"))
    for ours in (late, early):
        assert ours.finish.max() == pytest.approx(theirs["makespan_s"], rel=0.001)
    assert early.jct.mean() < theirs["avg_jct_s"] < late.jct.mean()
    rho = [static_rho(shared, ours).max() for ours in (early, late)]
    assert rho[0] < theirs["worst_ftf"] < rho[1]


def test_its_fifo_interrupts_jobs(shared: Path) -> None:
    """One cause of what differs job by job: 102 of 120 are started more than once."""
    table = rows(shared / "golden" / "shockwave" / "perjob_120_32_fifo_reset0.csv")
    assert sum(int(row["dispatches"]) > 1 for row in table) == 102


def test_shockwave_is_as_quick_and_as_fair_as_its_published_runs(
    shared: Path, tmp_path: Path
) -> None:
    """Makespan, worst rho and mean JCT are within what was published, or better.

    Published: 23,399 to 24,418 s, rho 1.50 to 2.00, mean JCT 9,958 s. Some of what the policy leaves to
    choose was chosen on this trace (decision 38), so this guards a result and is no evidence for it.
    """
    outcomes = run(shared, tmp_path, "shockwave", "regimes")
    assert outcomes.finish.max() <= PUBLISHED_MAKESPAN
    assert static_rho(shared, outcomes).max() <= PUBLISHED_RHO
    assert outcomes.jct.mean() <= PUBLISHED_JCT


@pytest.mark.slow
def test_on_the_larger_trace_nobody_is_served_unfairly(shared: Path, tmp_path: Path) -> None:
    """On which nothing was chosen; the baselines' worst rho is 1.8 and more."""
    outcomes = run(shared, tmp_path, "shockwave", "regimes", LARGE)
    assert static_rho(shared, outcomes, LARGE).max() <= 1.0
