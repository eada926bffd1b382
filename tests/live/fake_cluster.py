"""A fake executor, a fake clock and a fake cluster, all in memory, for tests of the controller.

Jobs take as many seconds as their command says (`sleep 5`), save after every iteration (one second each),
and end when they are ordered to; those of `plain 5` save nothing, and die of the signal. A `FakeCluster`
outlives the executors: it has the nodes and what runs on them.
"""

import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import msgspec
from sqlalchemy import event

from volvelle.core.composition import WrittenComposition
from volvelle.core.journal import Header
from volvelle.live.control.clock import Clock
from volvelle.live.control.controller import Controller
from volvelle.live.control.requests import ControlRequest, Submit
from volvelle.live.control.secret_box import SecretBox
from volvelle.live.job_request import JobRequest
from volvelle.live.messages import (
    AttemptEnded,
    AttemptKey,
    AttemptProgress,
    AttemptStarted,
    EndsTold,
    Forget,
    JournalPosition,
    NodeJoined,
    NodeLost,
    Order,
    Outcome,
    Report,
    Start,
    Stop,
    TellEnds,
    UnknownEnded,
)
from volvelle.live.nodes.executor import Executor, ExecutorContext
from volvelle.live.notifications.settings import NotificationSettings
from volvelle.live.store import Store
from volvelle.model.cluster import Cluster, parse_cluster

T = TypeVar("T")


@dataclass
class FakeAttempt:
    """The processes of one attempt. ``done``: saved iterations of the job."""

    start: Start
    began: float
    done: float
    seconds: float
    fails: bool
    stopping: bool = False


