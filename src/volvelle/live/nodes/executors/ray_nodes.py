"""The nodes of a Ray cluster, and the names that they bear for us as long as we count on them."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec

from volvelle.live.agent.folders import write
from volvelle.model.node import Node

LABEL = "volvelle-node"
"""The label of a Ray node that says what we call it; default: its node name, else its host's."""
_ACCELERATOR = "accelerator_type:"


class RayNode(msgspec.Struct, frozen=True):
    """A node: Ray's identity of it, and what it is to us."""

    identity: str
    node: Node


class Roll:
    """Who bore each name last, in a file that outlives the controller: his jobs may still run."""

    def __init__(self, file: Path, places: Collection[Node]) -> None:
        self._file, self._places = file, places
        kept = msgspec.json.decode(file.read_bytes(), type=list[RayNode]) if file.exists() else []
        self.bearers = {one.node.name: one for one in kept}

    def enter(
        self, alive: Collection[RayNode], free: Collection[str], settled: Collection[str]
    ) -> None:
        """Name those that have no name yet (`named`). Raises OSError where that cannot be kept."""
        bearers = named(alive, self.bearers, free, settled, self._places)
        if bearers != self.bearers:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write(self._file, msgspec.json.encode(list(bearers.values())))
            self.bearers = bearers


def named(
    alive: Collection[RayNode],
    bearers: Mapping[str, RayNode],
    free: Collection[str],
    settled: Collection[str],
    places: Collection[Node],
) -> dict[str, RayNode]:
    """``bearers``, and as far as there are names for them those of ``alive`` that are new.

    free: names that may be given to others. settled: identities of nodes that share their name with another
    for good, and are not that one come back before its death was noticed. places: whose names are given
    instead of Ray's, each to a node with the same GPUs.
    """
    living = {one.identity for one in alive}
    taken = {
        name: one for name, one in bearers.items() if name not in free or one.identity in living
    }
    known = {one.identity for one in taken.values()}
    for one in alive:
        if one.identity not in known and (name := _name(one, taken, settled, places)):
            node = msgspec.structs.replace(one.node, name=name)
            taken[name] = RayNode(one.identity, node)
    return {**bearers, **taken}


def _name(
    one: RayNode, taken: Mapping[str, RayNode], settled: Collection[str], places: Collection[Node]
) -> str:
    """Empty: there is none for now."""
    gpus, plain = (one.node.gpus, one.node.gpu_type), one.node.name
    if places:
        fitting = (place.name for place in places if (place.gpus, place.gpu_type) == gpus)
        return next((name for name in fitting if name not in taken), "")
    if plain not in taken:
        return plain
    return f"{plain}-{one.identity[:8]}" if one.identity in settled else ""


def nodes_alive(ray: Any) -> list[RayNode]:
    """The nodes that are alive and have GPUs, under the names that Ray has for them."""
    found = []
    for one in sorted(ray.nodes(), key=lambda one: str(one["NodeID"])):
        has = one["Resources"]
        gpus = int(has.get("GPU", 0))
        if not one["Alive"] or not gpus:
            continue
        types = [r.removeprefix(_ACCELERATOR) for r in has if r.startswith(_ACCELERATOR)]
        node = Node(
            name=_plain_name(one),
            gpus=gpus,
            gpu_type=types[0].lower() if types else "",
            cpus=float(has.get("CPU", 0.0)),
            memory_gb=float(has.get("memory", 0.0)) / (1 << 30),
        )
        found.append(RayNode(str(one["NodeID"]), node))
    return found


def _plain_name(one: dict[str, Any]) -> str:
    name = one.get("NodeName") or ""
    host = one["NodeManagerHostname"] if name in ("", one["NodeManagerAddress"]) else name
    return str(one.get("Labels", {}).get(LABEL) or host)
