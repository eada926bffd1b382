"""A site in one file, a month of its accounting, and its own scheduler as what others are held against."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from volvelle.cli.main import app
from volvelle.incumbents.slurm.read_site import read_site, texts_of
from volvelle.incumbents.slurm.records import job_of_spec
from volvelle.incumbents.slurm.rules import Rules
from volvelle.incumbents.slurm.site import Config, Site
from volvelle.incumbents.slurm.site_file import read_site_file
from volvelle.model.cluster import Cluster
from volvelle.model.job import JobSpec, Recorded
from volvelle.model.problems import Problem
from volvelle.workload.reading import read_trace

CONF = """ClusterName=lab
SlurmctldHost=head
SchedulerParameters=bf_interval=30,bf_resolution=1,bf_windoww=3
SelectType=select/cons_tres
AccountingStorageType=accounting_storage/slurmdbd
JobSubmitPlugins=lua
NodeName=n[0-1] CPUs=16 RealMemory=64000 Gres=gpu:4 Feature=fast Weight=3
NodeName=n2 CPUs=16 RealMemory=64000 Gres=gpu:4
PartitionName=all Nodes=ALL MaxTime=1-0 Default=YES
PartitionName=fast Nodes=n[0-1] MaxTime=1:00:00 PriorityTier=5 AllowGroups=vision
"""
QOS = "Name|Priority|Preempt|MaxTRESPU|GrpTRESMins\nnormal|10||gres/gpu=6|\nhigh|99|normal||gres/gpu=600\n"
ASSOC = (
    "Cluster|Account|User|ParentName|Share|GrpTRES|QOS|Def QOS\n"
    "lab|root|||1|||\nlab|vision||root|3|gres/gpu=8||\nlab|vision|ada|vision|1||high,normal|normal\n"
)
SACCT = (
    "JobIDRaw|User|Account|Partition|QOS|State|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|NNodes|ReqTRES\n"
    "1|ada|vision|fast|normal|PREEMPTED|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T00:00:00"
    "|2026-01-01T00:01:00|60|60|1|cpu=4,mem=4G,gres/gpu=4\n"
    "1.batch|||||COMPLETED|||||||1|\n"
    "2|bob|vision|all|high|COMPLETED|2026-01-01T00:00:10|2026-01-01T00:00:10|2026-01-01T00:00:10"
    "|2026-01-01T00:05:10|300|60|2|cpu=4,mem=4G,gres/gpu=8\n"
    "1|ada|vision|fast|normal|COMPLETED|2026-01-01T00:01:00|2026-01-01T00:03:01|2026-01-01T00:05:10"
    "|2026-01-01T00:10:10|300|60|1|cpu=4,mem=4G,gres/gpu=4\n"
    "3|ada|vision|gone|normal|COMPLETED|2026-01-01T00:00:20|2026-01-01T00:02:00|2026-01-01T00:05:10"
    "|2026-01-01T00:06:10|60|60|1|cpu=4,mem=4G,gres/gpu=4\n"
)


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    folder = tmp_path / "dump"
    folder.mkdir()
    texts = {"slurm.conf": CONF, "qos.txt": QOS, "assoc.txt": ASSOC, "sacct.txt": SACCT}
    for name, text in texts.items():
        (folder / name).write_text(text)
    return folder


def run(*given: str) -> str:
    """What a command prints; it must end well."""
    result = CliRunner().invoke(app, list(given))
    assert result.exit_code == 0, result.output
    return result.output


def imported(dump: Path) -> Path:
    file = dump.parent / "site.toml"
    run("site", "import", "slurm", str(dump), "--out", str(file))
    return file


def test_a_site_comes_back_from_its_file(dump: Path) -> None:
    site = read_site(texts_of(dump))
    file = imported(dump)
    again = read_site_file(file)
    assert replace(again, config=Config(), remarks=()) == replace(site, config=Config(), remarks=())
    assert again.config.scheduler_number("bf_interval", 0.0) == 30.0
    assert "SlurmctldHost" not in file.read_text(), "hosts are not kept"
    cluster = Cluster.of(str(file))
    assert [node.gpus for node in cluster.nodes] == [4, 4, 4]
    assert [node.labels for node in cluster.nodes] == [("fast",), ("fast",), ()]


def test_what_is_not_modelled_is_named_with_the_jobs_that_it_touches(dump: Path) -> None:
    said = run("site", "import", "slurm", str(dump), "--out", str(dump.parent / "site.toml"))
    assert "Partition fast: AllowGroups not heeded (touches 2 of 4 jobs)" in said
    assert "QOS high: GrpTRESMins not heeded (touches 1 of 4 jobs)" in said
    assert "JobSubmitPlugins are not run" in said
    assert "SchedulerParameters bf_windoww: not heeded" in said


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[slurm]", "[slurm]\nversoin = 1", "unknown key 'versoin' (did you mean 'version'?)"),
        ("tier = 5", 'tier = "high"', "key 'partitions[1].tier' is 'high'"),
        ('nodes = ["n0", "n1"]', 'nodes = ["n0", "n9"]', "names node 'n9'"),
        ("slurm", "slrum", "has no table [slurm]"),
    ],
)
def test_a_mistake_in_the_file_is_named(dump: Path, old: str, new: str, said: str) -> None:
    file = imported(dump)
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    with pytest.raises(Problem) as caught:
        read_site_file(file)
    assert said in str(caught.value)


def test_a_site_is_neither_overwritten_nor_guessed(dump: Path) -> None:
    file = imported(dump)
    for given in ([str(dump)], [], [str(dump), "--local"]):
        result = CliRunner().invoke(app, ["site", "import", "slurm", *given, "--out", str(file)])
        assert result.exit_code != 0
        assert isinstance(result.exception, Problem)
    (dump / "slurm.conf").unlink()
    with pytest.raises(Problem, match="nothing says which nodes the site has"):
        read_site(texts_of(dump))


def test_accounting_says_partition_qos_nodes_and_when_a_job_could_start(dump: Path) -> None:
    jobs = {job.spec.id: job for job in read_trace(dump / "sacct.txt").jobs}
    assert jobs["1"].spec.queues == ("fast",)
    assert jobs["1"].recorded == Recorded(310.0, 610.0), "a requeued job holds nothing in between"
    assert (jobs["2"].spec.qos, jobs["2"].spec.nodes) == ("high", 2)
    assert jobs["3"].spec.submit_time == 120.0, "it could not start before"


def job_for(site: Site, **more: object) -> tuple[object, ...]:
    spec = JobSpec(id="7", submit_time=0.0, user="ada", pool="vision", **more)  # type: ignore[arg-type]
    job = job_of_spec(spec, Rules(site))
    return job.partitions, job.qos, job.limit_seconds, job.least_nodes, job.per_node, job.per_job


def test_a_job_of_a_trace_goes_where_it_says(dump: Path) -> None:
    site = read_site(texts_of(dump))
    hour = 3600.0
    assert job_for(site, queues=("fast",), gpus=8.0, nodes=2, time_limit_seconds=9 * hour) == (
        ("fast",), "normal", hour, 2, {"gres/gpu": 4.0}, {}
    )  # fmt: skip
    assert job_for(site, queues=("gone",), qos="high", gpus=5.0, nodes=2) == (
        ("all",), "high", None, 2, {}, {"gres/gpu": 5.0}
    )  # fmt: skip


def test_others_are_held_against_the_sites_own_scheduler_which_is_held_against_the_record(
    dump: Path,
) -> None:
    file = imported(dump)
    said = run(
        "compare", str(dump / "sacct.txt"), "--cluster", str(file), "-p", f"slurm:site={file}",
        "-p", "fifo", "--out", str(dump.parent / "out"), "--workers", "1",
    )  # fmt: skip
    plain = " ".join(said.split())
    assert "site.toml beside the record: jobs wait" in plain
    assert "beside the record, by queue" in plain
    assert f"the difference from slurm:site={file}" in plain
    page = (dump.parent / "out" / "report.html").read_text()
    assert "Beside the record" in page
