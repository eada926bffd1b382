"""The nodes of a Ray cluster, and the stable names that the scheduler knows them by."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec

from volvelle.live.agent.files import write_file
from volvelle.model.node import Node

LABEL = "volvelle-node"
"""Label of a Ray node that gives its name; default: its Ray node name, else its host name."""
_ACCELERATOR = "accelerator_type:"


class RayNode(msgspec.Struct, frozen=True):
    """A node, with Ray's id of it."""

    id: str
    node: Node


class NodeNames:
    """The last node of each name, in a file that outlives the controller: its jobs may still run.

    ``templates``: see `assign_names`.
    """

    def __init__(self, file: Path, templates: Collection[Node]) -> None:
        self._file, self._templates = file, templates
        kept = msgspec.json.decode(file.read_bytes(), type=list[RayNode]) if file.exists() else []
        self.nodes = {one.node.name: one for one in kept}

    def assign(
        self, alive: Collection[RayNode], free: Collection[str], settled: Collection[str]
    ) -> None:
        """Name the nodes that have no name yet (`assign_names`). Raises OSError if that cannot be stored."""
        nodes = assign_names(alive, self.nodes, free, settled, self._templates)
        if nodes != self.nodes:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_file(self._file, msgspec.json.encode(list(nodes.values())))
            self.nodes = nodes


def assign_names(
    alive: Collection[RayNode],
    named: Mapping[str, RayNode],
    free: Collection[str],
    settled: Collection[str],
    templates: Collection[Node],
) -> dict[str, RayNode]:
    """``named``, and the new nodes of ``alive`` for which there is a name.

    free: names that may be given to other nodes. settled: ids of nodes that share their name with another
    node for good, and are not that node come back before its death was detected. templates: nodes whose names
    are given instead of Ray's, each to a node with the same GPUs.
    """
    alive_ids = {one.id for one in alive}
    taken = {name: one for name, one in named.items() if name not in free or one.id in alive_ids}
    known = {one.id for one in taken.values()}
    for one in alive:
        if one.id not in known and (name := _choose_name(one, taken, settled, templates)):
            taken[name] = RayNode(one.id, msgspec.structs.replace(one.node, name=name))
    return {**named, **taken}


def _choose_name(
    one: RayNode,
    taken: Mapping[str, RayNode],
    settled: Collection[str],
    templates: Collection[Node],
) -> str:
    """A name for a node; empty if there is none for now."""
    kind, ray_name = (one.node.gpus, one.node.gpu_type), one.node.name
    if templates:
        fitting = (each.name for each in templates if (each.gpus, each.gpu_type) == kind)
        return next((name for name in fitting if name not in taken), "")
    if ray_name not in taken:
        return ray_name
    return f"{ray_name}-{one.id[:8]}" if one.id in settled else ""


def list_alive_nodes(ray: Any) -> list[RayNode]:
    """The nodes that are alive and have GPUs, under Ray's names."""
    found = []
    for entry in sorted(ray.nodes(), key=lambda entry: str(entry["NodeID"])):
        resources = entry["Resources"]
        gpus = int(resources.get("GPU", 0))
        if not entry["Alive"] or not gpus:
            continue
        types = [
            key.removeprefix(_ACCELERATOR) for key in resources if key.startswith(_ACCELERATOR)
        ]
        node = Node(
            name=_ray_name(entry),
            gpus=gpus,
            gpu_type=types[0].lower() if types else "",
            cpus=float(resources.get("CPU", 0.0)),
            memory_gb=float(resources.get("memory", 0.0)) / (1 << 30),
        )
        found.append(RayNode(str(entry["NodeID"]), node))
    return found


def _ray_name(entry: dict[str, Any]) -> str:
    name = entry.get("NodeName") or ""
    host = entry["NodeManagerHostname"] if name in ("", entry["NodeManagerAddress"]) else name
    return str(entry.get("Labels", {}).get(LABEL) or host)
