"""The nodes of a Kubernetes cluster: how they are reported, and when one is lost for certain."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from volvelle.kubernetes_api import KubernetesApi, Object, mistakes
from volvelle.live.messages import (
    AttemptKey,
    JournalPosition,
    NodeCondition,
    NodeJoined,
    NodeLost,
    Report,
)
from volvelle.live.nodes.executor import ExecutorContext
from volvelle.model.node import Node
from volvelle.model.problems import Problem

_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


class NodeStates:
    """Reports the nodes of ``context``, and others with ``resource``, as the API shows them.

    attempts_on: on a node. lost: called with a node and the reason, after its loss was reported. journals:
    how far they were written before, which every node says that joins. A node that is not ready may run what
    it ran, however long that lasts.
    """

    def __init__(
        self,
        context: ExecutorContext,
        resource: str,
        report: Callable[[Report], None],
        attempts_on: Callable[[str], tuple[AttemptKey, ...]],
        lost: Callable[[str, str], None],
        journals: tuple[JournalPosition, ...],
    ) -> None:
        self._resource, self._report = resource, report
        self._attempts_on, self._lost, self._journals = attempts_on, lost, journals
        self._known = {node.name: node for node in (*context.expected, *context.cluster.nodes)}
        self._leaving = {node.name for node in context.leaving}
        self._levels = [level.name for level in context.cluster.levels]
        self._shown: dict[str, str | None] = {}
        """The problem of each node as it was last reported; None: it is lost."""

    def is_there(self, name: str) -> bool:
        """Whether a node was reported, and is not lost."""
        return self._shown.get(name) is not None

    def look(self, found: Mapping[str, Object]) -> None:
        """Report what has changed; ``found``: all nodes of the API by name."""
        for name, thing in found.items():
            if name not in self._known:
                node = _node_of(thing, self._resource, self._levels)
                if node.gpus:
                    self._known[name] = node
        for name, node in self._known.items():
            present = found.get(name)
            if present is None or _is_out_of_service(present):
                if self._shown.get(name, "") is not None:
                    reason = "its Node is deleted" if present is None else "it is out of service"
                    self._shown[name] = None
                    self._report(NodeLost(name, reason))
                    self._lost(name, reason)
                continue
            problem, before = _problem(present, node, self._resource), self._shown.get(name)
            self._shown[name] = problem
            if before is None:
                self.report_joined(name)
            elif before != problem:
                self._report(NodeCondition(name, problem))

    def report_joined(self, name: str) -> None:
        """Report a node that is there, with what is on it."""
        if (problem := self._shown.get(name)) is not None:
            self._report(
                NodeJoined(
                    node=self._known[name],
                    leaving=name in self._leaving,
                    attempts=self._attempts_on(name),
                    known=self._journals,
                    problem=problem,
                )
            )


def list_nodes(
    api: KubernetesApi, labels: str, resource: str, levels: Sequence[str]
) -> tuple[Node, ...]:
    """The nodes with GPUs, by name. ``labels``: a selector; empty: all nodes. Raises `Problem`."""
    with mistakes("list nodes"):
        selector = {"labelSelector": labels} if labels else {}
        listed, _ = api.listed("api/v1/nodes", **selector)
    try:
        found = [_node_of(each, resource, levels) for each in listed]
    except (ValueError, LookupError) as error:
        raise Problem(f"a Node of the Kubernetes cluster cannot be read: {error}") from None
    nodes = tuple(sorted((node for node in found if node.gpus), key=lambda node: node.name))
    if not nodes:
        raise Problem(
            f"no node of the Kubernetes cluster has {resource}",
            mend="install the device plugin, or name another resource or other nodes",
        )
    return nodes


def _node_of(thing: Object, resource: str, levels: Iterable[str]) -> Node:
    """A node with what it says of itself. levels: labels whose values are its domains."""
    labels, amounts = thing["metadata"].get("labels", {}), thing["status"].get("capacity", {})
    return Node(
        name=thing["metadata"]["name"],
        gpus=int(amounts.get(resource, 0)),
        gpu_type=str(labels.get("nvidia.com/gpu.product", "")).lower(),
        domain=tuple(labels.get(level, "") for level in levels),
    )


def _problem(thing: Object, node: Node, resource: str) -> str:
    """Why a node can start nothing, or less than it is counted on for; empty: it can."""
    if thing["spec"].get("unschedulable"):
        return "it is cordoned"
    for each in thing["status"].get("conditions", ()):
        if each["type"] == "Ready" and each["status"] != "True":
            why = each.get("message") or each.get("reason") or "no reason is given"
            return f"Kubernetes says that it is not ready: {why}"
    allocatable = int(thing["status"].get("allocatable", {}).get(resource, 0))
    if allocatable < node.gpus:
        return f"{allocatable} of its {node.gpus} GPUs are allocatable"
    return ""


def _is_out_of_service(thing: Object) -> bool:
    """Whether somebody vouches that nothing runs on a node."""
    return any(taint["key"] == _OUT_OF_SERVICE for taint in thing["spec"].get("taints", ()))
