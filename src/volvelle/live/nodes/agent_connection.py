"""The connection of an agent, and whether its node is as the cluster says."""

import asyncio
import math
from dataclasses import dataclass

import msgspec

from volvelle.live.agent import wire
from volvelle.live.agent.processes import since_boot
from volvelle.model.node import Node


@dataclass
class AgentConnection:
    """The connected agent of a node. identity, start: see `wire.Hello`.

    refused: the last other start that asked for the node meanwhile, and when it did first. behind: least
    seconds from a ping's time on the agent's clock to its arrival on ours, the quickest ping's.
    """

    identity: str
    start: str
    verifier: str
    writer: asyncio.StreamWriter
    refused: tuple[str, float] = ("", 0.0)
    behind: float = math.inf

    def pinged(self, ping: wire.Ping) -> None:
        """A ping has arrived."""
        self.behind = min(self.behind, since_boot() - ping.at)

    def dated(self, message: wire.FromAgent) -> wire.FromAgent:
        """A message whose ``ago`` is from now: it may have waited while this server was stopped."""
        if isinstance(message, wire.PastEnds):
            return wire.PastEnds(tuple(map(self._dated, message.ends)))
        return self._dated(message) if isinstance(message, wire.TaskEnded) else message

    def _dated(self, end: wire.TaskEnded) -> wire.TaskEnded:
        if end.ago is None or end.sent is None:
            return end
        on_its_way = max(since_boot() - end.sent - self.behind, 0.0)
        return msgspec.structs.replace(end, ago=end.ago + on_its_way)


def difference(expected: Node, stated: Node) -> str:
    """A node's hardware by the configuration and by its agent; empty where they agree.

    A configuration that names no type agrees with any, and an agent that names no labels.
    """
    same_type = expected.gpu_type in ("", stated.gpu_type)
    if expected.gpus != stated.gpus or not same_type:
        return (
            f"{expected.gpus} GPUs of type {expected.gpu_type!r}, "
            f"the agent has {stated.gpus} of {stated.gpu_type!r}"
        )
    if stated.labels and expected.labels != stated.labels:
        labels = [", ".join(node.labels) or "none" for node in (expected, stated)]
        return f"labels {labels[0]}, the agent has {labels[1]}"
    return ""
