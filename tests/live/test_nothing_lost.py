"""Whatever is delayed, repeated, reordered or killed: no job is lost, none runs twice, no GPU has two.

The ground (`ground.Ground`) asserts the last two by itself, at every start.
"""

import tempfile
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ground import Stage, sleeping
from hypothesis import given, settings
from hypothesis import strategies as st

from volvelle.live.control.controller import Controller
from volvelle.live.control.requests import Ask, Cancel, Hold, Release, SetNode, Submit
from volvelle.live.job_request import JobRequest
from volvelle.live.messages import NodeLost, Order, Start
from volvelle.live.store import Batch
from volvelle.model.cluster import NodeState

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
    st.tuples(st.sampled_from(["cancel", "hold", "release"]), st.integers(0, 8)),
    st.tuples(st.sampled_from(["lose", "join", "drain", "resume"]), NODES),
    st.tuples(st.just("crash"), st.integers(0, 6)),
)


class Crash(BaseException):
    """The controller is killed."""


@contextmanager
def burning(controller: Controller, fuse: int) -> Iterator[None]:
    """Kill the controller at the ``fuse``-th of the points between its steps."""
    left = fuse
    append, executor = controller.store.append, controller._opened
    assert executor is not None
    send = executor.send

    def burn() -> None:
        nonlocal left
        if left == 0:
            raise Crash
        left -= 1

    def appended(batch: Batch) -> None:
        burn()
        append(batch)
        burn()

    def sent(order: Order) -> None:
        burn()
        send(order)

    controller.store.append = appended  # type: ignore[method-assign]
    executor.send = sent  # type: ignore[method-assign]
    try:
        yield
    finally:
        controller.store.append = append  # type: ignore[method-assign]
        executor.send = send  # type: ignore[method-assign]


class Chaos:
    """A stage on which anything may happen at any time."""

    def __init__(self, folder: Path, policy: str) -> None:
        self.stage = Stage.at(folder, "2x2", policy)
        self.asked: list[Future[Any]] = []
        self.acknowledged: set[int] = set()
        self.repeats: list[Any] = []

    def act(self, action: str, how: Any) -> None:
        ground, controller = self.stage.ground, self.stage.controller
        match action:
            case "submit":
                self.ask(Submit("ada", how))
            case "cancel":
                self.ask(Cancel(how))
            case "hold":
                self.ask(Hold(how))
            case "release":
                self.ask(Release(how))
            case "drain":
                self.ask(SetNode(how, NodeState.DRAINING))
            case "resume":
                self.ask(SetNode(how, NodeState.UP))
            case "pass":
                ground.pass_time(how)
                controller.step()
            case "progress":
                ground.tell_progress()
            case "lose" if how in ground.up:
                ground.lose(how)
            case "join" if how not in ground.up:
                ground.join(how)
            case "deliver":
                waiting = ground.outbox + self.repeats
                how.shuffle(waiting)
                heard = waiting[: how.randint(0, len(waiting))]
                self.repeats = heard[: how.randint(0, len(heard))]
                ground.outbox = [each for each in waiting if each not in heard]
                for report in heard:
                    controller.hear(report)
                controller.step()
            case "crash":
                self.crash(how)

    def ask(self, ask: Ask) -> None:
        self.asked.append(self.stage.controller.ask(ask))

    def crash(self, fuse: int) -> None:
        try:
            with burning(self.stage.controller, fuse):
                self.stage.controller.step()
                self.stage.controller.step()
        except Crash:
            pass
        self.stage.crash()
        self.stage.ground.tell_again()

    def note_acknowledged(self) -> None:
        for answer in self.asked:
            if answer.done() and not answer.cancelled() and answer.exception() is None:
                self.acknowledged.update(answer.result() or ())

    def calm_down(self) -> None:
        """Nothing more goes wrong; all nodes are there, nobody is held, time passes."""
        ground = self.stage.ground
        for node in ground.cluster.nodes:
            if node.name not in ground.up:
                ground.join(node.name)
            self.ask(SetNode(node.name, NodeState.UP))
        for _ in range(400):
            for number, job in self.stage.controller.status.jobs.items():
                if job.state.value == "held":
                    self.ask(Release(number))
            ground.tell_again()
            self.stage.step(1.0)
            if not self.stage.controller.status.jobs and not ground.runs:
                return
        raise AssertionError(f"the queue does not drain: {self.stage.controller.status.jobs}")


@given(policy=st.sampled_from(POLICIES), actions=st.lists(ACTIONS, max_size=40))
@settings(max_examples=25)
def test_nothing_is_lost_and_nothing_happens_twice(
    policy: str, actions: list[tuple[str, Any]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        chaos = Chaos(Path(folder), policy)
        try:
            for action, how in actions:
                chaos.act(action, how)
            chaos.calm_down()
            chaos.note_acknowledged()
            store = chaos.stage.controller.store
            kept = {number: store.job(number) for number in chaos.acknowledged}
            assert all(record is not None and record.state for record in kept.values())
            assert not chaos.stage.ground.ended, "an end was never forgotten"
            assert not chaos.stage.controller._engine.books.tenancy.occupied
        finally:
            chaos.stage.controller.store.close()


def test_an_order_left_for_a_node_that_is_said_to_be_lost_is_not_sent(tmp_path: Path) -> None:
    stage = Stage.at(tmp_path, "1x1")
    stage.deliver()
    answer = stage.controller.ask(Submit("ada", sleeping(5)))
    append = stage.controller.store.append

    def meanwhile(batch: Batch) -> None:
        append(batch)
        stage.controller.store.append = append  # type: ignore[method-assign]
        stage.controller.hear(NodeLost("node-0", "it was unplugged"))
        stage.ground.join("node-0")

    stage.controller.store.append = meanwhile  # type: ignore[method-assign]
    stage.deliver()
    assert answer.result(0.0) == (0,)
    assert [run.start.attempt for run in stage.ground.runs.values()] == [2]
    stage.controller.store.close()


def test_an_attempt_started_just_when_its_node_was_lost_counts_until_its_end_is_sure(
    tmp_path: Path,
) -> None:
    stage = Stage.at(tmp_path, "1x1")
    stage.deliver()
    executor = stage.controller._opened
    assert executor is not None
    send = executor.send

    def meanwhile(order: Order) -> None:
        if isinstance(order, Start):
            executor.send = send  # type: ignore[method-assign]
            stage.controller.hear(NodeLost("node-0", "it was unplugged"))
            stage.ground.join("node-0")
        send(order)

    executor.send = meanwhile  # type: ignore[method-assign]
    stage.controller.ask(Submit("ada", sleeping(5)))
    stage.controller.step()
    stage.controller.step()
    assert stage.controller._engine.books.tenancy.occupied == {0: 0}
    stage.deliver()
    assert [run.start.attempt for run in stage.ground.runs.values()] == [2]
    stage.controller.store.close()
