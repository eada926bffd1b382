"""The nodes of a Kubernetes cluster: each attempt is a Job, whose pods' agents dial in.

The scheduler chooses nodes and how many GPUs of each; which ones they are, kube-scheduler and the device
plugin decide. An end is what a pod's agent says, or what its node says of its containers. A pod that was
removed by force may run on, so its end is known only when its lease is over or its node is gone: its Node
object deleted, or tainted out-of-service.
"""

import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec
from pydantic import Field

from volvelle.kubernetes_api import ApiRefusal, KubernetesApi, Object, Watched, mistakes
from volvelle.live.agent.folders import LOG_RETENTION_SECONDS, AgentSettings
from volvelle.live.agent.pod_names import job_of
from volvelle.live.messages import (
    AttemptEnded,
    EndsTold,
    Forget,
    NodeCondition,
    NodeJoined,
    NodeLost,
    Order,
    Outcome,
    Report,
    Start,
    Stop,
    TellEnds,
    UnknownEnded,
)
from volvelle.live.nodes.agents_server import AgentsServer
from volvelle.live.nodes.coordinated_attempt import UNHEARD_OF, attempt_end
from volvelle.live.nodes.current_agents import CurrentAgents
from volvelle.live.nodes.executor import ExecutorContext, OpenExecutor, executors
from volvelle.live.nodes.executors.dial_in import DialIn, raise_descriptor_limit
from volvelle.live.nodes.executors.kubernetes_attempts import AttemptSteps
from volvelle.live.nodes.executors.kubernetes_jobs import (
    MANAGED,
    PodAttempt,
    has_ended,
    index_of,
    is_gated,
    job_of_pod,
    make_job,
    read_template,
)
from volvelle.live.nodes.executors.kubernetes_known import KnownAttempts
from volvelle.live.nodes.executors.kubernetes_lease import WriterLease
from volvelle.live.nodes.executors.kubernetes_logs import PodKeys, PodLogs
from volvelle.live.nodes.executors.kubernetes_nodes import NodeStates, list_nodes
from volvelle.live.nodes.node_logs import NodeLogs
from volvelle.model.cluster import Cluster, Level
from volvelle.model.node import Node
from volvelle.model.problems import Problem
from volvelle.model.validation import Seconds

_LINGER_SECONDS = 600.0
"""An agent without a task waits so long for a server; the end of the task it had is in its pod's status."""

_RETRY_SECONDS = 2.0
_REPEAT_SECONDS = 5.0
"""Between reports of an end that is not journalled."""


@executors.register
class OnKubernetes(DialIn):
    """The nodes of a Kubernetes cluster: each run of a job is a Job, whose pods dial in."""

    name: ClassVar[str] = "kubernetes"
    joining: ClassVar[str] = "see `kubectl get nodes`"
    trust: ClassVar[str] = (
        "Jobs run in pods of the operator's template, in an image that their user chooses: "
        "whoever may submit has what that template mounts."
    )

    host: str = Field("0.0.0.0", description="address to listen at for pods")
    address: str = Field(
        "", description="where pods reach this server, as volvelle-agents.default.svc:7475"
    )
    template: str = Field(
        "volvelle", description="PodTemplate of the namespace, of which the pods of jobs are made"
    )
    work: str = Field(
        "/work", description="folder of jobs in their containers, on a volume that nodes share"
    )
    resource: str = Field("nvidia.com/gpu", description="the resource that GPUs are")
    nodes: str = Field("", description="label selector of the nodes that are used; default: all")
    levels: str = Field(
        "",
        description="labels of nodes that are levels, the largest first, parted by +: block+rack",
    )
    kubeconfig: str = Field("", description="of the API server; default: as kubectl finds it")
    context: str = Field("", description="context of the kubeconfig; default: the current one")
    authority: str = Field(
        "", description="file in the containers of the certificates that pods trust, for TLS"
    )
    start_seconds: float = Field(
        300.0, gt=0, description="how long pods may wait to run until they are placed elsewhere"
    )
    poll_seconds: float = Field(5.0, gt=0, description="how often all is looked at again")
    progress_seconds: float = Field(1.0, gt=0, description="how often jobs' progress is reported")
    keep: Annotated[Seconds, Field(ge=1)] = Field(
        LOG_RETENTION_SECONDS, description="how long the Job of a run, and its log, are kept"
    )

    def discover_cluster(self) -> Cluster:
        """The nodes with GPUs. Raises `Problem`."""
        api = self._connect()
        levels = [name for name in self.levels.split("+") if name]
        nodes = list_nodes(api, self.nodes, self.resource, levels)
        api.close()
        return Cluster(nodes, levels=tuple(map(Level, levels)))

    def joining_command(self, cluster: Cluster, token: Path) -> str:
        """None: pods bring their agents."""
        return ""

    def open(self, context: ExecutorContext, report: Callable[[Report], None]) -> OpenExecutor:
        """Take the lease, find what runs, and listen for pods. Raises `Problem`."""
        if not self.address:
            raise Problem(
                "executor 'kubernetes': pods do not know where this server is",
                mend="say it with address=HOST:PORT, of a Service or of this machine",
                usage=True,
            )
        raise_descriptor_limit(context.cluster.gpus)  # a pod has one at least
        return _KubernetesJobs(self, self._connect(), context, report)

    def _connect(self) -> KubernetesApi:
        return KubernetesApi(self.kubeconfig, self.context)


