"""Orders, nodes and connections in any order: no task runs twice, no end is reported while a task runs."""

import random
from collections import deque
from collections.abc import Mapping
from types import MappingProxyType

import pytest

from volvelle.live.agent import wire
from volvelle.live.agent.wire import NodeTask, TaskEnded, TaskStarted
from volvelle.live.messages import (
    AttemptEnded,
    AttemptKey,
    AttemptProgress,
    AttemptStarted,
    EndsTold,
    Forget,
    Grant,
    Launch,
    NodeJoined,
    Order,
    Outcome,
    Report,
    SetBatchSize,
    Start,
    Stop,
    TellEnds,
    UnknownEnded,
)
from volvelle.live.nodes.attempt_coordinator import AttemptCoordinator
from volvelle.live.nodes.coordinated_attempt import combine_ends
from volvelle.model.node import Node

NAMES = ("a", "b", "c")
JOB = 1


def test_after_a_stop_the_exit_code_of_the_leading_node_counts_whoever_reports_first() -> None:
    leading, other = (NodeTask(JOB, 1, rank, ("a", "b")) for rank in (0, 1))
    saved = TaskEnded(task=leading, outcome=Outcome.STOPPED, exit_code=75)
    died = TaskEnded(task=other, outcome=Outcome.STOPPED, exit_code=-15)
    for ends in ([saved, died], [died, saved]):
        assert combine_ends(AttemptKey(JOB, 1, ""), ends).in_order
    finished = TaskEnded(task=leading, outcome=Outcome.FINISHED, exit_code=0)
    assert combine_ends(AttemptKey(JOB, 1, ""), [died, finished]).in_order
    other_saved = TaskEnded(task=other, outcome=Outcome.STOPPED, exit_code=75)
    killed = TaskEnded(task=leading, outcome=Outcome.STOPPED, exit_code=-9)
    assert not combine_ends(AttemptKey(JOB, 1, ""), [other_saved, killed]).in_order


class FakeAgent:
    """An agent that runs nothing, at the other end of a connection that may break at any moment."""

    def __init__(self) -> None:
        self.up = False
        self.inbox: deque[wire.ToAgent] = deque()
        self.outbox: deque[wire.FromAgent] = deque()
        self.tasks: dict[AttemptKey, TaskStarted | TaskEnded] = {}
        self.seen: set[AttemptKey] = set()

    def running(self) -> list[AttemptKey]:
        return [key for key, task in self.tasks.items() if isinstance(task, TaskStarted)]

    def receive(self, message: wire.ToAgent) -> None:
        match message:
            case wire.StartTask() if message.task.key not in self.seen:
                self.seen.add(message.task.key)
                self._report(TaskStarted(message.task, 1))
            case wire.StartTask():
                lost = TaskEnded(task=message.task, outcome=Outcome.LOST)
                self._report(self.tasks.get(message.task.key, lost))
            case Stop():
                self.end(message.key, Outcome.STOPPED)
            case Forget() if message.key not in self.running():
                self.tasks.pop(message.key, None)

    def end(self, key: AttemptKey, outcome: Outcome) -> None:
        task = self.tasks.get(key)
        if isinstance(task, TaskStarted):
            self._report(TaskEnded(task=task.task, outcome=outcome))

    def _report(self, report: TaskStarted | TaskEnded) -> None:
        self.tasks[report.task.key] = report
        if self.up:
            self.outbox.append(report)


