"""Pods of a fake Kubernetes cluster, with what goes wrong there."""

import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from backends import Backend, StartCommand
from commands import kill, one_of, processes_with
from fault_proxy import FaultRates, InjectedFault
from lease_watch import LeaseWatch

from volvelle.live.agent.launch import free_port

sys.path.append(str(Path(__file__).parents[2] / "tests" / "kubernetes"))

_LEASE_SECONDS = 10.0
_SILENT_SECONDS = 12.0
_SECOND_SERVER_SECONDS = 300.0
_REIGN_SECONDS = 30.0
"""For at most so long a second server runs that took over."""
_STARTS_OF_A_SECOND_SERVER = 4
"""As a unit of systemd starts it again, where a fault of the API ended it before it saw the lease."""
_TOOK_OVER = "second server took over, the first being away for as long as its Lease"
_REFUSED = "second server refused"
_SAW_THE_LEASE = (_REFUSED, _TOOK_OVER)
_ENDS_OF_A_SECOND_SERVER = {
    "another server runs jobs": _REFUSED,
    "the Kubernetes API at": "second server found that the API did not answer",
    "(a fault)": "second server was refused by the API",
    "disk is full": "second server found its disk full",
}


class OnKubernetes(Backend):
    """Agents in pods, all with the link of the first node; their API server is in this process."""

    removal_weight, deletion_weight = 2, 0
    removal_name = "node switched off and its Node deleted"
    disturbance_weight = 24
    policy = "las:round=20"  # a pod takes seconds to start

    def __init__(self, cluster: str, seed: int) -> None:
        super().__init__(cluster, seed)
        from kubernetes_cluster import KubernetesCluster  # noqa: PLC0415 - of the tests

        self._seed, self._rates = random.Random(f"{seed} api"), 0.0
        self._gpus = {node.name: node.gpus for node in self._nodes}
        self._make = KubernetesCluster
        self._cluster: Any = None
        self._port = free_port()
        for link in self._proxy.links.values():
            link.target = "127.0.0.1", self._port
        self._threads: list[threading.Thread] = []

    def prepare(self, folder: Path) -> None:
        """Start the cluster; its pods have their folders in ``folder``."""
        from kubernetes_cluster import pod_template  # noqa: PLC0415 - of the tests

        self._folder, work = folder, str(folder / "work")
        self._cluster = made = self._make(folder / "pods", self._gpus, node_grace_seconds=5.0)
        made.__enter__()
        self._lease = LeaseWatch(made.store, self.unnoticed)
        self._lease.start()
        made.server.fault = self._fault
        made.store.create(made.store.kind("podtemplates"), pod_template(work))
        self.executor = (
            f"kubernetes:host=127.0.0.1,port={self._port},work={work},"
            f"address=127.0.0.1:{self._proxy.links[self.nodes[0]].port},"
            f"kubeconfig={made.server.kubeconfig(folder)},lease_seconds={_LEASE_SECONDS},"
            "progress_seconds=0.2,poll_seconds=1,start_seconds=60"
        )

    def start(self, start_command: StartCommand, folder: Path, token_file: Path) -> None:
        """The nodes are there already; a second server comes soon."""
        self._threads.append(threading.Timer(self._seed.uniform(0.0, 60.0), self._second_server))
        self._threads[-1].name = "second"
        self._threads[-1].start()

    def set_fault_rates(self, rates: FaultRates) -> None:
        """Set the rates of faults of messages, and of requests to the API."""
        super().set_fault_rates(rates)
        self._rates = rates.request / 6

    def _fault(self, request: Any) -> Any:
        """What becomes of a request to the API."""
        from api_objects import ApiError  # noqa: PLC0415 - of the tests

        if self._seed.random() >= self._rates or request.kind.plural in ("namespaces",):
            return None
        kind = self._seed.choice(("conflict", "unavailable", "lost", "its answer lost", "late"))
        self.injected[f"request to the API: {kind}"] += 1
        if kind == "conflict":
            return ApiError(409, "Conflict", "the object has been modified (a fault)")
        if kind == "unavailable":
            return ApiError(503, "ServiceUnavailable", "the server is starting (a fault)")
        return {"lost": -1.0, "its answer lost": -2.0, "late": self._seed.uniform(0.0, 0.5)}[kind]

    # ------------------------------------------------------------------ faults

    def kill_agent(self, rng: random.Random) -> InjectedFault:
        """Kill -9 the agent of a pod, which its entry point starts again."""
        found = processes_with(f"{self._folder}/pods/")
        pid = one_of(found, "-m volvelle.live.agent ", rng)
        return "agent killed" if pid is not None and kill(pid) else None

    def disconnect(self, node: str) -> InjectedFault:
        """Close the connections of all."""
        return super().disconnect(self.nodes[0])

    def disturb(self, rng: random.Random) -> InjectedFault:
        """One of the faults that only a Kubernetes cluster has."""
        kinds = (
            self._lose_watches,
            self._delete_a_pod,
            self._remove_a_pod_by_force,
            self._silence_a_node,
            self._start_a_second_server,
        )
        return rng.choices(kinds, (3, 3, 3, 3, 1))[0](rng)

    def _lose_watches(self, rng: random.Random) -> InjectedFault:
        """The server forgets all events, and ends all connections."""
        self._cluster.store.compact()
        self._cluster.server.break_connections()
        return "history of the API lost, and all watches with it"

    def _running_pod(self, rng: random.Random) -> Any:
        pods = [pod for pod in self._cluster.pods(("Running",)) if pod["spec"].get("nodeName")]
        return rng.choice(pods) if pods else None

    def _delete_a_pod(self, rng: random.Random) -> InjectedFault:
        """As an eviction does: with grace."""
        return self._delete(self._running_pod(rng), None, "pod evicted")

    def _remove_a_pod_by_force(self, rng: random.Random) -> InjectedFault:
        """Its object goes at once, while its node is silent for a while: its processes run on."""
        pod = self._running_pod(rng)
        if pod is not None:
            self._silent(pod["spec"]["nodeName"], rng)
        return self._delete(pod, 0, "pod removed by force on a silent node")

    def _delete(self, pod: Any, grace: int | None, what: str) -> InjectedFault:
        from api_objects import ApiError  # noqa: PLC0415 - of the tests

        if pod is None:
            return None
        options = {} if grace is None else {"gracePeriodSeconds": grace}
        store, name = self._cluster.store, pod["metadata"]["name"]
        try:
            store.delete(store.kind("pods"), "default", name, options)
        except ApiError:
            return None
        return what

    def _silence_a_node(self, rng: random.Random) -> InjectedFault:
        self._silent(rng.choice(self.nodes), rng)
        return "node not ready for a while"

    def _silent(self, node: str, rng: random.Random) -> None:
        kubelet = self._cluster.kubelets[node]
        kubelet.contact = False
        timer = threading.Timer(
            rng.uniform(3.0, _SILENT_SECONDS), setattr, (kubelet, "contact", True)
        )
        timer.start()
        self._threads.append(timer)

    def _start_a_second_server(self, rng: random.Random) -> InjectedFault:
        """It has to be refused, unless the first one is away for as long as its lease."""
        if any(each.name == "second" and each.is_alive() for each in self._threads):
            return None
        thread = threading.Thread(target=self._second_server, name="second")
        self._threads.append(thread)
        thread.start()
        return None

    def _second_server(self) -> None:
        for _ in range(_STARTS_OF_A_SECOND_SERVER):
            what = self._run_a_second_server()
            self.injected[what] += 1
            if what in _SAW_THE_LEASE:
                return

    def _run_a_second_server(self) -> str:
        """How a second server ended."""
        folder = self._folder / f"second-{time.monotonic()}"
        words = self.executor.replace(f"port={self._port}", f"port={free_port()}", 1)
        command = [
            sys.executable, "-m", "volvelle.cli.main", "serve", "--folder", str(folder),
            "--executor", words, "--port", "0",
        ]  # fmt: skip
        server = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        until, held = time.monotonic() + _SECOND_SERVER_SECONDS, False
        while server.poll() is None and not held and time.monotonic() < until:
            time.sleep(0.1)
            held = self._is_held_from(folder)
        time.sleep(self._seed.uniform(0.0, _REIGN_SECONDS) if held else 0.0)
        server.kill()
        _, said = server.communicate()
        if held:
            return _TOOK_OVER
        for words, meant in _ENDS_OF_A_SECOND_SERVER.items():
            if words in said:
                return meant
        return f"second server ended with {server.returncode}: {said[-200:].strip()}"

    def _is_held_from(self, folder: Path) -> bool:
        """Whether the server of a folder holds the Lease."""
        return any(
            file.read_text() == self._lease.holder for file in folder.rglob("kubernetes-holder")
        )

    def remove_node(self, node: str) -> None:
        """Switch the node off, and delete its Node."""
        self._cluster.kubelets[node].stop()
        store = self._cluster.store
        store.delete(store.kind("nodes"), "", node)

    def restore_node(self, node: str) -> None:
        """Switch it on again."""
        self._cluster.kubelets[node].start()

    def close(self) -> None:
        """End the cluster."""
        for thread in self._threads:
            thread.join()
        super().close()
        if self._cluster is not None:
            self._lease.close()
            self._cluster.__exit__()
