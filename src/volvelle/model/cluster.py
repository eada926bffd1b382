"""Clusters: nodes with GPUs, pools with quotas, and what happens to the nodes over time.

A cluster is written ``120x8`` (nodes x GPUs), ``120x8:v100``, ``30x8:a100,12x8:h100``, or as a TOML
file (see docs/reference/cluster-file.md).
"""

import re
from pathlib import Path
from typing import Any

import msgspec

from volvelle.model.node import FailureProcess, Level, Node, NodeChange, NodeKind, NodeState
from volvelle.model.pool import Pool, Profiling
from volvelle.model.problems import Problem
from volvelle.model.toml import read_toml

__all__ = [
    "Cluster", "FailureProcess", "Level", "Node", "NodeChange", "NodeState", "Pool", "Profiling",
    "check_cluster", "cluster_from", "parse_cluster", "read_cluster",
]  # fmt: skip


class Cluster(msgspec.Struct, frozen=True):
    """Nodes, pools, what is known to happen to the nodes, and those on which jobs are profiled first.

    levels: of the nodes' domains, the largest first.
    ``Cluster("8x8:a100")`` is what `parse_cluster` makes of the text.
    """

    nodes: tuple[Node, ...]
    pools: tuple[Pool, ...] = ()
    changes: tuple[NodeChange, ...] = ()
    failures: FailureProcess | None = None
    profiling: Profiling | None = None
    levels: tuple[Level, ...] = ()

    def __post_init__(self) -> None:
        """Nodes may be written in the short form. Raises `Problem`."""
        if isinstance(self.nodes, str):
            written = parse_cluster(self.nodes)
            for name in self.__struct_fields__:
                msgspec.structs.force_setattr(self, name, getattr(written, name))
        elif not isinstance(self.nodes, (tuple, list)):
            raise Problem(
                f"{self.nodes!r} is no cluster",
                mend='write Cluster("8x8")',
            )

    def __repr__(self) -> str:
        return f"<Cluster {self}: {self.gpus:,} GPUs>"

    @property
    def main(self) -> "Cluster":
        """The scheduler's nodes: all but those on which jobs are profiled first."""
        if self.profiling is None:
            return self
        nodes = self.nodes[: len(self.nodes) - self.profiling.nodes]
        return msgspec.structs.replace(self, nodes=nodes, profiling=None)

    @property
    def partition(self) -> tuple[Node, ...]:
        """The nodes on which jobs are profiled first, as few as there ever are."""
        return self.nodes[len(self.main.nodes) :]

    @property
    def gpus(self) -> int:
        """GPUs of all nodes together."""
        return sum(node.gpus for node in self.nodes)

    @property
    def gpu_types(self) -> tuple[str, ...]:
        """The GPU types, in the order of the nodes."""
        return tuple(dict.fromkeys(node.gpu_type for node in self.nodes))

    @property
    def kinds(self) -> tuple[NodeKind, ...]:
        """The kinds of nodes: by GPU type, in the order of the nodes, kinds of few labels first.

        So jobs without constraints take what jobs with constraints cannot use, where they have a choice.
        """
        types = self.gpu_types
        kinds = dict.fromkeys(node.kind for node in self.nodes)
        return tuple(sorted(kinds, key=lambda kind: (types.index(kind.gpu_type), len(kind.labels))))

    @property
    def limits(self) -> dict[str, float]:
        """The most GPUs that the jobs of each pool may hold at once.

        A pool that lends may borrow what no other pool keeps to itself.
        """
        kept = sum(pool.quota for pool in self.pools if not pool.lends)
        return {
            pool.name: max(self.gpus - kept, pool.quota) if pool.lends else pool.quota
            for pool in self.pools
        }

    @property
    def nodes_change(self) -> bool:
        """Whether nodes come, go or fail, or may move to the profiling partition and back."""
        moves = self.profiling is not None and self.profiling.most > self.profiling.nodes
        return bool(self.changes) or self.failures is not None or moves

    @classmethod
    def of(cls, written: str) -> "Cluster":
        """The cluster of the short form ``30x8:a100,12x8:h100``, or of a TOML file. Raises `Problem`."""
        return parse_cluster(written)

    def __str__(self) -> str:
        """The short form, where nodes of one kind stand together: ``30x8:a100,12x8:h100``."""
        groups: list[tuple[int, str, int]] = []
        for node in self.nodes:
            if groups and groups[-1][:2] == (node.gpus, node.gpu_type):
                groups[-1] = (node.gpus, node.gpu_type, groups[-1][2] + 1)
            else:
                groups.append((node.gpus, node.gpu_type, 1))
        return ",".join(
            f"{count}x{gpus}" + (f":{gpu_type}" if gpu_type else "")
            for gpus, gpu_type, count in groups
        )


_GROUP = re.compile(r"(\d+)\s*[xX]\s*(\d+)(?::([\w.-]+(?: [\w.-]+)*))?")


MOST_KINDS = 50
"""Kinds of nodes that a cluster may have: the kinds that suit a job are bits of one number."""

MOST_NODES = 1_000_000
"""Nodes that a cluster may have: what is kept of each fits the memory of a workstation."""