class CoordinatorHarness:
    """A coordinator with three nodes, and a controller that runs one job repeatedly."""

    def __init__(self) -> None:
        self.agents = {name: FakeAgent() for name in NAMES}
        self.order: dict[AttemptKey, Order] = {}
        """The last order about the current attempt, if there is one."""
        self.placed: dict[AttemptKey, tuple[str, ...]] = {}
        """Its nodes."""
        self.attempt = 0
        self.ended: list[AttemptEnded] = []
        self.restart()

    def restart(self) -> None:
        """Restart the controller, which remembers its orders, with a new coordinator."""
        for agent in self.agents.values():
            agent.up = False
            agent.inbox.clear()
            agent.outbox.clear()
        nodes = [Node(name, 1) for name in NAMES]
        self.pending: deque[Report] = deque()
        self.coordinator = AttemptCoordinator(
            nodes,
            self.pending.append,
            lambda name, message: self.agents[name].inbox.append(message),
            placed={key: self.placed[key] for key in self.order},
        )
        for order in list(self.order.values()):
            self.coordinator.order(order)

    def control(self) -> None:
        """Handle pending reports, as a controller does."""
        while self.pending:
            match self.pending.popleft():
                case AttemptEnded() as ended:
                    key = ended.key
                    running = [n for n, agent in self.agents.items() if key in agent.running()]
                    assert not running, f"{ended} while it runs on {running}"
                    self.coordinator.order(Forget(*key))
                    if self.order.pop(key, None) is not None:
                        self.ended.append(ended)
                case UnknownEnded() as ended_there:
                    self.coordinator.order(Forget(*ended_there.key))
                case NodeJoined(attempts=attempts):
                    for key in attempts:
                        if key not in self.order:
                            self.coordinator.order(Stop(*key, kill=True))
                    for key, order in self.order.items():
                        if key not in attempts:
                            self.coordinator.order(order)
                case AttemptStarted() | _:
                    pass

    def act(self, what: str, name: str, nodes: int) -> None:
        agent = self.agents[name]
        match what:
            case "start" if not self.order:
                self.attempt += 1
                names = [*NAMES[NAMES.index(name) :], *NAMES][:nodes]
                grants = tuple(Grant(each, (0,)) for each in names)
                start = Start(
                    number=JOB,
                    attempt=self.attempt,
                    user="dana",
                    grants=grants,
                    launch=Launch(command=("true",)),
                )
                self.order[start.key], self.placed[start.key] = start, tuple(names)
                self.coordinator.order(start)
            case "stop":
                for key in self.order:
                    self.order[key] = Stop(*key)
                    self.coordinator.order(Stop(*key))
            case "repeat":
                for order in self.order.values():
                    self.coordinator.order(order)
            case "break" if agent.up:
                agent.up = False
                agent.inbox.clear()
                agent.outbox.clear()
                self.coordinator.node_disconnected(name)
            case "join" if not agent.up:
                agent.up = True
                self.coordinator.node_joined(name, "", tuple(agent.tasks.values()))
            case "lose" if not agent.up:
                self.agents[name] = FakeAgent()
                self.agents[name].seen = agent.seen
                self.coordinator.node_lost(name, "it burnt")
            case "receive" if agent.inbox:
                agent.receive(agent.inbox.popleft())
            case "send" if agent.outbox:
                self.coordinator.on_message(name, agent.outbox.popleft())
            case "finish" | "fail":
                for key in agent.running():
                    agent.end(key, Outcome.FINISHED if what == "finish" else Outcome.FAILED)
            case "restart":
                self.restart()
        self.control()
        assert all(len(agent.running()) <= 1 for agent in self.agents.values())
        assert len({key for agent in self.agents.values() for key in agent.running()}) <= 1

    def settle(self) -> None:
        """Join all nodes and deliver all messages."""
        for name in NAMES:
            self.act("join", name, 1)
        for _ in range(50):
            for name in NAMES:
                self.act("receive", name, 1)
                self.act("send", name, 1)


OFTEN = ["receive", "send", "join"]
SOMETIMES = ["start", "stop", "repeat", "break", "lose", "finish", "fail", "restart"]


@pytest.mark.parametrize("seed", range(4))
def test_attempts_run_once_and_end_after_their_last_task(seed: int) -> None:
    random_state, outcomes = random.Random(seed), set[Outcome]()
    for _ in range(50):
        harness = CoordinatorHarness()
        for _ in range(random_state.randrange(20, 200)):
            what = random_state.choice(random_state.choice((OFTEN, SOMETIMES)))
            harness.act(what, random_state.choice(NAMES), random_state.randint(1, 3))
        harness.settle()
        harness.act("stop", "a", 1)
        harness.settle()
        assert not harness.order  # all that was started has ended
        assert not any(agent.tasks for agent in harness.agents.values())  # and is forgotten
        outcomes.update(ended.outcome for ended in harness.ended)
    assert outcomes == set(Outcome)


