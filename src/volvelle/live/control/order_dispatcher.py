"""Sends orders to the executor, and fences starts that cross with the loss of a node.

An order that an executor receives before it reports a node lost is lost with the node. A later order finds a
node that may have come back. If both happen at once, the attempt is killed, and counts as running until that
is confirmed.
"""

import threading
from collections import Counter
from collections.abc import Iterable, Sequence

from volvelle.live.messages import AttemptKey, Order, Start, Stop
from volvelle.live.nodes.executor import OpenExecutor


class OrderDispatcher:
    """Sends orders. ``uncertain``: attempts whose start crossed with the loss of one of their nodes."""

    def __init__(self) -> None:
        self.uncertain: set[AttemptKey] = set()
        self._lock = threading.Lock()
        self._reported_losses: Counter[str] = Counter()
        self._handled_losses: Counter[str] = Counter()
        """How often nodes were reported lost, and how often the controller state knows of."""

    def loss_reported(self, node: str) -> None:
        """An executor has reported a node lost. May be called from any thread."""
        with self._lock:
            self._reported_losses[node] += 1

    def losses_handled(self, nodes: Iterable[str]) -> None:
        """The controller state knows of these losses now."""
        nodes = list(nodes)
        self._handled_losses.update(nodes)
        if nodes:
            self.uncertain.clear()

    def send(self, executor: OpenExecutor, orders: Sequence[Order]) -> None:
        """Send ``orders``."""
        for order in orders:
            if isinstance(order, Start):
                self._send_start(executor, order)
            else:
                executor.send(order)

    def _send_start(self, executor: OpenExecutor, order: Start) -> None:
        """Start an attempt, unless one of its nodes was reported lost and the state does not know yet."""
        nodes = [grant.node for grant in order.grants]
        reported = [self._reported_losses[node] for node in nodes]
        if reported != [self._handled_losses[node] for node in nodes]:
            return
        executor.send(order)
        if reported != [self._reported_losses[node] for node in nodes]:
            self.uncertain.add(order.key)
            executor.send(Stop(*order.key, kill=True))
