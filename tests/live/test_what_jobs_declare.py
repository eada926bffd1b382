"""What jobs declare of how they train: read, believed, acted on, and asked for where a part goes by it."""

from pathlib import Path
from typing import Any

import pytest
from api_fixtures import ApiFixture
from fake_cluster import ControllerHarness
from pydantic import ValidationError
from systems_here import needs, of

from volvelle.core.parts import placements, terminations
from volvelle.core.policy import policies
from volvelle.core.registry import Registry
from volvelle.live.job_request import JobRequest
from volvelle.live.messages import AttemptProgress
from volvelle.model.job import JobClass, JobSpec, Reward, Truth
from volvelle.model.problems import Problem
from volvelle.model.sensitivity import Sensitivity
from volvelle.model.throughput import Linear, PerType, Table
from volvelle.workload.reading import read_trace

pytest_plugins = ["api_fixtures"]

TYPES = "1x2:V100,1x2:A100"
GRID = {"cpus": [1, 4], "memory_gb": [16], "shares": [[0.5], [1.0]]}


def request(seconds: float = 100, **more: Any) -> JobRequest:
    given = {"command": ["sleep", str(seconds)], "estimate": seconds, **more}
    return JobRequest.model_validate(given)


def spec(**more: Any) -> JobSpec:
    return request(**more).spec(0, "ada", 0.0)


def believed(harness: ControllerHarness, number: int = 0) -> Truth:
    return harness.controller._cycle.state.scheduler.known[number].believed


def losing(harness: ControllerHarness, number: int, loss: float) -> None:
    """The script of a job reports its loss."""
    run = harness.fake_cluster.runs[number]
    done = int(run.done)
    report = AttemptProgress(
        *run.start.key, iterations=done, saved_iterations=done, metrics={"loss": loss}
    )
    harness.fake_cluster.outbox.append(report)
    harness.deliver()


@pytest.mark.parametrize(
    ("rates", "throughput"),
    [
        (4.0, Linear(2.0)),
        ({1: 3, "2": 5}, Table((3.0, 5.0, 7.5, 10.0))),
        (
            {"V100": 4, "A100": {2: 9, 4: 12}},
            PerType({"V100": Linear(2.0), "A100": Table((4.5, 9.0, 10.5, 12.0))}),
        ),
    ],
)
def test_rates_are_by_gpus_by_type_or_both(rates: Any, throughput: object) -> None:
    asked = request(gpus=2, max_gpus=4, rates=rates)
    assert asked.throughput == throughput
    assert JobRequest.model_validate(asked.as_json()) == asked


def test_a_deadline_that_is_a_duration_is_a_strict_one() -> None:
    assert request(deadline="10s").deadline == request(deadline={"within": 10}).deadline
    declared = spec(deadline=90)
    assert (declared.job_class, declared.rewards) == (JobClass.STRICT, (Reward(90.0, 1.0),))
    with pytest.raises(ValidationError, match="within"):
        request(deadline="soon")


def test_what_makes_no_sense_is_refused() -> None:
    wrongs: list[dict[str, Any]] = [
        {"rates": {}},
        {"rates": {"V100": 0}},
        {"rates": {"V100": 1}, "gpu_types": ["A100"]},
        {"sensitivity": GRID | {"shares": [[1.0], [0.5]]}},
        {"skew": 2},
    ]
    for wrong in wrongs:
        with pytest.raises(ValidationError):
            request(**wrong)


def test_all_of_it_is_believed(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path, TYPES)
    rates = {"V100": 2.0, "A100": 4.0}
    checkpoint = {"takes": "5s", "restore": 7}
    number = harness.submit(
        request(
            gpu_types=["A100"],
            rates=rates,
            spread_slowdown=0.2,
            sensitivity=GRID,
            checkpoint=checkpoint,
        ),
    )
    profile = Sensitivity((1.0, 4.0), (16.0,), ((0.5,), (1.0,)))
    throughput = PerType({"V100": Linear(2.0), "A100": Linear(4.0)})
    assert believed(harness, number) == Truth(
        work=400.0, throughput=throughput, spread_slowdown=0.2, sensitivity=profile
    )
    declared = harness.controller._cycle.state.scheduler.spec(number)
    assert (declared.checkpoint_seconds, declared.restore_seconds) == (5.0, 7.0)


def test_a_job_is_ended_at_the_loss_that_it_declares_and_only_there(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path, termination="loss:threshold=0.01,every=1")
    number, silent = harness.submit(request(lowest_loss=0.5)), harness.submit(request())
    for loss in (2.0, 0.51):
        harness.step(2)
        losing(harness, number, loss)
        losing(harness, silent, loss)
        assert harness.state(number) == "running"
    harness.step(2)
    losing(harness, number, 0.504)
    losing(harness, silent, 0.504)
    assert harness.state(number) == "finished"
    record = harness.controller.store.jobs.find(number)
    assert record is not None
    assert record.reason == "its loss is 0.504, within 1 % of 0.5"
    harness.step(1)
    assert list(harness.fake_cluster.runs) == [silent], "it stops at a checkpoint"


@needs("gavel")
def test_gavel_takes_a_job_of_several_types_that_says_its_rates(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path, TYPES, "gavel-fifo:round=10")
    with pytest.raises(Problem, match="how fast each job is on each GPU type"):
        harness.submit(request())
    number = harness.submit(request(rates={"V100": 1.0, "A100": 3.0}))
    harness.step(1)
    (grant,) = harness.fake_cluster.runs[number].start.grants
    node = next(n for n in harness.fake_cluster.cluster.nodes if n.name == grant.node)
    assert node.gpu_type == "A100"


@needs("gavel")
def test_a_journal_knows_what_was_done_on_the_type_on_which_a_job_ran(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path, TYPES, "gavel-fifo:round=10")
    harness.submit(request(30, rates={"V100": 1.0, "A100": 3.0}))
    harness.step(10)
    harness.step(20)
    harness.controller.store.write_journal(tmp_path / "journal.jsonl")
    [job] = read_trace(tmp_path / "journal.jsonl", strict=True)
    assert job.truth.work == 90.0


@pytest.mark.parametrize(
    ("kind", "part", "without", "declared"),
    [
        (terminations, "loss", spec(), spec(lowest_loss=0.1)),
        of("blox", placements, "skew", spec(gpus=2), spec(gpus=2, skew=0.7)),
        of("blox", placements, "profiled", spec(gpus=2), spec(gpus=2, spread_slowdown=0.1)),
        of("synergy", policies, "synergy-tune", spec(), spec(sensitivity=GRID)),
        of("pollux", policies, "pollux", spec(max_gpus=4), spec(max_gpus=4, rates={1: 1, 4: 3})),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_part_says_what_it_goes_by_and_the_job_does_not_declare(
    kind: Registry[Any], part: str, without: JobSpec, declared: JobSpec
) -> None:
    assert "declares none" in kind.make(part).lacks(without)
    assert kind.make(part).lacks(declared) == ""


@needs("afs")
def test_the_answer_to_a_submission_says_what_the_job_does_not_declare(api: ApiFixture) -> None:
    api.client("root").put("/v1/policy", json={"policy": "afs-l"})
    job = {"command": ["train"], "max_gpus": 4, "preemptible": False}
    (notice,) = api.client("dana").post("/v1/jobs", json=job).json()["notices"]
    assert notice.startswith("policy 'afs-l' goes by its rates on other numbers of GPUs")
    job["rates"] = {"1": 10, "4": 30}
    assert api.client("dana").post("/v1/jobs", json=job).json()["notices"] == []
