"""The controller, stepped by hand in a world in memory."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from ground import Ground, Grounded, Stage, header_of, sleeping, wait_for

from volvelle.core.events import Recomposed
from volvelle.core.journal import read_journal, replay
from volvelle.live.control.controller import Controller
from volvelle.live.control.requests import Ask, Cancel, Hold, Recompose, Release, SetNode, Submit
from volvelle.live.job_request import JobRequest
from volvelle.live.nodes.executor import ExecutorContext
from volvelle.live.status.view import JobState
from volvelle.live.store import Store
from volvelle.metrics.recorder import outcomes_of
from volvelle.model.cluster import Cluster, NodeState, parse_cluster
from volvelle.model.node import Node
from volvelle.model.problems import Problem
from volvelle.simulate.forecast import forecast


def ask(stage: Stage, ask: Ask) -> Any:
    """Ask, let the controller work, and return its answer."""
    answer = stage.controller.ask(ask)
    stage.deliver()
    return answer.result(timeout=0.0)


def submit(stage: Stage, request: JobRequest, key: str | None = None) -> int:
    numbers: tuple[int, ...] = ask(stage, Submit("ada", request, key))
    return numbers[0]


def state(stage: Stage, number: int) -> str:
    job = stage.controller.status.jobs.get(number)
    if job is not None:
        return job.state.value
    record = stage.controller.store.job(number)
    assert record is not None
    return record.state or "unfinished"


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    stage = Stage.at(tmp_path)
    stage.deliver()
    return stage


def test_nodes_that_never_joined_are_shown_as_down(tmp_path: Path) -> None:
    stage = Stage.at(tmp_path, "2x1")
    assert [node.state for node in stage.controller.status.nodes] == ["down", "down"]
    stage.deliver()
    assert [node.state for node in stage.controller.status.nodes] == ["up", "up"]


def test_a_job_is_started_runs_and_finishes(stage: Stage) -> None:
    number = submit(stage, sleeping(5))
    job = stage.controller.status.jobs[number]
    assert (job.state, job.grants, job.attempt) == (JobState.RUNNING, (("node-0", (0,)),), 1)
    assert stage.controller.status.nodes[0].free == 1
    stage.step(5)
    assert state(stage, number) == "finished"
    assert stage.controller.status.nodes[0].free == 2


def test_a_job_outlives_the_controller(stage: Stage) -> None:
    number, waiting = submit(stage, sleeping(5, 2)), submit(stage, sleeping(5, 2))
    stage.step(2)
    stage.crash()
    stage.deliver()
    assert [run.start.attempt for run in stage.ground.runs.values()] == [1]
    assert (state(stage, number), state(stage, waiting)) == ("running", "waiting")
    stage.step(3)
    assert (state(stage, number), state(stage, waiting)) == ("finished", "running")
    stage.step(5)
    assert state(stage, waiting) == "finished"
    assert [entry[1:] for entry in stage.ground.history] == [
        ("start", 0, 1),
        ("finished", 0, 1),
        ("start", 1, 1),
        ("finished", 1, 1),
    ]


def test_a_job_that_ended_while_nobody_listened_is_known_to_have_ended(stage: Stage) -> None:
    number = submit(stage, sleeping(5))
    stage.ground.pass_time(6)
    stage.ground.outbox.clear()
    stage.crash()
    stage.ground.tell_again()
    stage.deliver()
    assert state(stage, number) == "finished"
    assert not stage.ground.ended  # it was told to forget it


def test_a_job_that_is_gone_without_a_trace_is_started_again(stage: Stage) -> None:
    number = submit(stage, sleeping(5))
    stage.step(1)
    stage.ground.runs.clear()
    stage.crash()
    stage.deliver()
    job = stage.controller.status.jobs[number]
    assert (job.state, job.attempt, job.failures) == (JobState.RUNNING, 2, 1)


def test_what_runs_and_should_not_is_killed(stage: Stage) -> None:
    number = submit(stage, sleeping(50))
    ghost = stage.ground.runs[7] = replace(stage.ground.runs[number])
    ghost.start = msgspec.structs.replace(ghost.start, number=7)
    stage.crash()
    stage.deliver()
    assert list(stage.ground.runs) == [number]


def test_a_preempted_job_leaves_before_the_next_begins_and_resumes(tmp_path: Path) -> None:
    stage = Stage.at(tmp_path, policy="sjf:preemptive=true")
    stage.deliver()
    long = submit(stage, sleeping(100, 2))
    stage.step(10)
    short = submit(stage, sleeping(5, 2))
    assert (state(stage, long), state(stage, short)) == ("stopping", "starting")
    assert [run.start.number for run in stage.ground.runs.values()] == [long]
    stage.step(1)
    assert (state(stage, long), state(stage, short)) == ("waiting", "running")
    assert (stage.controller.figures.lease.count, stage.controller.figures.lease.total) == (1, 1.0)
    stage.step(5)
    assert (state(stage, long), state(stage, short)) == ("running", "finished")
    job = stage.controller.status.jobs[long]
    assert (job.attempt, job.preemptions, job.saved_iterations) == (2, 1, 11)
    assert stage.ground.runs[long].start.saved_iterations == 11


def test_a_cancelled_job_is_killed_and_its_gpus_free_only_then(stage: Stage) -> None:
    number = submit(stage, sleeping(50, 2))
    stage.controller.ask(Cancel(number))
    stage.controller.step()
    assert state(stage, number) == "cancelled"
    assert stage.controller.status.nodes[0].free == 0
    stage.deliver()
    assert stage.controller.status.nodes[0].free == 2
    with pytest.raises(Problem, match="job 0 is over"):
        ask(stage, Cancel(number))


def test_a_held_job_stops_and_resumes_when_released(stage: Stage) -> None:
    number = submit(stage, sleeping(50))
    ask(stage, Hold(number))
    stage.step(1)
    assert state(stage, number) == "held"
    stage.crash()
    stage.deliver()
    assert state(stage, number) == "held"
    ask(stage, Release(number))
    assert state(stage, number) == "running"
    assert stage.ground.runs[number].start.saved_iterations == 1


def test_a_job_that_was_done_while_it_was_being_stopped_is_done(stage: Stage) -> None:
    number = submit(stage, sleeping(5))
    stage.ground.pass_time(4)
    ask(stage, Hold(number))
    stage.step(1)
    assert state(stage, number) == "finished"


def test_a_failing_job_is_retried_as_often_as_asked(stage: Stage) -> None:
    number = submit(stage, JobRequest(command=("fail", "3"), retries=1))
    stage.step(3)
    assert stage.controller.status.jobs[number].failures == 1
    stage.step(3)
    assert state(stage, number) == "failed"
    record = stage.controller.store.job(number)
    assert record is not None
    assert record.reason == "failed 2 times: it failed"


def test_a_lost_node_takes_its_jobs_elsewhere(tmp_path: Path) -> None:
    stage = Stage.at(tmp_path, "2x2")
    stage.deliver()
    number = submit(stage, sleeping(50, 2))
    wide = submit(stage, sleeping(50, 2))
    stage.ground.pass_time(7)
    stage.ground.tell_progress()
    stage.deliver()
    stage.ground.lose("node-0")
    stage.deliver()
    assert (state(stage, number), state(stage, wide)) == ("waiting", "running")
    ask(stage, Cancel(wide))
    assert stage.controller.status.jobs[number].grants == (("node-1", (0, 1)),)
    assert stage.ground.runs[number].start.saved_iterations == 7
    stage.ground.join("node-0")
    stage.deliver()
    assert [node.state for node in stage.controller.status.nodes] == ["up", "up"]


def test_a_node_that_does_not_come_back_with_the_controller_gets_nothing_new(
    tmp_path: Path,
) -> None:
    stage = Stage.at(tmp_path, "2x1")
    stage.deliver()
    running = [submit(stage, sleeping(50)), submit(stage, sleeping(5))]
    away = stage.ground.cluster.nodes[0]
    stage.ground.up.discard(away.name)
    stage.ground.silent.add(away.name)
    stage.crash()
    stage.deliver()
    assert [node.state for node in stage.controller.status.nodes] == ["draining", "up"]
    assert any("'node-0' has not joined" in said for said in stage.controller.health.trouble)
    newcomer = submit(stage, sleeping(50))
    stage.step(5)
    assert [state(stage, number) for number in running] == ["running", "finished"]
    assert stage.controller.status.jobs[newcomer].grants == (("node-1", (0,)),)
    stage.ground.join(away.name)
    stage.deliver()
    assert [node.state for node in stage.controller.status.nodes] == ["up", "up"]
    assert state(stage, running[0]) == "running"


def test_a_drained_node_takes_no_new_jobs_until_it_is_resumed(stage: Stage) -> None:
    running = submit(stage, sleeping(5))
    ask(stage, SetNode("node-0", NodeState.DRAINING))
    waiting = submit(stage, sleeping(5))
    stage.crash()
    stage.step(5)
    assert (state(stage, running), state(stage, waiting)) == ("finished", "waiting")
    ask(stage, SetNode("node-0", NodeState.UP))
    assert state(stage, waiting) == "running"


def test_an_elastic_job_is_stopped_and_started_on_other_gpus(tmp_path: Path) -> None:
    stage = Stage.at(tmp_path, "1x4", policy="max-min")
    stage.deliver()
    elastic = submit(stage, sleeping(50, 4, min_gpus=1))
    stage.step(3)
    other = submit(stage, sleeping(50, 2))
    assert state(stage, elastic) == "stopping"
    stage.step(1)
    jobs = stage.controller.status.jobs
    assert (jobs[elastic].gpus, jobs[elastic].attempt) == (2, 2)
    assert (jobs[other].state, jobs[elastic].state) == (JobState.RUNNING, JobState.RUNNING)
    assert stage.ground.runs[elastic].start.saved_iterations == 4


def test_a_submission_is_repeated_by_its_key_without_a_second_job(stage: Stage) -> None:
    first = submit(stage, sleeping(5), key="a")
    assert submit(stage, sleeping(5), key="a") == first
    stage.crash()
    assert submit(stage, sleeping(5), key="a") == first
    assert submit(stage, sleeping(5), key="b") == first + 1


def test_an_array_is_as_many_jobs_told_apart_by_their_index(stage: Stage) -> None:
    numbers = ask(stage, Submit("ada", sleeping(5, array=3)))
    assert numbers == (0, 1, 2)
    told = [run.start.launch.environment for run in stage.ground.runs.values()]
    assert told == [{"VOLVELLE_ARRAY_INDEX": "0"}, {"VOLVELLE_ARRAY_INDEX": "1"}]


def test_what_can_never_run_is_refused_at_once(stage: Stage) -> None:
    with pytest.raises(Problem, match="the job wants 3 GPUs, the cluster has 2"):
        submit(stage, sleeping(5, 3))
    with pytest.raises(Problem, match="there is no pool 'red'"):
        submit(stage, sleeping(5, pool="red"))


def test_the_policy_changes_while_jobs_run(stage: Stage) -> None:
    running = submit(stage, sleeping(50, 2))
    ask(stage, Recompose("sjf", "accept-all"))
    assert stage.controller.status.policy == "sjf"
    assert state(stage, running) == "running"
    with pytest.raises(Problem, match="unknown policy"):
        ask(stage, Recompose("sfj", "accept-all"))


def test_the_journal_is_read_as_any_other(stage: Stage, tmp_path: Path) -> None:
    for seconds in (5, 3, 4):
        submit(stage, sleeping(seconds))
    for _ in range(9):
        stage.step(1)
    stage.controller.store.journal(tmp_path / "journal.jsonl")
    replay(*read_journal(tmp_path / "journal.jsonl"))
    outcomes = outcomes_of(*read_journal(tmp_path / "journal.jsonl"))
    assert (outcomes.finish - outcomes.first_start).tolist() == [5.0, 3.0, 4.0]


def served(tmp_path: Path, cluster: str = "1x2") -> Controller:
    """A controller at work in its own threads."""
    made = parse_cluster(cluster)
    ground = Ground(made, up={node.name for node in made.nodes})
    store = Store.open(str(tmp_path / "store.db"))
    header = header_of(made)
    controller = Controller(
        store, header, Grounded(ground=ground), ExecutorContext(made, tmp_path, "")
    )
    controller.start()
    return controller


def test_a_controller_in_its_threads_answers_foresees_and_stops(tmp_path: Path) -> None:
    controller = served(tmp_path)
    try:
        for seconds in (50, 30, 20):
            controller.ask(Submit("ada", sleeping(seconds, 2))).result(10.0)

        def promised() -> bool:
            return all(job.promised is not None for job in controller.status.jobs.values())

        wait_for(promised)
        last = controller.status.jobs[2]
        assert last.predicted_p50 is not None
        assert last.predicted_p50 - last.submitted == pytest.approx(100.0, abs=1.0)
        assert last.reason == "waits for 2 GPUs: 0 free; 1 job ahead"
        wished = controller.forecast(sleeping(10, 1), "bo")
        assert wished.start is not None
        assert wished.start - last.submitted == pytest.approx(100.0, abs=5.0)
        assert wished.reason == "waits for 1 GPU: 0 free; 2 jobs ahead"
        assert wished.ahead == 2
        with pytest.raises(Problem, match="wants 3 GPUs"):
            controller.forecast(sleeping(10, 3), "bo")
        changes = controller.events(-2)
        assert changes is not None
        assert [change.number for one in changes for change in one.changes][:1] == [0]
        assert controller.figures.accepted == 3
        assert controller.figures.commit.count > 0
        wait_for(lambda: controller.store.job(2).promised_p50 is not None)  # type: ignore[union-attr]
    finally:
        controller.stop()
    assert not controller.health.ready
    assert controller.ask(Cancel(0)).exception() is not None


def test_a_second_controller_on_the_same_store_is_refused(tmp_path: Path) -> None:
    controller = served(tmp_path)
    try:
        with pytest.raises(Problem, match="another volvelle serve is writing"):
            served(tmp_path)
    finally:
        controller.stop()
    served(tmp_path).stop()


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"placement": "none"}, "placement 'none' only counts GPUs"),
        ({"estimator": "oracle"}, "estimator 'oracle' has to be told"),
    ],
)
def test_compositions_that_cannot_rule_real_jobs_are_refused(
    tmp_path: Path, parts: dict[str, str], said: str
) -> None:
    with pytest.raises(Problem, match=said):
        Stage.at(tmp_path, **parts)


def test_another_policy_in_the_configuration_rules_from_the_next_start_on(stage: Stage) -> None:
    submit(stage, sleeping(50))
    stage.header = header_of(stage.ground.cluster, "sjf")
    stage.crash()
    stage.deliver()
    assert stage.controller.status.policy == "sjf"
    stage.header = header_of(stage.ground.cluster, placement="consolidated")
    with pytest.raises(Problem, match="were placed and predicted under placement 'first-free'"):
        stage.crash()


def test_what_the_journal_fixed_goes_on_to_hold_and_it_is_said_that_it_does(
    tmp_path: Path,
) -> None:
    stage = Stage.at(tmp_path, "3x2", policy="las:round=1m")
    stage.deliver()
    assert not stage.controller.differences
    larger, other = Node("node-0", 4), Node("node-1", 2, "a100")
    stage.header = msgspec.structs.replace(
        header_of(Cluster((larger, other)), "sjf"), overheads={"start": 30.0}, seed=7
    )
    stage.crash()
    stage.deliver()
    where, holds = stage.controller.store.where, "goes on to hold"
    assert stage.controller.differences == (
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
    stage = Stage.at(tmp_path, policy="las:round=1m")
    stage.deliver()
    for written in ("las:round=60", "las:round=1m"):
        stage.header = header_of(stage.ground.cluster, written)
        stage.crash()
        stage.deliver()
        assert not stage.controller.differences
    events = [event for each in stage.controller.store.entries() for event in each.entry.events]
    assert not [event for event in events if isinstance(event, Recomposed)]


def test_a_snapshot_goes_on_where_the_controller_stands(tmp_path: Path) -> None:
    controller = served(tmp_path)
    try:
        for seconds in (50, 30):
            controller.ask(Submit("ada", sleeping(seconds, 2))).result(10.0)
        taken = controller.snapshot()
    finally:
        controller.stop()
    finish = forecast(taken.scheduler()).finish
    assert sorted(finish) == [0, 1]
    assert finish[1] - finish[0] == pytest.approx(30.0)


def test_jobs_of_a_new_journal_do_not_find_the_checkpoints_of_an_old_one(tmp_path: Path) -> None:
    stage = Stage.at(tmp_path)
    folder = stage.controller.site.folder
    stage.crash()
    assert stage.controller.site.folder == folder
    stage.controller.store.close()
    (tmp_path / "store.db").unlink()
    stage.ground.pass_time(60)
    stage.crash()
    assert stage.controller.site.folder != folder
