"""Jobs run first on a profiling partition, by the rules of the simulated one, over the controller's death."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from executor_harnesses import SOURCES
from fake_cluster import ControllerHarness, header_of, sleeping
from waiting import until

from volvelle.cli.formatting import format_profile
from volvelle.core.events import JobSubmitted
from volvelle.core.journal import read_journal
from volvelle.live.config import ServeConfig
from volvelle.live.control.controller import Controller
from volvelle.live.control.requests import Cancel, ControlRequest, Hold, SetNodeState, Submit
from volvelle.live.job_request import JobRequest
from volvelle.live.nodes.executor import ExecutorContext, executors
from volvelle.live.records import ProfileStarted
from volvelle.live.scheduler_queries import believed_work
from volvelle.live.status.view import JobState
from volvelle.live.store import Store
from volvelle.live.store.backup import back_up, restore
from volvelle.metrics.recorder import outcomes_of
from volvelle.model.cluster import Cluster, NodeState, Profiling, parse_cluster
from volvelle.model.overheads import Overheads
from volvelle.model.problems import Problem
from volvelle.simulate.profiling import profile
from volvelle.testing.scenario import linear_job
from volvelle.workload.workload import Workload


def cluster(nodes: int = 1, of: str = "3x2", **more: Any) -> Cluster:
    profiling = Profiling(nodes, seconds=more.pop("seconds", 10.0), **more)
    return msgspec.structs.replace(parse_cluster(of), profiling=profiling)


def harness_at(folder: Path, on: Cluster, **parts: str) -> ControllerHarness:
    return ControllerHarness.at(folder, on, estimator="profiled", **parts)


def execute(harness: ControllerHarness, request: ControlRequest) -> Any:
    answer = harness.controller.request(request)
    harness.deliver()
    return answer.result(timeout=0.0)


def submit(harness: ControllerHarness, request: JobRequest, user: str = "ada") -> int:
    numbers: tuple[int, ...] = execute(harness, Submit(user, request))
    return numbers[0]


def step(harness: ControllerHarness, seconds: float) -> None:
    """Time passes; jobs report how far they are."""
    harness.fake_cluster.pass_time(seconds)
    harness.fake_cluster.report_progress()
    harness.step(0.0)


def shown(harness: ControllerHarness, number: int) -> tuple[str, list[str]]:
    """State of a job, and the nodes it holds GPUs of."""
    job = harness.controller.status.jobs[number]
    return job.state.value, [node for node, _ in job.grants]


def submissions(harness: ControllerHarness) -> dict[int, JobSubmitted]:
    """What the scheduler was told of jobs, by number."""
    return {
        event.number: event
        for stored in harness.controller.store.entries()
        for event in stored.entry.events
        if isinstance(event, JobSubmitted)
    }


@pytest.mark.parametrize("crashes", [False, True])
def test_jobs_are_profiled_in_order_and_go_on_from_their_checkpoints(
    crashes: bool, tmp_path: Path
) -> None:
    harness = harness_at(tmp_path, cluster())

    def crash() -> None:
        if crashes:
            harness.crash()
            harness.deliver()

    long, short, after = (
        submit(harness, sleeping(seconds, gpus, estimate=None))
        for seconds, gpus in ((100, 2), (5, 1), (30, 1))
    )
    assert shown(harness, long) == ("running", ["node-2"])
    assert [shown(harness, number) for number in (short, after)] == [("waiting", [])] * 2
    assert "waits for a place" in harness.controller.status.jobs[after].reason
    crash()
    step(harness, 9.0)
    assert not submissions(harness)
    crash()
    step(harness, 1.0)
    assert shown(harness, long)[0] == "stopping"
    crash()
    step(harness, 1.0)
    told = submissions(harness)[long]
    assert told.profile is not None
    assert told.profile.seconds == pytest.approx(89.0)  # 11 of 100 iterations are saved
    assert told.spec.submit_time == pytest.approx(told.profile.started)
    assert shown(harness, long) == ("running", ["node-0"])
    assert [shown(harness, number) for number in (short, after)] == [("running", ["node-2"])] * 2
    crash()
    step(harness, 5.0)
    record = harness.controller.store.jobs.find(short)
    assert record is not None and record.status is not None
    assert (record.state, record.reason) == ("finished", "while it was profiled")
    step(harness, 6.0)
    step(harness, 1.0)
    assert set(submissions(harness)) == {long, after}
    crash()
    profile = harness.controller.status.jobs[after].profile
    assert profile is not None and profile.seconds == pytest.approx(18.0)
    harness.step(100.0)
    assert harness.controller.store.jobs.find(long).state == "finished"  # type: ignore[union-attr]
    assert not harness.controller.status.jobs


def test_a_crash_a_lost_node_and_a_cancellation_there(tmp_path: Path) -> None:
    harness = harness_at(tmp_path, cluster())
    failing = submit(harness, JobRequest(command=("fail", "3"), gpus=1))
    other, third = submit(harness, sleeping(50)), submit(harness, sleeping(50))
    step(harness, 3.0)
    record = harness.controller.store.jobs.find(failing)
    assert record is not None and record.state == "failed"
    assert record.reason is not None and record.reason.endswith("while it was profiled")
    assert shown(harness, third) == ("running", ["node-2"])
    with pytest.raises(Problem, match="is profiled first, and is not in the queue yet"):
        execute(harness, Hold(third))
    execute(harness, Cancel(third))
    harness.fake_cluster.lose("node-2")
    harness.deliver()
    assert shown(harness, other) == ("waiting", [])
    assert harness.controller.status.nodes[-1].state == "down"
    harness.fake_cluster.join("node-2")
    execute(harness, SetNodeState("node-2", NodeState.DRAINING))
    assert shown(harness, other) == ("waiting", [])
    execute(harness, SetNodeState("node-2", NodeState.UP))
    assert shown(harness, other) == ("running", ["node-2"])
    assert harness.controller.status.nodes[-1].state == "profiling"
    assert not submissions(harness)


def test_a_job_that_finished_there_after_a_backup_is_not_run_again(tmp_path: Path) -> None:
    harness = harness_at(tmp_path, cluster())
    numbers = [submit(harness, sleeping(3, gpus=2)) for _ in range(2)]
    back_up(str(tmp_path / "store.db"), tmp_path / "backup.db")
    for _ in numbers:
        step(harness, 3.0)
    harness.close()
    restore(tmp_path / "backup.db", str(tmp_path / "store.db"))
    harness.crash(snapshot=False)
    harness.deliver()
    records = [harness.controller.store.jobs.find(number) for number in numbers]
    assert [record and record.state for record in records] == ["finished", "finished"]
    assert [what for _, what, _, _ in harness.fake_cluster.history].count("start") == 2


def test_a_wide_job_runs_on_one_node_and_on_two(tmp_path: Path) -> None:
    harness = harness_at(tmp_path, cluster(2, "4x2", user_gpus=3.0))
    wide = submit(harness, sleeping(100, 3))
    mine, yours = submit(harness, sleeping(100)), submit(harness, sleeping(100), "bo")
    assert shown(harness, wide) == ("running", ["node-2"])
    assert shown(harness, yours) == ("running", ["node-3"])
    assert "its user" in harness.controller.status.jobs[mine].reason
    execute(harness, Cancel(mine))
    step(harness, 10.0)
    step(harness, 1.0)
    job = harness.controller.status.jobs[wide]
    assert [(node, len(gpus)) for node, gpus in job.grants] == [("node-2", 2), ("node-3", 1)]
    step(harness, 10.0)
    step(harness, 1.0)
    assert submissions(harness)[wide].profile.seconds == pytest.approx(78.0)  # type: ignore[union-attr]


def test_runs_begin_when_they_begin_in_a_simulation(tmp_path: Path) -> None:
    on = cluster(2, "4x2", user_gpus=3.0)
    came = (
        (3, 100.0, 3, "ada"),
        (3, 100.0, 1, "ada"),
        (4, 4.0, 2, "bo"),
        (4, 100.0, 2, "cy"),
        (5, 7.0, 1, "dan"),
        (6, 100.0, 1, "dan"),
        (16, 3.0, 2, "ada"),
    )
    jobs = [
        msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, user=user))
        for number, (submit_time, seconds, gpus, user) in enumerate(came)
        for job in [linear_job(number, float(submit_time), float(gpus), seconds)]
    ]
    foreseen = profile(Workload(jobs), on, Overheads()).profiled

    harness = harness_at(tmp_path, on)
    for now in range(1, 60):
        step(harness, 1.0)
        step(harness, 0.0)
        for submit_time, seconds, gpus, user in came:
            if submit_time == now:
                submit(harness, sleeping(seconds, gpus), user)
    starts: dict[int, float] = {}
    for stored in harness.controller.store.entries():
        for record in stored.records:
            if isinstance(record, ProfileStarted):
                starts.setdefault(record.number, record.time)
    assert [starts[number] for number in range(len(came))] == pytest.approx(foreseen.start)
    ended_there = set(range(len(came))) - set(submissions(harness))
    assert ended_there == set(np.flatnonzero(foreseen.ended_there).tolist())


def test_without_a_number_of_iterations_the_estimate_falls_back_and_that_is_said(
    tmp_path: Path,
) -> None:
    harness = harness_at(tmp_path, cluster())
    number = submit(harness, sleeping(100, estimate=70.0))
    harness.step(10.0)
    harness.step(1.0)
    job = harness.controller.status.jobs[number]
    assert job.profile is not None and job.profile.seconds is None
    assert "believed to take what its user declared" in format_profile(asdict(job))
    assert believed_work(harness.controller._cycle.state.scheduler, number) == pytest.approx(70.0)


# ---------------------------------------------------------------------- real processes


@contextmanager
def controller(folder: Path, on: Cluster) -> Iterator[Controller]:
    """In charge of made-up GPUs of this machine; jobs outlive it."""
    header = header_of(on, placement="consolidated", estimator="profiled")
    context = ExecutorContext(on, folder / "executor", "the token of agents")
    executor = executors.make("local:pretend=true,progress_seconds=0.1,linger_seconds=2")
    controller = Controller(Store.open(str(folder / "store.db")), header, executor, context)
    controller.start()
    try:
        yield controller
    finally:
        controller.stop()


def test_real_jobs_are_measured_and_a_restart_loses_nothing(tmp_path: Path) -> None:
    on = cluster(of="2x1", seconds=0.8)
    line = str(Path(__file__).parents[3] / "examples" / "train_line.py")
    with controller(tmp_path, on) as first:
        for command in ((sys.executable, line, "1000", "0.01"), ("true",), ("false",)):
            environment = {"PYTHONPATH": str(SOURCES)}
            request = JobRequest(command=command, environment=environment)
            first.request(Submit("ada", request)).result(timeout=10.0)
        until(lambda: first.status.jobs[0].iterations > 10)
        assert first.status.jobs[0].grants == (("node-1", (0,)),)
    with controller(tmp_path, on) as second:
        until(lambda: second.status.jobs[0].profile is not None)
        profile = second.status.jobs[0].profile
        assert profile is not None and profile.seconds is not None
        assert 0.01 * 90_000 < profile.seconds < 0.1 * 100_000
        until(lambda: second.status.jobs[0].ran_on == {"node-0": 2, "node-1": 1})
        until(lambda: second.status.jobs[0].state is JobState.RUNNING)
        assert second.status.jobs[0].saved_iterations > 10
        second.request(Cancel(0)).result(timeout=10.0)
        until(lambda: not second.status.jobs)
        ended = [second.store.jobs.find(number) for number in range(3)]
        assert [record.state for record in ended if record] == ["cancelled", "finished", "failed"]


# ---------------------------------------------------------------------- what is refused


def test_the_journal_is_read_though_a_job_ended_before_the_scheduler_knew_it(
    tmp_path: Path,
) -> None:
    harness = harness_at(tmp_path, cluster())
    for seconds in (40.0, 30.0, 20.0):
        submit(harness, sleeping(seconds))
        step(harness, 1.0)
    execute(harness, Cancel(0))
    for _ in range(30):
        step(harness, 5.0)
    path, store = tmp_path / "journal.jsonl", harness.controller.store
    store.write_journal(path)
    outcomes = outcomes_of(*read_journal(path))
    assert {spec.id for spec in outcomes.specs} == {"1", "2"}
    assert outcomes.status.tolist() == ["finished", "finished"]
    assert (found := store.header()) is not None
    records = [store.jobs.find(int(spec.id)) for spec in outcomes.specs]
    ended = [record.ended for record in records if record and record.ended]
    assert (outcomes.finish + found[1]).tolist() == pytest.approx(ended)


def test_a_server_keeps_the_size_of_its_partition(tmp_path: Path) -> None:
    with pytest.raises(Problem, match=r"profiling.most_nodes is 2, and the partition of a server"):
        ControllerHarness.at(tmp_path, cluster(most_nodes=2))


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("seconds = 0", "profiling.seconds"),
        ("nodes = 0", "profiling.nodes"),
        ("user_gpus = -1", "profiling.user_gpus"),
        ("sconds = 5", "profiling.sconds"),
        ("nodes = 3", "which leaves none"),
    ],
)
def test_what_is_wrong_with_a_partition_is_named(config: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    nodes = "" if config.startswith("nodes") else "nodes = 1\n"
    file.write_text(f'cluster = "3x2"\n[profiling]\n{nodes}{config}\n')
    with pytest.raises(Problem, match=said):
        ServeConfig.load(file, {}).read_cluster()
