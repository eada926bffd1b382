"""Public traces and reference results, where they are beside the repository."""

import csv
import itertools
import json
import statistics
import time
from pathlib import Path
from typing import Any

import pytest
from systems_here import needs, of

from volvelle.model.job import JobClass
from volvelle.workload.reading import read_trace


@pytest.mark.parametrize(
    ("file", "name", "rows", "kept", "options"),
    [
        of("chronus", "philly-chronus/trace_job_Philly_MIX2.csv", "chronus", 30_940, 30_746, {}),
        of("pcs", "philly-pcs/trace_0e4a51.csv", "pcs", 2_465, 2_465, {}),
        of("pcs", "philly-pcs/trace_103959.csv", "pcs", 2_677, 2_677, {}),
        of("pcs", "philly-pcs/trace_2869ce.csv", "pcs", 956, 956, {}),
        of("pcs", "philly-pcs/trace_ee9e8c.csv", "pcs", 5_452, 5_452, {}),
        ("openb", "openb", 8_152, 6_203, {}),
        of("tiresias", "tiresias/60_job.csv", "tiresias", 60, 60, {}),
        of("gavel", "shockwave/120_jobs_32_gpus.trace", "gavel", 120, 120, {}),
        of("gavel", "shockwave/220_jobs_64_gpus.trace", "gavel", 220, 220, {}),
        *[of("pollux", f"pollux/workload-{n}.csv", "pollux", 160, 160, {}) for n in (1, 2, 3, 4)],
    ],
)
def test_guessed_and_accounted_for(
    shared: Path, file: str, name: str, rows: int, kept: int, options: dict[str, Any]
) -> None:
    report = read_trace(shared / "data" / file, options=options, strict=True).report
    assert report is not None
    assert (report.format, report.rows, report.kept) == (name, rows, kept)


@needs("chronus")
def test_chronus_classes(shared: Path) -> None:
    trace = shared / "data/philly-chronus/trace_job_Philly_MIX2.csv"
    start = time.process_time()
    workload = read_trace(trace)
    assert time.process_time() - start < 2.0  # 0.4 s where this was written
    classes = [job.spec.job_class for job in workload]
    assert {kind: classes.count(kind) for kind in JobClass} == {
        JobClass.SOFT: 18_410,
        JobClass.STRICT: 9_211,
        JobClass.BEST_EFFORT: 3_125,
    }
    assert all(
        bool(job.spec.rewards) != (job.spec.job_class is JobClass.BEST_EFFORT) for job in workload
    )


def shockwave_rates(shared: Path, trace: str, folder: Path) -> Path:
    """The throughput file of a trace, from the rates that lie beside the reference results."""
    name = {"120_32": "tacc_throughputs.json", "220_64": "wisr_throughputs.json"}[trace]
    with (shared / "golden/shockwave/throughputs_v100.csv").open() as stream:
        rates = {
            f"('{row['job_type']}', {row['scale_factor']})": {"null": float(row["steps_per_s"])}
            for row in csv.DictReader(stream)
            if row["file"] == name
        }
    path = folder / name
    path.write_text(json.dumps({"v100": rates}))
    return path


