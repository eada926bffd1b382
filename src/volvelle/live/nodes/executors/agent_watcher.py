"""For executors that see to their agents themselves: a server for these, a thread that looks after them."""

import threading
from abc import ABC, abstractmethod

from volvelle.live.messages import Order
from volvelle.live.nodes.agents_server import AgentsServer
from volvelle.live.nodes.node_logs import NodeLogs


class Watching(ABC):
    """Has `look` called every so many seconds from now on: whoever inherits is ready by then."""

    def __init__(self, server: AgentsServer, look_seconds: float) -> None:
        self.server = server
        self._look_seconds = look_seconds
        self._closing = threading.Event()
        self._looking = threading.Thread(target=self._watch, name="nodes", daemon=True)
        self._looking.start()

    @property
    def logs(self) -> NodeLogs:
        """What jobs wrote on its nodes."""
        return self.server.logs

    def send(self, order: Order) -> None:
        """Carry ``order`` out."""
        self.server.send(order)

    def close(self) -> None:
        """Let go; agents and jobs go on."""
        self._closing.set()
        self._looking.join()
        self.server.close()

    @abstractmethod
    def look(self) -> None:
        """See to it that there are agents, and report nodes that are lost."""

    def _watch(self) -> None:
        while not self._closing.is_set():
            self.look()
            self._closing.wait(self._look_seconds)
