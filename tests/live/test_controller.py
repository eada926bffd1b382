"""The controller, stepped by hand on a fake cluster."""

from pathlib import Path

import pytest
from fake_cluster import (
    ControllerHarness,
    FakeCluster,
    header_of,
    open_controller,
    sleeping,
    started_controller,
)
from waiting import until

from volvelle.core.fork import Fork
from volvelle.core.journal import read_journal, replay
from volvelle.live.control.live_jobs import LiveJob
from volvelle.live.control.requests import (
    Cancel,
    Hold,
    Recompose,
    Release,
    SetNodeState,
    Submit,
)
from volvelle.live.job_request import JobRequest
from volvelle.live.status.view import JobState
from volvelle.metrics.recorder import outcomes_of
from volvelle.model.cluster import NodeState, parse_cluster
from volvelle.model.problems import Problem


@pytest.fixture
def harness(tmp_path: Path) -> ControllerHarness:
    return ControllerHarness.at(tmp_path)


def test_nodes_that_never_joined_are_shown_as_down(tmp_path: Path) -> None:
    made = parse_cluster("2x1")
    fake_cluster, header = FakeCluster(made, up={"node-0", "node-1"}), header_of(made)
    controller = open_controller(tmp_path, fake_cluster, header)
    assert [node.state for node in controller.status.nodes] == ["down", "down"]
    harness = ControllerHarness(tmp_path, fake_cluster, header, controller)
    harness.deliver()
    assert [node.state for node in harness.controller.status.nodes] == ["up", "up"]


def test_a_job_is_started_runs_and_finishes(harness: ControllerHarness) -> None:
    number = harness.submit(sleeping(5))
    job = harness.controller.status.jobs[number]
    assert (job.state, job.grants, job.attempt) == (JobState.RUNNING, (("node-0", (0,)),), 1)
    assert harness.controller.status.nodes[0].free == 1
    harness.step(5)
    assert harness.state(number) == "finished"
    assert harness.controller.status.nodes[0].free == 2


def test_gpus_that_a_starting_job_is_given_are_not_free(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path, policy="sjf:preemptive=true")
    harness.submit(sleeping(100, 1))
    harness.step(1)
    starting = harness.submit(sleeping(5, 2))
    assert harness.state(starting) == "starting"
    assert harness.controller.status.nodes[0].free == 0


def test_a_preempted_job_stops_before_the_next_starts_and_resumes(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path, policy="sjf:preemptive=true")
    long = harness.submit(sleeping(100, 2))
    harness.step(10)
    short = harness.submit(sleeping(5, 2))
    assert (harness.state(long), harness.state(short)) == ("stopping", "starting")
    assert [run.start.number for run in harness.fake_cluster.runs.values()] == [long]
    harness.step(1)
    assert (harness.state(long), harness.state(short)) == ("waiting", "running")
    assert (
        harness.controller.metrics.revocation.count,
        harness.controller.metrics.revocation.total,
    ) == (1, 1.0)
    harness.step(5)
    assert (harness.state(long), harness.state(short)) == ("running", "finished")
    job = harness.controller.status.jobs[long]
    assert (job.attempt, job.preemptions, job.saved_iterations) == (2, 1, 11)
    assert harness.fake_cluster.runs[long].start.saved_iterations == 11


def test_a_job_that_rounds_stop_before_it_gets_anywhere_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = ControllerHarness.at(tmp_path, policy="srtf:round=1")
    number = harness.submit(sleeping(50, 2))
    for _ in range(3):
        assert not harness.controller.health.problems
        harness.step(0.2)
        harness.execute(Hold(number))
        harness.step(0.1)
        harness.step(0.7)
        harness.execute(Release(number))
    said = "its last 3 runs, of 0.3s at most, were stopped before it reported an iteration"
    assert harness.controller.status.jobs[number].reason == said
    harness.crash(snapshot=False)
    (problem,) = harness.controller.health.problems
    assert problem.startswith(f"job {number}: stopped again and again")
    harness.deliver()
    harness.step(2)
    harness.execute(Hold(number))
    harness.step(1)
    asked: list[LiveJob] = []
    monkeypatch.setattr(LiveJob, "no_progress", property(asked.append))
    assert not any(harness.controller.health.problems for _ in range(3))
    assert len(asked) == 1, "jobs are looked through once for a status view"


def test_a_cancelled_job_is_killed_and_its_gpus_free_only_then(harness: ControllerHarness) -> None:
    number = harness.submit(sleeping(50, 2))
    harness.controller.request(Cancel(number))
    harness.controller.step()
    assert harness.state(number) == "cancelled"
    assert harness.controller.status.nodes[0].free == 0
    harness.deliver()
    assert harness.controller.status.nodes[0].free == 2
    with pytest.raises(Problem, match="job 0 is over"):
        harness.execute(Cancel(number))


def test_a_held_job_stops_and_resumes_when_released(harness: ControllerHarness) -> None:
    number = harness.submit(sleeping(50))
    harness.execute(Hold(number))
    harness.step(1)
    assert harness.state(number) == "held"
    harness.crash()
    harness.deliver()
    assert harness.state(number) == "held"
    harness.execute(Release(number))
    assert harness.state(number) == "running"
    assert harness.fake_cluster.runs[number].start.saved_iterations == 1


def test_a_job_that_completes_while_it_is_stopped_is_finished(harness: ControllerHarness) -> None:
    number = harness.submit(sleeping(5))
    harness.fake_cluster.pass_time(4)
    harness.execute(Hold(number))
    harness.step(1)
    assert harness.state(number) == "finished"


