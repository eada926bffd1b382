"""A store that goes back in time: nobody takes a new job for an old one, and the server says so."""

import shutil
from pathlib import Path

import pytest
from fake_cluster import ControllerHarness, sleeping

from volvelle.core.journal import read_journal
from volvelle.live.control.requests import Hold, Release, SetNodeState, Submit
from volvelle.live.messages import NodeLost
from volvelle.live.store.backup import restore
from volvelle.metrics.recorder import outcomes_of
from volvelle.model.cluster import NodeState


@pytest.fixture
def harness(tmp_path: Path) -> ControllerHarness:
    return ControllerHarness.at(tmp_path, "2x2")


def keep(harness: ControllerHarness) -> None:
    """Put the store aside as it is now."""
    harness.controller.store.close()
    shutil.copy(harness.folder / "store.db", harness.folder / "kept.db")
    restart(harness)


def restart(harness: ControllerHarness, *, set_back: bool = False) -> None:
    harness.deliver()
    harness.controller.store.close()
    if set_back:
        for file in harness.folder.glob("store.db*"):
            file.unlink()
        shutil.copy(harness.folder / "kept.db", harness.folder / "store.db")
    harness.crash()
    harness.deliver()


def states(harness: ControllerHarness) -> list[str]:
    return [node.state for node in harness.controller.status.nodes]


def test_numbers_continue_above_those_that_nodes_know(harness: ControllerHarness) -> None:
    harness.submit(sleeping(3))
    keep(harness)
    assert [harness.submit(sleeping(1, gpus=4)) for _ in range(3)] == [1, 2, 3]
    for _ in range(4):
        harness.step(3)
    assert not harness.fake_cluster.runs
    restart(harness, set_back=True)
    assert harness.submit(sleeping(1)) == 4
    (problem,) = harness.controller.health.problems
    assert "the store was set back" in problem
    assert "jobs 1 to 3; new jobs are numbered from 4 on" in problem
    restart(harness)
    assert harness.controller.health.problems == ()  # it was said, and is known
    assert harness.submit(sleeping(1)) == 5


def test_a_store_that_was_not_set_back_is_not_called_so(harness: ControllerHarness) -> None:
    harness.submit(sleeping(30, gpus=2))
    for _ in range(3):
        restart(harness)
        assert harness.controller.health.problems == ()
        assert states(harness) == ["up", "up"]


def test_what_is_not_in_the_store_runs_on_and_nothing_else_is_put_there(
    harness: ControllerHarness,
) -> None:
    keep(harness)
    lost = harness.submit(sleeping(30, gpus=2))
    (node,) = {grant.node for grant in harness.fake_cluster.runs[lost].start.grants}
    harness.fake_cluster.known.clear()  # the nodes know only what runs
    restart(harness, set_back=True)
    assert list(harness.fake_cluster.runs) == [lost]
    new, waiting = harness.submit(sleeping(5, gpus=2)), harness.submit(sleeping(5, gpus=2))
    assert (new, waiting) == (lost + 1, lost + 2)
    assert {grant.node for grant in harness.fake_cluster.runs[new].start.grants} != {node}
    assert waiting not in harness.fake_cluster.runs
    assert any(
        f"node '{node}' runs what is not in the store, which was set back: job {lost} attempt 1"
        in each
        for each in harness.controller.health.problems
    )
    harness.step(30)
    assert states(harness) == ["up", "up"]
    assert waiting in harness.fake_cluster.runs or harness.controller.status.jobs == {}


def test_an_operator_stops_what_is_not_in_the_store(harness: ControllerHarness) -> None:
    keep(harness)
    lost = harness.submit(sleeping(300, gpus=2))
    restart(harness, set_back=True)
    (node,) = {grant.node for grant in harness.fake_cluster.runs[lost].start.grants}
    assert sorted(states(harness)) == ["draining", "up"]
    harness.controller.request(SetNodeState(node, NodeState.UP))
    harness.deliver()
    assert harness.fake_cluster.runs[lost].stopping  # at a checkpoint, not killed
    harness.step(1)
    assert states(harness) == ["up", "up"]
    assert not harness.fake_cluster.runs


