"""The connection of an agent, and why another that dials in for its node is refused."""

import asyncio
import math
import sys
import time
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

    def copied_folder(self, name: str, start: str, last_contact: float) -> str:
        """Why the agent of ``start`` is refused for good; empty while the connected one may have ended.

        A connection can outlive its agent by a while. One that has spoken since ``start`` asked has not.
        """
        known, since = self.refused
        if known != start:
            self.refused = start, time.monotonic()
        elif last_contact > since:
            where, _ = self.writer.get_extra_info("peername")[:2]
            reason = (
                f"an agent with the same identity runs for node {name!r} at {where}: its folder was "
                "copied. Delete the copy, and name another node"
            )
            sys.stderr.write(f"warning: a second agent is refused: {reason}\n")
            return reason
        return ""


def refusal(
    hello: wire.Hello,
    expected: Node | None,
    connection: AgentConnection | None,
    last_contact: float,
) -> str:
    """Why an agent is refused, whatever its key; empty if it is not.

    expected: its node by the cluster. connection, last_contact: of the agent that is connected for it.
    """
    if expected is None:
        return f"the cluster has no node {hello.node.name!r}"
    if differs := _difference(expected, hello.node):
        return f"node {expected.name!r} is to have {differs}"
    if connection is not None and connection.identity != hello.identity:
        return f"another agent is connected for node {expected.name!r}"
    if connection is not None and connection.start != hello.start:
        return connection.copied_folder(expected.name, hello.start, last_contact)
    return ""


def _difference(expected: Node, stated: Node) -> str:
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
