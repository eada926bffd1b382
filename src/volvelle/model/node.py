"""A node: what a cluster is made of, and what an agent speaks for."""

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

import msgspec

from volvelle.model.problems import Problem


class NodeKind(NamedTuple):
    """A kind of nodes, as the scheduler tells them apart; Kueue calls it a resource flavor."""

    gpu_type: str = ""
    labels: tuple[str, ...] = ()

    def meets(self, constraints: Iterable[str]) -> bool:
        """Whether each of ``constraints`` is one of the labels, or the name of one, whatever its value."""
        names = {label.partition("=")[0] for label in self.labels}
        return all(one in self.labels or one in names for one in constraints)


class Node(msgspec.Struct, frozen=True):
    """A machine. ``bandwidth_gbps[i][j]`` is what GPUs ``i`` and ``j`` of it exchange.

    labels: sorted, each ``NAME`` or ``NAME=VALUE``, as `read_labels` gives them. domain: where it stands, by
    the cluster's levels (`Level`), or empty. Nodes of one domain have all names up to its level.
    slowdowns: by variability class, for each GPU, the time of an iteration over that on a typical GPU.
    """

    name: str
    gpus: int
    gpu_type: str = ""
    cpus: float = 0.0
    memory_gb: float = 0.0
    bandwidth_gbps: tuple[tuple[float, ...], ...] | None = None
    labels: tuple[str, ...] = ()
    domain: tuple[str, ...] = ()
    slowdowns: tuple[tuple[str, tuple[float, ...]], ...] = ()

    @property
    def kind(self) -> NodeKind:
        """The kind of the node."""
        return NodeKind(self.gpu_type, self.labels)


class Level(msgspec.Struct, frozen=True):
    """Domains of nodes that are near each other, such as blocks or racks.

    weight: nodes more as which a domain counts that a gang does not need, for its ``spread_slowdown``.
    """

    name: str
    weight: float = 0.0


LABEL = r"[A-Za-z0-9][A-Za-z0-9_./-]{0,62}(=[A-Za-z0-9_.:/-]{1,63})?"
"""A regular expression for all of a label."""


def read_labels(written: Iterable[str]) -> tuple[str, ...]:
    """Labels or constraints, several of them in one text parted by commas: sorted, each once.

    Raises `Problem` for what is no label.
    """
    found = {one.strip() for text in written for one in text.split(",")}
    for label in sorted(found):
        if not re.fullmatch(LABEL, label):
            raise Problem(
                f"{label!r} is no label", mend="write nvlink or zone=a, several with commas"
            )
    return tuple(sorted(found))


class NodeState(StrEnum):
    """The service that a node gives the scheduler."""

    UP = "up"
    DRAINING = "draining"
    DOWN = "down"
    VACATED = "vacated"
    """Planned only: its jobs are queued again from where they are, and it is down."""


class NodeChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """At ``time`` seconds, ``node`` becomes ``state``; a node whose first change is to up joins then.

    foreseen: whether a scheduler that looks ahead knows of it before it comes, as of planned maintenance.
    """

    time: float
    node: str
    state: NodeState
    foreseen: bool = True


class FailureProcess(msgspec.Struct, frozen=True, omit_defaults=True):
    """Every node is up for a Weibull time, then down for an exponential one, with these means.

    shape: of the Weibull distribution. 1 is the exponential one; below it nodes that were repaired just now
    are likelier to fail, above it those that are up for long.
    """

    mtbf_seconds: float
    mttr_seconds: float
    shape: float = 1.0
