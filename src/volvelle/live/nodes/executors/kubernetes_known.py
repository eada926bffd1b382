"""The attempts that an executor on Kubernetes knows, and which of their pods is on which node."""

import contextlib
from collections.abc import Iterable, Iterator

import msgspec

from volvelle.kubernetes_api import Object
from volvelle.live.agent.pod_names import job_of
from volvelle.live.messages import AttemptKey, Start
from volvelle.live.nodes.coordinated_attempt import LatestAttempts
from volvelle.live.nodes.executors.kubernetes_jobs import PodAttempt


class KnownAttempts:
    """The attempts that are found and added; those of ``placed`` were ordered, so they are not new.

    Iterates over the attempts as they are when that begins: orders add some meanwhile.
    """

    def __init__(self, placed: Iterable[AttemptKey]) -> None:
        self._attempts: dict[AttemptKey, PodAttempt] = {}
        self._of_jobs: dict[str, PodAttempt] = {}
        self._ordered = LatestAttempts()
        for key in placed:
            self.note(key)

    def __iter__(self) -> Iterator[PodAttempt]:
        return iter(list(self._attempts.values()))

    def get(self, key: AttemptKey) -> PodAttempt | None:
        """The attempt of a key."""
        return self._attempts.get(key)

    def of_job(self, name: str) -> PodAttempt | None:
        """The attempt of a Job."""
        return self._of_jobs.get(name)

    def find(self, jobs: Iterable[Object]) -> None:
        """Know the attempts of Jobs from before."""
        for job in jobs:
            with contextlib.suppress(LookupError, ValueError, msgspec.MsgspecError):
                self.add(PodAttempt.of_job(job))

    def add(self, attempt: PodAttempt) -> None:
        """Know an attempt."""
        self.note(attempt.key)
        self._attempts[attempt.key] = self._of_jobs[attempt.name] = attempt

    def note(self, key: AttemptKey) -> None:
        """Know that an attempt was ordered: neither it nor an earlier one is new any more."""
        self._ordered.note(key)

    def is_new(self, start: Start) -> bool:
        """Whether neither an attempt nor a later one of its job was ordered before."""
        return not self._ordered.reaches(start.key)

    def remove(self, attempt: PodAttempt) -> None:
        """Forget an attempt of which nothing is left."""
        self._attempts.pop(attempt.key, None)
        self._of_jobs.pop(attempt.name, None)

    # ------------------------------------------------------------------ pods and nodes

    def place_of(self, pod: str) -> str:
        """The node of a pod."""
        attempt = self.of_job(job_of(pod))
        return dict(zip(attempt.pods, attempt.places, strict=True))[pod] if attempt else pod

    def pods_of(self, key: AttemptKey, nodes: tuple[str, ...]) -> tuple[str, ...]:
        """The pods of an attempt that was placed on ``nodes``."""
        return (self.get(key) or PodAttempt(key, nodes, 1)).pods

    def pods_on(self, node: str) -> Iterator[str]:
        """All pods on a node."""
        for attempt in self:
            for pod, place in zip(attempt.pods, attempt.places, strict=True):
                if place == node:
                    yield pod

    def keys_on(self, node: str) -> tuple[AttemptKey, ...]:
        """The attempts on a node that are not forgotten."""
        return tuple(
            attempt.key
            for attempt in self
            if node in attempt.places and attempt.created and not attempt.forgotten
        )
