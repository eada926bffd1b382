"""The resources that a job takes of nodes, and the nodes that ``select/cons_tres`` gives it.

Nodes are chosen as the function that serves plain clusters does: among sets of nodes that stand beside each
other in the configuration and can serve the job, the smallest that suffices, from its first node on
(slurm.conf(5), ``Weight``; "Consumable Resources in Slurm"). Topology, sockets and cores are not modelled: a
CPU is a CPU.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from volvelle.incumbents.slurm.site import Job, Node, Partition, Site

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

CPUS, MEMORY, GPUS = 0, 1, 2
"""Rows of what is free, (3, nodes); memory in MB."""

_MANY = 1e9


class Share(NamedTuple):
    """The resources that a job holds of one node, by number."""

    node: int
    cpus: float
    memory: float
    gpus: float


class Shape(NamedTuple):
    """The demand of a job in one partition.

    allowed: nodes on which it may run. least, most: nodes. cpus, gpus: of the whole job, 0 for GPUs that are
    asked for by node. Of each node it takes ``node_cpus`` CPUs, ``node_gpus`` GPUs and ``node_memory`` MB at
    least. A task takes ``task_cpus`` CPUs and ``task_gpus`` GPUs, and its memory goes with its CPUs
    (``cpu_memory``) or its GPUs (``gpu_memory``). most_tasks: on a node. whole: whole nodes, with all CPUs
    and GPUs.
    """

    allowed: Bools
    required: Bools
    least: int
    most: int
    tasks: int
    task_cpus: float
    task_gpus: float
    most_tasks: float
    node_cpus: float
    node_gpus: float
    node_memory: float
    cpu_memory: float
    gpus: float
    whole: bool


class Hardware:
    """The nodes of a site by number, in the order of its configuration."""

    def __init__(self, nodes: Sequence[Node], kinds: Sequence[int] | None = None) -> None:
        self.nodes = tuple(nodes)
        alike = np.array([0] * len(self.nodes) if kinds is None else kinds)
        self.kinds = tuple(alike == kind for kind in dict.fromkeys(alike.tolist()))
        """Masks of nodes; a job has nodes of one of them."""
        self.number = {node.name: at for at, node in enumerate(self.nodes)}
        self.capacity: Floats = np.array(
            [[node.cpus, node.memory, sum(node.gpus.values())] for node in self.nodes]
        ).T.reshape(3, len(self.nodes))
        self.weight = np.array([node.weight for node in self.nodes])

    def mask(self, names: Sequence[str]) -> Bools:
        """Which nodes these are; names that are not known are left out."""
        found = np.zeros(len(self.nodes), dtype=np.bool_)
        found[[self.number[name] for name in names if name in self.number]] = True
        return found

    def with_gpus(self, kind: str) -> Bools:
        """Which nodes have GPUs of a type (empty: of any)."""
        return np.array([bool(node.gpus) if not kind else kind in node.gpus for node in self.nodes])

    def with_features(self, written: str) -> Bools:
        """Which nodes have the features of ``--constraint``: names with ``&`` or ``|`` between them."""
        ways = [way.strip("()[] ").split("&") for way in written.split("|")]
        return np.array(
            [
                any(all(one.split("*")[0] in node.features for one in way) for way in ways)
                for node in self.nodes
            ]
        )


def gpu_ask(tres: Mapping[str, float]) -> tuple[float, str]:
    """GPUs and their type (empty: any) in amounts as Slurm names them."""
    for name, amount in tres.items():
        if name.startswith("gres/gpu:"):
            return amount, name.removeprefix("gres/gpu:")
    return tres.get("gres/gpu", 0.0), ""


def shape_of(job: Job, partition: Partition, hardware: Hardware, site: Site) -> Shape:
    """The demand of ``job`` in a partition, as ``scontrol show job`` tells it."""
    node_gpus, kind = gpu_ask(job.per_node)
    total, other = gpu_ask(job.per_job)
    task_gpus, third = gpu_ask(job.per_task)
    asked, fourth = gpu_ask(job.asked)
    kind = kind or other or third or fourth
    if asked and not (node_gpus or total or task_gpus):
        node_gpus, total = (0.0, asked) if job.least_nodes == 1 else (asked / job.least_nodes, 0.0)
        if job.least_nodes == job.most_nodes == 1:
            node_gpus, total = asked, 0.0
    allowed = hardware.mask(partition.nodes)
    if node_gpus or total or task_gpus:
        allowed &= hardware.with_gpus(kind)
    if job.features:
        allowed &= hardware.with_features(job.features)
    if job.excluded_nodes:
        allowed &= ~hardware.mask(job.excluded_nodes)
    tasks = max(job.tasks, 1)
    cpus = job.cpus_per_task
    memory, per_cpu = job.memory_per_node, job.memory_per_cpu
    if memory is None and per_cpu is None:
        if task_gpus and job.asked.get("mem"):
            per_cpu = job.asked["mem"] / max(job.cpus, 1.0)
        else:
            per_cpu = partition.memory_per_cpu or site.config.number("DefMemPerCPU", 0.0) or None
    by_memory = "MEMORY" in site.config.text("SelectTypeParameters").upper()
    if task_gpus and job.least_cpus_per_node > cpus:
        cpus = job.least_cpus_per_node
    node_memory = memory or 0.0
    if by_memory and memory is None and per_cpu is None:
        node_memory = _MANY
    flexible = total > 0 and not task_gpus
    open_ended = flexible or (
        tasks > 1 and job.most_nodes <= job.least_nodes == 1 and task_gpus > 0
    )
    most = max(job.most_nodes, job.least_nodes)
    if open_ended and most == 1:
        most = len(hardware.nodes)
    most = min(most, partition.max_nodes or most)
    if tasks == 1 and job.cpus > cpus and job.least_nodes == 1:
        cpus = job.cpus
    return Shape(
        allowed=allowed,
        required=hardware.mask(job.required_nodes),
        least=max(job.least_nodes, 1),
        most=most,
        tasks=tasks,
        task_cpus=max(cpus, 1.0),
        task_gpus=task_gpus,
        most_tasks=job.tasks_per_node or _MANY,
        node_cpus=max(job.least_cpus_per_node, 1.0),
        node_gpus=node_gpus,
        node_memory=node_memory if by_memory else 0.0,
        cpu_memory=(per_cpu or 0.0) if by_memory and memory is None else 0.0,
        gpus=total,
        whole=job.exclusive or partition.exclusive,
    )


def tasks_on(shape: Shape, hardware: Hardware, free: Floats, usable: Bools) -> Floats:
    """How many tasks each node can take: 0 where it cannot serve the job at all."""
    cpus, memory, gpus = free
    tasks = np.floor(cpus / shape.task_cpus)
    if shape.cpu_memory:
        tasks = np.minimum(tasks, np.floor(memory / (shape.task_cpus * shape.cpu_memory) + 1e-9))
    if shape.task_gpus:
        tasks = np.minimum(tasks, np.floor(gpus / shape.task_gpus))
    tasks = np.minimum(tasks, shape.most_tasks)
    fits = usable & shape.allowed & (cpus >= shape.node_cpus) & (tasks >= 1)
    fits &= gpus >= max(shape.node_gpus, min(shape.gpus, 1.0))
    if shape.node_memory == _MANY:
        fits &= memory >= hardware.capacity[MEMORY]
    else:
        fits &= memory >= shape.node_memory
    if shape.whole:
        fits &= cpus >= hardware.capacity[CPUS]
    return np.where(fits, tasks, 0.0)


def choose(shape: Shape, hardware: Hardware, free: Floats, usable: Bools) -> list[int] | None:
    """The nodes on which the job would start; None where it cannot.

    free: (3, nodes). usable: nodes that may be taken.
    """
    tasks = tasks_on(shape, hardware, free, usable)
    for kind in hardware.kinds:
        there = tasks if len(hardware.kinds) == 1 else np.where(kind, tasks, 0.0)
        if there.any() and (nodes := _chosen(shape, hardware, free, there)) is not None:
            return nodes
    return None


def _chosen(shape: Shape, hardware: Hardware, free: Floats, tasks: Floats) -> list[int] | None:
    """`choose` among the nodes that can take any ``tasks``."""
    chosen: list[int] = []
    left = float(shape.tasks)
    gpus_left = shape.gpus
    wanted = shape.most if not shape.gpus and shape.most < len(hardware.nodes) else shape.least

    def take(node: int) -> None:
        nonlocal left, gpus_left
        chosen.append(node)
        left -= tasks[node]
        gpus_left -= free[GPUS, node]

    if shape.required.any():
        if (tasks[shape.required] == 0).any():
            return None
        for node in np.flatnonzero(shape.required).tolist():
            take(node)
    taken = set(chosen)
    sets = [one for one in _sets(tasks, hardware.weight) if not taken.issuperset(one)]
    while len(chosen) < wanted or left > 0 or gpus_left > 0:
        if len(chosen) >= shape.most or not sets:
            break
        best = _best(
            sets,
            tasks * shape.task_cpus,
            free[GPUS],
            max(left, 0) * shape.task_cpus,
            gpus_left,
            shape,
            wanted,
            len(chosen),
        )
        for node in sets.pop(best):
            if node in taken:
                continue
            if len(chosen) >= shape.most or (
                len(chosen) >= wanted and left <= 0 and gpus_left <= 0
            ):
                break
            take(node)
    if len(chosen) < shape.least or left > 0 or gpus_left > 0:
        return None
    return sorted(chosen)


def _sets(tasks: Floats, weight: Floats) -> list[list[int]]:
    """Nodes that can serve, in sets of neighbours of equal weight; sets of less weight first."""
    sets: list[list[int]] = []
    for node in np.flatnonzero(tasks).tolist():
        if sets and sets[-1][-1] == node - 1 and weight[node] == weight[node - 1]:
            sets[-1].append(node)
        else:
            sets.append([node])
    return sorted(sets, key=lambda one: weight[one[0]])


def _best(
    sets: list[list[int]],
    cpus: Floats,
    gpus: Floats,
    left: float,
    gpus_left: float,
    shape: Shape,
    wanted: int,
    have: int,
) -> int:
    """The set that suffices and has the fewest CPUs; where none does, the one that has the most."""
    best, best_fits, best_cpus = 0, False, -1.0
    for at, nodes in enumerate(sets):
        there = float(cpus[nodes].sum())
        enough = len(nodes) + have >= shape.least and there >= left
        enough = enough and float(gpus[nodes].sum()) >= gpus_left
        if (
            best_cpus < 0
            or (enough and not best_fits)
            or (enough and there < best_cpus)
            or (not enough and not best_fits and there > best_cpus)
        ):
            best, best_fits, best_cpus = at, enough, there
    return best


def shares(shape: Shape, hardware: Hardware, free: Floats, nodes: Sequence[int]) -> list[Share]:
    """The resources of the job on ``nodes``, which can serve it: tasks fill the first node first."""
    if shape.whole:
        return [
            Share(
                node,
                float(hardware.capacity[CPUS, node]),
                shape.node_memory or shape.cpu_memory * float(hardware.capacity[CPUS, node]),
                float(hardware.capacity[GPUS, node]),
            )
            for node in nodes
        ]
    possible = tasks_on(shape, hardware, free, np.ones(len(hardware.nodes), dtype=np.bool_))
    found, left, gpus_left = [], float(shape.tasks), shape.gpus
    for at, node in enumerate(nodes):
        behind = len(nodes) - at - 1
        own = min(float(possible[node]), max(left - behind, 1.0))
        left -= own
        cpus = max(own * shape.task_cpus, shape.node_cpus)
        gpus = shape.node_gpus + own * shape.task_gpus
        if shape.gpus:
            gpus = min(float(free[GPUS, node]), gpus_left - behind)
            gpus_left -= gpus
        memory = shape.node_memory
        if memory == _MANY:
            memory = float(hardware.capacity[MEMORY, node])
        found.append(Share(node, cpus, memory or cpus * shape.cpu_memory, gpus))
    return found
