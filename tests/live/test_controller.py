"""The controller, stepped by hand on a fake cluster."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fake_cluster import ControllerHarness, FakeCluster, FakeExecutor, header_of, sleeping
from waiting import until

from volvelle.core.events import Recomposed
from volvelle.core.fork import Fork
from volvelle.core.journal import read_journal, replay
from volvelle.live.control.controller import Controller
from volvelle.live.control.live_jobs import LiveJob
from volvelle.live.control.requests import (
    Cancel,
    ControlRequest,
    Hold,
    Recompose,
    Release,
    SetNodeState,
    Submit,
)
from volvelle.live.job_request import JobRequest
from volvelle.live.messages import AttemptStarted
from volvelle.live.nodes.executor import ExecutorContext
from volvelle.live.status.view import JobState
from volvelle.live.store import CycleBatch, Store
from volvelle.metrics.recorder import outcomes_of
from volvelle.model.cluster import Cluster, NodeState, parse_cluster
from volvelle.model.node import Node
from volvelle.model.problems import Problem


def execute(harness: ControllerHarness, request: ControlRequest) -> Any:
    """Send a request, let the controller handle it, and return its answer."""
    answer = harness.controller.request(request)
    harness.deliver()
    return answer.result(timeout=0.0)


def submit(harness: ControllerHarness, request: JobRequest, key: str | None = None) -> int:
    numbers: tuple[int, ...] = execute(harness, Submit("ada", request, key))
    return numbers[0]


def state(harness: ControllerHarness, number: int) -> str:
    job = harness.controller.status.jobs.get(number)
    if job is not None:
        return job.state.value
    record = harness.controller.store.jobs.find(number)
    assert record is not None
    return record.state or "unfinished"


@pytest.fixture
def harness(tmp_path: Path) -> ControllerHarness:
    harness = ControllerHarness.at(tmp_path)
    harness.deliver()
    return harness


def test_nodes_that_never_joined_are_shown_as_down(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path, "2x1")
    assert [node.state for node in harness.controller.status.nodes] == ["down", "down"]
    harness.deliver()
    assert [node.state for node in harness.controller.status.nodes] == ["up", "up"]


def test_a_job_is_started_runs_and_finishes(harness: ControllerHarness) -> None:
    number = submit(harness, sleeping(5))
    job = harness.controller.status.jobs[number]
    assert (job.state, job.grants, job.attempt) == (JobState.RUNNING, (("node-0", (0,)),), 1)
    assert harness.controller.status.nodes[0].free == 1
    harness.step(5)
    assert state(harness, number) == "finished"
    assert harness.controller.status.nodes[0].free == 2


def test_a_job_outlives_the_controller(harness: ControllerHarness) -> None:
    number, waiting = submit(harness, sleeping(5, 2)), submit(harness, sleeping(5, 2))
    harness.step(2)
    harness.crash()
    harness.deliver()
    assert [run.start.attempt for run in harness.fake_cluster.runs.values()] == [1]
    assert (state(harness, number), state(harness, waiting)) == ("running", "waiting")
    harness.step(3)
    assert (state(harness, number), state(harness, waiting)) == ("finished", "running")
    harness.step(5)
    assert state(harness, waiting) == "finished"
    assert [entry[1:] for entry in harness.fake_cluster.history] == [
        ("start", 0, 1),
        ("finished", 0, 1),
        ("start", 1, 1),
        ("finished", 1, 1),
    ]


def test_attempts_are_the_same_to_the_next_controller_though_other_jobs_are_over(
    harness: ControllerHarness,
) -> None:
    """Job 1 runs where job 0 had run; job 2 is cancelled, and its attempt has not ended."""
    submit(harness, sleeping(5))
    harness.step(5)
    running, cancelled = submit(harness, sleeping(50)), submit(harness, sleeping(50))
    harness.fake_cluster.ended.clear()
    harness.controller.request(Cancel(cancelled))
    harness.controller.step()
    harness.fake_cluster.outbox.clear()
    before = {attempt.key for attempt in harness.controller._cycle.state.ledger.attempts.values()}
    assert {key.number for key in before} == {running, cancelled}
    assert all(key.job for key in before)
    for _ in range(2):
        harness.crash()
        ledger = harness.controller._cycle.state.ledger
        assert {attempt.key for attempt in ledger.attempts.values()} == before
    harness.deliver()
    assert [run.start.attempt for run in harness.fake_cluster.runs.values()] == [1]


def test_an_end_while_no_controller_runs_is_reported_later(
    harness: ControllerHarness,
) -> None:
    number = submit(harness, sleeping(5))
    harness.fake_cluster.pass_time(6)
    harness.fake_cluster.outbox.clear()
    harness.crash()
    harness.fake_cluster.report_ends_again()
    harness.deliver()
    assert state(harness, number) == "finished"
    assert not harness.fake_cluster.ended  # a `Forget` was sent


def test_a_start_that_ended_with_the_server_that_was_told_of_it_is_told_again(
    harness: ControllerHarness,
) -> None:
    future = harness.controller.request(Submit("dana", sleeping(50), None))
    harness.controller.step()
    (number,) = future.result(0)
    assert [type(report) for report in harness.fake_cluster.outbox] == [AttemptStarted]
    harness.fake_cluster.outbox.clear()
    harness.crash()
    harness.deliver()
    assert state(harness, number) == "running"


def test_a_job_of_which_nothing_is_left_is_started_again(harness: ControllerHarness) -> None:
    number = submit(harness, sleeping(5))
    harness.step(1)
    harness.fake_cluster.runs.clear()
    harness.crash()
    harness.deliver()
    job = harness.controller.status.jobs[number]
    assert (job.state, job.attempt, job.failures) == (JobState.RUNNING, 2, 1)
    assert job.reason.startswith("tried again after: ")


def test_an_attempt_that_should_not_run_is_killed(harness: ControllerHarness) -> None:
    over, number = submit(harness, sleeping(5)), submit(harness, sleeping(50))
    stray = replace(harness.fake_cluster.runs[over])
    harness.step(5)
    harness.fake_cluster.runs[over] = replace(stray, seconds=50.0)
    harness.crash()
    harness.deliver()
    assert list(harness.fake_cluster.runs) == [number]


def test_gpus_that_a_starting_job_is_given_are_not_free(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path, policy="sjf:preemptive=true")
    harness.deliver()
    submit(harness, sleeping(100, 1))
    harness.step(1)
    starting = submit(harness, sleeping(5, 2))
    assert state(harness, starting) == "starting"
    assert harness.controller.status.nodes[0].free == 0


def test_a_preempted_job_stops_before_the_next_starts_and_resumes(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path, policy="sjf:preemptive=true")
    harness.deliver()
    long = submit(harness, sleeping(100, 2))
    harness.step(10)
    short = submit(harness, sleeping(5, 2))
    assert (state(harness, long), state(harness, short)) == ("stopping", "starting")
    assert [run.start.number for run in harness.fake_cluster.runs.values()] == [long]
    harness.step(1)
    assert (state(harness, long), state(harness, short)) == ("waiting", "running")
    assert (
        harness.controller.metrics.revocation.count,
        harness.controller.metrics.revocation.total,
    ) == (1, 1.0)
    harness.step(5)
    assert (state(harness, long), state(harness, short)) == ("running", "finished")
    job = harness.controller.status.jobs[long]
    assert (job.attempt, job.preemptions, job.saved_iterations) == (2, 1, 11)
    assert harness.fake_cluster.runs[long].start.saved_iterations == 11


def test_a_job_that_rounds_stop_before_it_gets_anywhere_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = ControllerHarness.at(tmp_path, policy="srtf:round=1")
    number = submit(harness, sleeping(50, 2))
    for _ in range(3):
        assert not harness.controller.health.problems
        harness.step(0.2)
        execute(harness, Hold(number))
        harness.step(0.1)
        harness.step(0.7)
        execute(harness, Release(number))
    said = "its last 3 runs, of 0.3s at most, were stopped before it reported an iteration"
    assert harness.controller.status.jobs[number].reason == said
    harness.crash(snapshot=False)
    (problem,) = harness.controller.health.problems
    assert problem.startswith(f"job {number}: stopped again and again")
    harness.deliver()
    harness.step(2)
    execute(harness, Hold(number))
    harness.step(1)
    asked: list[LiveJob] = []
    monkeypatch.setattr(LiveJob, "no_progress", property(asked.append))
    assert not any(harness.controller.health.problems for _ in range(3))
    assert len(asked) == 1, "jobs are looked through once for a status view"


def test_a_cancelled_job_is_killed_and_its_gpus_free_only_then(harness: ControllerHarness) -> None:
    number = submit(harness, sleeping(50, 2))
    harness.controller.request(Cancel(number))
    harness.controller.step()
    assert state(harness, number) == "cancelled"
    assert harness.controller.status.nodes[0].free == 0
    harness.deliver()
    assert harness.controller.status.nodes[0].free == 2
    with pytest.raises(Problem, match="job 0 is over"):
        execute(harness, Cancel(number))


def test_a_held_job_stops_and_resumes_when_released(harness: ControllerHarness) -> None:
    number = submit(harness, sleeping(50))
    execute(harness, Hold(number))
    harness.step(1)
    assert state(harness, number) == "held"
    harness.crash()
    harness.deliver()
    assert state(harness, number) == "held"
    execute(harness, Release(number))
    assert state(harness, number) == "running"
    assert harness.fake_cluster.runs[number].start.saved_iterations == 1


def test_a_job_that_completes_while_it_is_stopped_is_finished(harness: ControllerHarness) -> None:
    number = submit(harness, sleeping(5))
    harness.fake_cluster.pass_time(4)
    execute(harness, Hold(number))
    harness.step(1)
    assert state(harness, number) == "finished"


def test_a_failing_job_is_retried_as_often_as_asked(harness: ControllerHarness) -> None:
    number = submit(harness, JobRequest(command=("fail", "3"), retries=1))
    harness.step(3)
    assert harness.controller.status.jobs[number].failures == 1
    harness.step(3)
    assert state(harness, number) == "failed"
    record = harness.controller.store.jobs.find(number)
    assert record is not None
    assert record.reason == "failed 2 times: it failed"


def test_a_lost_node_takes_its_jobs_elsewhere(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path, "2x2")
    harness.deliver()
    number = submit(harness, sleeping(50, 2))
    wide = submit(harness, sleeping(50, 2))
    harness.fake_cluster.pass_time(7)
    harness.fake_cluster.report_progress()
    harness.deliver()
    harness.fake_cluster.lose("node-0")
    harness.deliver()
    assert (state(harness, number), state(harness, wide)) == ("waiting", "running")
    execute(harness, Cancel(wide))
    assert harness.controller.status.jobs[number].grants == (("node-1", (0, 1)),)
    assert harness.fake_cluster.runs[number].start.saved_iterations == 7
    harness.fake_cluster.join("node-0")
    harness.deliver()
    assert [node.state for node in harness.controller.status.nodes] == ["up", "up"]


def test_nodes_that_are_just_joining_are_not_said_to_be_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = (harness := ControllerHarness.at(tmp_path)).controller
    said: list[str] = []
    append = controller.store.append

    def append_slowly(batch: CycleBatch) -> None:
        said.extend(controller.health.problems)
        append(batch)

    monkeypatch.setattr(controller.store, "append", append_slowly)
    harness.deliver()
    assert [node.state for node in controller.status.nodes] == ["up"]
    assert said == []


def test_a_node_that_does_not_return_after_a_restart_gets_no_new_jobs(
    tmp_path: Path,
) -> None:
    harness = ControllerHarness.at(tmp_path, "2x1")
    harness.deliver()
    running = [submit(harness, sleeping(50)), submit(harness, sleeping(5))]
    silent = harness.fake_cluster.cluster.nodes[0]
    harness.fake_cluster.up.discard(silent.name)
    harness.fake_cluster.silent.add(silent.name)
    harness.crash()
    harness.deliver()
    assert [node.state for node in harness.controller.status.nodes] == ["draining", "up"]
    assert any(
        "'node-0' has not come back" in problem for problem in harness.controller.health.problems
    )
    newcomer = submit(harness, sleeping(50))
    harness.step(5)
    assert [state(harness, number) for number in running] == ["running", "finished"]
    assert harness.controller.status.jobs[newcomer].grants == (("node-1", (0,)),)
    harness.fake_cluster.join(silent.name)
    harness.deliver()
    assert [node.state for node in harness.controller.status.nodes] == ["up", "up"]
    assert state(harness, running[0]) == "running"


def test_a_drained_node_takes_no_new_jobs_until_it_is_resumed(harness: ControllerHarness) -> None:
    running = submit(harness, sleeping(5))
    execute(harness, SetNodeState("node-0", NodeState.DRAINING))
    waiting = submit(harness, sleeping(5))
    harness.crash()
    harness.step(5)
    assert (state(harness, running), state(harness, waiting)) == ("finished", "waiting")
    execute(harness, SetNodeState("node-0", NodeState.UP))
    assert state(harness, waiting) == "running"


def test_an_elastic_job_is_stopped_and_started_on_other_gpus(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path, "1x4", policy="max-min")
    harness.deliver()
    elastic = submit(harness, sleeping(50, 4, min_gpus=1))
    harness.step(3)
    other = submit(harness, sleeping(50, 2))
    assert state(harness, elastic) == "stopping"
    harness.step(1)
    jobs = harness.controller.status.jobs
    assert (jobs[elastic].gpus, jobs[elastic].attempt) == (2, 2)
    assert (jobs[other].state, jobs[elastic].state) == (JobState.RUNNING, JobState.RUNNING)
    assert harness.fake_cluster.runs[elastic].start.saved_iterations == 4


def test_a_submission_is_repeated_by_its_key_without_a_second_job(
    harness: ControllerHarness,
) -> None:
    first = submit(harness, sleeping(5), key="a")
    assert submit(harness, sleeping(5), key="a") == first
    harness.crash()
    assert submit(harness, sleeping(5), key="a") == first
    assert submit(harness, sleeping(5), key="b") == first + 1


def test_an_array_is_many_jobs_with_an_index(harness: ControllerHarness) -> None:
    numbers = execute(harness, Submit("ada", sleeping(5, array=3)))
    assert numbers == (0, 1, 2)
    environments = [run.start.launch.environment for run in harness.fake_cluster.runs.values()]
    assert environments == [{"VOLVELLE_ARRAY_INDEX": "0"}, {"VOLVELLE_ARRAY_INDEX": "1"}]


def test_what_can_never_run_is_refused_at_once(harness: ControllerHarness) -> None:
    with pytest.raises(Problem, match="the job wants 3 GPUs, the cluster has 2"):
        submit(harness, sleeping(5, 3))
    with pytest.raises(Problem, match="there is no pool 'red'"):
        submit(harness, sleeping(5, pool="red"))


def test_the_policy_changes_while_jobs_run(harness: ControllerHarness) -> None:
    running = submit(harness, sleeping(50, 2))
    execute(harness, Recompose("sjf", "accept-all"))
    assert harness.controller.status.policy == "sjf"
    assert state(harness, running) == "running"
    with pytest.raises(Problem, match="unknown policy"):
        execute(harness, Recompose("sfj", "accept-all"))


def test_the_exported_journal_is_an_ordinary_journal(
    harness: ControllerHarness, tmp_path: Path
) -> None:
    for seconds in (5, 3, 4):
        submit(harness, sleeping(seconds))
    for _ in range(9):
        harness.step(1)
    harness.controller.store.write_journal(tmp_path / "journal.jsonl")
    replay(*read_journal(tmp_path / "journal.jsonl"))
    outcomes = outcomes_of(*read_journal(tmp_path / "journal.jsonl"))
    assert (outcomes.finish - outcomes.first_start).tolist() == [5.0, 3.0, 4.0]


def started_controller(tmp_path: Path, cluster: str = "1x2") -> Controller:
    """A controller that runs in its own threads."""
    made = parse_cluster(cluster)
    fake_cluster = FakeCluster(made, up={node.name for node in made.nodes})
    store = Store.open(str(tmp_path / "store.db"))
    header = header_of(made)
    controller = Controller(
        store, header, FakeExecutor(fake_cluster=fake_cluster), ExecutorContext(made, tmp_path, "")
    )
    controller.start()
    return controller


def test_a_controller_in_its_threads_answers_forecasts_and_stops(tmp_path: Path) -> None:
    controller = started_controller(tmp_path)
    try:
        for seconds in (50, 30, 20):
            controller.request(Submit("ada", sleeping(seconds, 2))).result(10.0)

        def promised() -> bool:
            return all(job.first_p50 is not None for job in controller.status.jobs.values())

        until(promised)
        last = controller.status.jobs[2]
        assert last.predicted_p50 is not None
        assert last.predicted_p50 - last.submitted == pytest.approx(100.0, abs=1.0)
        assert last.reason == "waits for 2 GPUs: 0 free"
        forecast_now = controller.forks.forecast(sleeping(10, 1), "bo")
        assert forecast_now.start is not None
        assert forecast_now.start - last.submitted == pytest.approx(100.0, abs=5.0)
        assert forecast_now.reason == "waits for 1 GPU: 0 free"
        assert forecast_now.ahead == 2
        with pytest.raises(Problem, match="wants 3 GPUs"):
            controller.forks.forecast(sleeping(10, 3), "bo")
        changes = controller.events(-2)
        assert changes is not None
        assert [change.number for one in changes for change in one.changes][:1] == [0]
        assert controller.metrics.accepted == 3
        assert controller.metrics.commit.count > 0
        until(lambda: controller.store.jobs.find(2).first_p50 is not None)  # type: ignore[union-attr]
    finally:
        controller.stop()
    assert not controller.health.ready
    assert controller.request(Cancel(0)).exception() is not None


def test_a_second_controller_on_the_same_store_is_refused(tmp_path: Path) -> None:
    controller = started_controller(tmp_path)
    try:
        with pytest.raises(Problem, match="another volvelle serve is writing"):
            started_controller(tmp_path)
    finally:
        controller.stop()
    started_controller(tmp_path).stop()


@pytest.mark.parametrize(
    ("parts", "error"),
    [
        ({"placement": "none"}, "placement 'none' only counts GPUs"),
        ({"estimator": "oracle"}, "estimator 'oracle' has to be told"),
    ],
)
def test_compositions_unsuitable_for_live_jobs_are_refused(
    tmp_path: Path, parts: dict[str, str], error: str
) -> None:
    with pytest.raises(Problem, match=error):
        ControllerHarness.at(tmp_path, **parts)


def test_another_configured_policy_decides_from_the_next_start(
    harness: ControllerHarness,
) -> None:
    submit(harness, sleeping(50))
    harness.header = header_of(harness.fake_cluster.cluster, "sjf")
    harness.crash()
    harness.deliver()
    assert harness.controller.status.policy == "sjf"
    harness.header = header_of(harness.fake_cluster.cluster, placement="consolidated")
    with pytest.raises(Problem, match="were placed and predicted under placement 'first-free'"):
        harness.crash()


def test_what_the_journal_fixed_stays_with_a_warning(
    tmp_path: Path,
) -> None:
    harness = ControllerHarness.at(tmp_path, "3x2", policy="las:round=1m")
    harness.deliver()
    assert not harness.controller.warnings
    larger, other = Node("node-0", 4), Node("node-1", 2, "a100")
    harness.header = msgspec.structs.replace(
        header_of(Cluster((larger, other)), "sjf"), overheads={"start": 30.0}, seed=7
    )
    harness.crash()
    harness.deliver()
    where, holds = harness.controller.store.where, "goes on to hold"
    assert harness.controller.warnings == (
        "policy: las:round=60 until now, sjf from now on, as the configuration says",
        f"overheads.start: {where} has 0.0, the configuration 30.0; 0.0 {holds}, "
        "begin a new store to change it",
        f"seed: {where} has 0, the configuration 7; 0 {holds}, begin a new store to change it",
        f"node node-0: {where} has gpus = 2, the configuration 4; it takes no jobs, "
        "give the node another name to change it",
        f"node node-1: {where} has gpu_type = '', the configuration 'a100'; '' {holds}, "
        "give the node another name to change it",
        "node node-2 is not in the configuration any more: it takes no new jobs, "
        "and what runs there runs to its end",
    )


def test_a_policy_that_is_only_written_otherwise_is_the_same(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path, policy="las:round=1m")
    harness.deliver()
    for written in ("las:round=60", "las:round=1m"):
        harness.header = header_of(harness.fake_cluster.cluster, written)
        harness.crash()
        harness.deliver()
        assert not harness.controller.warnings
    events = [event for each in harness.controller.store.entries() for event in each.entry.events]
    assert not [event for event in events if isinstance(event, Recomposed)]


def test_a_snapshot_has_the_present_state(tmp_path: Path) -> None:
    controller = started_controller(tmp_path)
    try:
        for seconds in (50, 30):
            controller.request(Submit("ada", sleeping(seconds, 2))).result(10.0)
        taken = controller.forks.snapshot()
    finally:
        controller.stop()
    finish = Fork(taken.scheduler()).until().finish
    assert sorted(finish) == [0, 1]
    assert finish[1] - finish[0] == pytest.approx(30.0)


def test_jobs_of_a_new_journal_do_not_find_the_checkpoints_of_an_old_one(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path)
    folder = harness.controller.executor_context.folder
    harness.crash()
    assert harness.controller.executor_context.folder == folder
    harness.close()
    (tmp_path / "store.db").unlink()
    harness.fake_cluster.pass_time(60)
    harness.crash()
    assert harness.controller.executor_context.folder != folder
