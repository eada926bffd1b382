"""A start from a snapshot, and from what is left where something is damaged or gone."""

import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest
from fake_cluster import ControllerHarness, header_of, open_controller, sleeping

from volvelle.core.events import ProgressReported
from volvelle.core.journal import Entry
from volvelle.core.scheduler import Scheduler
from volvelle.live.control import recovery, snapshots
from volvelle.live.control.requests import Submit
from volvelle.live.store import Store
from volvelle.live.store.rows import FirstForecast
from volvelle.live.store.store import _chained
from volvelle.model.problems import Problem
from volvelle.testing.scenario import state_of

POLICY = """
from volvelle.core.order_policy import order

@order("ours")
def ours(jobs, now):
    return -jobs.number
"""


def busy(folder: Path, policy: str = "las:round=1", jobs: int = 5) -> ControllerHarness:
    """Jobs run and wait, and there are two snapshots."""
    harness = ControllerHarness.at(folder, "2x2", policy)
    with patch.multiple(snapshots, _MAX_ENTRIES=3, _MIN_PAUSE=0.0):
        for number in range(jobs):
            harness.controller.request(Submit("ada", sleeping(20.0 + number)))
            harness.step(1.0)
            if writing := harness.controller._loop._snapshots._writing:
                writing.result()
    return harness


def change(harness: ControllerHarness, *statements: str) -> None:
    """Change the store behind the controller's back."""
    connection = sqlite3.connect(harness.folder / "store.db")
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def read_from(harness: ControllerHarness) -> list[int]:
    """Start again; after which entries the journal was read, each time it was."""
    asked: list[int] = []
    entries = Store.entries

    def noted(store: Store, after: int = -1) -> object:
        asked.append(after)
        return entries(store, after)

    with patch.object(Store, "entries", noted):
        harness.crash(snapshot=False)
    return asked


def test_a_start_reads_only_what_came_after_the_latest_snapshot(tmp_path: Path) -> None:
    harness = busy(tmp_path)
    before, seqs = harness.controller._cycle.state, harness.controller.store.snapshots.seqs()
    assert len(seqs) == 2
    assert read_from(harness) == [seqs[0]]
    after = harness.controller._cycle.state
    assert state_of(after.scheduler) == state_of(before.scheduler)
    assert (after.ledger.attempts, after.jobs) == (before.ledger.attempts, before.jobs)
    assert not harness.controller.warnings


def test_a_server_that_stops_leaves_nothing_to_replay(tmp_path: Path) -> None:
    harness = busy(tmp_path)
    harness.controller.stop()
    last = harness.controller._cycle.state.next_seq - 1
    store = Store.open(str(tmp_path / "store.db"))
    assert store.snapshots.seqs()[0] == last
    assert not list(store.entries(last))
    store.close()


DAMAGE = {
    "update snapshots set body = x'00' where seq = {0}": (1, "it is not what was written"),
    "update snapshots set format = 99 where seq = {0}": (1, "it is of format 99"),
    "update snapshots set entry = 'other' where seq = {0}": (1, "the journal is another"),
    "update snapshots set body = x'00'": (2, "it is not what was written"),
}


@pytest.mark.parametrize("statement", DAMAGE)
def test_a_damaged_snapshot_is_passed_over_with_a_sentence(statement: str, tmp_path: Path) -> None:
    harness = busy(tmp_path)
    before = state_of(harness.controller._cycle.state.scheduler)
    seqs = [*harness.controller.store.snapshots.seqs(), -1]
    change(harness, statement.format(seqs[0]))
    place, sentence = DAMAGE[statement]
    assert read_from(harness) == [seqs[place]]
    assert state_of(harness.controller._cycle.state.scheduler) == before
    first, *_ = harness.controller.warnings
    assert first.startswith(f"the snapshot of entry {seqs[0]:,} is not used: {sentence}")


def test_a_snapshot_of_a_state_with_other_columns_is_passed_over(tmp_path: Path) -> None:
    harness = busy(tmp_path)
    with patch("volvelle.core.state.Jobs.layout", "other columns"):
        assert read_from(harness) == [-1]
    assert [each.partition(": ")[2] for each in harness.controller.warnings] == [
        "the state's table of jobs has other columns now"
    ] * 2


def test_decisions_hold_where_they_would_be_others_now(tmp_path: Path) -> None:
    """As after a change of a policy's code."""
    harness = busy(tmp_path)
    harness.step(1.0)
    harness.controller.request(Submit("ada", sleeping(20.0)))
    harness.step(1.0)
    held = harness.controller._cycle.state.ledger.attempts
    with patch.object(recovery, "_decides_again", lambda scheduler, entry: False):
        harness.crash(snapshot=False)
    assert harness.controller._cycle.state.ledger.attempts == held
    (warning,) = harness.controller.warnings
    assert "it holds, and las cannot remember what was before" in warning


def test_a_replay_that_gives_up_leaves_nothing_in_the_next(tmp_path: Path) -> None:
    """Attempts of the snapshot end after it, and then a decision would be another."""
    harness = busy(tmp_path, "fifo")
    for _ in range(40):
        harness.step(1.0)
    before = harness.controller._cycle.state
    last = before.next_seq - 1
    decides_again = recovery._decides_again

    def until_the_last(scheduler: Scheduler, entry: Entry) -> bool:
        again = decides_again(scheduler, entry)
        return again and entry.time < before.last_time

    with patch.object(recovery, "_decides_again", until_the_last):
        assert len(set(read_from(harness))) == 1
    after = harness.controller._cycle.state
    assert f"from entry {last:,} on" in harness.controller.warnings[0]
    assert after.holdings == before.holdings
    assert after.servers.last_entries == before.servers.last_entries
    assert (after.ledger.attempts, after.jobs) == (before.ledger.attempts, before.jobs)


