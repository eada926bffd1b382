"""The Job of an attempt, and what its pods say of its tasks.

One suspended, indexed Job runs an attempt; its name is the attempt's. All its pods have equally many GPUs, so
an attempt with 3 GPUs on one node and 1 on another has four pods. Its pods are gated until each is given its
node; then placement is final.
"""

import contextlib
import copy
import math
from dataclasses import dataclass, field
from typing import Any

import msgspec

from volvelle.kubernetes_api import ApiRefusal, KubernetesApi, Object, mistakes
from volvelle.live.agent.folders import AgentSettings
from volvelle.live.agent.pod_names import END, KEY, NODE, POD_ADDRESS, SETTINGS, job_name, pod_name
from volvelle.live.agent.wire import NodeTask, TaskEnded
from volvelle.live.messages import AttemptEnded, AttemptKey, Grant, Outcome, Start
from volvelle.model.node import Node
from volvelle.model.problems import Problem

MANAGED = "app.kubernetes.io/managed-by=volvelle"
JOB_OF_POD = "batch.kubernetes.io/job-name"
INDEX = "batch.kubernetes.io/job-completion-index"
GATE = "volvelle.dev/placement"
HOST = "kubernetes.io/hostname"
_ATTEMPT, _PLACES, _GPUS = "volvelle.dev/attempt", "volvelle.dev/nodes", "volvelle.dev/gpus"
FORGOTTEN = "volvelle.dev/forgotten"
"""Annotation of a Job whose end is journalled."""

_REPORT_SECONDS = 10
"""After a job's own grace: for the report of its end."""

_ENDED = ("Succeeded", "Failed")


