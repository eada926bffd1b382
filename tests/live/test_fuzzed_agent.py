"""An agent with its node's own key says at random what the protocol has, of all attempts there are."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
from fake_cluster import FakeCluster, NoLogs, header_of, sleeping

from volvelle.live.agent import wire
from volvelle.live.agent.wire import NodeTask, TaskEnded, TaskStarted
from volvelle.live.control.controller import Controller
from volvelle.live.control.requests import Submit
from volvelle.live.messages import (
    AttemptKey,
    AttemptProgress,
    Forget,
    JournalPosition,
    NodeLost,
    Order,
    Outcome,
    Report,
    Stop,
    attempt_identity,
)
from volvelle.live.nodes.attempt_coordinator import AttemptCoordinator
from volvelle.live.nodes.executor import Executor, ExecutorContext
from volvelle.live.store import Store
from volvelle.model.cluster import parse_cluster

HOSTILE = "node-2"
STEPS = 300
NUMBERS = (-1, 0, 1, 7, 1 << 31, 1 << 53, (1 << 63) - 1, 1 << 63, 10**30)


class HonestAgent:
    """Runs what it is told to, until the test lets it end."""

    def __init__(self) -> None:
        self.tasks: dict[AttemptKey, TaskStarted | TaskEnded] = {}
        self.stopped: list[AttemptKey] = []

    def receive(self, message: wire.ToAgent) -> TaskStarted | TaskEnded | None:
        match message:
            case wire.StartTask():
                return self.tasks.setdefault(message.task.key, TaskStarted(message.task, 1))
            case Stop() if isinstance(task := self.tasks.get(message.key), TaskStarted):
                self.stopped.append(message.key)
                return self.end(task.task, Outcome.STOPPED)
            case Forget():
                self.tasks.pop(message.key, None)
        return None

    def end(self, task: NodeTask, outcome: Outcome = Outcome.FINISHED) -> TaskEnded:
        self.tasks[task.key] = ended = TaskEnded(task=task, outcome=outcome)
        return ended


class CoordinatedExecutor(Executor):
    """A coordinator and its agents, without sockets."""

    name: ClassVar[str] = "coordinated"

    world: Any

    def open(self, context: ExecutorContext, report: Callable[[Report], None]) -> "World":
        world: World = self.world
        nodes = context.cluster.nodes
        world.coordinator = AttemptCoordinator(nodes, report, world.to_agent, placed=context.placed)
        for name, agent in world.agents.items():
            world.coordinator.node_joined(name, "", tuple(agent.tasks.values()))
        world.coordinator.node_joined(HOSTILE, "", ())
        return world


class World:
    """Two honest nodes and one that is fuzzed, and the controller over them. ``draws``: what happens."""

    def __init__(self, folder: Path, draws: random.Random) -> None:
        self.folder, self.draws = folder, draws
        self.cluster = parse_cluster("3x2")
        self.clock = FakeCluster(self.cluster)
        self.agents = {"node-0": HonestAgent(), "node-1": HonestAgent()}
        self.coordinator: Any = None
        self.pending: list[tuple[str, wire.FromAgent]] = []
        self.nodes: dict[AttemptKey, tuple[str, ...]] = {}
        """Of all attempts that were ordered."""
        self.logs = NoLogs()
        self.open()

    def open(self) -> None:
        store = Store.open(str(self.folder / "store.db"))
        context = ExecutorContext(self.cluster, self.folder, "secret")
        executor = CoordinatedExecutor(world=self)
        header = header_of(self.cluster)
        self.controller = Controller(store, header, executor, context, self.clock.clock())
        self.controller.open()
        self.run()

    def crash(self) -> None:
        self.controller._loop._snapshots.close(None)
        self.controller.store.close()
        self.pending.clear()
        self.open()

    # ---------------------------------------------------------------- an executor in operation

    def send(self, order: Order) -> None:
        self.coordinator.order(order)

    def close(self) -> None:
        pass

    def to_agent(self, name: str, message: wire.ToAgent) -> None:
        if isinstance(message, wire.StartTask):
            self.nodes[message.task.key] = message.task.nodes
        if name in self.agents and (answer := self.agents[name].receive(message)) is not None:
            self.pending.append((name, answer))

    # ---------------------------------------------------------------- what happens

    def run(self) -> None:
        while self.pending or self.controller.has_inputs:
            messages, self.pending = self.pending, []
            for name, message in messages:
                self.coordinator.on_message(name, message)
            self.controller.step()

    def submit(self) -> int:
        gpus = self.draws.choice((1, 1, 2, 4))
        answer = self.controller.request(Submit("ada", sleeping(300, gpus=gpus, name="trained")))
        self.run()
        number: int = answer.result(timeout=0.0)[0]
        return number

    def end_one(self) -> None:
        running = [
            (name, task.task)
            for name, agent in self.agents.items()
            for task in agent.tasks.values()
            if isinstance(task, TaskStarted)
        ]
        if running:
            name, task = self.draws.choice(running)
            self.pending.append((name, self.agents[name].end(task)))

    # ---------------------------------------------------------------- the fuzzed agent

    def key(self) -> AttemptKey:
        """Of an attempt that there is, or one like it."""
        state, choice = self.controller._cycle.state, self.draws.choice
        number, attempt, identity = choice([*self.nodes, AttemptKey(0, 1, "ada-feed")])
        if state.jobs and self.draws.random() < 0.5:
            number = choice(list(state.jobs))
            server = choice((state.servers.present, "feed", *state.servers.last_entries))
            identity = attempt_identity(state.jobs[number].identity, server)
        changed = (attempt, attempt, attempt + 1, attempt + 2, 10**9, choice(NUMBERS))
        return AttemptKey(number, choice(changed), identity)

    def task(self) -> TaskStarted | TaskEnded:
        choice, key = self.draws.choice, self.key()
        others = [name for name in ("node-0", "node-1") if choice((True, False))]
        nodes = choice(
            (self.nodes.get(key, ()), (HOSTILE,), (HOSTILE, *others), (*others, HOSTILE))
        )
        rank = nodes.index(HOSTILE) if HOSTILE in nodes else choice((-1, 0, 5))
        task = NodeTask(key.number, key.attempt, rank, nodes, key.identity)
        if choice((True, False)):
            return TaskStarted(task, choice(NUMBERS))
        return TaskEnded(
            task=task,
            outcome=choice(list(Outcome)),
            exit_code=choice((None, 0, 1, -9, *NUMBERS)),
            reason=choice(("", "no", "x" * 5000)),
            permanent=choice((True, False)),
            iterations=choice(NUMBERS),
            saved_iterations=choice(NUMBERS),
            ago=choice((None, -1.0, 0.0, 1e308)),
        )

    def message(self) -> wire.FromAgent:
        choice, key = self.draws.choice, self.key()
        match choice(range(5)):
            case 0:
                return wire.SignalTask(*key)
            case 1:
                return wire.ExitAt(*key, iteration=choice(NUMBERS))
            case 2:
                return wire.ExitConfirmed(*key, iteration=choice(NUMBERS))
            case 3:
                return AttemptProgress(
                    *key,
                    iterations=choice(NUMBERS),
                    saved_iterations=choice(NUMBERS),
                    total_iterations=choice(NUMBERS),
                    iteration_seconds=choice((-1.0, 0.0, 5e-324, 1e9, 1e300)),
                    epochs=choice((-1.0, 0.5, 1e12)),
                    total_epochs=choice(NUMBERS),
                    batch_size=choice(NUMBERS),
                    metrics={choice(("loss", "x" * 5000)): choice((-1e308, 0.0, 1.0))},
                )
            case _:
                return self.task()

    def inventory(self) -> wire.NodeInventory:
        choice = self.draws.choice
        known = tuple(
            JournalPosition(
                choice(("feed", f"{choice(range(1000))}")), choice(NUMBERS), choice(NUMBERS)
            )
            for _ in range(choice((0, 1, 30)))
        )
        return wire.NodeInventory(tuple(self.task() for _ in range(choice((0, 1, 5)))), known)

    def fuzz(self) -> None:
        """Send a message as the connection would let it pass."""
        message = self.inventory() if self.draws.random() < 0.1 else self.message()
        try:
            read = wire.from_agent.decode(msgspec.json.encode(message))
        except msgspec.ValidationError:
            return  # the connection is closed
        if isinstance(read, wire.NodeInventory):
            self.coordinator.node_joined(HOSTILE, "", read.tasks, read.known)
        else:
            self.coordinator.on_message(HOSTILE, read)


@pytest.mark.parametrize("seed", range(3))
def test_jobs_on_other_nodes_run_as_if_it_said_nothing(tmp_path: Path, seed: int) -> None:
    draws = random.Random(seed)
    world = World(tmp_path, draws)
    submitted: list[int] = []
    for _ in range(STEPS):
        world.clock.now += draws.choice((0.1, 1.0, 30.0))
        match draws.choice(range(30)):
            case 0 | 1 if len(submitted) < 30:
                submitted.append(world.submit())
            case 2:
                world.end_one()
            case 3 if draws.random() < 0.1:
                world.crash()
            case _:
                world.fuzz()
        world.run()
    world.coordinator.node_lost(HOSTILE, "its key was revoked")
    world.controller.report(NodeLost(HOSTILE, "its key was revoked"))
    world.run()
    while world.controller.status.jobs:
        before = len(world.controller.status.jobs)
        for _ in range(2 * before + 2):
            world.end_one()
            world.run()
        assert len(world.controller.status.jobs) < before, "nothing happens any more"
    stopped = {key for agent in world.agents.values() for key in agent.stopped}
    assert [key for key in stopped if HOSTILE not in world.nodes[key]] == []
    alone = {
        number
        for number in submitted
        if all(HOSTILE not in nodes for key, nodes in world.nodes.items() if key.number == number)
    }
    found = world.controller.store.jobs.find_ends(sorted(alone))
    assert alone
    assert set(found.values()) == {"finished"}