def task_started(name: str, rank: int, port: int = 7) -> TaskStarted:
    return TaskStarted(NodeTask(JOB, 1, rank, ("a", "b")), port)


ON_BOTH = {AttemptKey(JOB, 1): ("a", "b")}


def test_other_nodes_start_once_the_leading_node_has_reported_its_port() -> None:
    sent: list[tuple[str, wire.ToAgent]] = []
    reports: list[Report] = []
    coordinator = AttemptCoordinator(
        [Node("a", 1), Node("b", 1)], reports.append, lambda *it: sent.append(it)
    )
    start = Start(
        number=JOB,
        attempt=1,
        user="dana",
        grants=(Grant("a", (0,)), Grant("b", (0,))),
        launch=Launch(command=("true",)),
    )
    coordinator.order(start)
    coordinator.node_joined("a", "10.0.0.1", ())
    assert sent == []  # not before all nodes are there
    coordinator.node_joined("b", "10.0.0.2", ())
    assert sent == [("a", wire.StartTask(start=start, rank=0, address="10.0.0.1"))]
    coordinator.on_message("a", task_started("a", 0))
    assert sent[1:] == [("b", wire.StartTask(start=start, rank=1, address="10.0.0.1", port=7))]
    coordinator.on_message("b", task_started("b", 1))
    assert reports[-1] == AttemptStarted(JOB, 1)