@dataclass
class PodAttempt:
    """An attempt in pods. places: the node of each pod; gpus: of each.

    start, stopped, forgotten: orders. over: its end as it was reported. created, deleted: its Job. refused:
    why it cannot start. pending_since: since when it waits for its pods. placed: the pods that were ungated,
    by index: no other one of that index ever is. ended: indices whose end is known from the API. gone: those
    whose pod went without saying that it ended: its processes may run. joined: pods whose agents connected.
    gone_for_good: nothing is left of it.
    """

    key: AttemptKey
    places: tuple[str, ...]
    gpus: int
    start: Start | None = None
    stopped: bool = False
    over: AttemptEnded | None = None
    forgotten: bool = False
    created: bool = False
    deleted: bool = False
    refused: str = ""
    pending_since: float = math.inf
    placed: dict[int, str] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)
    joined: set[str] = field(default_factory=set)
    gone_for_good: bool = False

    @property
    def name(self) -> str:
        """The name of its Job."""
        return job_name(self.key)

    @property
    def pods(self) -> tuple[str, ...]:
        """The names of its pods' agents."""
        return tuple(pod_name(self.name, index) for index in range(len(self.places)))

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Its pods, as the nodes that their agents speak for."""
        return tuple(Node(name, self.gpus) for name in self.pods)

    def order(self) -> Start:
        """Its start, with pods for nodes: GPUs of a container are numbered from 0 on."""
        assert self.start is not None
        grants = tuple(Grant(pod, tuple(range(self.gpus))) for pod in self.pods)
        launch = msgspec.structs.replace(self.start.launch, container="")  # the pod's image
        return msgspec.structs.replace(self.start, grants=grants, launch=launch)

    def end(self, index: int, outcome: Outcome, reason: str, **more: Any) -> TaskEnded:
        """The end of the task of a pod."""
        task = NodeTask(self.key.number, self.key.attempt, index, self.pods, self.key.identity)
        return TaskEnded(task=task, outcome=outcome, reason=reason, **more)

    @classmethod
    def of_start(cls, start: Start) -> "PodAttempt":
        """The attempt of an order."""
        gpus = math.gcd(*(len(grant.gpus) for grant in start.grants))
        places = tuple(grant.node for grant in start.grants for _ in range(len(grant.gpus) // gpus))
        return cls(start.key, places, gpus, start)

    @classmethod
    def of_job(cls, job: Object) -> "PodAttempt":
        """The attempt of a Job from before. Raises LookupError, ValueError for one that is not ours."""
        own = job["metadata"]["annotations"]
        places = msgspec.json.decode(own[_PLACES], type=tuple[str, ...])
        attempt = cls(AttemptKey.parse(own[_ATTEMPT]), places, int(own[_GPUS]), created=True)
        attempt.forgotten = FORGOTTEN in own
        return attempt


def make_job(
    attempt: PodAttempt, template: Object, settings: AgentSettings, resource: str, keep: float
) -> Object:
    """The Job of an attempt.

    template: of its pods. settings: of their agents. resource: of GPUs. keep: seconds after its end.
    """
    assert attempt.start is not None
    launch = attempt.start.launch
    pod = copy.deepcopy(template)
    labels = dict([MANAGED.split("=")])
    metadata, spec = pod.setdefault("metadata", {}), pod["spec"]
    metadata["labels"] = metadata.get("labels", {}) | labels
    container = main_container(spec)
    container["image"] = launch.container or container.get("image", "")
    container["command"] = [*container.get("command", ["python3"]), "-m", "volvelle.live.agent.pod"]
    container.pop("args", None)
    for amounts in ("limits", "requests"):
        given = container.setdefault("resources", {}).setdefault(amounts, {})
        given[resource] = str(attempt.gpus)
    own = msgspec.structs.replace(settings, node=Node(attempt.name, attempt.gpus))
    container["env"] = [
        *container.get("env", ()),
        {"name": SETTINGS, "value": msgspec.json.encode(own).decode()},
        {"name": KEY, "valueFrom": {"secretKeyRef": {"name": attempt.name, "key": "key"}}},
        {"name": END, "value": container.get("terminationMessagePath", "/dev/termination-log")},
        {"name": POD_ADDRESS, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": NODE, "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    ]
    spec["schedulingGates"] = [*spec.get("schedulingGates", ()), {"name": GATE}]
    spec["restartPolicy"] = "Never"
    grace = math.ceil(launch.grace_seconds) + _REPORT_SECONDS
    spec["terminationGracePeriodSeconds"] = max(grace, spec.get("terminationGracePeriodSeconds", 0))
    annotations = {
        _ATTEMPT: str(attempt.key),
        _PLACES: msgspec.json.encode(attempt.places).decode(),
        _GPUS: str(attempt.gpus),
        "volvelle.dev/user": attempt.start.user,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": attempt.name, "labels": labels, "annotations": annotations},
        "spec": {
            "suspend": True,
            "completionMode": "Indexed",
            "completions": len(attempt.places),
            "parallelism": len(attempt.places),
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            "ttlSecondsAfterFinished": math.ceil(keep),
            "template": pod,
        },
    }


def make_secret(job: Object, key: str) -> Object:
    """The secret of a Job's pods, which goes with it."""
    metadata = job["metadata"]
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": metadata["name"], "ownerReferences": [owner]},
        "stringData": {"key": key},
    }


def main_container(spec: Object) -> Object:
    """The container of a pod in which jobs run: ``job``, or the first one."""
    containers = spec["containers"]
    found: Object = next((each for each in containers if each.get("name") == "job"), containers[0])
    return found


def placement(pod: Object, node: Object) -> list[Object]:
    """The patch that gives a gated pod its node, and opens the gate."""
    gates = [gate["name"] for gate in pod["spec"]["schedulingGates"]]
    host = node["metadata"].get("labels", {}).get(HOST, node["metadata"]["name"])
    selector = pod["spec"].get("nodeSelector", {}) | {HOST: host}
    at = f"/spec/schedulingGates/{gates.index(GATE)}"
    return [
        {"op": "test", "path": "/metadata/uid", "value": pod["metadata"]["uid"]},
        {"op": "test", "path": f"{at}/name", "value": GATE},
        {"op": "add", "path": "/spec/nodeSelector", "value": selector},
        {"op": "remove", "path": at},
    ]


def job_of_pod(pod: Object) -> str | None:
    """The Job of a pod; None for one that only looks like ours."""
    metadata = pod["metadata"]
    return metadata["labels"].get(JOB_OF_POD) if INDEX in metadata.get("annotations", {}) else None


