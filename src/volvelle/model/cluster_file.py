"""The cluster file (docs/reference/cluster-file.md): what may stand in it, and the cluster it describes."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from volvelle.durations import parse_duration
from volvelle.model.node import FailureProcess, Level, Node, NodeChange, NodeState, read_labels
from volvelle.model.pool import Pool, Profiling
from volvelle.model.problems import Problem, nearest
from volvelle.model.validation import Seconds, describe_validation


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


def _labels(written: tuple[str, ...]) -> tuple[str, ...]:
    try:
        return read_labels(written)
    except Problem as problem:
        raise ValueError(str(problem)) from None


class _LevelEntry(_Strict):
    name: Annotated[str, Field(min_length=1)]
    weight: Annotated[float, Field(ge=0, le=1000)] = 0.0
    nodes: Annotated[int, Field(gt=0)] | None = None


class _NodeGroup(_Strict):
    name: str = "node"
    count: Annotated[int, Field(gt=0)] = 1
    gpus: Annotated[int, Field(ge=0)]
    gpu_type: str = ""
    cpus: Annotated[float, Field(ge=0)] = 0.0
    memory_gb: Annotated[float, Field(ge=0)] = 0.0
    bandwidth_gbps: tuple[tuple[float, ...], ...] | None = None
    labels: Annotated[tuple[str, ...], AfterValidator(_labels)] = ()
    domains: dict[str, str] = {}
    slowdowns: dict[str, tuple[Annotated[float, Field(gt=0)], ...]] = {}


class PoolEntry(_Strict):
    """A ``[[pools]]`` table: a pool, as in a cluster file."""

    name: str = Field(description="by which jobs name it")
    quota: Annotated[float, Field(ge=0)] = Field(description="its GPUs")
    lends: bool = Field(False, description="whether its idle GPUs may serve jobs of other pools")
    weight: Annotated[float, Field(gt=0)] | None = Field(
        None, description="its budget under `shockwave`; default: each of its jobs has its own"
    )

    def read(self) -> Pool:
        """The pool that the file describes."""
        return Pool(**self.model_dump())


class _ChangeEntry(_Strict):
    at: Seconds
    node: str
    state: NodeState


class _FailureEntry(_Strict):
    mtbf: Annotated[Seconds, Field(gt=0)] | None = None
    mttr: Annotated[Seconds, Field(gt=0)] | None = None
    shape: Annotated[float, Field(gt=0.05, le=20)] = 1.0
    trace: Path | None = None

    @model_validator(mode="after")
    def _drawn_or_traced(self) -> "_FailureEntry":
        if (self.mtbf is None) != (self.mttr is None) or (self.mtbf is None and self.trace is None):
            raise ValueError(
                "write mtbf and mttr, or trace, a CSV file with columns node, down and up"
            )
        return self

    @property
    def process(self) -> FailureProcess | None:
        """The failures that are drawn."""
        if self.mtbf is None or self.mttr is None:
            return None
        return FailureProcess(self.mtbf, self.mttr, self.shape)

    def traced(self, place: str) -> list[NodeChange]:
        """The failures and repairs of the trace, which lies beside the file at ``place``; none is foreseen.

        Raises `Problem`.
        """
        if self.trace is None:
            return []
        path, changes = Path(place).parent / self.trace, []
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                for row in csv.DictReader(file):
                    down, up = parse_duration(row["down"]), parse_duration(row["up"])
                    if not 0.0 <= down < up:
                        raise ValueError(f"node {row['node']!r} is down from {down:g} to {up:g} s")
                    for at, state in ((down, NodeState.DOWN), (up, NodeState.UP)):
                        changes.append(NodeChange(at, row["node"], state, foreseen=False))
        except (OSError, ValueError, KeyError, AttributeError) as error:
            raise Problem(
                f"{place}: failures.trace {str(self.trace)!r} cannot be read: {error}",
                mend="write a CSV file with columns node, down and up, seconds since the run's start",
            ) from None
        return changes


class ProfilingEntry(_Strict):
    """A ``[profiling]`` table: the last nodes of the cluster, on which jobs run first."""

    nodes: Annotated[int, Field(gt=0)] = Field(description="how many")
    most_nodes: Annotated[int, Field(gt=0)] | None = Field(
        None, description="up to which more are taken as jobs come; in simulations only"
    )
    seconds: Annotated[Seconds, Field(gt=0)] = Field(300.0, description="for which a job runs")
    resize_every: Annotated[Seconds, Field(gt=0)] = Field(
        3600.0, description="how often nodes are taken and given back"
    )
    user_gpus: Annotated[float, Field(gt=0)] | None = Field(
        None, description="that jobs of one user request together in each interval of `seconds`"
    )

    def read(self) -> Profiling:
        """The cluster that the file describes."""
        return Profiling(**self.model_dump())


class _ClusterFile(_Strict):
    nodes: Annotated[list[_NodeGroup], Field(min_length=1)]
    pools: list[PoolEntry] = []
    changes: list[_ChangeEntry] = []
    failures: _FailureEntry | None = None
    profiling: ProfilingEntry | None = None
    levels: list[_LevelEntry] = []
    slurm: dict[str, Any] = {}
    kueue: dict[str, Any] = {}


class Described(NamedTuple):
    """The fields of a `volvelle.model.cluster.Cluster`, which may still contradict each other."""

    nodes: tuple[Node, ...]
    pools: tuple[Pool, ...]
    changes: tuple[NodeChange, ...]
    failures: FailureProcess | None
    profiling: Profiling | None
    levels: tuple[Level, ...]


def described(document: dict[str, Any], place: str) -> Described:
    """The parts of the cluster of a decoded TOML document.

    Raises `Problem` naming the ``place``, the key and the mend.
    """
    try:
        file = _ClusterFile.model_validate(document)
    except ValidationError as error:
        raise Problem(f"{place}: {describe_validation(error, _ClusterFile)}") from None
    return Described(
        tuple(_nodes(file, place)),
        tuple(pool.read() for pool in file.pools),
        tuple(
            sorted(
                [NodeChange(change.at, change.node, change.state) for change in file.changes]
                + (file.failures.traced(place) if file.failures else []),
                key=lambda change: change.time,
            )
        ),
        file.failures.process if file.failures else None,
        file.profiling.read() if file.profiling else None,
        tuple(Level(level.name, level.weight) for level in file.levels),
    )


def _nodes(file: _ClusterFile, place: str) -> Iterator[Node]:
    """The nodes, each in its domains. Raises `Problem`."""
    names = [level.name for level in file.levels]
    at = 0
    for group in file.nodes:
        for name in group.domains.keys() - set(names):
            raise Problem(
                f"{place}: node {group.name!r} is in a domain of level {name!r}, which there is not",
                mend=f"declare it under [[levels]]{nearest(name, names)}",
            )
        for node in _group_nodes(group):
            domain = tuple(
                group.domains.get(
                    level.name, f"{level.name}-{at // level.nodes}" if level.nodes else ""
                )
                for level in file.levels
            )
            at += 1
            yield msgspec.structs.replace(node, domain=domain) if any(domain) else node


def _group_nodes(group: _NodeGroup) -> list[Node]:
    names = (
        [group.name]
        if group.count == 1
        else [f"{group.name}-{i:0{len(str(group.count - 1))}d}" for i in range(group.count)]
    )
    described = group.model_dump(exclude={"name", "count", "domains"})
    described["slowdowns"] = tuple(sorted(group.slowdowns.items()))
    return [Node(name, **described) for name in names]
