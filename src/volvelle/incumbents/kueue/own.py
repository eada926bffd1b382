"""The workloads of an attached cluster, for the policy: by their keys the core knows jobs."""

from dataclasses import dataclass, field, replace

from msgspec.json import encode

from volvelle.incumbents.kueue.amounts import added, amount, is_gpu, seconds
from volvelle.incumbents.kueue.pods import Workload
from volvelle.incumbents.kueue.quota import Holder
from volvelle.incumbents.kueue.site import Site
from volvelle.incumbents.kueue.topology import Places, Tree
from volvelle.incumbents.kueue.workloads import Pending, holder, pending


@dataclass(frozen=True)
class Own:
    """The workloads of a snapshot as Kueue's cycle sees them, for the policy.

    places: the nodes of flavours with a topology; None where there are none.
    """

    site: Site
    places: Places | None = None
    by_key: dict[str, tuple[Pending, Holder | None, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, site: Site, now: float) -> "Own":
        """The workloads that wait in one of a site's queues, or hold quota of one."""
        own = cls(site, _places_of(site))
        states = {one.key: one.requeue_state for one in site.workloads}
        for one in site.pending():
            own.by_key[one.key] = _alike(one), None, seconds(states[one.key].requeue_at)
        for workload in site.workloads:
            held = holder(workload, site.classes, now)
            if held is not None and held.queue in site.queues:
                if own.places is not None:
                    held = replace(held, nodes=_assigned(workload, own.places))
                    own.places.take(held.nodes)
                waiting = _alike(pending(workload, held.queue, site.classes))
                own.by_key[workload.key] = waiting, held, 0.0
        return own

    def workload(self, key: str) -> tuple[Pending, Holder | None, float]:
        """A workload, the quota that it holds, and the moment before which it does not wait again."""
        return self.by_key[key]


def _alike(one: Pending) -> Pending:
    """A workload that says of which others it is alike: where one of them does not fit, none does."""
    if one.fault or one.gated:
        return one
    return replace(one, alike=f"{one.priority} {encode(one.pod_sets).decode()}")


def _places_of(site: Site) -> Places | None:
    """The nodes of flavours with a topology, all of one kind; None where no such node is known."""
    trees = {}
    for flavor in site.flavors.values():
        if (topology := site.topologies.get(flavor.topology_name)) is not None:
            labels = {node.name: node.labels for node in site.nodes_of(flavor)}
            trees[flavor.name] = Tree.of(topology, labels)
    if not any(tree.nodes for tree in trees.values()):
        return None
    gpus = {name: 0 if node.unschedulable else node.gpus for name, node in site.nodes.items()}
    return Places(trees, dict.fromkeys(gpus, 0), gpus)


def _assigned(workload: Workload, places: Places) -> dict[str, int]:
    """GPUs in thousandths by node, as Kueue assigned the pods of a workload."""
    found: dict[str, int] = {}
    assigned = workload.admission.pod_set_assignments if workload.admission is not None else []
    for one in assigned:
        for resource, flavor in one.flavors.items():
            if one.topology_assignment is not None and is_gpu(resource):
                whole = amount(resource, one.resource_usage.get(resource, 0))
                size = whole // max(one.count, 1)
                found = added(found, places.assigned(flavor, size, one.topology_assignment))
    return found
