"""A node of a fake cluster: runs the commands of its pods as processes of this machine."""

import contextlib
import os
import shutil
import signal
import subprocess
import threading
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from api_objects import ApiError, Object, merged, timestamp
from object_store import ObjectStore

RESOURCE = "nvidia.com/gpu"
HEARTBEATS = "kube-node-lease"
_SYNC_SECONDS = 0.1


@dataclass
class _Container:
    """The main container of a pod that was started here."""

    pod: Object
    folder: Path
    process: subprocess.Popen[bytes]
    devices: list[int]
    kill_at: float = 0.0


@dataclass
class Kubelet:
    """The kubelet of a node with ``gpus``. folder: of its containers. Without ``contact`` it sees no API."""

    store: ObjectStore
    name: str
    gpus: int
    folder: Path
    labels: dict[str, str] = field(default_factory=dict)
    contact: bool = True
    broken: float = 0
    """GPUs that are not healthy."""
    pulls: Callable[[str], bool] = lambda image: True
    """Whether an image can be pulled."""
    _containers: dict[str, _Container] = field(default_factory=dict)
    _off: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Switch the node on."""
        self._off.clear()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Switch the node off: all that runs on it has ended at once."""
        self._off.set()
        if self._thread is not None:
            self._thread.join()
        for container in self._containers.values():
            _kill(container)
        self._containers.clear()

    def output(self, namespace: str, pod: str) -> bytes:
        """What the main container of a pod wrote."""
        for each in self.folder.glob(f"{namespace}-{pod}-*/log"):
            return each.read_bytes()
        return b""

    # ------------------------------------------------------------------ the loop

    def _run(self) -> None:
        with contextlib.suppress(ApiError):  # it is there from before
            self.store.create(
                self.store.kind("nodes"),
                {
                    "metadata": {
                        "name": self.name,
                        "labels": {"kubernetes.io/hostname": self.name, **self.labels},
                    },
                    "spec": {},
                },
            )
        while not self._off.is_set():
            if self.contact:
                with contextlib.suppress(ApiError):  # its node was deleted
                    self._heartbeat()
                self._sync()
            with self.store.changed:
                self.store.changed.wait(_SYNC_SECONDS)

    def _heartbeat(self) -> None:
        now = timestamp(self.store.now(), micro=True)
        leases = self.store.kind("leases")
        renewed: Object = {"spec": {"holderIdentity": self.name, "renewTime": now}}
        name = {"metadata": {"name": self.name, "namespace": HEARTBEATS}}
        try:
            self.store.update(leases, lambda lease: merged(lease, renewed), HEARTBEATS, self.name)
        except ApiError:
            self.store.create(leases, name | renewed)
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        amounts = {RESOURCE: str(self.gpus), "cpu": "64", "memory": "256Gi", "pods": "110"}
        healthy = amounts | {RESOURCE: str(self.gpus - self.broken)}
        status = {"capacity": amounts, "allocatable": healthy, "conditions": [ready]}
        node = self.store.get(self.store.kind("nodes"), "", self.name)
        if node.get("status") != status:
            self._patch("nodes", "", self.name, {"status": status}, status=True)

    def _sync(self) -> None:
        mine = {
            pod["metadata"]["uid"]: pod
            for pod in self.store.listed("pods")
            if pod["spec"].get("nodeName") == self.name
        }
        for uid, pod in mine.items():
            phase, deleted = pod["status"]["phase"], "deletionTimestamp" in pod["metadata"]
            if uid in self._containers:
                self._containers[uid].pod = pod
            elif phase == "Pending" and not deleted:
                self._begin(uid, pod)
            elif phase == "Running":  # from before this node was switched off
                self._end(pod, 255, "Unknown")
            elif deleted:
                if phase == "Pending":
                    self._set_status(pod, "Failed", {"waiting": {"reason": "PodInitializing"}})
                self._remove(pod)
        for uid, container in list(self._containers.items()):
            self._follow(uid, container, mine.get(uid))

    def _begin(self, uid: str, pod: Object) -> None:
        main = pod["spec"]["containers"][0]
        metadata, namespace = pod["metadata"], pod["metadata"]["namespace"]
        if not self.pulls(main["image"]):
            waiting = {"waiting": {"reason": "ImagePullBackOff", "message": f"no {main['image']}"}}
            self._set_status(pod, "Pending", waiting)
            return
        folder = self.folder / f"{namespace}-{metadata['name']}-{uid}"
        folder.mkdir(parents=True)
        try:
            environment = {each["name"]: self._value(each, pod) for each in main.get("env", ())}
        except ApiError as missing:
            waiting = {"waiting": {"reason": "CreateContainerConfigError", "message": str(missing)}}
            self._set_status(pod, "Pending", waiting)
            shutil.rmtree(folder)
            return
        command = [*main.get("command", ()), *main.get("args", ())]
        wanted = int(main.get("resources", {}).get("limits", {}).get(RESOURCE, 0))
        taken = {gpu for each in self._containers.values() for gpu in each.devices}
        devices = [gpu for gpu in range(self.gpus) if gpu not in taken][:wanted]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                command,
                cwd=main.get("workingDir") or folder,
                env={
                    "PATH": os.environ["PATH"],
                    "TMPDIR": str(folder),
                    "NVIDIA_VISIBLE_DEVICES": ",".join(map(str, devices)),
                    **environment,
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._containers[uid] = _Container(pod, folder, process, devices)
        self._set_status(pod, "Running", {"running": {"startedAt": timestamp(self.store.now())}})

    def _value(self, variable: Object, pod: Object) -> str:
        """The value of an environment variable."""
        source = variable.get("valueFrom", {})
        if secret := source.get("secretKeyRef"):
            namespace = pod["metadata"]["namespace"]
            found = self.store.get(self.store.kind("secrets"), namespace, secret["name"])
            return b64decode(found["data"][secret["key"]]).decode()
        if path := source.get("fieldRef", {}).get("fieldPath"):
            known: dict[str, str] = {
                "status.podIP": "127.0.0.1",
                "spec.nodeName": self.name,
                "metadata.name": pod["metadata"]["name"],
                "metadata.uid": pod["metadata"]["uid"],
            }
            if path in known:
                return known[path]
            return str(pod["metadata"]["annotations"][path.split("'")[1]])
        return str(variable.get("value", ""))

    def _follow(self, uid: str, container: _Container, pod: Object | None) -> None:
        process = container.process
        code = process.poll()
        if code is not None:
            _kill(container)  # what it left
            del self._containers[uid]
            if pod is not None:
                path = pod["spec"]["containers"][0].get("terminationMessagePath", "end")
                message = _text(container.folder / path)
                code = code if code >= 0 else 128 - code
                self._end(pod, code, "Error" if code else "Completed", message)
            return
        if pod is not None and "deletionTimestamp" not in pod["metadata"]:
            return
        grace = 30 if pod is None else pod["metadata"]["deletionGracePeriodSeconds"]
        now = time.monotonic()
        if not container.kill_at:
            container.kill_at = now + grace
            process.send_signal(signal.SIGTERM)
        elif now >= container.kill_at:
            _kill(container)

    def _end(self, pod: Object, code: int, reason: str, message: str = "") -> None:
        """The container of a pod has ended: say so; a pod that is deleted goes now."""
        ended = {"terminated": {"exitCode": code, "reason": reason, "message": message}}
        self._set_status(pod, "Failed" if code else "Succeeded", ended)
        if "deletionTimestamp" in pod["metadata"]:
            self._remove(pod)

    def _remove(self, pod: Object) -> None:
        metadata = pod["metadata"]
        with contextlib.suppress(ApiError):
            self.store.delete(
                self.store.kind("pods"),
                metadata["namespace"],
                metadata["name"],
                {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}},
            )

    def _set_status(self, pod: Object, phase: str, state: Object) -> None:
        metadata = pod["metadata"]
        container = {"name": pod["spec"]["containers"][0]["name"], "state": state}
        status = {"phase": phase, "podIP": "127.0.0.1", "containerStatuses": [container]}
        self._patch(
            "pods", metadata["namespace"], metadata["name"], {"status": status}, status=True
        )

    def _patch(
        self, plural: str, namespace: str, name: str, patch: Object, *, status: bool = False
    ) -> None:
        with contextlib.suppress(ApiError):  # it is gone
            self.store.update(
                self.store.kind(plural),
                lambda thing: merged(thing, patch),
                namespace,
                name,
                manager="kubelet",
                status=status,
            )


