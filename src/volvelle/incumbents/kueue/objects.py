"""The objects that Kueue schedules by, as its API has them (``kueue.x-k8s.io/v1beta1`` and ``v1beta2``).

Each holds what its ``metadata``, ``spec`` and ``status`` say, as far as it decides. Where the two versions
differ in a name, both are read.
"""

from collections.abc import Mapping

from msgspec import Struct

from volvelle.incumbents.kueue.amounts import Quantity, amount, is_gpu


class Piece(Struct, frozen=True, rename="camel"):
    """Base of what is read from the API; fields that are not modelled are passed over."""


class Object(Piece, frozen=True, kw_only=True):
    """Base of what has a name of its own."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] = {}
    creation_timestamp: str | None = None

    @property
    def key(self) -> str:
        """Namespace and name; the name alone of what has no namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Requirement(Piece, frozen=True):
    """An expression over labels, of a label selector or a node selector."""

    key: str
    operator: str
    values: list[str] = []

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels meet it."""
        value = labels.get(self.key)
        if self.operator in ("In", "NotIn"):
            return (value in self.values) == (self.operator == "In")
        if self.operator in ("Gt", "Lt"):
            if value is None or not self.values:
                return False
            bound, number = int(self.values[0]), int(value)
            return number > bound if self.operator == "Gt" else number < bound
        return (value is not None) == (self.operator == "Exists")


class Selector(Piece, frozen=True):
    """A label selector."""

    match_labels: dict[str, str] = {}
    match_expressions: list[Requirement] = []

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels meet all of it."""
        return self.match_labels.items() <= labels.items() and all(
            one.holds(labels) for one in self.match_expressions
        )


# ---------------------------------------------------------------------- quota


class ResourceQuota(Piece, frozen=True):
    """The quota of a resource in a flavour."""

    name: str
    nominal_quota: Quantity
    borrowing_limit: Quantity | None = None
    lending_limit: Quantity | None = None


class FlavorQuotas(Piece, frozen=True):
    """The quotas of a flavour."""

    name: str
    resources: list[ResourceQuota] = []


class ResourceGroup(Piece, frozen=True):
    """Resources that are given in one flavour, and the flavours in the order in which they are tried."""

    covered_resources: list[str] = []
    flavors: list[FlavorQuotas] = []


class BorrowWithinCohort(Piece, frozen=True):
    """Whether a workload that has to borrow may preempt in other queues."""

    policy: str = "Never"
    max_priority_threshold: int | None = None


class Preemption(Piece, frozen=True):
    """The workloads that a queue's workloads may preempt."""

    within_cluster_queue: str = "Never"
    reclaim_within_cohort: str = "Never"
    borrow_within_cohort: BorrowWithinCohort = BorrowWithinCohort()

    @property
    def borrowing(self) -> bool:
        """Whether a workload that has to borrow may preempt in other queues."""
        return self.borrow_within_cohort.policy != "Never"


class Fungibility(Piece, frozen=True):
    """The flavour that is taken where several would do. ``Borrow`` and ``Preempt`` are v1beta1's words."""

    when_can_borrow: str = "MayStopSearch"
    when_can_preempt: str = "TryNextFlavor"
    preference: str = "BorrowingOverPreemption"


class Quotas(Object, frozen=True, kw_only=True):
    """Base of what has quotas and a weight in fair sharing."""

    resource_groups: list[ResourceGroup] = []
    fair_sharing: dict[str, Quantity] = {}

    @property
    def weight(self) -> float:
        """The weight in fair sharing; 1 where none is given."""
        return amount("cpu", self.fair_sharing.get("weight", 1)) / 1000.0


class ClusterQueue(Quotas, frozen=True, kw_only=True):
    """A queue with quotas."""

    cohort_name: str = ""
    cohort: str = ""
    queueing_strategy: str = "BestEffortFIFO"
    namespace_selector: Selector | None = None
    flavor_fungibility: Fungibility = Fungibility()
    preemption: Preemption = Preemption()
    stop_policy: str = "None"

    @property
    def parent(self) -> str:
        """The name of the cohort to which it belongs; empty: none."""
        return self.cohort_name or self.cohort

    @property
    def strict(self) -> bool:
        """Whether a workload that does not fit stops those behind it."""
        return self.queueing_strategy == "StrictFIFO"

    @property
    def flavors(self) -> frozenset[str]:
        """The flavours of all of its groups."""
        return frozenset(one.name for group in self.resource_groups for one in group.flavors)

    def group_of(self, resource: str) -> ResourceGroup | None:
        """The group that has a resource."""
        return next(
            (one for one in self.resource_groups if resource in one.covered_resources), None
        )


class Cohort(Quotas, frozen=True, kw_only=True):
    """A group of queues and cohorts that lend to each other."""

    parent_name: str = ""
    parent: str = ""


class LocalQueue(Object, frozen=True, kw_only=True):
    """A namespace's entry to a ClusterQueue."""

    cluster_queue: str
    stop_policy: str = "None"


# ---------------------------------------------------------------------- nodes


class Taint(Piece, frozen=True):
    """A mark of nodes that keeps pods away which do not tolerate it."""

    key: str
    effect: str
    value: str = ""


class Toleration(Piece, frozen=True):
    """A mark of pods that lets them run on nodes with a taint."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Whether pods with it may run on nodes with ``taint``."""
        if self.effect not in ("", taint.effect) or self.key not in ("", taint.key):
            return False
        return self.operator == "Exists" or (bool(self.key) and self.value == taint.value)


class ResourceFlavor(Object, frozen=True, kw_only=True):
    """A kind of nodes."""

    node_labels: dict[str, str] = {}
    node_taints: list[Taint] = []
    tolerations: list[Toleration] = []
    topology_name: str = ""


class Topology(Object, frozen=True, kw_only=True):
    """Domains of nodes, such as blocks and racks: the labels that name them, the largest domains first."""

    levels: list[dict[str, str]] = []


class Node(Object, frozen=True, kw_only=True):
    """A node of the cluster."""

    capacity: dict[str, Quantity] = {}
    unschedulable: bool = False

    @property
    def gpus(self) -> int:
        """Its GPUs in thousandths."""
        return sum(amount(name, each) for name, each in self.capacity.items() if is_gpu(name))


class PriorityClass(Object, frozen=True, kw_only=True):
    """A WorkloadPriorityClass, or a PriorityClass of pods."""

    value: int = 0


class Namespace(Object, frozen=True, kw_only=True):
    """A namespace with the labels that queues select by."""
