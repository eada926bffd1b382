"""A real Ray cluster on this machine: a head without GPUs, and raylets with made-up ones."""

import atexit
import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest

from volvelle.live.agent.launch import free_port

_QUICK = {
    "worker_niceness": 0,
    "health_check_initial_delay_ms": 500,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 1000,
    "health_check_failure_threshold": 3,
}
"""A dead raylet is noticed in two to four seconds; it would take seventeen. Workers have the priority of this
process; with Ray's niceness of 15 they wait for minutes beside tests that compute."""
_STORE_BYTES = 80 << 20
"""Ray wants 75 MiB at least."""
_TRIES = 3

_UNUSED = (
    "cluster_synced_files", "initialization_commands", "setup_commands", "head_setup_commands",
    "worker_setup_commands", "head_start_ray_commands", "worker_start_ray_commands",
)  # fmt: skip
"""What an autoscaler wants to be told, and has no use for where its nodes are processes of this machine."""


class RayTestCluster:
    """The cluster.

    nodes: its raylets by name, with their GPUs. fate_shared: they end with this process however it ends; then
    its main thread alone may add some. head: how the head is started.
    """

    def __init__(self, nodes: Mapping[str, int], *, fate_shared: bool = True, **head: Any) -> None:
        ray = pytest.importorskip("ray", reason="these tests need the extra 'ray'")
        from ray.cluster_utils import Cluster

        self._ray = ray
        for name, value in _QUICK.items():
            os.environ[f"RAY_{name}"] = str(value)
        self._cluster = Cluster(
            initialize_head=True,
            shutdown_at_exit=fate_shared,
            head_node_args={"num_gpus": 0, "include_dashboard": False, **head},
        )
        self._head = cast(Any, self._cluster.head_node)
        self._session = self._head.get_session_dir_path().encode()
        atexit.register(self.end)
        self._raylets: dict[str, Any] = {}
        try:
            for name, gpus in nodes.items():
                self.add(name, gpus)
        except Exception:
            self.end()
            raise

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def add(self, name: str, gpus: int = 2) -> None:
        """One more raylet, called ``name``; tried again where it takes longer than Ray waits."""
        for left in reversed(range(_TRIES)):
            try:
                self._raylets[name] = self._cluster.add_node(
                    num_gpus=gpus, labels={"volvelle-node": name}, object_store_memory=_STORE_BYTES
                )
            except Exception:  # Ray raises no other
                self._end_strays()
                if not left:
                    raise
            else:
                return

    def _end_strays(self) -> None:
        """End raylets that came to nothing."""
        self._cluster.worker_nodes &= set(self._raylets.values())
        known = {_raylet_of(node) for node in (self._head, *self._raylets.values())}
        for pid, line in self._processes():
            if b"raylet/raylet" in line and pid not in known:
                os.kill(pid, signal.SIGKILL)

    def _processes(self) -> Iterator[tuple[int, bytes]]:
        """All processes of this cluster, with their command lines."""
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if self._session in (line := (entry / "cmdline").read_bytes()):
                    yield int(entry.name), line

    def identity(self, name: str) -> str:
        """What Ray calls it."""
        return str(self._raylets[name].node_id)

    def kill(self, name: str) -> None:
        """Kill a raylet at once."""
        raylet = self._raylets.pop(name)
        self._cluster.worker_nodes.discard(raylet)
        os.kill(_raylet_of(raylet), signal.SIGKILL)
        raylet.kill_all_processes(check_alive=False, allow_graceful=False)

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
        """End all of it, also raylets that others started."""
        self._ray.shutdown()
        self._cluster.shutdown()  # type: ignore[no-untyped-call]
        for pid, _ in self._processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _raylet_of(node: Any) -> int:
    return int(node.all_processes["raylet"][0].process.pid)


class AutoscalingTestCluster(RayTestCluster):
    """A head alone, and Ray's autoscaler, which starts raylets of ``gpus`` GPUs and ends idle ones."""

    def __init__(self, folder: Path, most: int, gpus: int) -> None:
        ray = pytest.importorskip("ray", reason="these tests need the extra 'ray'")
        port = free_port()
        worker = {"resources": {"CPU": 1, "GPU": gpus, "object_store_memory": _STORE_BYTES}}
        nothing: dict[str, Any] = {"node_config": {}}
        plan = {
            "cluster_name": "fake",
            "max_workers": most,
            "upscaling_speed": 9999,
            "idle_timeout_minutes": 0.2,
            "provider": {
                "type": "fake_multinode",
                "gcs_address": f"{ray.util.get_node_ip_address()}:{port}",
                "use_node_id_as_ip": True,
                "disable_node_updaters": True,
                "disable_launch_config_check": True,
            },
            "available_node_types": {
                "head": {"resources": {"CPU": 1}, "max_workers": 0, **nothing},
                "worker": {**worker, "min_workers": 0, "max_workers": most, **nothing},
            },
            "head_node_type": "head",
            **{what: {} for what in ("auth", "docker", "file_mounts")},
            **{what: [] for what in _UNUSED},
        }
        file = folder / "autoscaling.json"
        file.write_text(json.dumps(plan))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("RAY_FAKE_CLUSTER", "1")
            patch.setenv("AUTOSCALER_UPDATE_INTERVAL_S", "1")
            patch.setenv("RAY_OVERRIDE_NODE_ID_FOR_TESTING", "f" * 51 + "00000")
            super().__init__({}, autoscaling_config=str(file), gcs_server_port=port)

    def gpus_alive(self) -> float:
        """GPUs of all raylets that are there; this process is connected."""
        return float(self._ray.cluster_resources().get("GPU", 0.0))


@cache
def shared_ray_cluster() -> RayTestCluster:
    """The cluster of this process, of two nodes with two GPUs each; `end_shared_ray_cluster` ends it."""
    return RayTestCluster({"node-0": 2, "node-1": 2})


def end_shared_ray_cluster() -> None:
    """End the cluster of this process if there is one; the next test that shares one starts another."""
    if shared_ray_cluster.cache_info().currsize:
        shared_ray_cluster().end()
        shared_ray_cluster.cache_clear()
