"""Written traces are read back as equal jobs; SWF goes to those who read nothing else."""

import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volvelle.model.adaptation import Adaptation, ScalingRule
from volvelle.model.job import Dependency, Job, JobClass, JobSpec, LossPoint, Regime, Reward, Truth
from volvelle.model.job_schema import fields_of
from volvelle.model.problems import Problem
from volvelle.model.sensitivity import Sensitivity
from volvelle.model.throughput import Amdahl, Linear, Log2, PerBatchSize, PerType, Table
from volvelle.workload.reading import read_trace
from volvelle.workload.workload import Workload
from volvelle.workload.writing import WRITERS, write_trace

FULL = Job(
    JobSpec(
        id="full",
        submit_time=0.0,
        gpus=4.0,
        min_gpus=1.0,
        max_gpus=8.0,
        gpu_types=("a100", "h100"),
        constraints=("nvlink", "zone=a"),
        exclusive=True,
        starts_over=True,
        cpus=12.5,
        memory_gb=64.0,
        user="ada",
        pool="vision",
        queues=("fast", "all"),
        qos="high",
        nodes=2,
        name='a "name", with\nlines',
        job_class=JobClass.SOFT,
        rewards=(Reward(3600.0, 10.0), Reward(7200.1, 2.5)),
        weight=1.5,
        preemptible=False,
        checkpoint_seconds=1.25,
        restore_seconds=0.0,
        max_retries=0,
        estimate_seconds=1e-3,
        throughput=Amdahl(2.0, 0.9),
        skew=0.74,
        variability="A",
        spread_slowdown=0.1,
        sensitivity=Sensitivity((1.0, 2.0), (16.0,), ((0.5,), (1.0,))),
        adaptation=Adaptation(
            rule=ScalingRule.SCHEDULE, epochs=1 / 3, sizes=(32, 64), begins=(0.0, 0.1)
        ),
        lowest_loss=0.5,
        after=(Dependency("plain"), Dependency("other", any_end=True, think_seconds=0.1)),
        priority=-7,
        time_limit_seconds=90.5,
    ),
    Truth(
        work=1 / 3,
        throughput=PerType(
            {
                "a100": PerBatchSize({32: Table((0.1, 0.2)), 64: Linear(0.2)}, 32),
                "h100": Log2(1.0, 1.1),
            }
        ),
        regimes=(Regime(0.0, 32), Regime(0.1, 64, 0.5)),
        failures=(0.1, 0.2),
        loss_curve=(LossPoint(0.0, 2.5), LossPoint(0.3, 1.25)),
        spread_slowdown=0.05,
        sensitivity=Sensitivity((1.0, 3.5), (20.83,), ((1 / 3,), (1.0,)), "zero"),
        beside={"lm": Table((0.05,)), "": Linear(0.1)},
    ),
)
PLAIN = Job(JobSpec(id="plain", submit_time=0.1 + 0.2, gpus=0.3), Truth(work=7e9 / 3))


@pytest.mark.parametrize("name", ["w.csv", "w.csv.gz", "w.parquet"])
def test_round_trip_is_exact(tmp_path: Path, name: str) -> None:
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow", reason="Parquet needs the extra 'parquet'")
    workload = Workload.of([FULL, PLAIN])
    write_trace(workload, tmp_path / name)
    read = read_trace(tmp_path / name, strict=True)
    assert read.jobs == workload.jobs


def test_the_job_that_is_tried_declares_every_attribute_otherwise_than_by_default() -> None:
    for part in (FULL.spec, FULL.truth):
        for field in fields_of(type(part)):
            assert getattr(part, field.name) != field.default, field.name


def falling(rewards: list[Reward]) -> tuple[Reward, ...]:
    """The same deadlines, of which a later one is worth no more."""
    deadlines = sorted(one.deadline_seconds for one in rewards)
    values = sorted((one.value for one in rewards), reverse=True)
    return tuple(map(Reward, deadlines, values))


finite = st.floats(1e-6, 1e6, allow_subnormal=False)
optional = st.none() | finite
names = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), max_size=8)


def job_of(spec: JobSpec, truth: Truth) -> Job:
    """A job without training, whose type only type checkers resolve."""
    return Job(spec, truth)


jobs = st.builds(
    job_of,
    spec=st.builds(
        JobSpec,
        id=st.uuids().map(str),
        submit_time=st.just(0.0),
        gpus=finite,
        gpu_types=st.lists(st.sampled_from(["a100", "h100", "t4"]), unique=True).map(tuple),
        user=names,
        name=names,
        job_class=st.sampled_from(JobClass),
        rewards=st.lists(st.builds(Reward, finite, finite), max_size=3).map(falling),
        checkpoint_seconds=optional,
        estimate_seconds=optional,
        preemptible=st.booleans(),
    ),
    truth=st.builds(
        Truth,
        work=finite,
        throughput=st.builds(Linear, finite) | st.builds(Amdahl, finite, st.floats(0, 1)),
        failures=st.lists(finite, max_size=2).map(tuple),
    ),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(jobs, min_size=1, max_size=5))
def test_any_workload_round_trips(
    tmp_path_factory: pytest.TempPathFactory, many: list[Job]
) -> None:
    path = tmp_path_factory.mktemp("any") / "w.csv"
    write_trace(Workload.of(many), path)
    assert list(read_trace(path, strict=True)) == many


def test_columns_that_say_nothing_are_left_out(tmp_path: Path) -> None:
    write_trace(Workload([PLAIN]), tmp_path / "w.csv")
    assert (tmp_path / "w.csv").read_text().splitlines()[0] == "id,submit_time,gpus,duration,work"


def test_the_same_workload_makes_the_same_packed_bytes(tmp_path: Path) -> None:
    for name in ("a.csv.gz", "b.csv.gz"):
        write_trace(Workload([PLAIN]), tmp_path / name)
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.csv.gz").read_bytes()).startswith(b"id,")


def test_swf_keeps_times_and_widths(tmp_path: Path) -> None:
    job = Job(
        JobSpec(id="x", submit_time=0.0, gpus=4.0, user="ada", pool="q", estimate_seconds=90.0),
        Truth(work=240.0),
    )
    write_trace(Workload([job]), tmp_path / "w.swf")
    read = read_trace(tmp_path / "w.swf", options={"procs_as": "gpu"}).jobs[0]
    assert (read.spec.gpus, read.seconds_on(4)) == (4, 60)
    assert read.spec.estimate_seconds == 90
    assert "; User: 1 ada" in (tmp_path / "w.swf").read_text()


def test_an_unknown_suffix_or_format_names_the_known(tmp_path: Path) -> None:
    with pytest.raises(Problem, match=r"\.csv or \.parquet or \.swf"):
        write_trace(Workload([PLAIN]), tmp_path / "w.xlsx")
    with pytest.raises(Problem, match="did you mean 'parquet'"):
        write_trace(Workload([PLAIN]), tmp_path / "w.csv", "parket")
    assert set(WRITERS) == {"volvelle", "parquet", "swf"}


def test_a_path_that_cannot_be_written_is_a_problem(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="cannot write"):
        write_trace(Workload([PLAIN]), tmp_path / "absent" / "w.csv")


def test_parquet_without_pyarrow_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(Problem, match=r"-e '.\[parquet\]'"):
        write_trace(Workload([PLAIN]), tmp_path / "w.parquet")
