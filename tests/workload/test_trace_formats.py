"""What each trace format's rows mean, by its invented sample."""

import json
from pathlib import Path

import pytest
from systems_here import needs
from trace_samples import SAMPLE_OF, SAMPLES

from volvelle.model.job import Job, JobClass, Recorded, Reward
from volvelle.model.problems import Problem
from volvelle.model.throughput import LINEAR, Table
from volvelle.workload.readers.sacct import parse_tres
from volvelle.workload.reading import read_trace
from volvelle.workload.workload import ImportReport, Workload


def read(name: str) -> tuple[dict[str, Job], ImportReport]:
    file, options = SAMPLE_OF[name]
    return by_id(read_trace(SAMPLES / file, options=options))


def by_id(workload: Workload) -> tuple[dict[str, Job], ImportReport]:
    assert workload.report is not None
    return {job.spec.id: job for job in workload}, workload.report


@needs("chronus")
def test_chronus_counts_minutes_and_deadlines_from_submission() -> None:
    jobs, report = read("chronus")
    soft = jobs["7"].spec
    assert soft.job_class is JobClass.SOFT
    assert soft.rewards == (Reward(40 * 60, 10), Reward(50 * 60, 5))
    assert (soft.user, soft.pool) == ("vcA", "vcA")
    assert jobs["7"].truth.work == 2 * 30 * 60
    assert jobs["8"].spec.submit_time == 60
    assert jobs["8"].spec.job_class is JobClass.STRICT
    assert jobs["9"].spec.rewards == ()  # a best-effort row's deadline field means nothing
    assert report.dropped == {"no GPUs": 1}


@needs("tiresias")
def test_tiresias_lasts_its_duration_on_its_gpus() -> None:
    jobs, _ = read("tiresias")
    assert jobs["1"].spec.submit_time == 30
    assert jobs["1"].seconds_on(8) == 90


@needs("pcs")
def test_pcs_is_elastic_up_to_num_jobs() -> None:
    jobs, report = read("pcs")
    spec = jobs["0"].spec
    assert (spec.min_gpus, spec.gpus, spec.max_gpus) == (1, 4, 4)
    assert jobs["0"].truth.throughput == Table((1.0, 1.8, 2.4))
    assert jobs["2"].truth.throughput == LINEAR
    assert jobs["0"].truth.work == 1200
    assert not report.repaired  # one GPU needs no table


@needs("pcs")
def test_pcs_without_tables_is_linear_and_says_so() -> None:
    jobs, report = by_id(read_trace(SAMPLES / "pcs.csv"))
    assert jobs["0"].truth.throughput == LINEAR
    assert report.repaired == {"no speed-up table for the model: linear": 1}


def test_helios_reads_dates_and_drops_what_never_ran() -> None:
    jobs, report = read("helios")
    assert jobs["14"].spec.submit_time == 240
    assert jobs["11"].spec.pool == "vcA"
    assert jobs["11"].truth.work == 8 * 3600
    assert report.dropped == {"no GPUs": 1, "never ran": 1}


def test_pai_sums_tasks_and_lets_instances_say_when() -> None:
    jobs, report = read("pai")
    assert jobs["j1"].spec.gpus == 1.0  # two workers of half a GPU
    assert jobs["j1"].spec.cpus == 16
    assert jobs["j1"].spec.gpu_types == ("T4",)
    assert jobs["j1"].seconds_on(1) == 1590 - 1120
    assert jobs["j2"].seconds_on(1) == 50  # no instances: its task's times
    assert report.dropped == {"still running at the end of the trace": 1, "no GPUs": 1}


def test_pai_without_its_task_table_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "pai_job_table.csv").write_text("j1,i1,u1,Terminated,1000.0,1600.0\n")
    with pytest.raises(Problem, match="task table"):
        read_trace(tmp_path)


def test_openb_keeps_shares_of_a_gpu() -> None:
    jobs, report = read("openb")
    assert jobs["pod-a"].spec.gpus == 0.46
    assert jobs["pod-a"].seconds_on(0.46) == pytest.approx(540)
    assert jobs["pod-b"].spec.gpu_types == ("V100M16", "V100M32")
    assert jobs["pod-b"].spec.memory_gb == 8
    assert report.dropped == {"no GPUs": 1, "never scheduled": 1}


def test_spot_gpu_multiplies_workers_and_keeps_high_priority_running() -> None:
    jobs, _ = read("spot-gpu")
    assert jobs["s2"].spec.gpus == 32
    assert jobs["s2"].spec.gpu_types == ("A100",)
    assert jobs["s2"].spec.preemptible
    assert not jobs["s1"].spec.preemptible
    assert jobs["s3"].spec.gpus == 0.5
    assert jobs["s3"].spec.gpu_types == ()


