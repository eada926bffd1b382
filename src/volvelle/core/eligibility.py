"""Whether a job could ever run here, and on which kinds of nodes: by GPU type and labels."""

from volvelle.core.facets import PlacesByLane
from volvelle.core.parts import Placement
from volvelle.core.policy import Policy
from volvelle.core.resources import Resources
from volvelle.model.cluster import Cluster
from volvelle.model.job import JobSpec, Truth


def limits_of(cluster: Cluster, policy: Policy) -> dict[str, float]:
    """The most GPUs that the jobs of each pool may hold under a policy."""
    if policy.borrows:
        return cluster.limits
    return {pool.name: pool.quota for pool in cluster.pools}


class Eligibility:
    """Answers for one set of nodes, made anew when one joins, under a policy and a placement."""

    def __init__(
        self, resources: Resources, cluster: Cluster, policy: Policy, placement: Placement
    ) -> None:
        self._resources = resources
        self._kinds = resources.kinds
        self._gpus = resources.gpus_by_type(up_only=False).tolist()
        self.most_gpus = max(self._gpus, default=0.0)
        """Of one kind of nodes, on all of them."""
        self._limits = limits_of(cluster, policy)
        by_name = policy.chooses_nodes or policy.divides or isinstance(placement, PlacesByLane)
        self._parts_of_gpus = not (policy.whole_gpus or (resources.named and by_name))
        self._whole_nodes = placement.names_gpus and not policy.chooses_nodes
        self._elastic, self._divides = policy.resizes, policy.divides
        self._allowed: dict[tuple[tuple[str, ...], tuple[str, ...]], tuple[int, float]] = {}
        self._node_gpus = [
            set(resources.node_gpus[resources.node_type == t].tolist()) - {0}
            for t in range(len(resources.kinds))
        ]

    def obstacle(self, spec: JobSpec) -> str:
        """Why ``spec`` could not run even on an empty cluster; nothing if it could."""
        need = self._least(spec)
        bits, most = self._allowed_kinds(spec)
        if not bits:
            return self._no_such_nodes(spec)
        if spec.exclusive and (why := self._no_whole_nodes(spec, bits)):
            return why
        if need > most:
            there = f" on nodes with {', '.join(spec.constraints)}" if spec.constraints else ""
            alike = " alike in their labels" if any(kind.labels for kind in self._kinds) else ""
            return f"wants {need:g} GPUs{there}, the cluster has {most:g}{alike}"
        limit = self._limits.get(spec.pool)
        if limit is not None and need > limit:
            return f"wants {need:g} GPUs, its pool {spec.pool!r} has {limit:g}"
        if any(gpus % 1 for gpus in (spec.least_gpus, spec.gpus, spec.most_gpus)):
            return self._no_part(spec)
        return ""

    def _no_part(self, spec: JobSpec) -> str:
        """Why ``spec``, which asks for a fraction, could not have it; nothing if it could."""
        if not self._parts_of_gpus:
            return f"wants {spec.gpus:g} GPUs, this policy and placement give whole ones"
        if self._resources.named and (spec.elastic or spec.gpus > 1):
            return f"wants {spec.gpus:g} GPUs, by name a job has whole ones or a part of one"
        return ""

    def _no_such_nodes(self, spec: JobSpec) -> str:
        """That no node will do for ``spec``."""
        if spec.constraints:
            types = f" and GPUs of type {' or '.join(spec.gpu_types)}" if spec.gpu_types else ""
            labels = sorted({label for kind in self._kinds for label in kind.labels})
            have = ", ".join(labels) or "no labels"
            return (
                f"wants nodes with {', '.join(spec.constraints)}{types}, the cluster's have {have}"
            )
        have = ", ".join(filter(None, dict.fromkeys(kind.gpu_type for kind in self._kinds)))
        wanted = " or ".join(spec.gpu_types)
        alike = {*wanted.lower().split(" or ")} & {*have.lower().split(", ")}
        hint = ": only upper and lower case differ" if alike else ""
        return f"wants GPUs of type {wanted}, the cluster has {have or 'untyped GPUs'}{hint}"

    def _no_whole_nodes(self, spec: JobSpec, bits: int) -> str:
        """Why ``spec`` could not have whole nodes of one of these kinds; nothing if it could."""
        if not self._whole_nodes:
            return "wants nodes of its own, which this policy and placement do not give"
        if spec.elastic:
            return "wants nodes of its own, and may not have more or fewer GPUs at times then"
        if self._whole(spec, bits):
            return ""
        sizes = {size for t, there in enumerate(self._node_gpus) if bits >> t & 1 for size in there}
        have = " or ".join(map(str, sorted(sizes)))
        return f"wants nodes of its own, and {spec.gpus:g} GPUs are no whole nodes with {have} each"

    def _whole(self, spec: JobSpec, bits: int) -> int:
        """The kinds, as bits, whose nodes are equal and of which some have just its GPUs together."""
        for t, sizes in enumerate(self._node_gpus):
            if len(sizes) != 1 or spec.gpus % min(sizes) != 0:
                bits &= ~(1 << t)
        return bits

    def useful_types(self, spec: JobSpec, believed: Truth) -> int:
        """The kinds of nodes that will do on which the job fits and is believed to run at all, as bits."""
        bits, _ = self._allowed_kinds(spec)
        if spec.exclusive:
            bits = self._whole(spec, bits)
        need = self._least(spec)
        for t in range(len(self._kinds)):
            useful = self._gpus[t] >= need and self._rate(believed, need, t) > 0
            if bits >> t & 1 and not useful:
                bits ^= 1 << t
        return bits

    def _rate(self, believed: Truth, gpus: float, gpu_type: int) -> float:
        """Units per second believed in the slowest regime, on a node poorest in CPUs and memory."""
        kind = self._kinds[gpu_type].gpu_type
        starts = [
            0.0,
            *(one.start_work for one in believed.regimes if one.start_work < believed.work),
        ]
        rate = min(believed.rate(gpus, kind, 1, start) for start in starts)
        if believed.sensitivity is None:
            return rate
        return rate * believed.sensitivity.share(*self._resources.least_amounts(gpu_type))

    def _least(self, spec: JobSpec) -> float:
        """The fewest GPUs on which the policy lets the job run."""
        return spec.least_gpus if self._elastic else spec.gpus

    def _allowed_kinds(self, spec: JobSpec) -> tuple[int, float]:
        """The kinds of nodes that will do, as bits, and the most GPUs there are of one of them."""
        types, constraints = spec.gpu_types, spec.constraints
        if (types, constraints) not in self._allowed:
            bits, most = 0, 0.0
            for t, kind in enumerate(self._kinds):
                if (not types or kind.gpu_type in types) and kind.meets(constraints):
                    bits |= 1 << t
                    most = max(most, self._gpus[t])
            self._allowed[types, constraints] = (bits, most)
        return self._allowed[types, constraints]

    def best_mean_rate(self, truth: Truth, gpus: float, gpu_type: str, done: float) -> float:
        """Units per second believed from ``done`` to the end, with the CPUs and memory there are at best."""
        rate = mean_rate(truth, gpus, gpu_type, done)
        if truth.sensitivity is None:
            return rate
        resources = self._resources
        amounts = resources.best_amounts(resources.types.index(gpu_type), gpus, self._divides)
        return rate * truth.sensitivity.share(*amounts)


def mean_rate(believed: Truth, gpus: float, gpu_type: str, work_done: float) -> float:
    """Units per second believed from ``work_done`` to the end, on ``gpus`` GPUs of one node."""
    if not believed.regimes:
        return believed.rate(gpus, gpu_type)
    seconds, done = 0.0, work_done
    starts = [regime.start_work for regime in believed.regimes if regime.start_work > work_done]
    for end in [*starts, believed.work]:
        stop = min(end, believed.work)
        seconds += max(stop - done, 0.0) / believed.rate(gpus, gpu_type, 1, done)
        done = max(done, stop)
    if seconds == 0.0:
        return believed.rate(gpus, gpu_type, 1, work_done)
    return (believed.work - work_done) / seconds