def test_a_job_runs_once_though_the_store_forgot_where_it_runs(harness: ControllerHarness) -> None:
    """The backup says attempt 1 on one node; attempt 2 runs on the other, which joins late."""
    number = harness.submit(sleeping(300, gpus=2))
    keep(harness)
    first = harness.fake_cluster.runs[number].start.grants[0].node
    harness.fake_cluster.lose(first)
    harness.deliver()
    second = harness.fake_cluster.runs[number].start
    assert second.attempt == 2
    harness.fake_cluster.join(first)
    harness.deliver()
    late = second.grants[0].node
    harness.fake_cluster.up.discard(late)
    harness.fake_cluster.silent.add(late)
    restart(harness, set_back=True)
    assert "Nothing is started until every node" in harness.controller.health.problems[0]
    assert harness.fake_cluster.runs[number].start == second
    harness.step(5)
    harness.fake_cluster.join(late)
    harness.deliver()
    assert harness.fake_cluster.runs[number].stopping
    harness.step(1)
    third = harness.fake_cluster.runs[number]
    assert third.start.identity != second.identity
    assert third.done >= 5  # it goes on from its checkpoint
    assert states(harness) == ["up", "up"]


def test_after_the_store_was_set_back_a_lost_node_is_not_waited_for(
    harness: ControllerHarness,
) -> None:
    keep(harness)
    harness.submit(sleeping(3))
    harness.step(3)
    harness.fake_cluster.up.discard("node-1")
    harness.fake_cluster.silent.add("node-1")
    restart(harness, set_back=True)
    number = harness.submit(sleeping(3))
    assert not harness.fake_cluster.runs
    harness.controller.report(NodeLost("node-1", "its lease is over"))
    harness.deliver()
    assert list(harness.fake_cluster.runs) == [number]


def test_what_was_found_survives_the_server_that_found_it(harness: ControllerHarness) -> None:
    """It crashes while it still waits for a node; the next one waits too, and knows the numbers."""
    keep(harness)
    lost = harness.submit(sleeping(300, gpus=2))
    harness.fake_cluster.up.discard("node-1")
    harness.fake_cluster.silent.add("node-1")
    restart(harness, set_back=True)
    harness.fake_cluster.known.clear()
    restart(harness)
    assert "Nothing is started until every node" in harness.controller.health.problems[0]
    new = harness.submit(sleeping(5, gpus=1))
    assert new == lost + 1
    assert new not in harness.fake_cluster.runs
    harness.fake_cluster.join("node-1")
    harness.deliver()
    assert {lost, new} == set(harness.fake_cluster.runs)
    assert harness.fake_cluster.runs[new].start.grants[0].node == "node-1"


def test_a_drained_node_with_what_is_not_in_the_store_is_resumed_when_that_has_ended(
    harness: ControllerHarness,
) -> None:
    keep(harness)
    lost = harness.submit(sleeping(300, gpus=2))
    node = harness.fake_cluster.runs[lost].start.grants[0].node
    restart(harness, set_back=True)
    for state in (NodeState.DRAINING, NodeState.UP):
        harness.controller.request(SetNodeState(node, state))
        harness.deliver()
        assert sorted(states(harness)) == ["draining", "up"]
    harness.step(1)
    assert states(harness) == ["up", "up"]


def test_no_attempt_is_started_again_that_store_and_node_have_forgotten(
    harness: ControllerHarness,
) -> None:
    """The backup is of the moment of its start; since then it ended, and its node's folder was deleted."""
    harness.controller.request(Submit("ada", sleeping(300)))
    harness.controller.step()
    (first,) = (run.start.key for run in harness.fake_cluster.runs.values())
    harness.controller.store.close()
    shutil.copy(harness.folder / "store.db", harness.folder / "kept.db")
    restart(harness)
    for name in ("node-0", "node-1"):
        harness.fake_cluster.lose(name)
        harness.fake_cluster.join(name)
    harness.deliver()
    harness.fake_cluster.runs.clear()
    harness.fake_cluster.highest.clear()
    restart(harness, set_back=True)
    (run,) = harness.fake_cluster.runs.values()
    assert run.start.key[:2] == (first.number, first.attempt + 1)


def test_an_attempt_that_its_node_still_has_goes_on_in_a_store_of_its_start(
    harness: ControllerHarness,
) -> None:
    harness.controller.request(Submit("ada", sleeping(300)))
    harness.controller.step()
    harness.controller.store.close()
    shutil.copy(harness.folder / "store.db", harness.folder / "kept.db")
    restart(harness)
    (run,) = harness.fake_cluster.runs.values()
    restart(harness, set_back=True)
    assert list(harness.fake_cluster.runs.values()) == [run]
    harness.step(300)
    assert harness.controller.status.jobs == {}
    assert [what for _, what, _, _ in harness.fake_cluster.history] == ["start", "finished"]


