"""The names by which an executor and the pods that it starts know each other."""

from volvelle.live.messages import AttemptKey

SETTINGS, KEY, END = "VOLVELLE_POD_SETTINGS", "VOLVELLE_POD_KEY", "VOLVELLE_POD_END"
POD_ADDRESS, NODE = "VOLVELLE_POD_ADDRESS", "VOLVELLE_POD_NODE"
"""Variables of a pod's environment: its agent's settings, the secret of its attempt, the file of its end
(its termination message), its address and its node."""


_PREFIX = "volvelle-"


def job_name(key: AttemptKey) -> str:
    """The name of the Job of an attempt."""
    return f"{_PREFIX}{key}"


def attempt_of(job: str) -> str:
    """The attempt of a Job, as text."""
    return job.removeprefix(_PREFIX)


def pod_name(job: str, index: int) -> str:
    """The name that the agent of a pod has, whatever Kubernetes calls the pod."""
    return f"{job}.{index}"


def job_of(pod: str) -> str:
    """The name of the Job of a pod."""
    return pod.rpartition(".")[0]
