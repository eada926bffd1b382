"""Agents at the protocol level: connections and answers are real, nodes and jobs are not.

    python benchmarks/simulated_agents.py --connect 127.0.0.1:7475 --token-file agents.token \
        --cluster 1000x8 --run-seconds 60

All agents are one process. Tasks start at once, end by themselves after ``--run-seconds``, and stop at
once when ordered to. For a controller with executor ``dial-in``, and for benchmarks/many_agents.py.
"""

import argparse
import asyncio
import math
import resource
from pathlib import Path

from volvelle.live.agent import wire
from volvelle.live.agent.controller_connection import ControllerConnection
from volvelle.live.agent.folders import AgentSettings
from volvelle.live.agent.wire import TaskEnded, TaskStarted
from volvelle.live.messages import AttemptKey, Forget, Outcome, Stop
from volvelle.live.nodes.node_keys import GivenKeys
from volvelle.model.cluster import parse_cluster


class SimulatedAgent:
    """One agent, which keeps its tasks in memory."""

    def __init__(self, settings: AgentSettings, run_seconds: float) -> None:
        self.connection = ControllerConnection(
            settings, settings.node.name, self._on_welcome, self._on_message
        )
        self._run_seconds = run_seconds
        self._tasks: dict[AttemptKey, TaskStarted | TaskEnded] = {}

    def _on_welcome(self, _: wire.Welcome) -> None:
        self.connection.send(wire.NodeInventory(tuple(self._tasks.values())))

    def _on_message(self, message: wire.ToAgent) -> None:
        match message:
            case wire.StartTask() if message.task.key not in self._tasks:
                self._report(TaskStarted(message.task, message.port or 1))
                if math.isfinite(self._run_seconds):
                    loop = asyncio.get_running_loop()
                    loop.call_later(
                        self._run_seconds, self._end, message.task.key, Outcome.FINISHED
                    )
            case wire.StartTask():
                self.connection.send(self._tasks[message.task.key])
            case Stop():
                self._end(message.key, Outcome.STOPPED)
            case Forget():
                self._tasks.pop(message.key, None)

    def _end(self, key: AttemptKey, outcome: Outcome) -> None:
        task = self._tasks.get(key)
        if isinstance(task, TaskStarted):
            self._report(TaskEnded(task=task.task, outcome=outcome))

    def _report(self, report: TaskStarted | TaskEnded) -> None:
        self._tasks[report.task.key] = report
        self.connection.send(report)


async def simulate(connect: str, token: str, cluster: str, run_seconds: float) -> None:
    """Run the agents of all nodes of ``cluster``, for ever."""
    nodes = parse_cluster(cluster).nodes
    async with asyncio.TaskGroup() as agents:
        for node in nodes:
            key = GivenKeys(token).key(node.name)
            settings = AgentSettings(node=node, connect=connect, key=key, token=token)
            agents.create_task(SimulatedAgent(settings, run_seconds).connection.run())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--connect", required=True)
    parser.add_argument("--token-file", type=Path, required=True)
    parser.add_argument("--cluster", default="1000x8")
    parser.add_argument("--run-seconds", type=float, default=math.inf)
    given = parser.parse_args()
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))
    token = given.token_file.read_text(encoding="utf-8").strip()
    asyncio.run(simulate(given.connect, token, given.cluster, given.run_seconds))


if __name__ == "__main__":
    main()