def _kill(container: _Container) -> None:
    """Kill all processes of a container: those below its first one, and those that know its folder."""
    process, needle = container.process, str(container.folder).encode()
    if process.poll() is None:
        process.send_signal(signal.SIGSTOP)  # else it could start others for ever
    while True:
        pids = _pids()
        found = set(_below(process.pid, pids))
        found |= {pid for pid in pids if needle in _read(pid, "environ") + _read(pid, "cmdline")}
        if found - {process.pid}:
            found.discard(process.pid)  # the last: its orphans are its children
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if found <= {process.pid}:
            break
        process.poll()
        time.sleep(0.01)
    if process.poll() is None:
        process.kill()
    process.wait()


def _pids() -> dict[int, int]:
    """All processes that are no zombies, with their parents."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            fields = _read(int(entry.name), "stat").rpartition(b")")[2].split()
            if fields and fields[0] != b"Z":
                found[int(entry.name)] = int(fields[1])
    return found


def _below(pid: int, parents: dict[int, int]) -> Iterator[int]:
    children = [each for each, parent in parents.items() if parent == pid]
    for child in children:
        yield child
        yield from _below(child, parents)


def _text(path: Path) -> str:
    try:
        return path.read_text()[:4096]
    except OSError:
        return ""


def _read(pid: int, what: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes()
    except OSError:
        return b""
