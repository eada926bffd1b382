"""A node: what a cluster is made of, and what an agent speaks for."""

import msgspec


class Node(msgspec.Struct, frozen=True):
    """A machine. ``bandwidth_gbps[i][j]`` is what GPUs ``i`` and ``j`` of it exchange."""

    name: str
    gpus: int
    gpu_type: str = ""
    cpus: float = 0.0
    memory_gb: float = 0.0
    bandwidth_gbps: tuple[tuple[float, ...], ...] | None = None
