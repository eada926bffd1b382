"""A fake Kubernetes cluster: the API server, the controllers that matter, and nodes that run processes."""

import contextlib
import secrets
import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from api_objects import ApiError, Object, merged, moment_of, timestamp
from fake_api_server import FakeApiServer
from fake_kubelet import HEARTBEATS, RESOURCE, Kubelet
from object_store import ObjectStore

TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
UNREACHABLE = "node.kubernetes.io/unreachable"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
_ENDED = ("Succeeded", "Failed")


@dataclass
class Controllers:
    """What kube-controller-manager and kube-scheduler do: jobs, nodes, garbage, placement.

    node_grace_seconds: without a heartbeat for so long a node is not ready. eviction_seconds: its pods are
    asked to end then; they stay until the node agrees.
    """

    store: ObjectStore
    node_grace_seconds: float = 1.0
    eviction_seconds: float = 300.0
    paused: threading.Event = field(default_factory=threading.Event)
    _closing: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._run, name="controllers", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End."""
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        seen = -1
        while not self._closing.is_set():
            with self.store.changed:
                if self.store.version == seen:
                    self.store.changed.wait(0.1)
                seen = self.store.version
            if not self.paused.is_set():
                with contextlib.suppress(ApiError):  # something has gone meanwhile; seen next time
                    self.step()

    def step(self) -> None:
        """Bring everything on by one step."""
        for node in self.store.listed("nodes"):
            self._watch_node(node)
        pods = self.store.listed("pods")
        for job in self.store.listed("jobs"):
            uid = job["metadata"]["uid"]
            self._sync_job(job, [pod for pod in pods if _owner(pod) == uid])
        self._collect_garbage()
        self._schedule()

    # ------------------------------------------------------------------ nodes

    def _watch_node(self, node: Object) -> None:
        name = node["metadata"]["name"]
        try:
            lease = self.store.get(self.store.kind("leases"), HEARTBEATS, name)
        except ApiError:
            return
        silent = self.store.now() - moment_of(lease["spec"]["renewTime"])
        taints = node["spec"].get("taints", [])
        others = [taint for taint in taints if taint["key"] != UNREACHABLE]
        lost = silent > self.node_grace_seconds
        if lost:
            unknown = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
            self._patch("nodes", node, {"status": {"conditions": [unknown]}}, status=True)
            effects = ("NoSchedule", "NoExecute")
            others += [{"key": UNREACHABLE, "effect": effect} for effect in effects]
        if others != taints:
            self._patch("nodes", node, {"spec": {"taints": others}})
        if lost and silent > self.node_grace_seconds + self.eviction_seconds:
            for pod in self.store.listed("pods"):
                if pod["spec"].get("nodeName") == name:
                    self._delete("pods", pod)
        if lost and any(taint["key"] == OUT_OF_SERVICE for taint in taints):
            for pod in self.store.listed("pods"):
                if pod["spec"].get("nodeName") == name:
                    self._force(pod)

    def _force(self, pod: Object) -> None:
        """Remove the object of a pod, whatever runs."""
        if pod["status"]["phase"] not in _ENDED:
            self._patch("pods", pod, {"status": {"phase": "Failed"}}, status=True)
        self._patch("pods", pod, {"metadata": {"finalizers": None}})
        self._delete("pods", pod, grace=0)

    # ------------------------------------------------------------------ jobs

    def _sync_job(self, job: Object, pods: list[Object]) -> None:
        spec, status = job["spec"], dict(job.get("status", {}))
        conditions = list(status.get("conditions", ()))
        finished = any(each["type"] in ("Complete", "Failed") for each in conditions)
        done = set(filter(None, str(status.get("completedIndexes", "")).split(",")))
        for pod in pods:
            metadata = pod["metadata"]
            ended = pod["status"]["phase"] in _ENDED
            forced = metadata.get("deletionGracePeriodSeconds") == 0
            if TRACKING in metadata.get("finalizers", ()) and (ended or forced):
                if pod["status"]["phase"] == "Succeeded":
                    done.add(metadata["annotations"][INDEX])
                    status["succeeded"] = len(done)
                elif ended:
                    status["failed"] = status.get("failed", 0) + 1
                with contextlib.suppress(ApiError):
                    self._patch("pods", pod, {"metadata": {"finalizers": None}})
        status["completedIndexes"] = ",".join(sorted(done, key=int))
        alive = [pod for pod in pods if pod["status"]["phase"] not in _ENDED]
        active = [pod for pod in alive if "deletionTimestamp" not in pod["metadata"]]
        if not finished and status.get("failed", 0) > spec.get("backoffLimit", 6):
            conditions.append(_condition("Failed", "BackoffLimitExceeded"))
            finished = True
        elif not finished and len(done) >= spec["completions"]:
            conditions.append(_condition("Complete", "CompletionsReached"))
            finished = True
        suspended = bool(spec.get("suspend"))
        if suspended or finished:
            for pod in active:
                self._delete("pods", pod)
            active = []
        if not finished:
            conditions = [each for each in conditions if each["type"] != "Suspended"]
            if suspended or "startTime" in status:
                state = "True" if suspended else "False"
                reason = "JobSuspended" if suspended else "JobResumed"
                conditions.append(_condition("Suspended", reason, state))
            if suspended:
                status["startTime"] = None
            else:
                status.setdefault("startTime", timestamp(self.store.now()))
                status["startTime"] = status["startTime"] or timestamp(self.store.now())
                taken = done | {pod["metadata"]["annotations"][INDEX] for pod in alive}
                for index in range(spec["completions"]):
                    if str(index) not in taken and "deletionTimestamp" not in job["metadata"]:
                        active.append(self._create_pod(job, index))
        status["conditions"] = conditions
        terminating = len([pod for pod in alive if "deletionTimestamp" in pod["metadata"]])
        status["active"], status["terminating"] = len(active) or None, terminating
        self._patch("jobs", job, {"status": status}, status=True)

    def _create_pod(self, job: Object, index: int) -> Object:
        metadata, template = job["metadata"], job["spec"]["template"]
        name = f"{metadata['name']}-{index}"
        spec = merged(template["spec"], {"hostname": name})
        spec["containers"][0].setdefault("env", []).append(
            {
                "name": "JOB_COMPLETION_INDEX",
                "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{INDEX}']"}},
            }
        )
        owner = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": metadata["name"],
            "uid": metadata["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        own = template.get("metadata", {})
        labels = {"batch.kubernetes.io/job-name": metadata["name"], INDEX: str(index)}
        pod = {
            "metadata": {
                "name": f"{name}-{secrets.token_hex(3)[:5]}",
                "namespace": metadata["namespace"],
                "labels": own.get("labels", {}) | labels,
                "annotations": own.get("annotations", {}) | {INDEX: str(index)},
                "finalizers": [TRACKING],
                "ownerReferences": [owner],
            },
            "spec": spec,
        }
        return self.store.create(self.store.kind("pods"), pod)

    def _collect_garbage(self) -> None:
        """Delete the pods and secrets of jobs that are gone, and pods of nodes that are."""
        uids = {each["metadata"]["uid"] for each in self.store.listed("jobs")}
        nodes = {each["metadata"]["name"] for each in self.store.listed("nodes")}
        for plural in ("pods", "secrets"):
            for thing in self.store.listed(plural):
                if _owner(thing) is not None and _owner(thing) not in uids:
                    finalizers = thing["metadata"].get("finalizers", ())
                    if plural == "pods" and (
                        thing["status"]["phase"] in _ENDED or TRACKING in finalizers
                    ):
                        self._patch("pods", thing, {"metadata": {"finalizers": None}})
                    self._delete(plural, thing)
        for pod in self.store.listed("pods"):
            if pod["spec"].get("nodeName", "") not in ("", *nodes):
                self._force(pod)

    # ------------------------------------------------------------------ placement

    def _schedule(self) -> None:
        nodes, pods = self.store.listed("nodes"), self.store.listed("pods")
        used: dict[str, int] = {}
        for pod in pods:
            if pod["status"]["phase"] not in _ENDED and (node := pod["spec"].get("nodeName")):
                used[node] = used.get(node, 0) + _gpus(pod)
        for pod in pods:
            spec = pod["spec"]
            if spec.get("nodeName") or spec.get("schedulingGates"):
                continue
            if "deletionTimestamp" in pod["metadata"]:
                continue
            for node in nodes:
                name = node["metadata"]["name"]
                free = int(node["status"].get("allocatable", {}).get(RESOURCE, 0))
                free -= used.get(name, 0)
                if free >= _gpus(pod) and _suits(node, spec):
                    used[name] = used.get(name, 0) + _gpus(pod)
                    self._patch("pods", pod, {"spec": {"nodeName": name}})
                    break
            else:
                no = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
                no["message"] = f"0/{len(nodes)} nodes are available"
                self._patch("pods", pod, {"status": {"conditions": [no]}}, status=True)

    # ------------------------------------------------------------------ the store

    def _patch(self, plural: str, thing: Object, patch: Object, *, status: bool = False) -> None:
        metadata = thing["metadata"]
        self.store.update(
            self.store.kind(plural),
            lambda present: merged(present, patch),
            metadata.get("namespace", ""),
            metadata["name"],
            manager="kube-controller-manager",
            status=status,
        )

    def _delete(self, plural: str, thing: Object, grace: int | None = None) -> None:
        metadata = thing["metadata"]
        options: Object = {} if grace is None else {"gracePeriodSeconds": grace}
        with contextlib.suppress(ApiError):  # it is gone
            self.store.delete(
                self.store.kind(plural), metadata["namespace"], metadata["name"], options
            )


def _owner(thing: Object) -> str | None:
    return next((each["uid"] for each in thing["metadata"].get("ownerReferences", ())), None)


def _condition(type: str, reason: str, status: str = "True") -> Object:
    return {"type": type, "status": status, "reason": reason}


def _gpus(pod: Object) -> int:
    return sum(
        int(each.get("resources", {}).get("limits", {}).get(RESOURCE, 0))
        for each in pod["spec"]["containers"]
    )


def _suits(node: Object, spec: Object) -> bool:
    """Whether a pod may be placed on a node by its labels and taints."""
    labels = node["metadata"].get("labels", {})
    if not spec.get("nodeSelector", {}).items() <= labels.items():
        return False
    ready = any(
        each["type"] == "Ready" and each["status"] == "True"
        for each in node["status"].get("conditions", ())
    )
    tolerated = {each.get("key") for each in spec.get("tolerations", ())}
    taints = {taint["key"] for taint in node["spec"].get("taints", ())}
    return ready and taints <= tolerated and not node["spec"].get("unschedulable")


def pod_template(work: str, name: str = "volvelle") -> Object:
    """A PodTemplate whose containers have the programs of this machine."""
    container = {
        "name": "job",
        "image": "volvelle",
        "command": [sys.executable],
        "terminationMessagePath": "end",  # in the folder of each container
        "volumeMounts": [{"name": "work", "mountPath": work}],
    }
    volumes = [{"name": "work", "hostPath": {"path": work}}]
    spec = {"containers": [container], "volumes": volumes}
    return {"metadata": {"name": name}, "template": {"spec": spec}}


@dataclass
class KubernetesCluster:
    """A cluster with nodes of so many GPUs, by name; containers have their folders in ``folder``."""

    folder: Path
    gpus: dict[str, int]
    node_grace_seconds: float = 1.0
    server: FakeApiServer = field(default_factory=FakeApiServer)

    def __enter__(self) -> Self:
        store = self.store = self.server.store
        self.kubelets = {
            name: Kubelet(store, name, gpus, self.folder) for name, gpus in self.gpus.items()
        }
        self.server.logs = self._output
        self.server.__enter__()
        self.controllers = Controllers(store, self.node_grace_seconds)
        for kubelet in self.kubelets.values():
            kubelet.start()
        self.controllers.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.controllers.close()
        for kubelet in self.kubelets.values():
            kubelet.stop()
        self.server.__exit__()

    def pods(self, phases: Iterable[str] = ("Pending", "Running")) -> list[Object]:
        """The pods that are in one of these phases."""
        return [each for each in self.store.listed("pods") if each["status"]["phase"] in phases]

    def _output(self, namespace: str, pod: str) -> bytes:
        found = (each.output(namespace, pod) for each in self.kubelets.values())
        return next(filter(None, found), b"")
