"""The cluster file (docs/reference/cluster-file.md): what may stand in it, and the cluster it describes."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from volvelle.model.cluster import (
    Cluster,
    FailureProcess,
    Node,
    NodeChange,
    NodeState,
    Pool,
    Profiling,
)
from volvelle.model.problems import Problem
from volvelle.model.validation import Seconds, describe_validation


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _NodeGroup(_Strict):
    name: str = "node"
    count: Annotated[int, Field(gt=0)] = 1
    gpus: Annotated[int, Field(ge=0)]
    gpu_type: str = ""
    cpus: Annotated[float, Field(ge=0)] = 0.0
    memory_gb: Annotated[float, Field(ge=0)] = 0.0
    bandwidth_gbps: tuple[tuple[float, ...], ...] | None = None


class _PoolEntry(_Strict):
    name: str
    quota: Annotated[float, Field(ge=0)]
    lends: bool = False
    weight: Annotated[float, Field(gt=0)] | None = None


class _ChangeEntry(_Strict):
    at: Seconds
    node: str
    state: NodeState


class _FailureEntry(_Strict):
    mtbf: Annotated[Seconds, Field(gt=0)]
    mttr: Annotated[Seconds, Field(gt=0)]


class _ProfilingEntry(_Strict):
    nodes: Annotated[int, Field(gt=0)]
    most_nodes: Annotated[int, Field(gt=0)] | None = None
    seconds: Annotated[Seconds, Field(gt=0)] = 300.0
    resize_every: Annotated[Seconds, Field(gt=0)] = 3600.0
    user_gpus: Annotated[float, Field(gt=0)] | None = None


class _ClusterFile(_Strict):
    nodes: Annotated[list[_NodeGroup], Field(min_length=1)]
    pools: list[_PoolEntry] = []
    changes: list[_ChangeEntry] = []
    failures: _FailureEntry | None = None
    profiling: _ProfilingEntry | None = None


def described(document: dict[str, Any], place: str) -> Cluster:
    """The cluster of a decoded TOML document, whose parts may still contradict each other.

    Raises `Problem` naming the ``place``, the key and the mend.
    """
    try:
        file = _ClusterFile.model_validate(document)
    except ValidationError as error:
        raise Problem(f"{place}: {describe_validation(error, _ClusterFile)}") from None
    return Cluster(
        tuple(node for group in file.nodes for node in _group_nodes(group)),
        tuple(Pool(**pool.model_dump()) for pool in file.pools),
        tuple(
            NodeChange(change.at, change.node, change.state)
            for change in sorted(file.changes, key=lambda change: change.at)
        ),
        FailureProcess(file.failures.mtbf, file.failures.mttr) if file.failures else None,
        Profiling(**file.profiling.model_dump()) if file.profiling else None,
    )


def _group_nodes(group: _NodeGroup) -> list[Node]:
    names = (
        [group.name]
        if group.count == 1
        else [f"{group.name}-{i:0{len(str(group.count - 1))}d}" for i in range(group.count)]
    )
    return [
        Node(name, group.gpus, group.gpu_type, group.cpus, group.memory_gb, group.bandwidth_gbps)
        for name in names
    ]
