"""The agents server's view of one node."""

from collections import deque
from dataclasses import dataclass, field

from volvelle.live.agent.wire import TaskEnded, TaskStarted
from volvelle.live.messages import AttemptKey
from volvelle.model.node import Node


@dataclass
class NodeSession:
    """A node as its agent reported it.

    connected: now. reported: its tasks are known, because its agent connected since the server started, or
    because it was lost. address: where other nodes reach its programs. asked: numbers of jobs, in turn, of
    which the agent is to tell past ends (`TellEnds`).
    """

    node: Node
    leaving: bool = False
    connected: bool = False
    reported: bool = False
    address: str = ""
    tasks: dict[AttemptKey, TaskStarted | TaskEnded] = field(default_factory=dict)
    asked: deque[tuple[int, ...]] = field(default_factory=deque)
