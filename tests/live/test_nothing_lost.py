"""Under any delay, repeat, reordering or crash, no job is lost or runs twice, and no GPU has two jobs.

The `FakeCluster` asserts the last two by itself, at every start.
"""

import tempfile
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from fake_cluster import ControllerHarness, sleeping
from hypothesis import given, settings
from hypothesis import strategies as st

from volvelle.live.control import snapshots
from volvelle.live.control.controller import Controller
from volvelle.live.control.recovery import _Recovery
from volvelle.live.control.requests import (
    Cancel,
    Change,
    ControlRequest,
    Hold,
    Release,
    Requeue,
    SetNodeState,
    Submit,
)
from volvelle.live.job_change import JobChange
from volvelle.live.job_request import JobRequest
from volvelle.live.messages import NodeLost, Order, Start
from volvelle.live.store import CycleBatch
from volvelle.model.cluster import NodeState
from volvelle.testing.scenario import state_of

POLICIES = ["fifo", "sjf:preemptive=true", "max-min", "las:round=3", "fifo:strict=false"]
WIDTHS = st.integers(1, 3)
SECONDS = st.sampled_from([1, 2, 3, 5, 8, 13])
SUBMISSIONS = st.builds(
    lambda gpus, least, seconds, kind: JobRequest(
        command=(kind[0], str(seconds)),
        gpus=gpus,
        min_gpus=min(least, gpus),
        estimate=seconds,
        retries=kind[1],
    ),
    WIDTHS,
    WIDTHS,
    SECONDS,
    st.sampled_from([("sleep", 1000), ("sleep", 1000), ("sleep", 1), ("fail", 2)]),
)
NODES = st.sampled_from(["node-0", "node-1"])
ACTIONS = st.one_of(
    st.tuples(st.just("submit"), SUBMISSIONS),
    st.tuples(st.just("submit"), SUBMISSIONS),
    st.tuples(st.just("pass"), st.sampled_from([0.0, 0.5, 1.0, 2.0, 4.0])),
    st.tuples(st.just("deliver"), st.randoms(use_true_random=False)),
    st.tuples(st.just("deliver"), st.randoms(use_true_random=False)),
    st.tuples(st.just("progress"), st.none()),
    st.tuples(
        st.sampled_from(["cancel", "hold", "release", "change", "requeue"]), st.integers(0, 8)
    ),
    st.tuples(st.sampled_from(["lose", "join", "drain", "resume"]), NODES),
    st.tuples(st.just("crash"), st.integers(0, 6)),
)


class Crash(BaseException):
    """The controller is killed."""


@contextmanager
def crashing(controller: Controller, steps: int) -> Iterator[None]:
    """Kill the controller at the point after ``steps`` steps."""
    left = steps
    append, executor = controller.store.append, controller._loop.executor
    assert executor is not None
    send = executor.send

    def count_down() -> None:
        nonlocal left
        if left == 0:
            raise Crash
        left -= 1

    def appended(batch: CycleBatch) -> None:
        count_down()
        append(batch)
        count_down()

    def sent(order: Order) -> None:
        count_down()
        send(order)

    controller.store.append = appended  # type: ignore[method-assign]
    executor.send = sent  # type: ignore[method-assign]
    try:
        yield
    finally:
        controller.store.append = append  # type: ignore[method-assign]
        executor.send = send  # type: ignore[method-assign]