@pytest.mark.parametrize("snapshot", [True, False])
def test_a_store_begun_with_a_policy_file_that_is_gone_opens(
    tmp_path: Path, snapshot: bool
) -> None:
    file = tmp_path / f"ours{snapshot}.py"
    file.write_text(POLICY)
    harness = ControllerHarness.at(tmp_path, "1x2", str(file))
    for _ in range(4):
        harness.controller.request(Submit("ada", sleeping(20.0)))
        harness.step(1.0)
    held = harness.controller._cycle.state.ledger.attempts
    file.unlink()
    harness.header = header_of(harness.fake_cluster.cluster, "sjf")
    harness.crash(snapshot=snapshot)
    (warning,) = harness.controller.warnings
    assert re.fullmatch(
        f"policy '{file}' of the journal cannot be read .there is no file {file}.*; "
        "what it decided holds, and 'sjf' decides from now on",
        warning,
    )
    assert harness.controller._cycle.state.ledger.attempts == held
    harness.deliver()
    harness.crash(snapshot=snapshot)  # the journal names sjf since
    assert harness.controller.status.policy == "sjf"
    for _ in range(60):
        harness.step(1.0)
    assert not harness.controller.status.jobs


DAMAGED = {
    "delete from entries where seq = {last} - 1": "entry {before} of the journal is missing",
    "update entries set body = replace(body, 'time', 'tim') where seq = {last}": (
        "entry {last} of the journal is not what was written"
    ),
    "delete from jobs where number = 1": "job 1 is in the journal and not in the table of jobs",
    "update jobs set request = '{{'": "job 0 cannot be read",
    "update header set body = substr(body, 1, 20)": "the journal's header cannot be read",
}


@pytest.mark.parametrize("statement", DAMAGED)
def test_a_damaged_store_is_refused_with_a_sentence(statement: str, tmp_path: Path) -> None:
    harness = busy(tmp_path)
    last = harness.controller._cycle.state.next_seq - 1
    change(harness, "delete from snapshots", statement.format(last=last))
    with pytest.raises(Problem) as refused:
        harness.crash(snapshot=False)
    assert DAMAGED[statement].format(last=last, before=last - 1) in str(refused.value)


@pytest.mark.parametrize(
    "change_body",
    [
        lambda body: body[: len(body) // 2],
        lambda body: body.replace('"type":"submitted"', '"type":"of-tomorrow"'),
    ],
)
def test_an_entry_that_was_stored_so_and_cannot_be_read_is_named(
    change_body: Callable[[str], str], tmp_path: Path
) -> None:
    """Half an entry, and an event of an unknown type, whose digests are right."""
    harness = busy(tmp_path)
    change(harness, "delete from snapshots")
    connection = sqlite3.connect(tmp_path / "store.db")
    with connection:
        rows = connection.execute("select seq, body, records from entries order by seq").fetchall()
        seq = next(seq for seq, body, _ in rows if "submitted" in body)
        digest = ""
        for at, body, records in rows:
            stored = change_body(body) if at == seq else body
            assert (stored != body) == (at == seq)
            digest = _chained(digest, stored, records)
            statement = "update entries set body = ?, digest = ? where seq = ?"
            connection.execute(statement, [stored, digest, at])
    connection.close()
    with pytest.raises(Problem, match=f"is damaged: entry {seq} cannot be read"):
        harness.crash(snapshot=False)


@pytest.mark.parametrize(("estimate", "told"), [(100.0, 0), (300.0, 1)])
def test_progress_as_believed_is_in_no_entry(tmp_path: Path, estimate: float, told: int) -> None:
    harness = ControllerHarness.at(tmp_path, "1x2", estimator="measured")
    job = sleeping(100.0, estimate=estimate)
    harness.controller.request(Submit("ada", job))
    for _ in range(9):
        harness.step(10.0)
        harness.fake_cluster.report_progress()
        harness.deliver()
    entries = list(harness.controller.store.entries())
    events = [event for stored in entries for event in stored.entry.events]
    assert len([event for event in events if isinstance(event, ProgressReported)]) == told
    assert harness.controller.status.jobs[0].iterations == 80
    believed = state_of(harness.controller._cycle.state.scheduler)
    harness.crash(snapshot=False)
    assert state_of(harness.controller._cycle.state.scheduler) == believed


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_first_forecast_is_shown_after_a_crash_until_the_next_one(
    tmp_path: Path, snapshot: bool
) -> None:
    """Stored after the latest snapshot, or without one; what lies behind is not shown."""
    harness = ControllerHarness.at(tmp_path, "1x1")
    for _ in range(3):
        harness.controller.request(Submit("ada", sleeping(600.0)))
        harness.step(1.0)
    harness.close(snapshot=snapshot)
    now = harness.controller.status.time
    store = Store.open(str(tmp_path / "store.db"))
    store.jobs.write_first_forecasts(
        [
            FirstForecast(1, now + 900.0, now + 1000.0, now + 1100.0, start=now + 400.0),
            FirstForecast(2, now - 2.0, now - 2.0, now - 1.0),
        ]
    )
    store.close()
    harness.controller = open_controller(tmp_path, harness.fake_cluster, harness.header)
    jobs = harness.controller.status.jobs
    assert (jobs[1].predicted_p50, jobs[1].predicted_p90) == (now + 1000.0, now + 1100.0)
    assert (jobs[1].predicted_start, jobs[1].first_p50) == (now + 400.0, now + 1000.0)
    assert (jobs[2].predicted_p50, jobs[2].first_p50) == (None, now - 2.0)
    harness.close()
