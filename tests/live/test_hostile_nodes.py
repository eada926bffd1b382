"""What a node's agent can say: nothing of it harms other nodes, other jobs or the server."""

import asyncio
import json
import random
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from fake_cluster import ControllerHarness, sleeping
from systems_here import of

from volvelle.live.agent import wire
from volvelle.live.control.inbox import Inbox
from volvelle.live.control.requests import Submit
from volvelle.live.http.job_logs import JobLogs
from volvelle.live.messages import (
    AttemptEnded,
    AttemptKey,
    AttemptProgress,
    EndsTold,
    JournalPosition,
    NodeJoined,
    NodeLost,
    Outcome,
    UnknownEnded,
    attempt_identity,
)
from volvelle.live.status.view import JobState, JobStatusView

T = TypeVar("T")

HOSTILE = "node-1"
"""Which tells what it wants."""


@pytest.fixture
def harness(tmp_path: Path) -> ControllerHarness:
    return ControllerHarness.at(tmp_path, "2x2")


def resolved(answer: T) -> Future[T]:
    future: Future[T] = Future()
    future.set_result(answer)
    return future


def submit(harness: ControllerHarness, name: str = "") -> int:
    answer = harness.controller.request(Submit("ada", sleeping(300, name=name)))
    harness.deliver()
    number: int = answer.result(timeout=0.0)[0]
    return number


def join(
    harness: ControllerHarness, *known: JournalPosition, attempts: tuple[AttemptKey, ...] = ()
) -> None:
    node = next(node for node in harness.header.cluster.nodes if node.name == HOSTILE)
    harness.controller.report(NodeJoined(node=node, attempts=attempts, known=known))
    harness.deliver()


def stay_silent(
    harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch, key: AttemptKey
) -> None:
    """Let orders about an attempt be ignored."""
    cluster = harness.fake_cluster
    execute = cluster.execute
    monkeypatch.setattr(
        cluster,
        "execute",
        lambda order: None if getattr(order, "key", None) == key else execute(order),
    )


def identities(harness: ControllerHarness, number: int) -> tuple[str, str]:
    """Of a job, and of the server that is in charge."""
    state = harness.controller._cycle.state
    return state.jobs[number].identity, state.servers.present


def test_who_says_that_the_store_was_set_back_is_named_and_stops_nothing(
    harness: ControllerHarness,
) -> None:
    join(harness, JournalPosition("feed", 1 << 53, 1 << 53))
    number = submit(harness)
    assert number <= 10**9
    assert number in harness.fake_cluster.runs
    assert any(f"({HOSTILE} said so)" in each for each in harness.controller.health.problems)
    harness.crash()
    harness.deliver()
    assert submit(harness) == number + 1


def test_what_a_node_says_of_other_journals_is_bounded(harness: ControllerHarness) -> None:
    for at in range(30):
        join(harness, *(JournalPosition(f"{at}-{i}", 5, 1 << 53) for i in range(50)))
        join(harness, attempts=tuple(AttemptKey(10**15 + i, 1, f"a-{at}{i}") for i in range(9)))
    servers = harness.controller._cycle.state.servers
    assert len(servers.lost) == 100
    assert servers.next_number <= 10**9
    join(harness)
    entries = harness.controller._cycle.state.next_seq
    join(harness, JournalPosition("more", 5, 5))
    assert harness.controller._cycle.state.next_seq == entries