class Chaos:
    """A controller on a fake cluster, and random actions on both."""

    def __init__(self, folder: Path, policy: str) -> None:
        self.harness = ControllerHarness.at(folder, "2x2", policy)
        self.answers: list[Future[Any]] = []
        self.acknowledged: set[int] = set()
        self.repeats: list[Any] = []

    def act(self, action: str, how: Any) -> None:
        fake_cluster, controller = self.harness.fake_cluster, self.harness.controller
        match action:
            case "submit":
                self.request(Submit("ada", how))
            case "cancel":
                self.request(Cancel(how))
            case "hold":
                self.request(Hold(how))
            case "release":
                self.request(Release(how))
            case "change":
                change = JobChange(estimate=5.0 + how, priority=how, retries=how)
                self.request(Change(how, change))
            case "requeue":
                self.request(Requeue(how))
            case "drain":
                self.request(SetNodeState(how, NodeState.DRAINING))
            case "resume":
                self.request(SetNodeState(how, NodeState.UP))
            case "pass":
                fake_cluster.pass_time(how)
                controller.step()
            case "progress":
                fake_cluster.report_progress()
            case "lose" if how in fake_cluster.up:
                fake_cluster.lose(how)
            case "join" if how not in fake_cluster.up:
                fake_cluster.join(how)
            case "deliver":
                waiting = fake_cluster.outbox + self.repeats
                how.shuffle(waiting)
                delivered = waiting[: how.randint(0, len(waiting))]
                self.repeats = delivered[: how.randint(0, len(delivered))]
                fake_cluster.outbox = [each for each in waiting if each not in delivered]
                for report in delivered:
                    controller.report(report)
                controller.step()
            case "crash":
                self.crash(how)

    def request(self, request: ControlRequest) -> None:
        self.answers.append(self.harness.controller.request(request))

    def crash(self, steps: int) -> None:
        try:
            with crashing(self.harness.controller, steps):
                self.harness.controller.step()
                self.harness.controller.step()
        except Crash:
            pass
        self.harness.crash(snapshot=False)
        self.check_recovered()
        self.harness.fake_cluster.report_ends_again()

    def check_recovered(self) -> None:
        """A snapshot and the entries after it lead to where all entries do."""
        controller = self.harness.controller
        found = controller._cycle.state
        whole = _Recovery(
            controller.store, self.harness.header.composition, found.header, found.epoch
        )._from_the_start()
        assert not controller.warnings
        assert state_of(found.scheduler) == state_of(whole.scheduler)
        for name in ("attempts", "pending", "revoked", "occupied", "_grant_counts"):
            assert getattr(found.ledger, name) == getattr(whole.ledger, name)
        for name in ("next_seq", "next_number", "last_time", "drained", "policy", "admission"):
            assert getattr(found, name) == getattr(whole, name)
        assert found.jobs.keys() == whole.jobs.keys()
        for name in ("failures", "held", "first_started", "ran_on", "request", "guarantee"):
            for number, job in found.jobs.items():
                assert getattr(job, name) == getattr(whole.jobs[number], name)

    def note_acknowledged(self) -> None:
        for answer in self.answers:
            if answer.done() and not answer.cancelled() and answer.exception() is None:
                self.acknowledged.update(answer.result() or ())

    def settle(self) -> None:
        """Join all nodes, release all jobs, and let time pass until all jobs have ended."""
        fake_cluster = self.harness.fake_cluster
        for node in fake_cluster.cluster.nodes:
            if node.name not in fake_cluster.up:
                fake_cluster.join(node.name)
            self.request(SetNodeState(node.name, NodeState.UP))
        for _ in range(400):
            for number, job in self.harness.controller.status.jobs.items():
                if job.state.value == "held":
                    self.request(Release(number))
            fake_cluster.report_ends_again()
            self.harness.step(1.0)
            if not self.harness.controller.status.jobs and not fake_cluster.runs:
                return
        raise AssertionError(f"the queue does not drain: {self.harness.controller.status.jobs}")


@given(policy=st.sampled_from(POLICIES), actions=st.lists(ACTIONS, max_size=40))
@settings(max_examples=25)
def test_nothing_is_lost_and_nothing_happens_twice(
    policy: str, actions: list[tuple[str, Any]]
) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.multiple(snapshots, _MAX_ENTRIES=4, _MIN_PAUSE=0.0),
    ):
        chaos = Chaos(Path(folder), policy)
        try:
            for action, how in actions:
                chaos.act(action, how)
            chaos.settle()
            chaos.note_acknowledged()
            store = chaos.harness.controller.store
            kept = {number: store.jobs.find(number) for number in chaos.acknowledged}
            assert all(record is not None and record.state for record in kept.values())
            assert not chaos.harness.fake_cluster.ended, "an end was never forgotten"
            assert not chaos.harness.controller._cycle.state.ledger.occupied
        finally:
            chaos.harness.close()


def test_an_order_to_a_node_reported_lost_is_not_sent(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path, "1x1")
    answer = harness.controller.request(Submit("ada", sleeping(5)))
    append = harness.controller.store.append

    def meanwhile(batch: CycleBatch) -> None:
        append(batch)
        harness.controller.store.append = append  # type: ignore[method-assign]
        harness.controller.report(NodeLost("node-0", "its cable was pulled"))
        harness.fake_cluster.join("node-0")

    harness.controller.store.append = meanwhile  # type: ignore[method-assign]
    harness.deliver()
    assert answer.result(0.0) == (0,)
    assert [run.start.attempt for run in harness.fake_cluster.runs.values()] == [2]
    harness.close()


def test_an_attempt_started_while_its_node_is_lost_occupies_gpus_until_its_end_is_certain(
    tmp_path: Path,
) -> None:
    harness = ControllerHarness.at(tmp_path, "1x1")
    executor = harness.controller._loop.executor
    assert executor is not None
    send = executor.send

    def meanwhile(order: Order) -> None:
        if isinstance(order, Start):
            executor.send = send  # type: ignore[method-assign]
            harness.controller.report(NodeLost("node-0", "its cable was pulled"))
            harness.fake_cluster.join("node-0")
        send(order)

    executor.send = meanwhile  # type: ignore[method-assign]
    harness.controller.request(Submit("ada", sleeping(5)))
    harness.controller.step()
    harness.controller.step()
    assert harness.controller._cycle.state.ledger.occupied == {0: 0}
    harness.deliver()
    assert [run.start.attempt for run in harness.fake_cluster.runs.values()] == [2]
    harness.close()