@dataclass
class FakeCluster:
    """The nodes and the attempts that run on them. Reports wait in ``outbox`` until they are delivered."""

    cluster: Cluster
    now: float = 1_000_000.0
    wall_ahead: float = 0.0
    """Seconds that the controller's wall clock is ahead of what passes."""
    boot: str = "first"
    """Id of the boot of the controller's machine."""
    kept: Path | None = None
    """The file in which the controller's clock is kept."""
    runs: dict[int, FakeAttempt] = field(default_factory=dict)
    ended: dict[AttemptKey, AttemptEnded] = field(default_factory=dict)
    archived: dict[AttemptKey, tuple[AttemptEnded, float, tuple[str, ...]]] = field(
        default_factory=dict
    )
    """Ends with their times and nodes, which nodes keep when they are forgotten."""
    placed: Mapping[AttemptKey, tuple[str, ...]] = field(default_factory=dict)
    """The nodes of attempts from before the present controller."""
    untelling: set[str] = field(default_factory=set)
    """Nodes that do not answer when they are asked for ends that were forgotten."""
    keeps_ends: bool = True
    """Whether nodes say that they do."""
    highest: dict[tuple[int, str], int] = field(default_factory=dict)
    saved: dict[int, float] = field(default_factory=dict)
    up: set[str] = field(default_factory=set)
    outbox: list[Report] = field(default_factory=list)
    known: dict[str, JournalPosition] = field(default_factory=dict)
    """How far journals were written, as the nodes were told, by server."""
    silent: set[str] = field(default_factory=set)
    """Nodes that send no reports, though their attempts run on."""
    report: Callable[[Report], None] = lambda report: None
    """The controller's callback for reports of the executor itself: on nodes."""
    history: list[tuple[float, str, int, int]] = field(default_factory=list)

    def clock(self) -> Clock:
        return Clock(
            wall=lambda: self.now + self.wall_ahead,
            monotonic=lambda: self.now,
            since_boot=lambda: self.now,
            boot=lambda: self.boot,
            kept=self.kept,
        )

    # ---------------------------------------------------------------- calls of the executor

    def join(self, name: str) -> None:
        node = next(node for node in self.cluster.nodes if node.name == name)
        self.up.add(name)
        attempts = tuple(
            run.start.key
            for run in self.runs.values()
            if any(grant.node == name for grant in run.start.grants)
        )
        known = tuple(self.known.values())
        self.report(
            NodeJoined(node=node, attempts=attempts, known=known, keeps_ends=self.keeps_ends)
        )

    def execute(self, order: Order) -> None:
        match order:
            case Start():
                self._start(order)
            case Stop():
                self._stop(order)
            case Forget():
                self.ended.pop(order.key, None)
            case TellEnds():
                if order.node not in self.untelling:
                    self._tell_ends(order)

    def _tell_ends(self, order: TellEnds) -> None:
        for end, at, nodes in self.archived.values():
            if end.number in order.numbers and order.node in nodes:
                where: dict[str, Any] = {"node": order.node, "nodes": nodes}
                part = UnknownEnded(*end.key, **where, outcome=end.outcome, ago=self.now - at)
                again = msgspec.structs.replace(end, ago=self.now - at)
                self.outbox.append(again if end.key in self.placed else part)
        self.outbox.append(EndsTold(order.node))

    def _start(self, order: Start) -> None:
        line = order.number, order.identity
        if order.attempt <= self.highest.get(line, 0):
            self._answer_repeat(order)
            return
        self.highest[line] = order.attempt
        if not {grant.node for grant in order.grants} <= self.up:
            self._report_end(order.key, Outcome.LOST, "its node is lost")
            return
        assert order.number not in self.runs, f"job {order.number} runs twice"
        held = {
            (g.node, gpu) for run in self.runs.values() for g in run.start.grants for gpu in g.gpus
        }
        wanted = {(grant.node, gpu) for grant in order.grants for gpu in grant.gpus}
        assert not held & wanted, f"GPUs {held & wanted} are held by two"
        kind, seconds = order.launch.command[0], float(order.launch.command[1])
        done = self.saved.get(order.number, 0.0)
        self.runs[order.number] = FakeAttempt(order, self.now, done, seconds, kind == "fail")
        self.history.append((self.now, "start", order.number, order.attempt))
        self.outbox.append(AttemptStarted(*order.key))

    def _answer_repeat(self, order: Start) -> None:
        run, key = self.runs.get(order.number), order.key
        if run is not None and run.start.key == key:
            self.outbox.append(AttemptStarted(*key))
        elif key in self.ended:
            self.outbox.append(self.ended[key])

    def _stop(self, order: Stop) -> None:
        run = self.runs.get(order.number)
        if run is None or run.start.key != order.key:
            if end := self.ended.get(order.key):
                self.outbox.append(end)
                return
            line = order.number, order.identity
            self.highest[line] = max(order.attempt, self.highest.get(line, 0))
            self._report_end(order.key, Outcome.LOST, "unknown here")
        elif order.kill:
            self._end(run, Outcome.STOPPED, exit_code=-9)
        else:
            run.stopping = True

    def lose(self, name: str) -> None:
        """Remove a node. Attempts on it are lost, on their other nodes too."""
        self.up.discard(name)
        for run in list(self.runs.values()):
            if any(grant.node == name for grant in run.start.grants):
                self._end(run, Outcome.LOST)
        self.report(NodeLost(name, "its cable was pulled"))

    # ---------------------------------------------------------------- the passage of time

    def pass_time(self, seconds: float) -> None:
        """Advance all attempts; those that are complete or were ordered to stop end."""
        self.now += seconds
        for run in list(self.runs.values()):
            run.done = min(run.done + seconds, run.seconds)
            self.saved[run.start.number] = run.done
            if run.done >= run.seconds:
                words = run.start.launch.command
                code = int(words[2]) if run.fails and len(words) > 2 else None
                self._end(run, Outcome.FAILED if run.fails else Outcome.FINISHED, code)
            elif run.stopping and run.start.launch.command[0] == "plain":
                run.done = self.saved[run.start.number] = 0.0
                self._end(run, Outcome.STOPPED, -15)
            elif run.stopping:
                self._end(run, Outcome.STOPPED)

    def report_progress(self) -> None:
        for run in self.runs.values():
            self.outbox.append(
                AttemptProgress(
                    *run.start.key,
                    iterations=int(run.done),
                    saved_iterations=int(run.done),
                    total_iterations=int(run.seconds),
                    iteration_seconds=1.0,
                )
            )

    def report_ends_again(self) -> None:
        """Ends are reported until they are forgotten."""
        self.outbox.extend(self.ended.values())

    def _end(self, run: FakeAttempt, outcome: Outcome, exit_code: int | None = None) -> None:
        del self.runs[run.start.number]
        self.history.append((self.now, outcome.value, run.start.number, run.start.attempt))
        self._report_end(run.start.key, outcome, "", int(run.done), exit_code)
        nodes = tuple(grant.node for grant in run.start.grants)
        self.archived[run.start.key] = self.ended[run.start.key], self.now, nodes

    def _report_end(
        self,
        key: AttemptKey,
        outcome: Outcome,
        reason: str,
        iterations: int = 0,
        exit_code: int | None = None,
    ) -> None:
        end = AttemptEnded(
            *key,
            outcome=outcome,
            exit_code=exit_code,
            reason=reason,
            iterations=iterations,
            saved_iterations=iterations,
        )
        self.ended[key] = end
        self.outbox.append(end)


