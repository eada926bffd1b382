"""Base of executors that start their agents: an agents server, and a thread that polls the agents."""

import threading
from abc import ABC, abstractmethod
from typing import ClassVar

from volvelle.live.messages import Order
from volvelle.live.nodes.agents_server import AgentsServer
from volvelle.live.nodes.node_logs import NodeLogs


class ManagedAgents(ABC):
    """Calls `poll` every ``poll_seconds`` from now on. A subclass calls this constructor last."""

    dismisses: ClassVar[bool] = False
    """Whether agents without jobs end when this stops."""

    def __init__(self, server: AgentsServer, poll_seconds: float) -> None:
        self.server = server
        self._poll_seconds = poll_seconds
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nodes", daemon=True)
        self._thread.start()

    @property
    def logs(self) -> NodeLogs:
        """Job logs on its nodes."""
        return self.server.logs

    def send(self, order: Order) -> None:
        """Carry ``order`` out."""
        self.server.send(order)

    def close(self) -> None:
        """Stop. Jobs go on, and their agents."""
        self._closing.set()
        self._thread.join()
        self.server.close(dismiss=self.dismisses)

    @abstractmethod
    def poll(self) -> None:
        """Start agents that do not run, and report nodes that are lost."""

    def _run(self) -> None:
        while not self._closing.is_set():
            self.poll()
            self._closing.wait(self._poll_seconds)