def began(harness: ControllerHarness) -> list[tuple[int, int]]:
    """Numbers and attempts of what was started."""
    history = harness.fake_cluster.history
    return [(number, attempt) for _, what, number, attempt in history if what == "start"]


def final(harness: ControllerHarness, number: int) -> tuple[str, float]:
    """The final state of a job, and when it ended."""
    record = harness.controller.store.jobs.find(number)
    assert record is not None
    assert record.ended is not None and record.state is not None
    return record.state, record.ended


@pytest.mark.parametrize("restored", [True, False])
def test_what_has_finished_since_the_backup_is_not_run_again(
    harness: ControllerHarness, *, restored: bool
) -> None:
    """One job ran in the backup, one waited, one was held, and one depends on it: all finish after it."""
    running, waiting, held = (harness.submit(sleeping(5, gpus=4)) for _ in range(3))
    last = harness.submit(sleeping(5, gpus=4, after=(waiting,)))
    never = harness.submit(sleeping(5, gpus=4))
    harness.controller.request(Hold(held))
    harness.deliver()
    keep(harness)
    harness.controller.request(Release(held))
    for _ in range(4):
        harness.step(5)
    harness.step(2)
    once = [(number, 1) for number in (running, waiting, held, last, never)]
    assert began(harness) == once
    ended = harness.fake_cluster.now - 2
    if restored:  # by an operator, and nodes remember no position of a journal
        harness.fake_cluster.known.clear()
        harness.deliver()
        harness.controller.store.close()
        restore(harness.folder / "kept.db", str(harness.folder / "store.db"))
        harness.fake_cluster.known.clear()
        harness.crash(snapshot=False)
        harness.deliver()
    else:
        restart(harness, set_back=True)
    assert began(harness) == once
    harness.step(1)  # what runs, and the store does not know of, stops at a checkpoint
    over = [final(harness, number) for number in (running, waiting, held, last)]
    assert over == [("finished", ended - 5 * back) for back in (3, 2, 1, 0)]
    assert list(harness.controller.status.jobs) == [never]
    assert began(harness) == [*once, (never, 1)]
    harness.step(5)
    path = harness.folder / "journal.jsonl"
    harness.controller.store.write_journal(path)
    outcomes = outcomes_of(*read_journal(path))
    assert outcomes.status.tolist() == ["finished"] * 5
    restart(harness)  # the journal says so too
    assert harness.controller.status.jobs == {}


def test_nothing_is_started_before_nodes_have_told_what_ended_there(
    harness: ControllerHarness,
) -> None:
    first, second, third = (harness.submit(sleeping(5, gpus=2)) for _ in range(3))
    keep(harness)
    harness.step(5)
    harness.step(5)
    harness.fake_cluster.untelling.add("node-1")
    restart(harness, set_back=True)
    later = harness.submit(sleeping(5, gpus=2))
    assert [number for number, _ in began(harness)] == [first, second, third]
    assert "until every node has told what runs there" in harness.controller.health.problems[0]
    harness.fake_cluster.untelling.clear()
    harness.fake_cluster.join("node-1")  # its connection broke meanwhile
    harness.deliver()
    assert list(harness.controller.status.jobs) == [later]
    assert [number for number, _ in began(harness)] == [first, second, third, later]


def test_of_several_nodes_each_has_to_say_that_a_job_finished_on_it(
    harness: ControllerHarness,
) -> None:
    """One node of the two is lost for good; what the other one knows may be of a job that failed."""
    _, gang = (harness.submit(sleeping(5, gpus=4)) for _ in range(2))
    keep(harness)
    harness.step(5)
    harness.step(5)
    harness.fake_cluster.lose("node-1")
    restart(harness, set_back=True)
    assert gang in harness.controller.status.jobs


def test_nodes_that_keep_no_ends_are_not_waited_for(harness: ControllerHarness) -> None:
    """Agents of an earlier version."""
    number = harness.submit(sleeping(5, gpus=2))
    keep(harness)
    harness.step(5)
    harness.fake_cluster.keeps_ends = False
    restart(harness, set_back=True)
    assert began(harness) == [(number, 1), (number, 2)]