def test_attempts_of_the_present_server_that_it_never_ordered_stop_no_starts(
    harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = submit(harness)
    job, server = identities(harness, running)
    invented = AttemptKey(running, 7, attempt_identity(job, server))
    stay_silent(harness, monkeypatch, invented)
    join(harness, JournalPosition("feed", 5, 5), attempts=(invented,))
    new = submit(harness)
    assert new in harness.fake_cluster.runs


def test_an_attempt_that_the_store_cannot_know_stops_starts_until_its_node_is_lost(
    harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be true: so it is believed, and said of which node."""
    first = submit(harness)
    job, _ = identities(harness, first)
    invented = AttemptKey(first, 7, attempt_identity(job, "feed"))
    stay_silent(harness, monkeypatch, invented)
    join(harness, attempts=(invented,))
    new = submit(harness)
    assert new not in harness.fake_cluster.runs
    said = [each for each in harness.controller.health.problems if f"node '{HOSTILE}'" in each]
    assert "says that it runs what the store does not know of: job 0 attempt 7" in said[0]
    harness.controller.report(UnknownEnded(*invented, node="node-0"))
    harness.deliver()
    assert new not in harness.fake_cluster.runs  # of its own node it would count
    harness.controller.report(NodeLost(HOSTILE, "its key was revoked"))
    harness.deliver()
    assert new in harness.fake_cluster.runs


def test_no_node_ends_a_job_that_runs_elsewhere_by_saying_that_the_store_was_set_back(
    harness: ControllerHarness,
) -> None:
    """It ran the job once, and so knows what its attempts are called."""
    first = submit(harness)
    job, _ = identities(harness, first)
    (grant,) = harness.fake_cluster.runs[first].start.grants
    assert grant.node != HOSTILE
    join(harness, JournalPosition("feed", 5, 5))
    invented = AttemptKey(first, 7, attempt_identity(job, "feed"))
    where: dict[str, Any] = {"node": HOSTILE, "nodes": (HOSTILE,)}
    harness.controller.report(UnknownEnded(*invented, **where, outcome=Outcome.FINISHED))
    harness.controller.report(EndsTold(HOSTILE))
    harness.deliver()
    assert first in harness.controller.status.jobs
    assert first in harness.fake_cluster.runs


DRAWS = 10
EXTREME = (-(1 << 63), -1, 0, 1, (1 << 63) - 1)


@pytest.mark.parametrize(
    ("policy", "parts"),
    [
        ("srtf", {"estimator": "measured"}),
        of("shockwave", "shockwave", {"estimator": "declared-regimes"}),
        of("optimus", "srtf", {"estimator": "convergence", "termination": "loss"}),
        of("pollux", "pollux", {}),
    ],
)
def test_no_progress_that_fits_into_a_control_block_ends_the_server(
    tmp_path: Path, policy: str, parts: dict[str, str]
) -> None:
    harness = ControllerHarness.at(tmp_path, "2x2", policy, **parts)
    number = submit(harness, name="trained")
    draws = random.Random(1)
    for _ in range(DRAWS):
        harness.fake_cluster.now += 11.0
        if number not in harness.fake_cluster.runs:
            break
        done, saved, total, ns, epochs, size = draws.choices(EXTREME, k=6)
        progress = AttemptProgress(
            *harness.fake_cluster.runs[number].start.key,
            iterations=done,
            saved_iterations=saved,
            total_iterations=total,
            iteration_seconds=ns * 1e-9,
            epochs=epochs * 1e-6,
            total_epochs=draws.choice(EXTREME),
            batch_size=size,
            metrics={"loss": draws.choice((-1e308, -1.0, 0.0, 1.0, 1e308))},
        )
        sent = msgspec.json.decode(msgspec.json.encode(progress), type=AttemptProgress)
        harness.controller.report(sent)
        harness.deliver()
    key = harness.fake_cluster.runs.pop(number).start.key
    iterations, saved = draws.choices(EXTREME, k=2)
    end = AttemptEnded(
        *key, outcome=Outcome.STOPPED, iterations=iterations, saved_iterations=saved, ago=1e308
    )
    harness.controller.report(end)
    harness.deliver()
    harness.crash(snapshot=False)
    harness.deliver()
    assert submit(harness) == number + 1


def test_metrics_and_what_they_take_are_bounded(harness: ControllerHarness) -> None:
    number = submit(harness)
    key = harness.fake_cluster.runs[number].start.key
    inbox = Inbox()
    for at in range(50):
        metrics = {f"m{at}-{i}": 1.0 for i in range(90)} | {"x" * 5000: 1.0}
        progress = AttemptProgress(*key, iterations=1, saved_iterations=0, metrics=metrics)
        harness.controller.report(progress)
        harness.deliver()
        inbox.put(progress)
    assert len(harness.controller._cycle.state.jobs[number].metrics) == 100
    (waiting,), _ = inbox.take(0.0)
    assert isinstance(waiting, AttemptProgress)
    assert len(waiting.metrics) == 100
    assert max(map(len, waiting.metrics)) < 5000


def test_of_a_node_that_joins_again_and_again_the_last_join_is_kept(
    harness: ControllerHarness,
) -> None:
    first, second = harness.header.cluster.nodes
    inbox = Inbox()
    for at in range(3):
        inbox.put(NodeJoined(node=first, attempts=(AttemptKey(at, 1),)))
    inbox.put(NodeLost(first.name, "its lease is over"))
    inbox.put(NodeJoined(node=second))
    inbox.put(NodeJoined(node=first))
    taken, _ = inbox.take(0.0)
    assert taken == [
        NodeLost(first.name, "its lease is over"),
        NodeJoined(node=second),
        NodeJoined(node=first),
    ]
    inbox.put(NodeJoined(node=first))
    assert inbox.take(0.0)[0] == [NodeJoined(node=first)]


def test_a_job_becomes_news_only_so_often(harness: ControllerHarness) -> None:
    """The journal would grow by as much as its agent sends."""
    number = submit(harness, name="trained")
    key = harness.fake_cluster.runs[number].start.key
    before = harness.controller._cycle.state.next_seq
    for at in range(100):
        harness.fake_cluster.now += 0.001
        seconds = 1.0 + at % 2
        harness.controller.report(
            AttemptProgress(
                *key, iterations=at * 100, saved_iterations=0, iteration_seconds=seconds
            )
        )
        harness.deliver()
    assert harness.controller._cycle.state.next_seq - before <= 2


def test_logs_that_a_node_makes_up_are_of_its_own_job_and_cost_nothing() -> None:
    job = JobStatusView(
        number=0, name="", user="ada", state=JobState.RUNNING, request={}, gpus=1.0, submitted=0.0,
        identity="ada5", ran_on={HOSTILE: 1},
    )  # fmt: skip
    told = {f"{10**17}-1-ada5-1": 5, "no attempt": 5, f"0-{'9' * 5000}": 5, "0-1-b0b-1": 5}
    told |= {"0-2-ada5-1": 5, f"0-{10**17}-ada5-1": 5}

    class Logs:
        def absence(self, node: str) -> str:
            return ""

        def log_sizes(self, node: str, number: int, job: str) -> Future[dict[str, int]]:
            return resolved(told)

        def read_log(self, node: str, attempt: str, offset: int) -> Future[bytes]:
            return resolved(b"lies\n")

    async def read() -> tuple[set[AttemptKey], bytes]:
        logs = JobLogs(Path("nowhere"), Logs())
        grown = await logs.find_grown(job)
        return {key for key, _ in grown}, b"".join([each async for each in logs.read(job, grown)])

    keys, text = asyncio.run(read())
    assert keys == {AttemptKey(0, 2, "ada5-1"), AttemptKey(0, 10**17, "ada5-1")}
    assert text.endswith(b"lies\n")
    assert len(text) < 100_000


@pytest.mark.parametrize(
    "message",
    [
        {"type": "attempt-progress", "number": 0, "attempt": 1, "iterations": 10**400,
         "saved_iterations": 0},
        {"type": "attempt-progress", "number": -1, "attempt": 1, "iterations": 1,
         "saved_iterations": 0},
        {"type": "attempt-progress", "number": 0, "attempt": 1, "iterations": 1,
         "saved_iterations": 0, "iteration_seconds": 1e300},
        {"type": "fetch-upload", "digest": "a", "offset": -1},
        {"type": "exit-at", "number": 0, "attempt": 1, "iteration": 1 << 64},
        {"type": "task-started", "task": {"number": 1 << 60, "attempt": 1, "rank": 0, "nodes": []},
         "port": 1},
        {"type": "node-inventory", "tasks": [],
         "known": [{"server": "a", "seq": 1, "next_number": 1 << 64}]},
    ],
)  # fmt: skip
def test_numbers_that_nothing_can_have_are_no_messages(message: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        wire.from_agent.decode(json.dumps(message))
