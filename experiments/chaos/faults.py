"""Faults injected while the controller is killed, beside those of messages (`fault_proxy`)."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable

from chaos_cluster import ChaosCluster
from commands import kill, one_of
from fault_proxy import InjectedFault

_MAX_ABSENCE_SECONDS = 4.0
_GIVEN_UP_SECONDS = 120.0


class Faults:
    """Faults of ``cluster``. ``injected``: how often each was injected."""

    def __init__(self, cluster: ChaosCluster, rng: random.Random, injected: Counter[str]) -> None:
        self.cluster, self._rng, self._injected = cluster, rng, injected
        self._background: threading.Thread | None = None

    def inject_one(self) -> None:
        """Inject a random fault."""
        faults: list[tuple[int, Callable[[], InjectedFault]]] = [
            (4, self._kill_agent),
            (3, self._kill_supervisor),
            (4, self._kill_job),
            (self.cluster.backend.disconnect_weight, self._disconnect),
            (self.cluster.backend.removal_weight, self._remove_node_for_a_while),
            (3, self._fill_disk),
            (4, self._stop_store),
        ]
        weights, kinds = zip(*faults, strict=True)
        (fault,) = self._rng.choices(kinds, weights)
        self._note(fault())

    def _note(self, what: InjectedFault) -> None:
        if what is not None:
            self._injected[what] += 1

    def _kill_agent(self) -> InjectedFault:
        return self.cluster.backend.kill_agent(self._rng)

    def _kill_supervisor(self) -> InjectedFault:
        return self._kill_one("supervisor.py", "supervisor killed")

    def _kill_job(self) -> InjectedFault:
        return self._kill_one("traced_job.py", "job killed")

    def _kill_one(self, program: str, fault: str) -> InjectedFault:
        pid = one_of(self.cluster.processes(), program, self._rng)
        return fault if pid is not None and kill(pid) else None

    def _disconnect(self) -> InjectedFault:
        return self.cluster.backend.disconnect(self._rng.choice(self.cluster.backend.nodes))

    def _remove_node_for_a_while(self) -> InjectedFault:
        backend = self.cluster.backend
        node, seconds = (
            self._rng.choice(backend.nodes),
            self._rng.uniform(0.0, _MAX_ABSENCE_SECONDS),
        )

        def remove() -> InjectedFault:
            backend.remove_node(node)
            time.sleep(seconds)
            backend.restore_node(node)
            return f"{backend.removal_name} for a while"

        return self._in_background(remove)

    def _fill_disk(self) -> InjectedFault:
        seconds = self._rng.uniform(1.0, 2 * _MAX_ABSENCE_SECONDS)

        def fill() -> InjectedFault:
            self.cluster.disk.fill()
            full = self.cluster.disk.full
            time.sleep(seconds)
            self.cluster.disk.clear()
            return "disk filled" if full else None

        return self._in_background(fill) if self.cluster.disk.real else None

    def _stop_store(self) -> InjectedFault:
        seconds = self._rng.uniform(0.5, 1.5 * _MAX_ABSENCE_SECONDS)
        return self._in_background(lambda: self.cluster.store.stop(seconds))

    def _in_background(self, fault: Callable[[], InjectedFault]) -> InjectedFault:
        """Inject a fault in a thread, unless another one is still active."""
        if self._background is None or not self._background.is_alive():
            self._background = threading.Thread(target=lambda: self._note(fault()))
            self._background.start()
        return None

    def delete_a_folder(self) -> None:
        """Kill an agent and delete its folder, with what it knows of the jobs that run there."""
        self._note(self.cluster.backend.delete_folder(self._rng))

    def join(self) -> None:
        """Wait until the fault in the background is over."""
        if self._background is not None:
            self._background.join()

    def remove_a_node_until_given_up(self) -> None:
        """Remove a node until the controller has given it up, then add it again."""
        self.join()
        backend = self.cluster.backend
        if not backend.removal_weight:
            return
        node = self._rng.choice(backend.nodes)
        backend.remove_node(node)
        until = time.monotonic() + _GIVEN_UP_SECONDS
        while time.monotonic() < until:
            answer = self.cluster.get("/v1/nodes") or {"nodes": []}
            if any(each["name"] == node and each["state"] == "down" for each in answer["nodes"]):
                self._injected[f"{backend.removal_name} until it was given up"] += 1
                break
            time.sleep(0.5)
        backend.restore_node(node)
