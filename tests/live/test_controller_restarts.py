"""A controller that begins anew: jobs that ran on, nodes that do not return, another configuration."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from fake_cluster import ControllerHarness, header_of, sleeping, started_controller

from volvelle.core.events import Recomposed
from volvelle.live.control.requests import (
    Cancel,
    Submit,
)
from volvelle.live.messages import AttemptStarted
from volvelle.live.status.view import JobState
from volvelle.live.store import CycleBatch
from volvelle.model.cluster import Cluster
from volvelle.model.node import Node
from volvelle.model.problems import Problem


@pytest.fixture
def harness(tmp_path: Path) -> ControllerHarness:
    return ControllerHarness.at(tmp_path)


def test_a_job_outlives_the_controller(harness: ControllerHarness) -> None:
    number, waiting = harness.submit(sleeping(5, 2)), harness.submit(sleeping(5, 2))
    harness.step(2)
    harness.crash()
    harness.deliver()
    assert [run.start.attempt for run in harness.fake_cluster.runs.values()] == [1]
    assert (harness.state(number), harness.state(waiting)) == ("running", "waiting")
    harness.step(3)
    assert (harness.state(number), harness.state(waiting)) == ("finished", "running")
    harness.step(5)
    assert harness.state(waiting) == "finished"
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
    harness.submit(sleeping(5))
    harness.step(5)
    running, cancelled = harness.submit(sleeping(50)), harness.submit(sleeping(50))
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
    number = harness.submit(sleeping(5))
    harness.fake_cluster.pass_time(6)
    harness.fake_cluster.outbox.clear()
    harness.crash()
    harness.fake_cluster.report_ends_again()
    harness.deliver()
    assert harness.state(number) == "finished"
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
    assert harness.state(number) == "running"


def test_a_job_of_which_nothing_is_left_is_started_again(harness: ControllerHarness) -> None:
    number = harness.submit(sleeping(5))
    harness.step(1)
    harness.fake_cluster.runs.clear()
    harness.crash()
    harness.deliver()
    job = harness.controller.status.jobs[number]
    assert (job.state, job.attempt, job.failures) == (JobState.RUNNING, 2, 1)
    assert job.reason.startswith("tried again after: ")


def test_an_attempt_that_should_not_run_is_killed(harness: ControllerHarness) -> None:
    over, number = harness.submit(sleeping(5)), harness.submit(sleeping(50))
    stray = replace(harness.fake_cluster.runs[over])
    harness.step(5)
    harness.fake_cluster.runs[over] = replace(stray, seconds=50.0)
    harness.crash()
    harness.deliver()
    assert list(harness.fake_cluster.runs) == [number]


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
    running = [harness.submit(sleeping(50)), harness.submit(sleeping(5))]
    silent = harness.fake_cluster.cluster.nodes[0]
    harness.fake_cluster.up.discard(silent.name)
    harness.fake_cluster.silent.add(silent.name)
    harness.crash()
    harness.deliver()
    assert [node.state for node in harness.controller.status.nodes] == ["draining", "up"]
    assert any(
        "'node-0' has not come back" in problem for problem in harness.controller.health.problems
    )
    newcomer = harness.submit(sleeping(50))
    harness.step(5)
    assert [harness.state(number) for number in running] == ["running", "finished"]
    assert harness.controller.status.jobs[newcomer].grants == (("node-1", (0,)),)
    harness.fake_cluster.join(silent.name)
    harness.deliver()
    assert [node.state for node in harness.controller.status.nodes] == ["up", "up"]
    assert harness.state(running[0]) == "running"


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
    harness.submit(sleeping(50))
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
    for written in ("las:round=60", "las:round=1m"):
        harness.header = header_of(harness.fake_cluster.cluster, written)
        harness.crash()
        harness.deliver()
        assert not harness.controller.warnings
    events = [event for each in harness.controller.store.entries() for event in each.entry.events]
    assert not [event for event in events if isinstance(event, Recomposed)]


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
