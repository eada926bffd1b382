"""Workloads that wait or hold quota, as the cycle sees them."""

from collections.abc import Mapping
from dataclasses import dataclass

from volvelle.incumbents.kueue.amounts import Amounts, amount, seconds
from volvelle.incumbents.kueue.objects import PriorityClass
from volvelle.incumbents.kueue.pods import PodSet, Workload
from volvelle.incumbents.kueue.quota import Holder


@dataclass(frozen=True, slots=True)
class Pending:
    """A workload that waits for quota."""

    key: str
    """Namespace and name."""
    uid: str
    queue: str
    """The ClusterQueue."""
    pod_sets: tuple[PodSet, ...]
    priority: int = 0
    queued: float = 0.0
    """Seconds; the moment by which queues order it."""
    preemptible: bool = True
    alike: str = ""
    """The same for workloads of which none fits where one does not; empty: unlike all others."""
    gated: bool = False
    """Whether it may preempt nothing for now."""
    fault: str = ""
    """Why its queue cannot admit it whatever is free: a condition's reason."""
    foreign: bool = False
    """Whether its namespace is none of those that the queue selects."""

    @property
    def shrinks(self) -> bool:
        """Whether it may be admitted with fewer pods."""
        return any(one.min_count is not None for one in self.pod_sets)


def priority_of(workload: Workload, classes: Mapping[str, PriorityClass]) -> int:
    """The priority of a workload: its own, or that of its class."""
    if workload.priority is not None:
        return workload.priority
    name = workload.priority_class_ref.get("name") or workload.priority_class_name
    return classes[name].value if name in classes else 0


def queued_at(workload: Workload) -> float:
    """The moment by which queues order a workload: its creation, or an eviction that was not preemption."""
    evicted = workload.condition("Evicted")
    if evicted is not None and evicted.reason in ("PodsReadyTimeout", "AdmissionCheck"):
        return seconds(evicted.last_transition_time)
    return seconds(workload.creation_timestamp)


def waits(workload: Workload) -> bool:
    """Whether a workload waits for quota."""
    over = workload.condition("Finished") is not None or not workload.active
    return not over and workload.condition("QuotaReserved") is None


def pending(
    workload: Workload, queue: str, classes: Mapping[str, PriorityClass], *, foreign: bool = False
) -> Pending:
    """A workload that waits in a ClusterQueue."""
    pods = [one.template.spec for one in workload.pod_sets]
    containers = [c for pod in pods for c in (*pod.init_containers, *pod.containers)]
    wrong = foreign or any(one.resources.excessive for one in containers)
    fault = "Misconfigured" if wrong else ""
    if any(one.state in ("Retry", "Rejected") for one in workload.admission_checks):
        fault = "PendingEvaluation"
    return Pending(
        workload.key,
        workload.uid,
        queue,
        tuple(workload.pod_sets),
        priority_of(workload, classes),
        queued_at(workload),
        gated=bool(workload.preemption_gates),
        fault=fault,
        foreign=foreign,
    )


def holder(workload: Workload, classes: Mapping[str, PriorityClass], now: float) -> Holder | None:
    """A workload that holds quota; None where it holds none."""
    admission, reserved = workload.admission, workload.condition("QuotaReserved")
    if admission is None or reserved is None or workload.condition("Finished") is not None:
        return None
    over = {one.name: one.count for one in workload.reclaimable_pods}
    usage: Amounts = {}
    for one in admission.pod_set_assignments:
        count = max(one.count, 1)
        left = max(count - over.get(one.name, 0), 0)
        for resource, flavor in one.flavors.items():
            whole = amount(resource, one.resource_usage.get(resource, 0))
            usage[flavor, resource] = usage.get((flavor, resource), 0) + whole * left // count
    return Holder(
        workload.key,
        workload.uid,
        admission.cluster_queue,
        usage,
        priority_of(workload, classes),
        queued_at(workload),
        seconds(reserved.last_transition_time) or now,
        workload.condition("Evicted") is not None,
    )
