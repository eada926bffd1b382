"""The cluster that is proposed for a trace, and what is said where types do not go together."""

import re
import shlex
from pathlib import Path

import pytest

from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.problems import Problem
from volvelle.simulate.experiment import Experiment
from volvelle.workload.proposing import proposed_cluster, seen_types, too_much_wanted
from volvelle.workload.readers.mapping import parse_map
from volvelle.workload.reading import read_trace
from volvelle.workload.workload import Workload

TYPED = (
    "submit_time,start_time,end_time,gpus,gpu_type\n"
    "0,0,100,8,a100\n10,10,60,8,a100\n20,20,30,2,h100|a100\n30,30,80,1,h100\n"
)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "typed.csv"
    path.write_text(TYPED)
    return path


def test_types_and_widths_are_those_seen_and_gpus_those_held_at_once(trace: Path) -> None:
    a100, h100 = seen_types(read_trace(trace))
    assert (a100.gpu_type, a100.jobs, a100.widths, a100.gpus) == ("a100", 2, (8.0,), 16.0)
    assert (h100.gpu_type, h100.jobs, h100.widths, h100.gpus) == ("h100", 2, (1.0, 2.0), 2.0)
    assert a100.load == 16.0  # both at once, not (8 * 100 + 8 * 50) / 30
    assert proposed_cluster([a100, h100]) == "--cluster 2x8:a100,1x2:h100"


def test_without_starts_the_work_says_how_many_gpus_and_the_widest_job_fits() -> None:
    jobs = [
        Job(JobSpec(id=str(i), submit_time=100.0 * (i // 10), gpus=4.0), Truth(work=80.0))
        for i in range(11)
    ]
    [seen] = seen_types(Workload(jobs))
    assert seen.gpus == pytest.approx(11 * 80 / 100 / 0.8)
    assert proposed_cluster([seen]) == "--cluster 3x4"
    [two] = seen_types(Workload([jobs[0], jobs[10]]))
    assert two.gpus == pytest.approx(2 * 80 / 100 / 0.8)
    third = Job(JobSpec(id="c", submit_time=1.0), Truth(work=1.0))
    [both] = seen_types(Workload([*jobs[:2], third]))
    assert both.gpus == 9.0  # nobody waits
    wide = Job(JobSpec(id="wide", submit_time=0.0, gpus=64.0), Truth(work=1.0))
    assert proposed_cluster(seen_types(Workload([wide, *jobs]))) == "--cluster 8x8"


def test_a_typed_trace_on_an_untyped_cluster_is_asked_about_before_it_is_simulated(
    trace: Path,
) -> None:
    experiment = Experiment(trace=trace, cluster="4x8")
    with pytest.raises(Problem, match="4 of 4 jobs name GPU types") as caught:
        experiment.sources(experiment.read_cluster())
    for offered in ("--cluster 3x8:a100,1x8:h100", "--ignore-types"):  # as many as there are
        assert offered in str(caught.value)
    whatever = experiment.model_copy(update={"ignore_types": True})
    [source] = whatever.sources(whatever.read_cluster()).values()
    assert {spec.gpu_types for spec in source.workload.specs} == {()}
    assert source.origin["ignore_types"] is True


def test_a_trace_without_a_cluster_proposes_one(trace: Path) -> None:
    with pytest.raises(Problem, match=r"no cluster is given\. Say --cluster 2x8:a100"):
        Experiment(trace=trace).read_cluster()


def test_what_a_trace_lacks_is_said_at_once_and_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("Number,# of GPUs,Requested On,Minutes,GPU Model\n1,4,11/24/2026,90,a100\n")
    with pytest.raises(
        Problem, match=r"no known trace format.*; and no cluster is given"
    ) as caught:
        Experiment(trace=path).read_cluster()
    with pytest.raises(Problem, match=r"no known trace.*; 1 of 1 jobs name GPU types") as both:
        Experiment(trace=path).sources(parse_cluster("1x4"))
    assert both.value.options.endswith("--ignore-types")
    words = shlex.split(caught.value.options)
    said = dict(zip(words[::2], words[1::2], strict=True))
    assert said["--cluster"] == "1x4:a100"
    experiment = Experiment(
        trace=path, cluster=said["--cluster"], map=parse_map([said["--map"]]), dates=said["--dates"]
    )
    [source] = experiment.sources(experiment.read_cluster()).values()
    assert source.workload.specs[0].gpu_types == ("a100",)


def test_jobs_of_any_type_find_room_among_those_of_a_type() -> None:
    typed = Job(JobSpec(id="a", submit_time=0.0, gpus=4.0, gpu_types=("a100",)), Truth(work=40.0))
    wide = Job(JobSpec(id="b", submit_time=10.0, gpus=16.0), Truth(work=160.0))
    assert proposed_cluster(seen_types(Workload([typed, wide]))) == "--cluster 3x8:a100"


def test_demand_above_what_there_is_of_a_type_is_found(trace: Path) -> None:
    types = seen_types(read_trace(trace))
    found = too_much_wanted(types, parse_cluster("1x8:a100,1x8:h100"))
    assert [(one.gpu_type, gpus) for one, gpus in found] == [("a100", 8)]
    assert too_much_wanted(types, parse_cluster("2x8:a100,1x8:h100")) == []


def test_a_type_that_goes_into_no_line_is_not_proposed() -> None:
    def line(gpu_type: str) -> str:
        job = Job(JobSpec(id="a", submit_time=0.0, gpu_types=(gpu_type,)), Truth(work=5.0))
        return proposed_cluster(seen_types(Workload([job])))

    assert line("V100 (32 GB)") == ""
    assert line("Tesla V100") == "--cluster '1x1:Tesla V100'"
    (node,) = parse_cluster("1x1:Tesla V100").nodes
    assert (node.name, node.gpu_type) == ("Tesla-V100-0", "Tesla V100")


def test_nodes_are_as_large_as_what_jobs_of_several_nodes_had_of_each(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    row = "{0}|2026-01-0{0}T10:00:00|2026-01-0{0}T10:00:00|3600|COMPLETED|{1}|gres/gpu:a100={2}\n"
    path.write_text(
        "JobID|Submit|Start|ElapsedRaw|State|NNodes|ReqTRES\n"
        + row.format(1, 2, 8)
        + row.format(2, "Unknown", 8)
        + row.format(3, 1, 2)
    )
    [a100] = seen_types(read_trace(path))
    assert a100.most_on_node == 4.0
    assert proposed_cluster([a100]) == "--cluster 2x4:a100"


@pytest.mark.parametrize(
    ("types", "cluster", "said"),
    [
        (("A100-80GB", "H100"), "4x8:A100", "are A100 (did you mean 'A100-80GB'?)"),
        (("V100-SXM2-32GB",), "1x8:v100", "are v100 (did you mean 'V100-SXM2-32GB'?)"),
        (("H100",) + ("A100",) * 19, "4x8:A100", ""),  # a twentieth: rejected, and told so
    ],
)
def test_types_of_gpus_that_the_cluster_lacks_are_asked_about(
    types: tuple[str, ...], cluster: str, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "typed.csv"
    rows = "".join(f"{at},4,60,{kind}\n" for at, kind in enumerate(types))
    path.write_text("submit_time,gpus,duration,gpu_type\n" + rows)
    experiment = Experiment(trace=path, cluster=cluster)
    if not said:
        assert experiment.sources(experiment.read_cluster())
        return
    with pytest.raises(Problem, match=re.escape(said)) as caught:
        experiment.sources(experiment.read_cluster())
    assert "--ignore-types" in str(caught.value) and types[0] in str(caught.value)