def index_of(pod: Object) -> int:
    """The index of a pod in its Job."""
    return int(pod["metadata"]["annotations"][INDEX])


def is_gated(pod: Object) -> bool:
    """Whether a pod was not given its node."""
    return any(gate["name"] == GATE for gate in pod["spec"].get("schedulingGates", ()))


def has_ended(pod: Object) -> bool:
    """Whether no process of a pod runs, for certain: as its node says, or as it never had one.

    Whoever removes a pod by force says that it failed, but not that its containers have terminated.
    """
    states = [each["state"] for each in pod["status"].get("containerStatuses", ())]
    if not pod["spec"].get("nodeName"):
        return "deletionTimestamp" in pod["metadata"] or pod["status"].get("phase") in _ENDED
    return pod["status"].get("phase") in _ENDED and not any("running" in each for each in states)


def end_of(attempt: PodAttempt, index: int, pod: Object) -> TaskEnded:
    """The end of a task whose pod has ended: as its agent left it, or as Kubernetes saw it."""
    status = pod["status"]
    states = [each["state"].get("terminated") for each in status.get("containerStatuses", ())]
    ended: Object = next((each for each in states if each), {})
    with contextlib.suppress(msgspec.MsgspecError):
        told = msgspec.json.decode(ended.get("message") or "", type=TaskEnded)
        if told.task == attempt.end(index, Outcome.LOST, "").task:
            return told
    disrupted = [
        each.get("reason", "")
        for each in status.get("conditions", ())
        if each["type"] == "DisruptionTarget" and each["status"] == "True"
    ]
    code, why = ended.get("exitCode"), status.get("reason") or ended.get("reason") or "it is gone"
    reason = f"its pod ended: {disrupted[0] if disrupted else why}"
    if said := status.get("message") or (code and f"exit code {code}"):
        reason += f" ({said})"
    if why == "OOMKilled":
        return attempt.end(index, Outcome.FAILED, reason, exit_code=code)
    return attempt.end(index, Outcome.LOST, reason, node_failed=bool(disrupted) or not ended)


def why_pending(pods: list[Object]) -> str:
    """Why pods do not run, in the words of Kubernetes."""
    for pod in pods:
        for each in pod["status"].get("containerStatuses", ()):
            if waiting := each["state"].get("waiting"):
                return f"{waiting.get('reason')}: {waiting.get('message', '')}".rstrip(": ")
        for each in pod["status"].get("conditions", ()):
            if each["type"] == "PodScheduled" and each["status"] == "False":
                return f"{each.get('reason')}: {each.get('message', '')}".rstrip(": ")
    return "its pods do not start"


def read_template(api: KubernetesApi, name: str, work: str) -> Object:
    """The PodTemplate ``name``, which has to mount a volume at ``work``. Raises `Problem`."""
    path = f"api/v1/namespaces/{api.namespace}/podtemplates/{name}"
    try:
        with mistakes("read the template of pods"):
            template: Object = api.get(path).get("template", {})
    except Problem as problem:
        if isinstance(problem.__cause__, ApiRefusal) and problem.__cause__.code == 404:
            raise Problem(
                f"there is no PodTemplate {name!r} in the namespace {api.namespace!r}",
                mend="apply one (docs/how-to/run-on-kubernetes.md), or name it with template=",
            ) from None
        raise
    _check(template, name, work)
    return template


def _check(template: Object, name: str, work: str) -> None:
    """Raise `Problem` for a template of pods that no job can run in."""
    spec = template.get("spec") or {}
    if not spec.get("containers"):
        raise Problem(
            f"the PodTemplate {name!r} has no container",
            mend="give it one with an image that has volvelle",
        )
    mounts = [each["mountPath"] for each in main_container(spec).get("volumeMounts", ())]
    if not any(work == mount or work.startswith(f"{mount.rstrip('/')}/") for mount in mounts):
        raise Problem(
            f"the PodTemplate {name!r} mounts nothing at {work}: checkpoints would be lost with their pods",
            mend="mount a volume there that all nodes share, or name another folder with work=",
        )
