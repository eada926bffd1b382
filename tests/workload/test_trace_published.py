"""What rows of published traces mean, by invented samples: Acme, ElasticFlow, Frontier, MIT, Kubernetes."""

import json
from pathlib import Path

import pytest
from trace_samples import SAMPLE_OF, SAMPLES

from volvelle.model.job import Job, JobClass, Recorded, Reward
from volvelle.workload.readers.sacct import parse_gres
from volvelle.workload.reading import read_trace
from volvelle.workload.workload import ImportReport


def read(path: Path, **options: str) -> tuple[dict[str, Job], ImportReport]:
    workload = read_trace(path, options=options)
    assert workload.report is not None
    return {job.spec.id: job for job in workload}, workload.report


def test_acme_keeps_the_kind_of_work_and_drops_what_had_no_gpus() -> None:
    jobs, report = read(SAMPLES / SAMPLE_OF["acme"][0])
    first = jobs["s1"]
    assert (first.spec.gpus, first.spec.cpus, first.spec.name) == (16, 256, "Pretrain")
    assert first.seconds_on(16) == 7200
    assert first.recorded == Recorded(120, 7320)
    assert report.dropped == {"no GPUs": 1, "never ran": 1}


def test_elasticflow_has_deadlines_where_its_table_is_the_rich_one(tmp_path: Path) -> None:
    jobs, _ = read(SAMPLES / "elasticflow.csv")
    assert jobs["e1"].spec.rewards == (Reward(4000, 1),)
    assert jobs["e1"].spec.job_class is JobClass.STRICT
    assert jobs["e2"].spec.job_class is JobClass.BEST_EFFORT
    after, _ = read(SAMPLES / "elasticflow.csv", deadline="after")
    assert after["e3"].spec.rewards == (Reward(2000, 1),)
    raw = tmp_path / "raw.csv"
    raw.write_text("job_id,submission_time,duration,num_gpu\na,5,60,4\n")
    jobs, report = read(raw)
    assert report.format == "elasticflow"
    assert jobs["a"].seconds_on(4) == 60


def test_slurms_database_counts_gpus_by_numbers_of_resources() -> None:
    jobs, report = read(SAMPLES / "slurm-log.csv")
    one, other = jobs["71"], jobs["74"]
    assert (one.spec.gpus, one.spec.cpus, one.spec.memory_gb) == (2, 40, 352)
    assert one.spec.estimate_seconds == 1440 * 60
    assert one.recorded == Recorded(60, 3660)
    assert (other.spec.gpus, other.spec.estimate_seconds) == (4, None)  # a limit without end
    assert report.dropped == {"no GPUs": 1, "never ran": 1, "not over": 1}
    jobs, _ = read(SAMPLES / "slurm-log.csv", gpus="1002+1003")
    assert set(jobs) == {"71", "74"}


def test_a_site_behind_the_fields_of_swf_says_how_many_nodes(tmp_path: Path) -> None:
    jobs, report = read(SAMPLES / "frontier.swf")
    assert [jobs[name].spec.gpus for name in ("1", "2")] == [16, 8]  # not the 112 of field 5
    assert jobs["1"].recorded == Recorded(100, 3700)
    assert report.dropped == {"never ran": 1}
    jobs, _ = read(SAMPLES / "frontier.swf", gpus_per_node="4")
    assert jobs["1"].spec.gpus == 8


def test_objects_of_kubernetes_ask_for_gpus_by_pod() -> None:
    jobs, report = read(SAMPLES / "workloads.json")
    kueue = jobs["research/train-a"]
    assert (kueue.spec.gpus, kueue.spec.min_gpus, kueue.spec.gpu_types) == (32, 16, ("h100",))
    assert (kueue.spec.cpus, kueue.spec.memory_gb) == (2, 16)
    assert (kueue.spec.pool, kueue.spec.user) == ("team-a", "research")
    assert kueue.spec.estimate_seconds == 7200
    assert kueue.recorded == Recorded(120, 3720)
    assert jobs["research/train-b"].spec.gpus == 2
    assert jobs["research/train-b"].spec.pool == "team-b"
    assert jobs["research/notebook"].seconds_on(1) == 1800
    assert report.dropped == {"no GPUs": 1, "never ran": 1, "still running": 1}


def test_a_job_of_kubernetes_runs_no_more_pods_than_it_lacks(tmp_path: Path) -> None:
    text = (SAMPLES / "workloads.json").read_text()
    document = json.loads(text)
    train = next(one for one in document["items"] if one["metadata"]["name"] == "train-b")
    train["spec"]["completions"] = 1
    train["metadata"]["labels"] = {"example.com/user": "ann"}
    train["status"]["conditions"] = [{"type": "Complete", "status": "True"}]
    notebook = next(one for one in document["items"] if one["metadata"]["name"] == "notebook")
    notebook["status"]["phase"] = "Failed"
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps(document))
    jobs, report = read(path)
    spec = jobs["research/train-b"].spec
    assert (spec.gpus, spec.user, spec.pool) == (1, "ann", "research")
    spec = jobs["research/notebook"].spec
    assert (spec.user, spec.pool) == ("", "research")
    assert report.states == {"completed": 1, "failed": 1}


def test_a_list_is_read_as_kubectl_prints_it_and_so_are_lines(tmp_path: Path) -> None:
    text = (SAMPLES / "workloads.json").read_text()
    document = json.loads(text)
    (tmp_path / "pretty.json").write_text(json.dumps(document, indent=4))
    (tmp_path / "lines.json").write_text("\n".join(map(json.dumps, document["items"])))
    wanted = read_trace(SAMPLES / "workloads.json").jobs
    assert read_trace(tmp_path / "pretty.json").jobs == wanted
    assert read_trace(tmp_path / "lines.json").jobs == wanted


@pytest.mark.parametrize(
    ("text", "gpus", "kinds"),
    [
        ("gpu:4", 4, ()),
        ("gpu", 1, ()),
        ("gpu:a100:4", 4, ("a100",)),
        ("gres:gpu:v100:2(IDX:0,1),craynetwork:1", 2, ("v100",)),
    ],
)
def test_gres_of_old_slurm(text: str, gpus: float, kinds: tuple[str, ...]) -> None:
    assert parse_gres(text)[:2] == (gpus, kinds)


def test_gres_of_old_slurm_are_of_each_node(tmp_path: Path) -> None:
    path = tmp_path / "old.txt"
    path.write_text(
        "JobID|Submit|Start|Elapsed|State|NNodes|ReqGRES\n"
        "1|2018-03-01T00:00:00|2018-03-01T00:01:00|01:00:00|COMPLETED|3|gpu:k80:4\n"
        "2|2018-03-01T00:00:00|2018-03-01T00:01:00|01:00:00|COMPLETED|1|(null)\n"
    )
    jobs, report = read(path)
    assert (jobs["1"].spec.gpus, jobs["1"].spec.gpu_types) == (12, ("k80",))
    assert report.dropped == {"no GPUs": 1}
