"""The objects that Kueue schedules by, as its API has them (``kueue.x-k8s.io/v1beta1`` and ``v1beta2``).

Each holds what its ``metadata``, ``spec`` and ``status`` say, as far as it decides. Where the two versions
differ in a name, both are read.
"""

import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from fractions import Fraction
from functools import cache
from typing import Any, TypeVar

from msgspec import Struct, ValidationError, convert, field

from volvelle.model.problems import Problem

FlavorResource = tuple[str, str]
"""A flavour and a resource."""

Amounts = dict[FlavorResource, int]
"""Amounts in thousandths of the resource's unit."""

Quantity = str | int | float
"""An amount as Kubernetes writes it: ``500m``, ``2``, ``16Gi``, ``1e3``."""

_EXPONENTS = {"n": -3, "u": -2, "m": -1, "": 0, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|([KMGTPE]i)|([numkMGTPE]?))")


@cache
def amount(resource: str, written: Quantity) -> int:
    """Thousandths of a resource's unit, rounded up.

    Raises `Problem` for what is no quantity.
    """
    found = _QUANTITY.fullmatch(str(written))
    if found is None:
        raise Problem(
            f"{str(written)!r} is no quantity of {resource}", mend="write 2, 500m, 16Gi or 1e3"
        )
    digits, exponent, binary, decimal = found.groups()
    value = Fraction(digits + (exponent or ""))
    value *= (
        1024 ** " KMGTPE".index(binary[0])
        if binary
        else Fraction(1000) ** _EXPONENTS[decimal or ""]
    )
    return math.ceil(value * 1000)


def is_gpu(resource: str) -> bool:
    """Whether a resource of Kubernetes is GPUs: ``nvidia.com/gpu``, ``amd.com/gpu``."""
    return resource.rpartition("/")[2].startswith("gpu")


def seconds(written: str | None) -> float:
    """A moment as seconds since 1970; 0 where there is none. Raises `Problem`."""
    if not written:
        return 0.0
    try:
        moment = datetime.fromisoformat(written)
    except ValueError:
        raise Problem(f"{written!r} is no time", mend="write 2026-11-23T15:53:40Z") from None
    return moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()


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


class PriorityClass(Object, frozen=True, kw_only=True):
    """A WorkloadPriorityClass, or a PriorityClass of pods."""

    value: int = 0


class Namespace(Object, frozen=True, kw_only=True):
    """A namespace with the labels that queues select by."""


# ---------------------------------------------------------------------- workloads


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


class PodSpec(Piece, frozen=True):
    """The pod that a pod set repeats."""

    containers: list[Container] = []
    init_containers: list[Container] = []
    overhead: dict[str, Quantity] = {}
    node_selector: dict[str, str] = {}
    affinity: Affinity = Affinity()
    tolerations: list[Toleration] = []

    @property
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


def added(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    """The sum by resource."""
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


class Template(Piece, frozen=True):
    """The template of a pod set's pods."""

    spec: PodSpec = PodSpec()


class TopologyRequest(Piece, frozen=True):
    """The level whose domain a pod set requires or prefers, and the sets that are placed with it."""

    required: str = ""
    preferred: str = ""
    unconstrained: bool = False
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


class PodSetAssignment(Piece, frozen=True):
    """The flavours and the quota of a pod set of an admitted workload."""

    name: str = "main"
    flavors: dict[str, str] = {}
    resource_usage: dict[str, Quantity] = {}
    count: int = 1


class Admission(Piece, frozen=True):
    """The quota that a workload holds."""

    cluster_queue: str
    pod_set_assignments: list[PodSetAssignment] = []


class Condition(Piece, frozen=True):
    """A condition of a workload."""

    type: str
    status: str
    reason: str = ""
    last_transition_time: str | None = None


class ReclaimablePods(Piece, frozen=True):
    """Pods of a set that are over, whose quota is free."""

    name: str
    count: int


class AdmissionCheck(Piece, frozen=True):
    """An admission check of a workload."""

    state: str = ""


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

    def condition(self, kind: str) -> Condition | None:
        """The condition of a type, if it is true."""
        return next(
            (one for one in self.conditions if one.type == kind and one.status == "True"), None
        )


# ---------------------------------------------------------------------- reading


KINDS: dict[str, type[Object]] = {
    **{one.__name__: one for one in (ClusterQueue, Cohort, LocalQueue, ResourceFlavor, Topology)},
    **{one.__name__: one for one in (PriorityClass, Workload, Namespace, Node)},
    "WorkloadPriorityClass": PriorityClass,
}
"""The kinds that decide, by name."""

VERSIONS = ("v1alpha1", "v1beta1", "v1beta2")
"""The versions of Kueue's API that are read; v1alpha1 is that of Cohort and Topology."""


def read(kind: str, document: object, where: str) -> Any:
    """An object of the API. Raises `Problem` naming it, the place and the field."""
    if not isinstance(document, dict):
        raise Problem(f"{where} is no object", mend="give what kubectl get -o json prints")
    version = str(document.get("apiVersion", "")).partition("kueue.x-k8s.io/")[2]
    if version and version not in VERSIONS:
        raise Problem(
            f"{where}: version {version!r} of Kueue's API is not known",
            mend=f"export it as {VERSIONS[-1]}: kubectl get {kind.lower()}s.{VERSIONS[-1]}.kueue.x-k8s.io",
        )
    whole = given(document)
    flat = {"value": whole.get("value", 0)}
    for part in ("metadata", "spec", "status"):
        flat |= whole.get(part, {})
    try:
        return convert(flat, KINDS[kind], strict=False)
    except ValidationError as error:
        said = str(error).replace("$.", "").replace("`", "'")
        raise Problem(f"{where}: {kind} {flat.get('name', '')}: {said}") from None


def given(document: dict[str, Any]) -> dict[str, Any]:
    """A document without its nulls, which stand for nothing in the API."""
    return {key: _value(one) for key, one in document.items() if one is not None}


def _value(one: Any) -> Any:
    if isinstance(one, list):
        return [_value(each) for each in one]
    return given(one) if isinstance(one, dict) else one


Named = TypeVar("Named", bound=Object)


def by_key(objects: Iterable[Named]) -> dict[str, Named]:
    """Objects by namespace and name."""
    return {one.key: one for one in objects}