@needs("gavel")
def test_gavel_counts_steps_at_the_rates_of_the_file() -> None:
    jobs, _ = read("gavel")
    resnet = jobs["0"]
    assert resnet.spec.gpu_types == ("k80", "v100")  # fastest first
    assert resnet.seconds_on(2, "v100") == 100
    assert resnet.seconds_on(2, "k80") == 50
    model = jobs["1"]
    assert model.spec.gpu_types == ("v100",)  # a rate of 0 is no rate
    assert model.spec.weight == 5
    assert model.spec.rewards == (Reward(2.0 * 100, 1.0),)  # the SLO is a multiple of the duration


@needs("gavel")
def test_gavel_of_one_type_runs_on_any_gpu() -> None:
    options = {"throughputs": str(SAMPLES / "throughputs.json"), "gpu_type": "v100"}
    jobs, _ = by_id(read_trace(SAMPLES / "gavel.trace", options=options))
    assert jobs["0"].spec.gpu_types == ()
    assert jobs["0"].seconds_on(2) == 100


@needs("gavel")
def test_gavel_without_rates_names_the_option() -> None:
    with pytest.raises(Problem, match="throughputs="):
        read_trace(SAMPLES / "gavel.trace")


@needs("gavel")
def test_shockwave_without_rates_believes_its_durations() -> None:
    jobs, report = by_id(read_trace(SAMPLES / "shockwave.trace"))
    assert jobs["0"].truth.work == 400 * 2
    assert jobs["0"].spec.name == "ResNet-18 (batch size 32) gns"
    assert jobs["1"].spec.name == "LM (batch size 5)"
    assert report.repaired == {"batch-size changes unknown: first batch size kept": 1}


@needs("gavel")
def test_an_old_gavel_file_says_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "old.trace").write_text("ResNet-18\tcmd\tdir\t--steps\t100\t1\t0\n")
    with pytest.raises(Problem, match="7 tab-separated columns"):
        read_trace(tmp_path / "old.trace")


def test_philly_sums_attempts_and_counts_gpus_in_detail() -> None:
    jobs, report = read("philly")
    job = jobs["application_1_1"]
    assert job.spec.gpus == 3
    assert job.seconds_on(3) == 660
    assert job.spec.pool == "blue"
    assert report.dropped == {"never ran": 1, "still running at the end of the log": 1}


def test_philly_ends_running_jobs_where_told() -> None:
    options = {"log_end": "2017-09-01 12:00:00"}
    jobs, report = by_id(read_trace(SAMPLES / "philly.json", options=options))
    assert jobs["application_1_3"].seconds_on(1) == 3600
    assert report.repaired == {"still running: ended at log_end": 1}


def test_swf_must_be_told_what_a_processor_is() -> None:
    with pytest.raises(Problem, match="procs_as=gpu"):
        read_trace(SAMPLES / "swf.swf")
    with pytest.raises(Problem, match="node_size"):
        read_trace(SAMPLES / "swf.swf", options={"procs_as": "cpu"})


def test_swf_takes_the_request_before_the_allocation() -> None:
    jobs, report = read("swf")
    assert jobs["1"].spec.gpus == 8
    assert jobs["1"].spec.estimate_seconds == 300
    assert (jobs["1"].spec.user, jobs["1"].spec.pool) == ("3", "2")
    assert jobs["2"].spec.gpus == 1
    assert jobs["2"].spec.memory_gb == 2
    assert jobs["2"].spec.estimate_seconds is None
    assert report.dropped == {"never ran": 1}


def test_swf_turns_cpus_into_the_gpus_of_their_share_of_nodes() -> None:
    options = {"procs_as": "cpu", "node_size": "16", "gpus_per_node": "8"}
    jobs, _ = by_id(read_trace(SAMPLES / "swf.swf", options=options))
    assert jobs["1"].spec.gpus == 4  # half a node
    assert jobs["2"].spec.gpus == 1  # at least one


def test_sacct_reads_tres_and_drops_steps_and_running_jobs() -> None:
    jobs, report = read("sacct")
    job = jobs["901"].spec
    assert (job.gpus, job.cpus, job.memory_gb) == (4, 8, 64)
    assert job.gpu_types == ()  # the user asked for any; AllocTRES is what was given
    assert job.estimate_seconds == 120 * 60
    assert (job.user, job.pool, job.name) == ("ada", "vision", "train")
    assert jobs["901"].seconds_on(4) == 3600
    assert jobs["902"].spec.gpu_types == ("h100",)
    assert jobs["902"].spec.memory_gb == 0.5
    assert jobs["902"].spec.estimate_seconds is None
    assert report.dropped == {
        "job step": 1,
        "no GPUs": 1,
        "still running": 1,
        "never ran": 1,
    }