class FakeExecutor(Executor):
    """The executor of a `FakeCluster`. Orders arrive at once, reports wait to be delivered."""

    name: ClassVar[str] = "fake"

    fake_cluster: Any

    def open(
        self, context: ExecutorContext, report: Callable[[Report], None]
    ) -> "OpenFakeExecutor":
        opened = OpenFakeExecutor(self.fake_cluster)
        self.fake_cluster.report, self.fake_cluster.placed = report, context.placed
        for node in self.fake_cluster.cluster.nodes:
            if node.name in self.fake_cluster.up:
                self.fake_cluster.join(node.name)
            elif node.name not in self.fake_cluster.silent:
                report(NodeLost(node.name, "it is not connected"))
        return opened


class NoLogs:
    """Nodes without logs."""

    def absence(self, node: str) -> str:
        return ""

    def log_sizes(self, node: str, number: int, job: str) -> Future[dict[str, int]]:
        return self._resolved({})

    def read_log(self, node: str, attempt: str, offset: int) -> Future[bytes]:
        return self._resolved(b"")

    def _resolved(self, answer: T) -> Future[T]:
        future: Future[T] = Future()
        future.set_result(answer)
        return future


class OpenFakeExecutor:
    def __init__(self, fake_cluster: FakeCluster) -> None:
        self._fake_cluster = fake_cluster
        self.logs = NoLogs()
        self.sent: list[Order] = []

    def send(self, order: Order) -> None:
        self.sent.append(order)
        self._fake_cluster.execute(order)

    def close(self) -> None:
        pass


def header_of(cluster: Cluster, policy: str = "fifo", **parts: str) -> Header:
    written = WrittenComposition(
        policy=policy,
        placement=parts.get("placement", "first-free"),
        admission=parts.get("admission", "accept-all"),
        estimator=parts.get("estimator", "declared"),
        termination=parts.get("termination", "completion"),
    )
    whole = None if cluster.profiling is None else cluster
    return Header(volvelle="test", cluster=cluster.main, composition=written, whole=whole)