def test_an_agent_reports_only_on_attempts_that_are_on_its_node(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sent: list[tuple[str, wire.ToAgent]] = []
    reports: list[Report] = []
    placed = {AttemptKey(JOB, 1): ("a", "b"), AttemptKey(JOB, 2): ("a",)}
    coordinator = AttemptCoordinator(
        [Node(name, 1) for name in NAMES], reports.append, lambda *it: sent.append(it), (), placed
    )
    for name in NAMES:
        coordinator.node_joined(name, "", (task_started(name, 0),) if name == "a" else ())
    coordinator.on_message("b", task_started("b", 1))
    reports.clear()
    sent.clear()
    forged = NodeTask(JOB, 1, 0, ("c",))
    for task in (forged, NodeTask(JOB, 1, 0, ("a", "b")), NodeTask(JOB, 2, 0, ("c",))):
        coordinator.on_message("c", TaskEnded(task=task, outcome=Outcome.FAILED))
    coordinator.on_message("c", AttemptProgress(JOB, 1, iterations=9, saved_iterations=9))
    coordinator.on_message("c", wire.ExitAt(JOB, 1, iteration=1))
    coordinator.on_message("c", wire.SignalTask(JOB, 1))
    assert reports == []
    assert sent == [("c", Forget(JOB, 1)), ("c", Forget(JOB, 1)), ("c", Forget(JOB, 2))]
    assert capsys.readouterr().err == (
        "warning: the agent of c reports on attempt 1 of job 1, which is not on that node; "
        "such reports are refused\n"
    )
    coordinator.on_message(
        "b", TaskEnded(task=NodeTask(JOB, 1, 1, ("a", "b")), outcome=Outcome.FAILED)
    )
    assert ("a", Stop(JOB, 1, kill=True)) in sent  # its own reports count


def test_what_ended_on_a_node_is_known_after_the_node_has_changed() -> None:
    """A raylet that comes back under its name has another amount of memory."""
    reports: list[Report] = []
    coordinator = AttemptCoordinator(
        [Node("a", 1), Node("b", 1)], reports.append, lambda *it: None, placed=ON_BOTH
    )
    coordinator.node_joined("a", "", (task_started("a", 0),))
    coordinator.node_joined("b", "", (task_started("b", 1),))
    for name, rank in (("b", 1), ("a", 0)):
        task = NodeTask(JOB, 1, rank, ("a", "b"))
        coordinator.on_message(name, TaskEnded(task=task, outcome=Outcome.FAILED))
        coordinator.add_node(Node("b", 1, memory_gb=1.0))
    assert [each.key for each in reports if isinstance(each, AttemptEnded)] == [AttemptKey(JOB, 1)]


def test_the_last_iteration_is_in_all_control_blocks_before_the_leading_rank_gets_the_confirmation() -> (
    None
):
    sent: list[tuple[str, wire.ToAgent]] = []
    coordinator = AttemptCoordinator(
        [Node("a", 1), Node("b", 1)], lambda _: None, lambda *it: sent.append(it), placed=ON_BOTH
    )
    coordinator.node_joined("a", "", (task_started("a", 0),))
    coordinator.node_joined("b", "", (task_started("b", 1),))
    coordinator.on_message("a", wire.ExitAt(JOB, 1, iteration=12))
    assert sent == [("b", wire.ExitAt(JOB, 1, iteration=12))]
    coordinator.node_disconnected("b")
    coordinator.node_joined(
        "b", "", (task_started("b", 1),)
    )  # it may or may not have received the first
    assert sent[1:] == [("b", wire.ExitAt(JOB, 1, iteration=12))]
    coordinator.on_message("b", wire.ExitConfirmed(JOB, 1, iteration=12))
    assert sent[2:] == [("a", wire.ExitConfirmed(JOB, 1, iteration=12))]


def test_a_batch_size_is_set_where_the_attempt_is_and_nowhere_else() -> None:
    sent: list[tuple[str, wire.ToAgent]] = []
    nodes = [Node(name, 1) for name in NAMES]
    coordinator = AttemptCoordinator(nodes, lambda _: None, lambda *one: sent.append(one))
    for name in NAMES:
        coordinator.node_joined(name, "127.0.0.1", ())
    order = SetBatchSize(JOB, 1, batch_size=64)
    coordinator.order(order)
    assert not sent, "nobody knows the attempt"
    launch = Launch(command=("train",))
    coordinator.order(Start(JOB, 1, user="ada", grants=(Grant("b", (0,)),), launch=launch))
    coordinator.order(order)
    assert [(name, one) for name, one in sent if one == order] == [("b", order)]


class HostileHarness:
    """A coordinator of nodes ``a`` and ``b``; what ``b`` says is forged."""

    def __init__(self, placed: Mapping[AttemptKey, tuple[str, ...]] = MappingProxyType({})) -> None:
        self.sent: list[tuple[str, wire.ToAgent]] = []
        self.reports: list[Report] = []
        self.coordinator = AttemptCoordinator(
            [Node("a", 1), Node("b", 1)],
            self.reports.append,
            lambda *it: self.sent.append(it),
            placed=placed,
        )

    def forge(self, attempt: int, *states: str, nodes: tuple[str, ...] = ("b",)) -> None:
        task = NodeTask(JOB, attempt, nodes.index("b"), nodes)
        for state in states:
            started, ended = TaskStarted(task, 1), TaskEnded(task=task, outcome=Outcome.FINISHED)
            self.coordinator.on_message("b", started if state == "started" else ended)
            for report in self.reports:
                if isinstance(report, UnknownEnded):
                    self.coordinator.order(Forget(*report.key))

    def ends(self) -> list[AttemptEnded]:
        return [each for each in self.reports if isinstance(each, AttemptEnded)]


@pytest.mark.parametrize(
    "states", [["started"], ["ended"], ["ended", "ended"], ["started", "ended"]]
)
@pytest.mark.parametrize("attempt", [2, 10**9])
def test_no_attempt_is_ended_or_kept_from_starting_by_a_node_that_claims_it_before(
    attempt: int, states: list[str]
) -> None:
    """A node on which the job ran knows what its next attempts are called."""
    hostile = HostileHarness()
    for name in ("a", "b"):
        hostile.coordinator.node_joined(name, "", ())
    hostile.forge(attempt, *states)
    launch = Launch(command=("train",))
    start = Start(JOB, 2, user="ada", grants=(Grant("a", (0,)),), launch=launch)
    hostile.coordinator.order(start)
    hostile.coordinator.node_joined("b", "", ())
    assert ("a", wire.StartTask(start=start, rank=0, address="")) in hostile.sent
    hostile.coordinator.on_message("a", TaskStarted(NodeTask(JOB, 2, 0, ("a",)), 1))
    assert AttemptStarted(JOB, 2) in hostile.reports
    assert not hostile.ends()
    assert not [name for name, message in hostile.sent if isinstance(message, Stop) and name == "a"]


def test_a_node_does_not_leave_out_the_others_of_its_attempt() -> None:
    """Else the server would take their GPUs for free, with the attempt on them."""
    hostile = HostileHarness(placed=ON_BOTH)
    hostile.coordinator.node_joined("b", "", ())
    hostile.forge(1, "ended")
    assert not hostile.ends()
    hostile.coordinator.node_joined("a", "", (task_started("a", 0),))
    task = NodeTask(JOB, 1, 0, ("a", "b"))
    hostile.coordinator.on_message("a", TaskEnded(task=task, outcome=Outcome.FINISHED))
    assert [end.key for end in hostile.ends()] == [AttemptKey(JOB, 1)]


def test_what_was_not_ordered_is_believed_of_the_own_node_only() -> None:
    """As after a store was set back: both say that they run it, and one may lie."""
    hostile = HostileHarness()
    alone = TaskStarted(NodeTask(JOB, 1, 0, ("a",)), 1)
    hostile.coordinator.node_joined("b", "", ())
    hostile.forge(1, "started")
    hostile.coordinator.node_joined("a", "", (alone,))
    joined = [each for each in hostile.reports if isinstance(each, NodeJoined)]
    assert joined[-1].attempts == (AttemptKey(JOB, 1),)
    failed = TaskEnded(task=NodeTask(JOB, 1, 0, ("b",)), outcome=Outcome.FAILED)
    hostile.coordinator.on_message("b", wire.SignalTask(JOB, 1))
    hostile.coordinator.on_message("b", wire.ExitAt(JOB, 1, iteration=1))
    hostile.coordinator.on_message("b", failed)
    mine = UnknownEnded(JOB, 1, node="b", outcome=Outcome.FAILED, nodes=("b",))
    assert hostile.reports[-1] == mine
    hostile.coordinator.order(Forget(JOB, 1))
    assert hostile.sent == [("b", Forget(JOB, 1))]
    assert hostile.coordinator.in_use("a")
    assert not hostile.coordinator.in_use("b")
    hostile.coordinator.order(Stop(JOB, 1))
    assert hostile.sent[1:] == [("a", Stop(JOB, 1))]


def test_ends_that_were_forgotten_are_told_when_they_are_asked_for_and_of_the_own_node() -> None:
    hostile = HostileHarness(placed={AttemptKey(JOB, 1): ("b",)})
    hostile.coordinator.node_joined("b", "", ())
    tasks = [NodeTask(JOB, 1, 0, ("b",)), NodeTask(7, 1, 0, ("b",)), NodeTask(JOB, 2, 0, ("a",))]
    told = wire.PastEnds(tuple(TaskEnded(task=task, outcome=Outcome.FINISHED) for task in tasks))
    hostile.reports.clear()
    hostile.coordinator.on_message("b", told)
    assert hostile.reports == []
    hostile.coordinator.order(TellEnds("b", tuple(range(150))))
    assert hostile.sent[-1] == ("b", wire.ListEnds(tuple(range(100))))
    hostile.coordinator.on_message("b", told)
    assert hostile.sent[-1] == ("b", wire.ListEnds(tuple(range(100, 150))))
    hostile.coordinator.on_message("b", wire.PastEnds(()))
    unknown = UnknownEnded(7, 1, node="b", outcome=Outcome.FINISHED, nodes=("b",))
    assert hostile.reports == [
        AttemptEnded(JOB, 1, outcome=Outcome.FINISHED),
        unknown,
        EndsTold("b"),
    ]


def test_of_attempts_that_were_not_ordered_a_bounded_number_is_kept() -> None:
    hostile = HostileHarness()
    hostile.coordinator.node_joined("b", "", ())
    for number in range(2000):
        task = NodeTask(number, 1, 0, ("b",), f"{number:x}-{number:x}")
        hostile.coordinator.on_message("b", TaskStarted(task, 1))
    hostile.coordinator.node_joined("b", "", ())
    refused = [each for each in hostile.sent if isinstance(each[1], Stop)]
    assert len(refused) == 1000
    assert not hostile.coordinator.in_use("b")