def parse_cluster(text: str) -> Cluster:
    """The cluster written in ``text``: the short form, or the path of a TOML file.

    Raises `Problem` naming the text or the file, the key and the mend.
    """
    if text.endswith(".toml") or Path(text).is_file():
        return read_cluster(Path(text))
    nodes: list[Node] = []
    for group in text.split(","):
        match = _GROUP.fullmatch(group.strip())
        if match is None or int(match[1]) == 0 or int(match[2]) == 0:
            raise Problem(
                f"cannot read {text!r} as a cluster",
                mend="write NODESxGPUS[:TYPE][,...], as in 120x8 or 30x8:a100,12x8:h100, "
                "or name a .toml file",
                usage=True,
            )
        if len(nodes) + int(match[1]) > MOST_NODES:
            raise Problem(
                f"cluster {text!r} has more than {MOST_NODES:,} nodes",
                mend="write NODESxGPUS, as in 120x8",
                usage=True,
            )
        width = len(str(int(match[1]) - 1))
        prefix = f"{match[3].replace(' ', '-')}-" if match[3] else "node-"
        taken = sum(node.gpu_type == (match[3] or "") for node in nodes)
        nodes.extend(
            Node(f"{prefix}{taken + index:0{width}d}", int(match[2]), match[3] or "")
            for index in range(int(match[1]))
        )
    return Cluster(tuple(nodes))


def read_cluster(path: Path) -> Cluster:
    """The cluster described by a TOML file. Raises `Problem` naming the file, the key and the mend."""
    return cluster_from(read_toml(path, "cluster file"), str(path))


def cluster_from(document: dict[str, Any], place: str) -> Cluster:
    """The cluster of a decoded TOML document; ``place`` names it in errors."""
    from volvelle.model.cluster_file import described  # noqa: PLC0415 - costs what it checks with

    cluster = Cluster(*described(document, place))
    check_cluster(cluster, place)
    return cluster


def check_cluster(cluster: Cluster, place: str) -> None:
    """Raise `Problem` where the parts of a cluster contradict each other."""
    names = [node.name for node in cluster.nodes]
    if twice := _first_repeated(names):
        raise Problem(f"{place}: two nodes are called {twice!r}", mend="give each its own name")
    pools = [pool.name for pool in cluster.pools]
    if twice := _first_repeated(pools):
        raise Problem(f"{place}: two pools are called {twice!r}", mend="give each its own name")
    if twice := _first_repeated([level.name for level in cluster.levels]):
        raise Problem(f"{place}: two levels are called {twice!r}", mend="give each its own name")
    if cluster.gpus == 0:
        raise Problem(f"{place}: the cluster has no GPUs", mend="give a node gpus = 1 or more")
    if len(cluster.kinds) > MOST_KINDS:
        raise Problem(
            f"{place}: the nodes are of {len(cluster.kinds)} kinds by their GPU types and labels, "
            f"{MOST_KINDS} at most",
            mend="leave out labels that jobs do not ask for",
        )
    granted = sum(pool.quota for pool in cluster.pools)
    if granted > cluster.gpus:
        raise Problem(
            f"{place}: the pools' quotas add up to {granted:g} GPUs, the cluster has {cluster.gpus}",
            mend="lower the quotas or add nodes",
        )
    for node in cluster.nodes:
        matrix = node.bandwidth_gbps
        if matrix and (len(matrix) != node.gpus or any(len(row) != node.gpus for row in matrix)):
            raise Problem(
                f"{place}: node {node.name!r} has {node.gpus} GPUs but its bandwidth_gbps is not "
                f"{node.gpus} x {node.gpus}"
            )
        for name, slowdowns in node.slowdowns:
            if len(slowdowns) != node.gpus:
                raise Problem(
                    f"{place}: node {node.name!r} has {node.gpus} GPUs but {len(slowdowns)} slowdowns of "
                    f"variability class {name!r}",
                    mend="write one for each GPU",
                )
    for change in cluster.changes:
        if change.node not in names:
            raise Problem(
                f"{place}: changes name node {change.node!r}, which the cluster does not have",
                mend=f"nodes are called {names[0]} to {names[-1]}",
            )
    if cluster.profiling is not None:
        _check_profiling(cluster, cluster.profiling, place)


def _check_profiling(cluster: Cluster, profiling: Profiling, place: str) -> None:
    """Raise `Problem` where jobs cannot be profiled on this cluster as it says."""
    if profiling.most < profiling.nodes:
        raise Problem(
            f"{place}: profiling.most_nodes is {profiling.most}, less than its {profiling.nodes} nodes",
            mend="name at least as many, or leave it out",
        )
    if profiling.most >= len(cluster.nodes):
        raise Problem(
            f"{place}: profiling may take {profiling.most} nodes of {len(cluster.nodes)}, which leaves none",
            mend="lower profiling.nodes or profiling.most_nodes, or add nodes",
        )
    if len({(node.gpus, node.kind) for node in cluster.nodes}) > 1:
        raise Problem(
            f"{place}: profiling needs nodes that are alike, and these are {cluster}",
            mend="leave out [profiling], or describe one kind of nodes",
        )
    check_cluster(cluster.main, f"{place}, without the nodes for profiling")
    taken = {node.name for node in cluster.nodes[-profiling.most :]}
    for change in cluster.changes:
        if change.node in taken:
            raise Problem(
                f"{place}: changes name node {change.node!r}, on which jobs may be profiled",
                mend="let other nodes change: profiling takes the last ones",
            )


def _first_repeated(names: list[str]) -> str | None:
    seen: set[str] = set()
    return next((name for name in names if name in seen or seen.add(name)), None)  # type: ignore[func-returns-value]
