"""``site.toml``: a site in one file, which is also the cluster file of its nodes (``--cluster site.toml``).

``[[nodes]]`` are those of any cluster file, features as labels. ``[slurm]`` holds the rest of a `Site` by the
names of its fields; what has its default is left out. ``slurm.config`` holds the keys of ``scontrol show
config`` as Slurm spells them.
"""

import re
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from volvelle.incumbents.slurm.read_site import in_partitions, kind_of, placed, read_site, texts_of
from volvelle.incumbents.slurm.site import (
    Association,
    Limits,
    Node,
    Partition,
    Qos,
    Reservation,
    Site,
)
from volvelle.model.cluster import cluster_from
from volvelle.model.problems import Problem
from volvelle.model.toml import read_toml, toml, toml_key
from volvelle.model.validation import describe_error, telling

_MB = 1024.0
_ENOUGH = 1e9
"""CPUs, or MB, of a node that does not say how many it has."""
_KEPT = re.compile(
    r"ClusterName|SLURM_VERSION|Priority|Preempt|Sched|Select|(Def|Max)MemPer|PrivateData|JobSubmitPlugins"
    r"|AccountingStorage(Type|Enforce)$|TopologyPlugin|JobRequeue",
    re.IGNORECASE,
)
"""The keys of the configuration that say how it schedules: no hosts, no paths."""
_KINDS = (Site, Partition, Qos, Association, Reservation, Limits)


def site_at(path: Path) -> Site:
    """The site that is described at a path: ``site.toml``, ``slurm.conf``, or a folder of answers.

    Raises `Problem`.
    """
    if path.is_dir():
        return read_site(texts_of(path))
    if path.suffix == ".toml":
        return read_site_file(path)
    if not path.is_file():
        raise Problem(f"there is no file {path}", mend="check the path", usage=True)
    text = path.read_text(encoding="utf-8", errors="replace")
    if not (kind := kind_of(text)):
        raise Problem(
            f"{path} describes no site of Slurm",
            mend="give site.toml, slurm.conf, or a folder of what scontrol and sacctmgr say",
        )
    return read_site({kind: text})


def read_site_file(path: Path) -> Site:
    """The site of a ``site.toml``. Raises `Problem` naming the file, the key and the mend."""
    document = read_toml(path, "site file")
    if "slurm" not in document:
        raise Problem(
            f"{path} has no table [slurm]", mend="write it with volvelle site import slurm"
        )
    nodes = tuple(
        Node(
            node.name,
            node.cpus or _ENOUGH,
            node.memory_gb * _MB or _ENOUGH,
            {node.gpu_type: node.gpus} if node.gpus else {},
            frozenset(node.labels),
        )
        for node in cluster_from(document, str(path)).nodes
    )
    given = document["slurm"]
    weights = given.pop("weights", {})
    try:
        site = TypeAdapter(Site).validate_python(
            given | {"config": {"keys": given.get("config", {})}}
        )
    except ValidationError as error:
        known = {one.name for kind in _KINDS for one in fields(kind)} - {"keys"}
        said = describe_error(telling(error.errors(include_url=False)), known)
        raise Problem(f"{path}: slurm: {said}") from None
    partitions = tuple(placed(site.partitions, nodes))
    names = {node.name for node in nodes}
    for partition in partitions:
        if unknown := sorted(set(partition.nodes) - names):
            raise Problem(
                f"{path}: partition {partition.name} names node {unknown[0]!r}, which the file lacks",
                mend="add it to [[nodes]], or take it out of the partition",
            )
    weighed = (replace(node, weight=weights.get(node.name, 1.0)) for node in nodes)
    return replace(site, partitions=partitions, nodes=in_partitions(tuple(weighed), partitions))


def written_site(site: Site, remarks: tuple[str, ...]) -> str:
    """The text of a ``site.toml``, with remarks as comments at its top."""
    everywhere = tuple(node.name for node in site.nodes)
    partitions = (
        replace(one, nodes=("ALL",)) if one.nodes == everywhere else one for one in site.partitions
    )
    whole = replace(site, nodes=(), partitions=tuple(partitions), remarks=())
    kept = {key: value for key, value in site.config.keys.items() if _KEPT.match(key)}
    table = _changed(whole) | {"config": kept}
    weights = {node.name: node.weight for node in site.nodes if node.weight != 1.0}
    tables = table | ({"weights": weights} if weights else {})
    lines = ["# A site of Slurm, written by volvelle site import slurm. Beside each other:"]
    lines += [
        "# volvelle compare october.txt --cluster site.toml --policy slurm:site=site.toml --policy easy"
    ]
    lines += [f"# {remark}" for remark in remarks]
    lines += ["nodes = ["]
    lines += [f"  {toml(_cluster_node(node))}," for node in site.nodes]
    lines += ["]", "", "[slurm]"]
    lines += [f"{name} = {toml(value)}" for name, value in tables.items() if _is_plain(value)]
    for name, value in tables.items():
        if isinstance(value, dict):
            lines += ["", f"[slurm.{name}]"]
            lines += [f"{toml_key(key)} = {toml(one)}" for key, one in value.items()]
        elif not _is_plain(value):
            for row in value:
                lines += ["", f"[[slurm.{name}]]"]
                lines += [f"{key} = {toml(one)}" for key, one in row.items()]
    return "\n".join(lines) + "\n"


def _cluster_node(node: Node) -> dict[str, Any]:
    kind = next(iter(node.gpus), "")
    entry: dict[str, Any] = {"name": node.name, "gpus": sum(node.gpus.values())}
    entry |= {"gpu_type": kind} if kind else {}
    entry |= {"cpus": node.cpus, "memory_gb": node.memory / _MB}
    return entry | ({"labels": sorted(node.features)} if node.features else {})


def _is_plain(value: Any) -> bool:
    return not isinstance(value, dict) and not (isinstance(value, list) and value)


def _changed(one: Any) -> dict[str, Any]:
    """The fields of a dataclass that have no default, or another value."""
    found = {}
    for field in fields(one):
        value = getattr(one, field.name)
        usual = field.default if field.default_factory is MISSING else field.default_factory()
        if value is not None and value != usual:
            found[field.name] = _plain(value)
    return found


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return _changed(value)
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, frozenset):
        return sorted(value)
    return [_plain(one) for one in value] if isinstance(value, tuple) else value
