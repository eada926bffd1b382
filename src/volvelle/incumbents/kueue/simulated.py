"""A simulated cluster and its jobs as Kueue sees them: queues, flavours with their nodes, workloads."""

from collections.abc import Iterable, Sequence

from volvelle.core import resources as core
from volvelle.incumbents.kueue.amounts import Quantity, is_gpu
from volvelle.incumbents.kueue.plain import GPU
from volvelle.incumbents.kueue.pods import (
    Container,
    PodSet,
    PodSpec,
    Resources,
    Template,
    TopologyRequest,
)
from volvelle.incumbents.kueue.site import Site
from volvelle.incumbents.kueue.topology import Places, Tree
from volvelle.incumbents.kueue.workloads import Pending
from volvelle.model.job import JobSpec
from volvelle.model.node import NodeKind
from volvelle.model.problems import Problem, nearest


def workload_of(
    number: int,
    spec: JobSpec,
    declared: int,
    site: Site,
    topology: tuple[TopologyRequest, int] | int = (TopologyRequest(), 0),
) -> Pending:
    """The workload of a job: its queue or pool names one of the site's queues, its QOS a priority class.

    Of a job that names none of the site the first queue counts. An elastic job is pods of one GPU, which may
    be fewer than it asks for; another one is a pod for each node that it asks for. topology: the level that
    pods require or prefer, and the GPUs of the largest node, which are a pod of a job that is larger. Where
    the site is not described, the kinds of nodes on which the job may run, as bits: pools are queues there,
    and jobs of as many GPUs are alike on the same kinds.
    """
    plainly = isinstance(topology, int)
    request, largest = (TopologyRequest(), 0) if isinstance(topology, int) else topology
    names = filter(None, (spec.pool,) if plainly else (*spec.queues, spec.pool))
    found = next((there for name in names if (there := site.queue_of(name))), None)
    queue, namespace = found or (next(iter(site.queues.values())), "")
    covered = [name for group in queue.resource_groups for name in group.covered_resources]
    gpu = next(filter(is_gpu, covered), GPU)
    shrinks = spec.least_gpus < spec.gpus
    evenly = not plainly and spec.nodes > 0 and spec.gpus % spec.nodes == 0.0
    pods = spec.gpus if shrinks else spec.nodes if evenly else 1
    if (request.required or request.preferred) and spec.gpus / pods > largest:
        pods = spec.gpus / largest if spec.gpus % largest == 0.0 else spec.gpus
    asked = {gpu: spec.gpus, "cpu": spec.cpus, "memory": spec.memory_gb * 1024.0**3}
    requests: dict[str, Quantity] = {
        name: one / pods for name, one in asked.items() if name == gpu or name in covered
    }
    container = Container(resources=Resources(requests=requests))
    least = int(spec.least_gpus) if shrinks else None
    template = Template(spec=PodSpec(containers=[container]))
    base = site.classes[spec.qos].value if spec.qos in site.classes else 0
    places = topology if plainly else f"{spec.gpu_types} {spec.constraints}"
    foreign = bool(namespace) and not site.selects(queue, namespace)
    return Pending(
        key=str(number),
        uid=f"{number:012}",
        queue=queue.name,
        pod_sets=(
            PodSet(count=int(pods), min_count=least, template=template, topology_request=request),
        ),
        priority=base + declared,
        queued=spec.submit_time,
        preemptible=spec.preemptible,
        alike=f"{requests} {pods} {least} {base + declared} {places}",
        fault="Misconfigured" if foreign else "",
        foreign=foreign,
    )


def listed(names: Iterable[str], most: int = 4) -> str:
    """The first of some names, and how many more there are."""
    ordered = sorted(names)
    more = f" and {len(ordered) - most} more" if len(ordered) > most else ""
    return ", ".join(ordered[:most]) + more


def kinds_of(site: Site, kinds: Sequence[NodeKind], where: str) -> dict[str, int]:
    """By flavour, the kinds of nodes with its labels, as bits; without labels of its own, of its GPU type.

    Raises `Problem` where no flavour has nodes.
    """
    found = {}
    for flavor in site.flavors.values():
        labels = {f"{name}={value}" for name, value in flavor.node_labels.items()}
        there = [k for k, kind in enumerate(kinds) if labels <= set(kind.labels)]
        if not labels or not there:
            there = [k for k, kind in enumerate(kinds) if kind.gpu_type == flavor.name] or there
        found[flavor.name] = sum(1 << k for k in there)
    if not any(found.values()):
        raise Problem(
            f"no node of the simulated cluster is of a flavour of {where}",
            mend="write its site.toml with volvelle site import kueue, and give --cluster site.toml",
        )
    return found


def places_of(site: Site, level: str, resources: core.Resources) -> Places:
    """The nodes of the flavours of a site's queues, by its topologies. Raises `Problem`."""
    trees = {}
    names = [level.name for level in resources.levels]
    labels = {
        one.name: {name: value for name, value in zip(names, one.domain, strict=False) if value}
        for one in resources.nodes
    }
    for name in sorted({name for queue in site.queues.values() for name in queue.flavors}):
        topology = site.topologies.get(
            site.flavors[name].topology_name if name in site.flavors else ""
        )
        if topology is None:
            raise Problem(
                f"flavour {name} has no topology, so that no level can be asked for",
                mend="give it a topologyName and the site a Topology, or leave required= and preferred= out",
            )
        tree = trees[name] = Tree.of(topology, labels)
        if level not in tree.levels:
            raise Problem(
                f"topology {topology.name} has no level {level!r}{nearest(level, tree.levels)}",
                mend=f"name one of {listed(tree.levels)}",
            )
        if not tree.nodes:
            raise Problem(
                f"no node of the cluster is in a domain of topology {topology.name}",
                mend="import the site with its nodes, and give --cluster site.toml",
            )
    kinds = {node.name: int(resources.node_type[at]) for at, node in enumerate(resources.nodes)}
    return Places(trees, kinds, {node.name: node.gpus * 1000 for node in resources.nodes})
