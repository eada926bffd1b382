"""Nodes of other machines: their jobs end when nobody is heard for long, and only then are they lost."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from executor_stages import DialInStage
from waiting import until

from volvelle.live.agent.central_renewal import CentralRenewalClient
from volvelle.live.messages import (
    AttemptEnded,
    AttemptProgress,
    NodeJoined,
    NodeLost,
    Outcome,
    Stop,
)
from volvelle.live.nodes import agents_server

LEASE_SECONDS = 1.0


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DialInStage]:
    monkeypatch.setattr(agents_server, "_LEASE_MARGIN_SECONDS", 2.0)
    stage = DialInStage(tmp_path, LEASE_SECONDS)
    try:
        stage.open()
        yield stage
    finally:
        stage.end_all()


def test_a_node_that_is_cut_off_stops_its_jobs_at_their_checkpoints(stage: DialInStage) -> None:
    stage.start("seconds=0.01", grace=0.4)
    until(
        lambda: any(p.iterations > 1.5 * LEASE_SECONDS / 0.01 for p in stage.since(AttemptProgress))
    )
    assert not any("left" in line for line in stage.trace())  # as long as it is not cut off
    stage.close()
    until(lambda: any("left" in line for line in stage.trace()))
    told = len(stage.reports)
    stage.open()
    ended = stage.wait(AttemptEnded, told=told)
    assert ended.outcome is Outcome.STOPPED
    assert ended.reason == "its node was cut off from the controller"
    assert ended.saved_iterations == ended.iterations


def test_keepers_kill_what_runs_on_after_the_lease_though_their_agent_is_dead(
    stage: DialInStage,
) -> None:
    stage.start("orphan")
    stage.wait(AttemptProgress)
    stage.end_agents()
    assert len(stage.jobs()) == 2
    until(lambda: not stage.jobs())
    assert not stage.since(NodeLost)  # they were gone before anybody was told so
    lost = until(lambda: next(iter(stage.since(NodeLost)), None))
    assert lost.reason.startswith("not heard of for")
    assert stage.end().outcome is Outcome.LOST


@pytest.mark.parametrize("restarted", [False, True])
def test_an_agent_that_begins_anew_is_let_in_once_nothing_of_the_one_before_runs(
    stage: DialInStage, restarted: bool
) -> None:
    node = stage.nodes[0]
    stage.start("orphan")
    stage.wait(AttemptProgress)
    stage.end_agents()
    told = len(stage.reports)
    if restarted:
        stage.close()
        stage.begin()
    stage.replace_agent(node)
    until(lambda: node in {report.node.name for report in stage.since(NodeJoined, told)})
    assert not stage.jobs()
    assert node in {report.name for report in stage.since(NodeLost, told)}


def test_an_agent_that_begins_anew_is_let_in_at_once_where_nothing_ran(stage: DialInStage) -> None:
    stage.end_agents()
    told = len(stage.reports)
    stage.replace_agent(stage.nodes[0])
    until(lambda: stage.since(NodeJoined, told))
    assert not stage.since(NodeLost)


def test_with_central_renewal_every_check_is_answered_by_the_controllers_side(
    tmp_path: Path,
) -> None:
    stage = DialInStage(tmp_path, central_renewal=True)
    try:
        stage.open()
        stage.start("deaf")
        stage.wait(AttemptProgress)
        agent = stage.agent_folder(stage.nodes[0])
        renewal, other = CentralRenewalClient(agent, (1, 1)), CentralRenewalClient(agent, (2, 1))
        assert renewal.is_valid()
        assert not other.is_valid()
        stage.send(Stop(1, 1))
        until(lambda: not renewal.is_valid())
        renewal.close()
        other.close()
    finally:
        stage.end_all()