class _KubernetesJobs:
    """The open executor: a thread that brings the API to what was ordered, and reports what it says."""

    def __init__(
        self,
        executor: OnKubernetes,
        api: KubernetesApi,
        context: ExecutorContext,
        report: Callable[[Report], None],
    ) -> None:
        self._executor, self._api, self._context, self._report = executor, api, context, report
        self._template = read_template(api, executor.template, executor.work)
        self._attempts = KnownAttempts(context.placed)
        self._lock = threading.Lock()
        """Of what orders change; never held during a request."""
        self._wake, self._closing = threading.Event(), threading.Event()
        self._said, self._repeat_at = "", 0.0
        pods_path = f"api/v1/namespaces/{api.namespace}/pods"
        holder = context.folder / "kubernetes-holder"
        self._lease = WriterLease(api, "volvelle", holder, context.position)
        self._nodes = Watched(api, "api/v1/nodes", self._wake.set, labels=executor.nodes)
        self._jobs = Watched(
            api, f"apis/batch/v1/namespaces/{api.namespace}/jobs", self._wake.set, labels=MANAGED
        )
        self._pods = Watched(api, pods_path, self._wake.set, self._pod_gone, MANAGED)
        with mistakes("hold the Lease 'volvelle'"):
            self._lease.acquire()
        for watched, what in ((self._jobs, "jobs"), (self._pods, "pods"), (self._nodes, "nodes")):
            with mistakes(f"list and watch {what}"):
                watched.begin()
        self._attempts.find(self._jobs.objects.values())
        self._server = AgentsServer(
            (node for attempt in self._attempts for node in attempt.nodes),
            PodKeys(context.given_keys),
            self._on_report,
            host=executor.host,
            port=executor.port,
            lease_seconds=executor.lease_seconds,
            current_agents=CurrentAgents(context.folder / "current-agents"),
            tls=executor.served_tls(),
            position=context.position,
            placed={key: self._attempts.pods_of(key, on) for key, on in context.placed.items()},
            uploads=context.uploads,
        )
        self._states = NodeStates(
            context,
            executor.resource,
            report,
            self._attempts.keys_on,
            self._lose_pods,
            self._lease.known,
        )
        self._steps = AttemptSteps(
            api,
            self._server,
            self._nodes,
            context.given_keys,
            self._make_job,
            self._states.is_there,
            executor.start_seconds,
        )
        self._logs = PodLogs(api, self._server, self._pods, pods_path)
        self._thread = threading.Thread(target=self._run, name="kubernetes", daemon=True)
        self._thread.start()

    @property
    def logs(self) -> NodeLogs:
        """The logs of pods."""
        return self._logs

    def close(self) -> None:
        """Stop. Jobs go on."""
        self._closing.set()
        self._wake.set()
        self._thread.join()
        for watched in (self._nodes, self._jobs, self._pods):
            watched.close()
        self._logs.close()
        self._server.close()
        self._api.close()

    # ------------------------------------------------------------------ orders

    def send(self, order: Order) -> None:
        """Carry ``order`` out."""
        if isinstance(order, TellEnds):  # pods keep no ends, and no node said that it does
            self._report(EndsTold(order.node))
            return
        with self._lock:
            known = self._attempts.get(order.key)
            match order:
                case Start():
                    self._start(order, known)
                    return
                case Stop() if known is None:
                    self._attempts.note(order.key)
                    self._report(attempt_end(order.key, Outcome.LOST, UNHEARD_OF))
                    return
                case Stop() if known is not None:
                    known.stopped = True
                case Forget() if known is not None:
                    known.forgotten = True
            self._server.send(order)
        self._wake.set()

    def _start(self, order: Start, known: PodAttempt | None) -> None:
        if known is None:
            if not self._attempts.is_new(order):
                return
            known = PodAttempt.of_start(order)
            self._attempts.add(known)
            for node in known.nodes:
                self._server.add_node(node)
        known.start = order
        self._server.send(known.order())
        self._wake.set()

    # ------------------------------------------------------------------ reports

    def _on_report(self, report: Report) -> None:
        """Pass on what the pods' agents report, with nodes for pods."""
        match report:
            case NodeJoined():
                self._pod_joined(report.node.name)
            case NodeLost() | NodeCondition() | EndsTold():
                pass
            case AttemptEnded():
                if (attempt := self._attempts.get(report.key)) is not None:
                    for pod, node in zip(attempt.pods, attempt.places, strict=True):
                        named = report.reason.replace(pod, node)
                        report = msgspec.structs.replace(report, reason=named)
                    attempt.over = report
                self._report(report)
                self._wake.set()
            case UnknownEnded():
                nodes = tuple(map(self._attempts.place_of, report.nodes))
                node = self._attempts.place_of(report.node)
                self._report(msgspec.structs.replace(report, node=node, nodes=nodes))
            case _:
                self._report(report)

    def _pod_joined(self, pod: str) -> None:
        """An agent has connected; one that has come back may have lost orders, as a node that joins."""
        if (attempt := self._attempts.of_job(job_of(pod))) is not None:
            if pod in attempt.joined:
                self._states.report_joined(self._attempts.place_of(pod))
            attempt.joined.add(pod)
            self._wake.set()

    def _lose_pods(self, name: str, reason: str) -> None:
        """A node is lost for certain, and all pods on it."""
        for pod in self._attempts.pods_on(name):
            self._server.node_lost(pod, reason)

    # ------------------------------------------------------------------ the thread

    def _run(self) -> None:
        while True:
            last = self._closing.is_set()  # what was ordered before is done yet
            self._wake.clear()
            pause = self._executor.poll_seconds
            try:
                if self._lease.renew():
                    self._step()
                    self._say("")
                else:
                    self._say(
                        "another server holds the Lease 'volvelle': nothing is done from here"
                    )
            except Exception as error:  # jobs are looked after in the next step, too
                self._say(_sentence(error))
                pause = min(pause, _RETRY_SECONDS)
            if last:
                return
            self._wake.wait(pause)

    def _say(self, problem: str) -> None:
        if problem and problem != self._said:
            sys.stderr.write(f"warning: {problem}\n")
        self._said = problem

    def _step(self) -> None:
        """Bring everything on by one step; the rest is done in the next one. Raises the last error met.

        One attempt's error keeps no other from its step, but for an API that does not answer. A step of many
        attempts may outlast the lease, so that is renewed within; without it nothing more is done.
        """
        failed: Exception | None = None
        try:
            self._states.look({name: node for (_, name), node in self._nodes.objects.items()})
        except Exception as error:
            failed = error
        pods: dict[str, list[Object]] = {}
        for pod in self._pods.objects.values():
            if (job := job_of_pod(pod)) is not None:
                pods.setdefault(job, []).append(pod)
        if repeats := time.monotonic() >= self._repeat_at:
            self._repeat_at = time.monotonic() + _REPEAT_SECONDS
        for attempt in self._attempts:
            if not self._lease.renew():
                return
            try:
                seen = self._jobs.named(attempt.name, self._api.namespace)
                self._steps.next_step(attempt, seen, pods.get(attempt.name, []))
            except OSError:
                raise
            except Exception as error:
                changed = isinstance(error, ApiRefusal) and error.code in (404, 409)
                failed = failed if changed else error  # what has changed is seen in the next step
            if repeats and attempt.over is not None and not attempt.forgotten:
                self._report(attempt.over)
            if attempt.gone_for_good:
                self._attempts.remove(attempt)
        if failed is not None:
            raise failed

    def _make_job(self, attempt: PodAttempt) -> Object:
        settings = AgentSettings(
            node=Node(attempt.name, attempt.gpus),
            connect=self._executor.address,
            key="",
            work=self._executor.work,
            progress_seconds=self._executor.progress_seconds,
            linger_seconds=_LINGER_SECONDS,
            umask=self._context.umask,
            authority=self._executor.authority,
        )
        return make_job(
            attempt, self._template, settings, self._executor.resource, self._executor.keep
        )

    def _pod_gone(self, pod: Object, last: bool) -> None:
        """A pod's object was deleted: its end is known, or its processes may run on."""
        attempt = self._attempts.of_job(job_of_pod(pod) or "")
        if attempt is None or is_gated(pod):
            return
        never_placed = last and not pod["spec"].get("nodeName")
        if has_ended(pod):
            self._steps.note_ends(attempt, [pod])
        elif not never_placed and attempt.placed.get(index_of(pod)) == pod["metadata"]["uid"]:
            attempt.gone.add(index_of(pod))


def _sentence(error: Exception) -> str:
    """An answer of the API in its words; of anything else its place, too, for it is not expected."""
    if isinstance(error, (ApiRefusal, OSError)):
        return str(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(last.filename).name}, line {last.lineno}"
    return (
        f"an object of the Kubernetes API is not as expected, or this is a mistake of Volvelle's: "
        f"{type(error).__name__}: {error} ({where})"
    )
