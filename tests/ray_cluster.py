"""A real Ray cluster on this machine: a head and two raylets of two made-up GPUs each."""

import atexit
import os
import signal
import time
from functools import cache
from typing import Any

import pytest

_QUICK = {
    "health_check_initial_delay_ms": 500,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 1000,
    "health_check_failure_threshold": 3,
}
"""A dead raylet is noticed in two to four seconds; it would take seventeen."""


class RayGround:
    """The cluster; its raylets are called node-0 and node-1."""

    def __init__(self) -> None:
        ray = pytest.importorskip("ray", reason="these tests need the extra 'ray'")
        from ray.cluster_utils import Cluster

        self._ray = ray
        for name, value in _QUICK.items():
            os.environ[f"RAY_{name}"] = str(value)
        self._cluster = Cluster(
            initialize_head=True, head_node_args={"num_gpus": 0, "include_dashboard": False}
        )
        self._raylets: dict[str, Any] = {}
        for name in ("node-0", "node-1"):
            self.add(name)
        atexit.register(self.end)

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def add(self, name: str, gpus: int = 2) -> None:
        """One more raylet, called ``name``."""
        self._raylets[name] = self._cluster.add_node(num_gpus=gpus, labels={"volvelle-node": name})

    def identity(self, name: str) -> str:
        """What Ray calls it."""
        return str(self._raylets[name].node_id)

    def kill(self, name: str) -> None:
        """Kill a raylet at once."""
        raylet = self._raylets.pop(name)
        self._cluster.worker_nodes.discard(raylet)
        os.kill(raylet.all_processes["raylet"][0].process.pid, signal.SIGKILL)

    def end_actors(self) -> None:
        """End all actors, and wait until they are gone and with them what they have of the nodes."""
        for named in self._ray.util.list_named_actors(all_namespaces=True):
            actor = self._ray.get_actor(named["name"], named["namespace"])
            self._ray.kill(actor, no_restart=True)
        end = time.monotonic() + 30.0
        while self._ray.available_resources().get("GPU") != self._ray.cluster_resources().get(
            "GPU"
        ):
            assert time.monotonic() < end, "actors do not end"
            time.sleep(0.05)

    def disconnect(self) -> None:
        """Let the next to ask for an address find it."""
        self._ray.shutdown()

    def end(self) -> None:
        self._ray.shutdown()
        self._cluster.shutdown()  # type: ignore[no-untyped-call]


@cache
def ray_ground() -> RayGround:
    """The cluster of this process; it is there until the process ends."""
    return RayGround()
