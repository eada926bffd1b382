"""The steps of an attempt on Kubernetes, from its Job's creation to the last word on its pods."""

import time
from collections.abc import Callable

from volvelle.kubernetes_api import ApiRefusal, KubernetesApi, Object, Watched
from volvelle.live.messages import Outcome
from volvelle.live.nodes.agents_server import AgentsServer
from volvelle.live.nodes.executors.kubernetes_jobs import (
    FORGOTTEN,
    PodAttempt,
    end_of,
    has_ended,
    index_of,
    is_gated,
    make_secret,
    placement,
    why_pending,
)
from volvelle.live.nodes.node_keys import GivenKeys


class AttemptSteps:
    """Brings attempts on. A step can be repeated: each begins with what the API shows.

    make_job: the Job of an attempt. is_there: whether a node can be used. start_seconds: that pods may wait
    to run until they are placed elsewhere.
    """

    def __init__(
        self,
        api: KubernetesApi,
        server: AgentsServer,
        nodes: Watched,
        given_keys: GivenKeys,
        make_job: Callable[[PodAttempt], Object],
        is_there: Callable[[str], bool],
        start_seconds: float,
    ) -> None:
        self._api, self._server, self._nodes, self._given_keys = api, server, nodes, given_keys
        self._make_job, self._is_there, self._start_seconds = make_job, is_there, start_seconds
        self._jobs_path = f"apis/batch/v1/namespaces/{api.namespace}/jobs"
        self._pods_path = f"api/v1/namespaces/{api.namespace}/pods"
        self._secrets_path = f"api/v1/namespaces/{api.namespace}/secrets"

    def next_step(self, attempt: PodAttempt, job: Object | None, pods: list[Object]) -> None:
        """The next step of an attempt. Raises `ApiRefusal`, OSError."""
        if attempt.over or attempt.forgotten:
            self._clean_up(attempt, job, pods)
            return
        if not attempt.created:
            self._create(attempt)
            return
        self.note_ends(attempt, pods)
        if attempt.refused or (attempt.stopped and not self._all_run(attempt, pods)):
            self._take_back(attempt, job, pods)
        elif job is not None and not attempt.stopped:
            self._place(attempt, job, pods)

    def _create(self, attempt: PodAttempt) -> None:
        missing = [node for node in attempt.places if not self._is_there(node)]
        if missing and not attempt.stopped:
            attempt.refused = f"node {missing[0]} is not there"
        if attempt.refused or attempt.stopped:
            self._end_rest(attempt)
            return
        attempt.pending_since = min(attempt.pending_since, time.monotonic())
        try:
            self._api.create(self._jobs_path, self._make_job(attempt))
        except ApiRefusal as error:
            if error.reason != "AlreadyExists":
                if self._waits_too_long(attempt):  # for a right, or a quota
                    attempt.refused = str(error)
                raise
        attempt.created = True

    def _place(self, attempt: PodAttempt, job: Object, pods: list[Object]) -> None:
        """Resume a suspended job; give each pod its node; refuse what does not start."""
        now = time.monotonic()
        if job["spec"].get("suspend"):
            if attempt.start is None:  # nobody has ordered it since this server began
                return
            secret = make_secret(job, self._given_keys.key(attempt.name))
            try:
                self._api.create(self._secrets_path, secret)
            except ApiRefusal as error:
                if error.reason != "AlreadyExists":
                    raise
            self._api.patch(f"{self._jobs_path}/{attempt.name}", {"spec": {"suspend": False}})
            attempt.pending_since = now
            return
        attempt.pending_since = min(attempt.pending_since, now)
        for pod in pods:
            index, metadata = index_of(pod), pod["metadata"]
            if not is_gated(pod):
                attempt.placed.setdefault(index, metadata["uid"])
            elif index not in attempt.placed and "deletionTimestamp" not in metadata:
                node = self._nodes.named(attempt.places[index])
                if node is not None:
                    path = f"{self._pods_path}/{metadata['name']}"
                    self._api.patch(path, placement(pod, node))
                    attempt.placed[index] = metadata["uid"]
        if self._all_run(attempt, pods) or attempt.joined:
            attempt.pending_since = now
        elif self._waits_too_long(attempt):
            attempt.refused = why_pending(pods)

    def _waits_too_long(self, attempt: PodAttempt) -> bool:
        return time.monotonic() - attempt.pending_since > self._start_seconds

    def _all_run(self, attempt: PodAttempt, pods: list[Object]) -> bool:
        """Whether each task is in a pod that runs or ended, so that its agent has the word."""
        there = {
            index_of(pod) for pod in pods if pod["status"].get("phase") not in (None, "Pending")
        }
        return there | attempt.gone | attempt.ended >= set(range(len(attempt.places)))

    def _take_back(self, attempt: PodAttempt, job: Object | None, pods: list[Object]) -> None:
        """Delete the Job of an attempt that has not started, and say so once no pod can run."""
        if not attempt.deleted:
            self._delete_job(attempt)
        if job is not None:
            return
        alive = {index_of(pod) for pod in pods if not has_ended(pod)}
        if not alive and not attempt.gone:
            self._end_rest(attempt)

    def _delete_job(self, attempt: PodAttempt) -> None:
        self._api.delete(f"{self._jobs_path}/{attempt.name}", propagationPolicy="Background")
        attempt.deleted = True

    def _end_rest(self, attempt: PodAttempt) -> None:
        """No pod of an attempt runs or will: end the tasks that have not."""
        for index, pod in enumerate(attempt.pods):
            if index in attempt.ended:
                continue
            attempt.ended.add(index)
            ended = attempt.end(index, Outcome.STOPPED, "")
            if attempt.refused and not attempt.stopped:
                refused = f"could not start: {attempt.refused}"
                ended = attempt.end(index, Outcome.FAILED, refused, node_failed=True)
            self._server.task_ended(pod, ended)

    def note_ends(self, attempt: PodAttempt, pods: list[Object]) -> None:
        """Pass on the ends that only the API knows: of pods whose agents are gone."""
        for pod in pods:
            index = index_of(pod)
            placed = attempt.placed.get(index, pod["metadata"]["uid"])
            if placed != pod["metadata"]["uid"] or index in attempt.ended or is_gated(pod):
                continue
            if has_ended(pod) and pod["spec"].get("nodeName"):
                attempt.ended.add(index)
                self._server.task_ended(attempt.pods[index], end_of(attempt, index, pod))

    def _clean_up(self, attempt: PodAttempt, job: Object | None, pods: list[Object]) -> None:
        """Its end is reported: let its agents end, so that its GPUs are free.

        Until that is journalled, its Job keeps what the agents said last.
        """
        if (
            attempt.forgotten
            and job is not None
            and FORGOTTEN not in job["metadata"]["annotations"]
        ):
            mark = {"metadata": {"annotations": {FORGOTTEN: "true"}}}
            self._api.patch(f"{self._jobs_path}/{attempt.name}", mark)
        for pod in attempt.pods:
            self._server.dismiss(pod)
        alive = [pod for pod in pods if not has_ended(pod)]
        never_ran = not pods or any(pod["status"].get("phase") == "Pending" for pod in alive)
        unused = attempt.forgotten or not attempt.placed
        if job is not None and never_ran and unused and not attempt.deleted:
            self._delete_job(attempt)
        if attempt.forgotten and not alive:
            for pod in attempt.pods:
                self._server.remove_node(pod)
            attempt.gone_for_good = True