@dataclass
class ControllerHarness:
    """A fake cluster and its controller, which is stepped by hand, without threads, and can be restarted."""

    folder: Path
    fake_cluster: FakeCluster
    header: Header
    controller: Controller
    notifications: NotificationSettings | None = None

    @classmethod
    def at(
        cls, folder: Path, cluster: str | Cluster = "1x2", policy: str = "fifo", **parts: str
    ) -> "ControllerHarness":
        made = parse_cluster(cluster) if isinstance(cluster, str) else cluster
        up = {node.name for node in made.nodes}
        fake_cluster = FakeCluster(made, up=up, kept=folder / "clock")
        header = header_of(made, policy, **parts)
        harness = cls(folder, fake_cluster, header, open_controller(folder, fake_cluster, header))
        harness.deliver()
        return harness

    def crash(self, *, snapshot: bool = True) -> None:
        """Crash the controller and start another one. ``snapshot``: one was taken just before."""
        self.close(snapshot=snapshot)
        self.controller = open_controller(
            self.folder, self.fake_cluster, self.header, self.notifications
        )

    def close(self, *, snapshot: bool = False) -> None:
        """End the controller, and what it writes in threads of its own."""
        self.controller._loop._snapshots.close(self.controller._cycle.state if snapshot else None)
        self.controller.store.close()

    def deliver(self) -> None:
        """Deliver all reports to the controller, and those that follow from them."""
        if (position := self.controller.executor_context.position()) is not None:
            self.fake_cluster.known[position.server] = position
        while self.fake_cluster.outbox or self.controller.has_inputs:
            reports, self.fake_cluster.outbox = self.fake_cluster.outbox, []
            for report in reports:
                self.controller.report(report)
            self.controller.step()

    def execute(self, request: ControlRequest) -> Any:
        """The answer to a request, once the controller has handled it."""
        answer = self.controller.request(request)
        self.deliver()
        return answer.result(timeout=0.0)

    def submit(self, request: JobRequest, key: str | None = None) -> int:
        """The number of a job that ada submits, or of the first of its array."""
        numbers: tuple[int, ...] = self.execute(Submit("ada", request, key))
        return numbers[0]

    def state(self, number: int) -> str:
        """The state of a job, over or not."""
        job = self.controller.status.jobs.get(number)
        if job is not None:
            return job.state.value
        record = self.controller.store.jobs.find(number)
        assert record is not None
        return record.state or "unfinished"

    def step(self, seconds: float) -> None:
        self.fake_cluster.pass_time(seconds)
        self.deliver()
        self.controller.step()
        self.deliver()


@cache
def _empty_store() -> bytes:
    """Copied for each test: making one takes longer than most of them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        Store.open(str(path)).close()
        return path.read_bytes()


def open_controller(
    folder: Path,
    fake_cluster: FakeCluster,
    header: Header,
    notifications: NotificationSettings | None = None,
) -> Controller:
    if not (folder / "store.db").exists():
        (folder / "store.db").write_bytes(_empty_store())
    store = Store.open(str(folder / "store.db"))
    _disable_fsync(store)
    context = ExecutorContext(header.whole or header.cluster, folder, "secret")
    controller = Controller(
        store,
        header,
        FakeExecutor(fake_cluster=fake_cluster),
        context,
        fake_cluster.clock(),
        SecretBox(folder / "secrets.key"),
        notifications,
    )
    controller.open()
    return controller


def started_controller(tmp_path: Path, cluster: str = "1x2") -> Controller:
    """A controller that runs in its own threads."""
    made = parse_cluster(cluster)
    fake_cluster = FakeCluster(made, up={node.name for node in made.nodes})
    store = Store.open(str(tmp_path / "store.db"))
    header = header_of(made)
    controller = Controller(
        store, header, FakeExecutor(fake_cluster=fake_cluster), ExecutorContext(made, tmp_path, "")
    )
    controller.start()
    return controller


def _disable_fsync(store: Store) -> None:
    """No waiting for the disk: here only the controller crashes, never the machine."""
    store._database.engine.dispose()

    @event.listens_for(store._database.engine, "connect")
    def disable(connection: Any, record: Any) -> None:
        connection.execute("PRAGMA synchronous=OFF")


def sleeping(seconds: float, gpus: int = 1, **more: Any) -> JobRequest:
    given = {"estimate": seconds, **more}
    return JobRequest(command=("sleep", str(seconds)), gpus=gpus, **given)