def test_sacct_runs_of_a_requeued_job_are_one_job(tmp_path: Path) -> None:
    rows = (
        "1|2026-02-01T10:00|2026-02-01T10:10|2026-02-01T10:11|60|PREEMPTED",
        "1|2026-02-01T10:11|2026-02-01T10:20|2026-02-01T10:22|120|REQUEUED",
        "1|2026-02-01T10:22|2026-02-01T10:30|2026-02-01T10:35|300|COMPLETED",
        "2|2026-02-01T10:05|2026-02-01T10:10|2026-02-01T10:12|120|NODE_FAIL",
        "3|2026-02-01T10:05|2026-02-01T10:10|2026-02-01T10:12|120|REQUEUED",
        "3|2026-02-01T10:12|2026-02-01T10:40|Unknown|60|RUNNING",
        "4|2026-02-01T10:05|2026-02-01T10:10|2026-02-01T10:12|120|COMPLETED",
        "4|2026-02-01T10:12|2026-02-01T10:20|2026-02-01T10:22|120|COMPLETED",
    )
    lines = [f"{row}|gres/gpu=2" for row in rows]
    (tmp_path / "s.txt").write_text(
        "\n".join(["JobIDRaw|Submit|Start|End|ElapsedRaw|State|ReqTRES", *lines])
    )
    jobs, report = by_id(read_trace(tmp_path / "s.txt"))
    assert jobs.keys() == {"1", "2", "4"}
    assert jobs["1"].spec.submit_time == 0.0
    assert jobs["1"].seconds_on(2) == 480
    assert jobs["1"].recorded == Recorded(1800.0, 2100.0), "it held nothing between two runs"
    assert jobs["2"].seconds_on(2) == jobs["4"].seconds_on(2) == 120
    assert (report.rows, report.kept) == (8, 3)
    assert report.repaired == {"runs of a requeued job": 2}
    assert report.dropped == {"still running": 1, "duplicate id": 1}


def test_sacct_without_tres_columns_says_which_to_ask_for(tmp_path: Path) -> None:
    (tmp_path / "s.txt").write_text("JobIDRaw|Submit\n1|2026-02-01T10:00:00\n")
    with pytest.raises(Problem, match="sacct --parsable2 -o"):
        read_trace(tmp_path / "s.txt")


@pytest.mark.parametrize(
    ("text", "gpus", "kinds"),
    [
        ("cpu=4,gres/gpu=2", 2, ()),
        ("gres/gpu:a100=4", 4, ("a100",)),
        ("gres/gpu:a100=4,gres/gpu=4", 4, ("a100",)),
        ("gres/gpu:a100=1,gres/gpu:h100=2", 3, ("a100", "h100")),
        ("", 0, ()),
    ],
)
def test_tres_strings(text: str, gpus: float, kinds: tuple[str, ...]) -> None:
    assert parse_tres(text)[:2] == (gpus, kinds)


@needs("pollux")
def test_pollux_times_come_from_measured_tables() -> None:
    jobs, _ = read("pollux")
    assert jobs["toy-0"].truth.work == 20
    assert jobs["toy-0"].seconds_on(2) == pytest.approx(20 * 0.22)
    local = 21  # between the measured 16 and 32, on the placement 24; 22 would exceed 128 in all
    step = 0.16 + (local - 16) / 16 * 0.1
    assert jobs["toy-1"].seconds_on(6) == pytest.approx(10 * step)


def test_our_own_table_has_everything_a_job_can_say() -> None:
    jobs, _ = read("volvelle")
    spec = jobs["alpha"].spec
    assert (spec.min_gpus, spec.gpus, spec.max_gpus) == (2, 4, 8)
    assert spec.gpu_types == ("a100", "h100")
    assert spec.name == "resnet, large"
    assert spec.rewards == (Reward(5 * 3600, 10), Reward(6 * 3600, 4))
    assert spec.estimate_seconds == 5 * 3600
    assert jobs["alpha"].truth.work == 4 * 4.5 * 3600
    assert not jobs["beta"].spec.preemptible
    assert jobs["beta"].spec.submit_time == 600
    assert jobs["gamma"].spec.gpus == 0.5
    assert jobs["gamma"].spec.submit_time == 3600


def test_gpu_types_of_pods_are_those_they_select(tmp_path: Path) -> None:
    def pod(name: str, where: dict[str, object]) -> dict[str, object]:
        asked = {"resources": {"limits": {"nvidia.com/gpu": "2"}}}
        ended = {"state": {"terminated": {"finishedAt": "2026-01-01T02:00:00Z"}}}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"containers": [asked], **where},
            "status": {"startTime": "2026-01-01T01:00:00Z", "containerStatuses": [ended]},
        }

    one_of = {"key": "accelerator", "operator": "In", "values": ["a100", "h100"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [one_of]}]}
    required = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    pods = [
        pod("selected", {"nodeSelector": {"nvidia.com/gpu.product": "A100", "zone": "a"}}),
        pod("required", {"affinity": required}),
        pod("any", {}),
    ]
    path = tmp_path / "pods.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}))
    types = {job.spec.id: job.spec.gpu_types for job in read_trace(path)}
    assert types == {"selected": ("A100",), "required": ("a100", "h100"), "any": ()}