@needs("gavel")
@pytest.mark.parametrize(
    ("trace", "file"), [("120_32", "120_jobs_32_gpus"), ("220_64", "220_jobs_64_gpus")]
)
def test_shockwave_jobs_run_at_the_batch_sizes_of_the_reference(
    shared: Path, trace: str, file: str, tmp_path: Path
) -> None:
    options = {"throughputs": shockwave_rates(shared, trace, tmp_path), "gpu_type": "v100"}
    workload = read_trace(shared / f"data/shockwave/{file}.trace", options=options, strict=True)
    jobs = {job.spec.id: job for job in workload}
    assert workload.report is not None
    assert not workload.report.repaired
    with (shared / f"golden/shockwave/jobs_{trace}.csv").open() as stream:
        reference = list(csv.DictReader(stream))
    assert len(reference) == len(jobs)
    for row in reference:
        spec, truth = jobs[row["job_id"]].spec, jobs[row["job_id"]].truth
        assert spec.submit_time == float(row["arrival_s"])
        assert truth.work == float(row["total_steps"])
        steps, epochs = float(row["steps_per_epoch"]), float(row["epochs"])
        first = float(row["throughput_steps_per_s"])
        assert truth.rate(spec.gpus) == pytest.approx(first, rel=1e-8)
        if row["mode"] == "static":
            continue
        assert spec.estimate_seconds == pytest.approx(float(row["profile_runtime_s"]), rel=1e-9)
        starts = [*(regime.start_work / steps for regime in truth.regimes), epochs]
        regimes = ";".join(
            f"{regime.batch_size}x{end - start:g}"
            for regime, (start, end) in zip(truth.regimes, itertools.pairwise(starts), strict=True)
        )
        assert regimes == row["simulator_bs_regimes(bs x epochs)"]
        for rate in row["regime_throughputs(bs:steps_per_s)"].split(";"):
            size, steps_per_second = rate.split(":")
            measured = truth.throughput.rate(spec.gpus, batch_size=int(size))
            assert measured == pytest.approx(float(steps_per_second), rel=1e-8)


@needs("pcs")
def test_pcs_speedups_are_those_of_the_reference(shared: Path) -> None:
    options = {"speedups": shared / "golden/pcs/speedup_tables.csv"}
    workload = read_trace(shared / "data/philly-pcs/trace_ee9e8c.csv", options=options)
    vgg = next(job for job in workload if job.spec.name == "VggnetModel256")
    assert vgg.truth.throughput.rate(8) == pytest.approx(6.61, abs=0.005)
    assert max(job.spec.gpus for job in workload) == 32
    assert workload.report is not None
    assert not workload.report.repaired


EPOCHS = {"bert": 2, "cifar10": 100, "deepspeech2": 80, "imagenet": 90, "ncf": 10, "yolov3": 50}


@needs("pollux")
def test_the_simple_account_of_pollux_jobs_is_near_the_truth(shared: Path, tmp_path: Path) -> None:
    """Jobs that Tiresias never stopped; the reference rounds every epoch up to a whole second."""
    tables = shared / "data/pollux/applications"
    with (shared / "golden/pollux/pollux_all_jobs.csv").open() as stream:
        rows = [r for r in csv.DictReader(stream) if (r["load"], r["workload"]) == ("1.0", "6")]
    trace = tmp_path / "workload-6.csv"
    columns = ("name", "submit_s", "application", "num_replicas", "batch_size")
    lines = [",".join(row[column] for column in columns) for row in rows]
    trace.write_text("\n".join(["name,time,application,num_replicas,batch_size", *lines]))
    jobs = {job.spec.id: job for job in read_trace(trace, options={"applications": tables})}
    applications = {row["name"]: row["application"] for row in rows}
    apart: dict[str, list[float]] = {}
    with (shared / "golden/pollux/pollux_w6_16x4_tiresias.csv").open() as stream:
        for row in csv.DictReader(stream):
            if row["restarts"] != "0":
                continue
            restore, epochs = 30, EPOCHS[applications[row["name"]]]
            ran = int(row["finish_s"]) - int(row["first_alloc_s"]) - restore
            job = jobs[row["name"]]
            ours = job.seconds_on(job.spec.gpus) + epochs / 2
            beyond_rounding = max(abs(ours - ran) - epochs / 2, 0.0)
            apart.setdefault(applications[row["name"]], []).append(beyond_rounding / ran)
    assert sum(map(len, apart.values())) > 100
    # Single jobs differ by more: the reference does not always pack them as tightly.
    typical = {application: statistics.median(many) for application, many in apart.items()}
    assert typical.pop("yolov3") < 0.1
    assert max(typical.values()) < 0.06