def test_a_failing_job_is_retried_as_often_as_asked(harness: ControllerHarness) -> None:
    number = harness.submit(JobRequest(command=("fail", "3"), retries=1))
    harness.step(3)
    assert harness.controller.status.jobs[number].failures == 1
    harness.step(3)
    assert harness.state(number) == "failed"
    record = harness.controller.store.jobs.find(number)
    assert record is not None
    assert record.reason == "failed 2 times: it failed"


def test_a_lost_node_takes_its_jobs_elsewhere(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path, "2x2")
    number = harness.submit(sleeping(50, 2))
    wide = harness.submit(sleeping(50, 2))
    harness.fake_cluster.pass_time(7)
    harness.fake_cluster.report_progress()
    harness.deliver()
    harness.fake_cluster.lose("node-0")
    harness.deliver()
    assert (harness.state(number), harness.state(wide)) == ("waiting", "running")
    harness.execute(Cancel(wide))
    assert harness.controller.status.jobs[number].grants == (("node-1", (0, 1)),)
    assert harness.fake_cluster.runs[number].start.saved_iterations == 7
    harness.fake_cluster.join("node-0")
    harness.deliver()
    assert [node.state for node in harness.controller.status.nodes] == ["up", "up"]


def test_a_drained_node_takes_no_new_jobs_until_it_is_resumed(harness: ControllerHarness) -> None:
    running = harness.submit(sleeping(5))
    harness.execute(SetNodeState("node-0", NodeState.DRAINING))
    waiting = harness.submit(sleeping(5))
    harness.crash()
    harness.step(5)
    assert (harness.state(running), harness.state(waiting)) == ("finished", "waiting")
    harness.execute(SetNodeState("node-0", NodeState.UP))
    assert harness.state(waiting) == "running"


def test_an_elastic_job_is_stopped_and_started_on_other_gpus(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path, "1x4", policy="max-min")
    elastic = harness.submit(sleeping(50, 4, min_gpus=1))
    harness.step(3)
    other = harness.submit(sleeping(50, 2))
    assert harness.state(elastic) == "stopping"
    harness.step(1)
    jobs = harness.controller.status.jobs
    assert (jobs[elastic].gpus, jobs[elastic].attempt) == (2, 2)
    assert (jobs[other].state, jobs[elastic].state) == (JobState.RUNNING, JobState.RUNNING)
    assert harness.fake_cluster.runs[elastic].start.saved_iterations == 4


def test_a_submission_is_repeated_by_its_key_without_a_second_job(
    harness: ControllerHarness,
) -> None:
    first = harness.submit(sleeping(5), key="a")
    assert harness.submit(sleeping(5), key="a") == first
    harness.crash()
    assert harness.submit(sleeping(5), key="a") == first
    assert harness.submit(sleeping(5), key="b") == first + 1


def test_an_array_is_many_jobs_with_an_index(harness: ControllerHarness) -> None:
    numbers = harness.execute(Submit("ada", sleeping(5, array=3)))
    assert numbers == (0, 1, 2)
    environments = [run.start.launch.environment for run in harness.fake_cluster.runs.values()]
    assert environments == [{"VOLVELLE_ARRAY_INDEX": "0"}, {"VOLVELLE_ARRAY_INDEX": "1"}]


def test_what_can_never_run_is_refused_at_once(harness: ControllerHarness) -> None:
    with pytest.raises(Problem, match="the job wants 3 GPUs, the cluster has 2"):
        harness.submit(sleeping(5, 3))
    with pytest.raises(Problem, match="there is no pool 'red'"):
        harness.submit(sleeping(5, pool="red"))


def test_the_policy_changes_while_jobs_run(harness: ControllerHarness) -> None:
    running = harness.submit(sleeping(50, 2))
    harness.execute(Recompose("sjf", "accept-all"))
    assert harness.controller.status.policy == "sjf"
    assert harness.state(running) == "running"
    with pytest.raises(Problem, match="unknown policy"):
        harness.execute(Recompose("sfj", "accept-all"))


def test_the_exported_journal_is_an_ordinary_journal(
    harness: ControllerHarness, tmp_path: Path
) -> None:
    for seconds in (5, 3, 4):
        harness.submit(sleeping(seconds))
    for _ in range(9):
        harness.step(1)
    harness.controller.store.write_journal(tmp_path / "journal.jsonl")
    replay(*read_journal(tmp_path / "journal.jsonl"))
    outcomes = outcomes_of(*read_journal(tmp_path / "journal.jsonl"))
    assert (outcomes.finish - outcomes.first_start).tolist() == [5.0, 3.0, 4.0]


def test_a_finish_that_was_told_and_has_passed_is_told_anew(tmp_path: Path) -> None:
    """Nothing happens then: the job runs on for a minute though it was to take two seconds."""
    controller = started_controller(tmp_path)
    try:
        controller.request(Submit("ada", sleeping(60, 2, estimate=2.0))).result(10.0)
        controller.request(Submit("ada", sleeping(20, 2))).result(10.0)

        def told_anew() -> bool:
            runs, waits = (controller.status.jobs[number] for number in (0, 1))
            end, finish, start = runs.believed_end, runs.predicted_p50, waits.predicted_start
            if end is None or finish is None or start is None:
                return False
            return min(finish, start) > end + 2.0

        until(told_anew, patience_seconds=30.0)
    finally:
        controller.stop()


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
