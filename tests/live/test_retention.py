"""What was over long ago is forgotten, and all else goes on as if it were not."""

import random
import sqlite3
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from fake_cluster import ControllerHarness, sleeping
from waiting import until

from volvelle.core.journal import read_journal, replay
from volvelle.live.config import ServeConfig
from volvelle.live.control import snapshots
from volvelle.live.control.requests import Cancel, SetNodeState, Submit
from volvelle.live.control.retention import Retention
from volvelle.live.store import store
from volvelle.metrics.outcomes import Outcomes
from volvelle.metrics.recorder import outcomes_of
from volvelle.model.cluster import NodeState
from volvelle.model.problems import Problem
from volvelle.simulate.past import read_past
from volvelle.testing.scenario import state_of

LIVE = ("running", "waiting")
FIGURES = ("finish", "first_start", "gpu_seconds", "preemptions", "restarts", "status")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots come often, jobs are forgotten soon, a few entries at a time."""
    monkeypatch.setattr(snapshots, "_MAX_ENTRIES", 5)
    monkeypatch.setattr(snapshots, "_MIN_PAUSE", 0.0)
    monkeypatch.setattr(store, "_STRAGGLERS_SECONDS", 20.0)
    monkeypatch.setattr(store, "_PRUNED_AT_ONCE", 16)


def busy(
    folder: Path, policy: str = "las:round=20", seed: int = 1, steps: int = 80
) -> ControllerHarness:
    """Jobs of all lengths come and go, one stays; some wait for others, some are cancelled."""
    draw = random.Random(seed)
    harness = ControllerHarness.at(folder, "3x2", policy, estimator="measured")
    harness.execute(Submit("ada", sleeping(5000.0), key="first"))
    latest = 0
    for number in range(steps):
        if draw.random() < 0.5:
            after = [f"{latest}:any"] if draw.random() < 0.3 else []
            wanted = sleeping(
                draw.choice((5.0, 20.0, 60.0)), draw.choice((1, 1, 2, 4)), after=after
            )
            (latest,) = harness.execute(Submit("bob", wanted, key=f"key-{number}"))
        if draw.random() < 0.1 and latest:
            answer = harness.controller.request(Cancel(latest, by="eve"))
            harness.deliver()
            answer.exception(timeout=0.0)
        if number == steps // 4:
            harness.fake_cluster.lose("node-2")
        elif number == steps // 3:
            harness.fake_cluster.join("node-2")
            harness.execute(SetNodeState("node-2", NodeState.DRAINING, by="eve"))
        harness.step(4.0)
        harness.fake_cluster.report_progress()
        if writing := harness.controller._loop._snapshots._writing:
            writing.result()
    return harness


def outcomes(harness: ControllerHarness) -> Outcomes:
    path = harness.folder / "journal.jsonl"
    harness.controller.store.write_journal(path)
    return outcomes_of(*read_journal(path))


def forget(harness: ControllerHarness, seconds: float) -> None:
    """Forget what was over so long ago, piece by piece."""
    state = harness.controller._cycle.state
    while harness.controller.store.prune(
        state.last_time - seconds, frozenset(state.ledger.attempts)
    ):
        pass


def count(harness: ControllerHarness, table: str) -> int:
    connection = sqlite3.connect(harness.folder / "store.db")
    ((rows,),) = connection.execute(f"select count(*) from {table}")
    connection.close()
    return int(rows)


@pytest.mark.parametrize("seed", range(4))
def test_others_are_where_they_were_and_their_history_too(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_PRUNED_AT_ONCE", (1, 7, 16, 1000)[seed])
    harness = busy(tmp_path, seed=seed)
    whole, jobs = outcomes(harness), count(harness, "jobs")
    harness.crash(snapshot=False)
    entries, before = count(harness, "entries"), harness.controller._cycle.state
    for seconds in (150.0, 90.0, 60.0):
        forget(harness, seconds)
        rest = outcomes(harness)
        row_of = {spec.id: row for row, spec in enumerate(whole.specs)}
        same = [row_of[spec.id] for spec in rest.specs]
        for name in FIGURES:
            np.testing.assert_array_equal(getattr(rest, name), getattr(whole, name)[same], name)
        recent = (whole.finish > whole.end_time - seconds) | np.isin(whole.status, LIVE)
        assert set(np.flatnonzero(recent)) <= set(same)
    assert count(harness, "jobs") == len(rest) < jobs
    assert count(harness, "entries") < entries / 2
    assert count(harness, "entries") + count(harness, "pruned_entries") < entries
    harness.crash(snapshot=False)
    after = harness.controller._cycle.state
    assert state_of(after.scheduler) == state_of(before.scheduler)
    assert (after.ledger.attempts, after.jobs) == (before.ledger.attempts, before.jobs)
    assert not harness.controller.warnings


@pytest.mark.parametrize("policy", ["las:round=20", "fifo"])
def test_without_a_snapshot_what_is_left_of_the_journal_will_do(
    policy: str, tmp_path: Path
) -> None:
    harness = busy(tmp_path, policy)
    forget(harness, 60.0)
    connection = sqlite3.connect(harness.folder / "store.db")
    with connection:
        connection.execute("delete from snapshots")
    connection.close()
    before = harness.controller._cycle.state
    harness.crash(snapshot=False)
    after = harness.controller._cycle.state
    assert after.jobs.keys() == before.jobs.keys()
    assert after.ledger.placed() == before.ledger.placed()
    assert (after.next_number, after.next_seq) == (before.next_number, before.next_seq)
    assert after.drained == before.drained
    assert "the journal is pruned" in harness.controller.warnings[0]
    for _ in range(100):
        harness.step(60.0)
    assert not harness.controller._cycle.state.jobs


def test_the_names_of_what_is_forgotten_are_free_and_its_number_is_not(tmp_path: Path) -> None:
    harness = busy(tmp_path, "fifo")
    harness.execute(SetNodeState("node-2", NodeState.UP))
    for _ in range(40):
        harness.step(30.0)
    for _ in range(3):  # entries behind the earlier snapshot stay
        harness.crash()
        harness.step(30.0)
    latest = harness.controller._cycle.state.next_number - 1
    forget(harness, 0.0)
    kept = [record.number for record in harness.controller.store.jobs.list_latest(limit=1000)]
    assert kept == [latest, 0]
    (again,) = harness.execute(Submit("bob", sleeping(5.0), key="first"))
    assert again == latest + 1
    assert harness.execute(Submit("ada", sleeping(5000.0), key="first")) == (0,)


def test_a_job_with_an_attempt_that_may_still_run_is_not_forgotten(tmp_path: Path) -> None:
    harness = busy(tmp_path, "fifo")
    silent = harness.controller._cycle.state.ledger.attempts[0]
    harness.controller.request(Cancel(0))
    harness.controller.step()
    harness.fake_cluster.outbox.clear()  # its end is never reported
    for _ in range(10):
        harness.fake_cluster.now += 30.0
        harness.controller.step()
    assert silent.number in harness.controller._cycle.state.ledger.attempts
    forget(harness, 0.0)
    assert harness.controller.store.jobs.find(0) is not None


def test_a_pruned_journal_is_had_again_and_not_replayed(tmp_path: Path) -> None:
    harness = busy(tmp_path)
    forget(harness, 60.0)
    outcomes(harness)
    header, entries = read_journal(tmp_path / "journal.jsonl")
    assert (header.format, header.pruned is not None) == (2, True)
    with pytest.raises(Problem, match="the journal is pruned up to"):
        replay(header, entries)
    assert read_past(tmp_path / "journal.jsonl").defaults["policies"] == "las:round=20"


def test_a_piece_of_it_that_was_changed_is_refused(tmp_path: Path) -> None:
    harness = busy(tmp_path)
    forget(harness, 60.0)
    connection = sqlite3.connect(harness.folder / "store.db")
    with connection:
        connection.execute("update pruned_entries set body = replace(body, 'ada', 'eve')")
    connection.close()
    with pytest.raises(Problem, match=r"entry \d+ of the journal is not what was written"):
        outcomes(harness)


def test_nothing_is_forgotten_before_there_is_a_snapshot(tmp_path: Path) -> None:
    with patch.object(snapshots, "_MAX_ENTRIES", 10_000):
        harness = busy(tmp_path, steps=30)
    entries = count(harness, "entries")
    forget(harness, 0.0)
    assert count(harness, "entries") == entries


def test_a_server_forgets_by_itself_and_says_where_it_cannot(tmp_path: Path) -> None:
    harness = busy(tmp_path)
    jobs, controller = count(harness, "jobs"), harness.controller
    controller._loop._retention = Retention(controller.store, 60.0)
    harness.step(1.0)
    until(lambda: count(harness, "jobs") < jobs)
    assert not controller.health.problems
    connection = sqlite3.connect(harness.folder / "store.db")
    with connection:
        connection.execute(
            "update entries set body = 'x' where seq = (select min(seq) + 1 from entries)"
        )
    connection.close()
    harness.step(400.0)
    controller._loop._retention = Retention(controller.store, 60.0)
    harness.step(1.0)
    until(lambda: bool(controller.health.problems))
    assert "the store cannot forget old jobs" in controller.health.problems[0]


def test_less_than_an_hour_is_refused() -> None:
    assert ServeConfig.model_validate({"keep_history": "90d"}).keep_history == 90 * 86400.0
    with pytest.raises(ValueError, match="3600"):
        ServeConfig.model_validate({"keep_history": "10m"})
