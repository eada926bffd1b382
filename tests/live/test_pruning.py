"""Logs are kept for the retention time, and an attempt never starts a second time."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from executor_harnesses import LocalHarness
from waiting import until

from volvelle.live.agent.folders import AgentFolder
from volvelle.live.agent.retention_clock import RetentionClock
from volvelle.live.messages import AttemptKey, Forget, Outcome
from volvelle.model.units import DAY

RETENTION_SECONDS = 2.0


class ShortRetentionHarness(LocalHarness):
    """Logs are kept for two seconds."""

    written = f"{LocalHarness.written},keep={RETENTION_SECONDS}"


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[ShortRetentionHarness]:
    with ShortRetentionHarness(tmp_path) as harness:
        yield harness


def test_logs_are_kept_for_the_retention_time_and_no_older_attempt_starts_afterwards(
    harness: ShortRetentionHarness,
) -> None:
    node = harness.nodes[0]
    order = harness.start(command=("echo", "one"))
    harness.end()
    began = time.monotonic()
    harness.send(Forget(1, 1))
    archived = harness.agent_folder(node) / "ended" / "1-1"
    until(archived.exists)
    while archived.exists():
        assert harness.logs.log_sizes(node, 1, "").result(5) in ({"1-1": 4}, {})
        assert time.monotonic() < began + 10 * RETENTION_SECONDS
        time.sleep(0.05)
    assert time.monotonic() - began > RETENTION_SECONDS - 0.1  # file times are a little coarse
    assert harness.logs.log_sizes(node, 1, "").result(5) == {}
    harness.close()
    harness.kill(harness.agents(node))
    harness.open()  # executor and agent know only what is in the folder
    report_count = len(harness.reports)
    harness.send(order)
    assert harness.wait(type(harness.end()), report_count=report_count).outcome is Outcome.LOST
    assert not archived.exists()
    harness.start(command=("true",), attempt=2)
    assert harness.end(attempt=2).outcome is Outcome.FINISHED


def test_only_old_logs_are_pruned_and_a_partial_line_is_ignored(
    tmp_path: Path,
) -> None:
    folder = AgentFolder(tmp_path)
    now = time.time()
    for name, age in (("1-1", 100), ("1-2", 90), ("2-7", 80), ("3-1", 10)):
        path = folder.ended / name
        path.mkdir()
        (path / "output.log").write_text("something")
        os.utime(path, (now - age, now - age))
    (folder.attempts / "1-3").mkdir()
    folder.prune(now - 50)
    assert [path.name for path in folder.ended.iterdir()] == ["3-1"]
    assert (tmp_path / "pruned").read_text().split() == ["1-2", "2-7"]
    assert folder.latest_attempts() == {(1, ""): 3, (2, ""): 7, (3, ""): 1}
    with (tmp_path / "pruned").open("a") as file:
        file.write("\n12-")
    folder.prune(now)
    assert folder.latest_attempts() == {(1, ""): 3, (2, ""): 7, (3, ""): 1}
    assert folder.active_attempts() == [AttemptKey(1, 3)]


def test_a_clock_that_leaps_ahead_deletes_no_logs_for_a_day(tmp_path: Path) -> None:
    wall, running = 1e9, 0.0

    def clock() -> RetentionClock:
        return RetentionClock(tmp_path / "clock", lambda: wall, lambda: running)

    assert clock().now() == 1e9
    wall += 3600.0
    first = clock()
    assert first.now() == wall
    right = wall
    wall += 40 * DAY
    assert first.now() == right  # while it runs
    again = clock()
    assert again.now() == right  # at a start
    wall = right + 60.0
    assert again.now() == wall  # the clock was set
    wall += 40 * DAY  # the agent did not run
    running += 3600.0
    assert again.now() == right + 60.0
    running += DAY
    assert again.now() == wall
