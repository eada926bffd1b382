"""Workloads as Kueue's API has them: pod sets with their pods, the quota that they hold, their conditions."""

from collections.abc import Iterator
from functools import cached_property

from msgspec import field

from volvelle.incumbents.kueue.amounts import Quantity, added, amount
from volvelle.incumbents.kueue.objects import Object, Piece, Requirement, Toleration


class Resources(Piece, frozen=True):
    """``resources`` of a container."""

    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}

    @property
    def asked(self) -> dict[str, int]:
        """The requests; where one is missing, its limit counts."""
        return {name: amount(name, one) for name, one in (self.limits | self.requests).items()}

    @property
    def excessive(self) -> bool:
        """Whether more is requested of a resource than its limit allows."""
        asked = self.asked
        return any(asked[name] > amount(name, one) for name, one in self.limits.items())


class Container(Piece, frozen=True):
    """A container of a pod."""

    resources: Resources = Resources()
    restart_policy: str = ""
    image: str = ""


class NodeSelectorTerm(Piece, frozen=True):
    """Expressions of which all have to hold."""

    match_expressions: list[Requirement] = []


class NodeSelector(Piece, frozen=True):
    """Terms of which one has to hold."""

    node_selector_terms: list[NodeSelectorTerm] = []


class NodeAffinity(Piece, frozen=True):
    """The nodes that a pod requires; those that it prefers decide nothing here."""

    required: NodeSelector = field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=NodeSelector()
    )


class Affinity(Piece, frozen=True):
    """``affinity`` of a pod, as far as it names nodes."""

    node_affinity: NodeAffinity = NodeAffinity()


class PodSpec(Piece, frozen=True, dict=True):
    """The pod that a pod set repeats."""

    containers: list[Container] = []
    init_containers: list[Container] = []
    overhead: dict[str, Quantity] = {}
    node_selector: dict[str, str] = {}
    affinity: Affinity = Affinity()
    tolerations: list[Toleration] = []

    @cached_property
    def requests(self) -> dict[str, int]:
        """The resources of one pod: its containers together, or its greediest initialisation."""
        sidecars: dict[str, int] = {}
        most: dict[str, int] = {}
        for one in self.init_containers:
            asked = added(sidecars, one.resources.asked)
            if one.restart_policy == "Always":
                sidecars = asked
            most = {name: max(most.get(name, 0), each) for name, each in (most | asked).items()}
        total = sidecars
        for one in self.containers:
            total = added(total, one.resources.asked)
        total = {name: max(most.get(name, 0), total.get(name, 0)) for name in most | total}
        return added(total, {name: amount(name, one) for name, one in self.overhead.items()})

    @property
    def terms(self) -> list[NodeSelectorTerm]:
        """The terms of node affinity of which one has to hold; none: any node will do."""
        return self.affinity.node_affinity.required.node_selector_terms


class Template(Piece, frozen=True):
    """The template of a pod set's pods."""

    spec: PodSpec = PodSpec()


class TopologyRequest(Piece, frozen=True):
    """The level whose domain a pod set requires or prefers, and the sets that are placed with it."""

    required: str = ""
    preferred: str = ""
    pod_set_group_name: str = ""


class PodSet(Piece, frozen=True):
    """Pods that are alike."""

    name: str = "main"
    count: int = 1
    min_count: int | None = None
    template: Template = Template()
    topology_request: TopologyRequest = TopologyRequest()

    @property
    def most_left_out(self) -> int:
        """How many of its pods partial admission may leave out."""
        return 0 if self.min_count is None else self.count - self.min_count


class TopologyDomain(Piece, frozen=True):
    """A domain by its levels' values, and the pods there (v1beta1)."""

    values: list[str] = []
    count: int = 0


class LevelValues(Piece, frozen=True):
    """The values of a level in the domains of a slice: one for all, or ends of names."""

    universal: str | None = None
    individual: dict[str, str | list[str]] = {}

    def of(self, at: int) -> str:
        """The value in a domain of the slice."""
        if self.universal is not None:
            return self.universal
        roots = self.individual.get("roots") or []
        root = roots[at] if at < len(roots) else ""
        return f"{self.individual.get('prefix') or ''}{root}{self.individual.get('suffix') or ''}"


class PodCounts(Piece, frozen=True):
    """The pods in the domains of a slice: as many in each, or each its own."""

    universal: int | None = None
    individual: list[int] = []

    def of(self, at: int) -> int:
        """The pods in a domain of the slice."""
        if self.universal is not None:
            return self.universal
        return self.individual[at] if at < len(self.individual) else 0


class TopologySlice(Piece, frozen=True):
    """Domains with their pods, in short (v1beta2)."""

    domain_count: int = 1
    values_per_level: list[LevelValues] = []
    pod_counts: PodCounts = PodCounts()


class TopologyAssignment(Piece, frozen=True):
    """The domains to which the pods of a set were assigned."""

    levels: list[str] = []
    domains: list[TopologyDomain] = []
    slices: list[TopologySlice] = []

    @property
    def domains_with_pods(self) -> Iterator[tuple[list[str], int]]:
        """The values of each domain, by level, and the pods there."""
        for domain in self.domains:
            yield domain.values, domain.count
        for part in self.slices:
            for at in range(part.domain_count):
                yield [level.of(at) for level in part.values_per_level], part.pod_counts.of(at)


class PodSetAssignment(Piece, frozen=True):
    """The flavours and the quota of a pod set of an admitted workload."""

    name: str = "main"
    flavors: dict[str, str] = {}
    resource_usage: dict[str, Quantity] = {}
    count: int = 1
    topology_assignment: TopologyAssignment | None = None


class Admission(Piece, frozen=True):
    """The quota that a workload holds."""

    cluster_queue: str
    pod_set_assignments: list[PodSetAssignment] = []


class Condition(Piece, frozen=True):
    """A condition of a workload."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class ReclaimablePods(Piece, frozen=True):
    """Pods of a set that are over, whose quota is free."""

    name: str
    count: int


class AdmissionCheck(Piece, frozen=True):
    """An admission check of a workload."""

    state: str = ""


class Owner(Piece, frozen=True):
    """The object to which another belongs: of a workload the job."""

    kind: str = ""
    name: str = ""


class RequeueState(Piece, frozen=True):
    """When an evicted workload waits again."""

    requeue_at: str | None = None


class Evictions(Piece, frozen=True):
    """How often a workload was evicted for a reason."""

    count: int = 0


class Statistics(Piece, frozen=True):
    """The past of a workload's scheduling."""

    evictions: list[Evictions] = []


class Workload(Object, frozen=True, kw_only=True):
    """A job as Kueue sees it."""

    pod_sets: list[PodSet] = []
    queue_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    priority_class_ref: dict[str, str] = {}
    active: bool = True
    preemption_gates: list[dict[str, str]] = []
    admission: Admission | None = None
    conditions: list[Condition] = []
    reclaimable_pods: list[ReclaimablePods] = []
    admission_checks: list[AdmissionCheck] = []
    owner_references: list[Owner] = []
    maximum_execution_time_seconds: float | None = None
    requeue_state: RequeueState = RequeueState()
    scheduling_stats: Statistics = Statistics()

    def condition(self, kind: str) -> Condition | None:
        """The condition of a type, if it is true."""
        return next(
            (one for one in self.conditions if one.type == kind and one.status == "True"), None
        )
