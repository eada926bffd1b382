"""Leases of nodes: jobs end when a node is without contact for long, and only then is it lost."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from executor_harnesses import DialInHarness
from waiting import until

from volvelle.live.messages import (
    AttemptEnded,
    AttemptProgress,
    NodeJoined,
    NodeLost,
    Outcome,
)
from volvelle.live.nodes import agents_server

LEASE_SECONDS = 2.0


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DialInHarness]:
    monkeypatch.setattr(agents_server, "_LEASE_MARGIN_SECONDS", 2.0)
    with DialInHarness(tmp_path, LEASE_SECONDS) as harness:
        yield harness


def test_a_disconnected_node_stops_its_jobs_at_their_checkpoints(harness: DialInHarness) -> None:
    harness.start("seconds=0.01", grace=0.4)
    until(
        lambda: any(
            p.iterations > 1.5 * LEASE_SECONDS / 0.01 for p in harness.since(AttemptProgress)
        )
    )
    assert not any("preempted" in line for line in harness.trace())  # not yet disconnected
    harness.close()
    until(lambda: any("preempted" in line for line in harness.trace()))
    report_count = len(harness.reports)
    harness.open()
    ended = harness.wait(AttemptEnded, report_count=report_count)
    assert ended.outcome is Outcome.STOPPED
    assert ended.reason == "its node was cut off from the controller"
    assert ended.saved_iterations == ended.iterations


def test_supervisors_kill_jobs_after_the_lease_without_an_agent(
    harness: DialInHarness,
) -> None:
    harness.start("orphan")
    harness.wait(AttemptProgress)
    harness.end_agents()
    assert len(harness.jobs()) == 2
    until(lambda: not harness.jobs())
    assert not harness.since(NodeLost)  # all had ended before the node was reported lost
    lost = until(lambda: next(iter(harness.since(NodeLost)), None))
    assert lost.reason.startswith("no contact for")
    assert harness.end().outcome is Outcome.LOST


def test_jobs_and_supervisors_end_where_the_folder_of_their_agent_is_deleted(
    harness: DialInHarness,
) -> None:
    harness.start("orphan")
    harness.wait(AttemptProgress)
    harness.end_agents()
    supervisors = [pid for node in harness.nodes for pid in harness.supervisors(node)]
    assert supervisors
    for node in harness.nodes:
        shutil.rmtree(harness.agent_folder(node))
    until(lambda: not harness.jobs())
    until(lambda: not any(Path(f"/proc/{pid}/exe").exists() for pid in supervisors))


@pytest.mark.parametrize("restarted", [False, True])
def test_a_replaced_agent_is_accepted_once_nothing_of_the_former_runs(
    harness: DialInHarness, restarted: bool
) -> None:
    node = harness.nodes[0]
    harness.start("orphan")
    harness.wait(AttemptProgress)
    harness.end_agents()
    report_count = len(harness.reports)
    if restarted:
        harness.close()
        harness.begin()
    harness.replace_agent(node)
    until(lambda: node in {report.node.name for report in harness.since(NodeJoined, report_count)})
    assert not harness.jobs()
    assert node in {report.name for report in harness.since(NodeLost, report_count)}


def test_a_replaced_agent_is_accepted_at_once_if_nothing_ran(
    harness: DialInHarness,
) -> None:
    harness.end_agents()
    report_count = len(harness.reports)
    harness.replace_agent(harness.nodes[0])
    until(lambda: harness.since(NodeJoined, report_count))
    assert not harness.since(NodeLost)
