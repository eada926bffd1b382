"""The keys of pods' agents, and the logs of pods: of their agents, then of the API."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from volvelle.kubernetes_api import ApiRefusal, KubernetesApi, Object, Watched
from volvelle.live.agent.node_key import derived_key, verifier_of
from volvelle.live.agent.pod_names import attempt_of, job_of, pod_name
from volvelle.live.messages import AttemptKey, is_attempt
from volvelle.live.nodes.agents_server import AgentsServer
from volvelle.live.nodes.executors.kubernetes_jobs import index_of, job_of_pod
from volvelle.live.nodes.node_keys import GivenKeys
from volvelle.live.nodes.node_logs import CHUNK_BYTES, NodeUnreachableError

T = TypeVar("T")


class PodKeys:
    """Each attempt has a secret, of which its pods' keys are made: a pod speaks for its attempt alone."""

    join_token = ""

    def __init__(self, given: GivenKeys) -> None:
        self._given = given

    def of(self, node: str) -> tuple[str, ...]:
        """The verifier of the key of a pod."""
        return (verifier_of(derived_key(self._given.key(job_of(node)), node)),)

    def join(self, node: str, verifier: str) -> bool:
        """Every pod has its key already."""
        return False

    def invalid(self, used: Mapping[str, str]) -> list[str]:
        """They stay valid."""
        return []


class PodLogs:
    """The logs of jobs in pods, by node: of the agent, and after its end of the API while the Job is kept.

    Of several pods of an attempt on one node the first is read. Implements `NodeLogs`.
    """

    def __init__(self, api: KubernetesApi, server: AgentsServer, pods: Watched, path: str) -> None:
        self._api, self._server, self._pods, self._path = api, server, pods, path
        self._pool = ThreadPoolExecutor(2, "logs of pods")
        self._last: tuple[str, bytes] = ("", b"")
        """The log that was read last of the API, by the pod's uid."""

    def close(self) -> None:
        """Read nothing more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def log_sizes(self, node: str, number: int, job: str) -> Future[dict[str, int]]:
        """See `NodeLogs`."""
        return self._submit(lambda: self._sizes(node, number, job))

    def absence(self, node: str) -> str:
        """Empty: the API says whether a node is there."""
        return ""

    def read_log(self, node: str, attempt: str, offset: int) -> Future[bytes]:
        """See `NodeLogs`."""
        return self._submit(lambda: self._read(node, attempt, offset))

    def _submit(self, work: Callable[[], T]) -> Future[T]:
        try:
            return self._pool.submit(work)
        except RuntimeError:  # it is closed
            failed: Future[T] = Future()
            failed.set_exception(NodeUnreachableError("the server ends; the logs are in the pods"))
            return failed

    def _sizes(self, node: str, number: int, job: str) -> dict[str, int]:
        found: dict[str, int] = {}
        for attempt, pod in self._pods_on(node).items():
            key = AttemptKey.parse(attempt)
            if (key.number, key.job) == (number, job):
                try:
                    asked = self._server.logs.log_sizes(_agent_of(pod), number, job)
                    found |= asked.result()
                except NodeUnreachableError:
                    found[attempt] = len(self._text(pod))
        return found

    def _read(self, node: str, attempt: str, offset: int) -> bytes:
        pod = self._pods_on(node).get(attempt)
        if pod is None:
            return b""
        try:
            return self._server.logs.read_log(_agent_of(pod), attempt, offset).result()
        except NodeUnreachableError:
            return self._text(pod)[offset : offset + CHUNK_BYTES]

    def _pods_on(self, node: str) -> dict[str, Object]:
        """The first pod of each attempt on a node, by the attempt."""
        found: dict[str, Object] = {}
        ours = [pod for pod in self._pods.objects.values() if job_of_pod(pod)]
        for pod in sorted(ours, key=index_of):
            attempt = attempt_of(job_of_pod(pod) or "")
            if pod["spec"].get("nodeName") == node and is_attempt(attempt):
                found.setdefault(attempt, pod)
        return found

    def _text(self, pod: Object) -> bytes:
        """The log that Kubernetes keeps of a pod."""
        uid, ended = pod["metadata"]["uid"], pod["status"].get("phase") in ("Succeeded", "Failed")
        if ended and self._last[0] == uid:
            return self._last[1]
        try:
            text = self._api.text(f"{self._path}/{pod['metadata']['name']}/log")
        except ApiRefusal:  # its container has not started, or it has gone
            return b""
        except OSError as error:
            raise NodeUnreachableError(f"the log of a pod cannot be read: {error}") from None
        if ended:  # else it may grow
            self._last = uid, text
        return text


def _agent_of(pod: Object) -> str:
    return pod_name(job_of_pod(pod) or "", index_of(pod))
