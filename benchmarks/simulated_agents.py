"""Agents at the protocol level: connections and answers are real, nodes and jobs are not.

    python benchmarks/simulated_agents.py --connect 127.0.0.1:7475 --token-file agents.token \
        --cluster 1000x8 --run-seconds 60

All agents are one process. What they are told to run begins at once, ends by itself after ``--run-seconds``
and, told to stop, at once. For a controller with executor ``dial-in``, and for benchmarks/many_agents.py.
"""

import argparse
import asyncio
import math
import resource
from pathlib import Path

from volvelle.live.agent import wire
from volvelle.live.agent.controller_connection import Link
from volvelle.live.agent.folders import Settings
from volvelle.live.agent.wire import Began, Ended, Key
from volvelle.live.messages import Forget, Outcome, Stop
from volvelle.model.cluster import parse_cluster


class SimulatedAgent:
    """One agent, which remembers what it said as long as the process lives."""

    def __init__(self, settings: Settings, run_seconds: float) -> None:
        self.link = Link(settings, settings.node.name, self._joined, self._heard)
        self._run_seconds = run_seconds
        self._parts: dict[Key, Began | Ended] = {}

    def _joined(self, _: wire.Welcome) -> None:
        self.link.say(wire.Here(tuple(self._parts.values())))

    def _heard(self, message: wire.ToAgent) -> None:
        match message:
            case wire.Run() if message.part.key not in self._parts:
                self._say(Began(message.part, message.port or 1))
                if math.isfinite(self._run_seconds):
                    loop = asyncio.get_running_loop()
                    loop.call_later(
                        self._run_seconds, self._end, message.part.key, Outcome.FINISHED
                    )
            case wire.Run():
                self.link.say(self._parts[message.part.key])
            case Stop(number, attempt):
                self._end((number, attempt), Outcome.STOPPED)
            case Forget(number, attempt):
                self._parts.pop((number, attempt), None)

    def _end(self, key: Key, outcome: Outcome) -> None:
        part = self._parts.get(key)
        if isinstance(part, Began):
            self._say(Ended(part=part.part, outcome=outcome))

    def _say(self, said: Began | Ended) -> None:
        self._parts[said.part.key] = said
        self.link.say(said)


async def simulate(connect: str, token: str, cluster: str, run_seconds: float) -> None:
    """Be the agents of all nodes of ``cluster``, for ever."""
    nodes = parse_cluster(cluster).nodes
    async with asyncio.TaskGroup() as agents:
        for node in nodes:
            settings = Settings(node=node, connect=connect, token=token)
            agents.create_task(SimulatedAgent(settings, run_seconds).link.keep())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--connect", required=True)
    parser.add_argument("--token-file", type=Path, required=True)
    parser.add_argument("--cluster", default="1000x8")
    parser.add_argument("--run-seconds", type=float, default=math.inf)
    given = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    token = given.token_file.read_text(encoding="utf-8").strip()
    asyncio.run(simulate(given.connect, token, given.cluster, given.run_seconds))


if __name__ == "__main__":
    main()
