"""The resources that a job takes of nodes, by its request and the partition in which it runs.

Topology, sockets and cores are not modelled: a CPU is a CPU.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from volvelle.incumbents.slurm.site import Node, Partition, Site
from volvelle.incumbents.slurm.snapshot import Job
from volvelle.model.arrays import Bools, Floats

CPUS, MEMORY, GPUS = 0, 1, 2
"""Rows of what is free, (3, nodes); memory in MB."""

MANY = 1e9
"""Stands for no limit on the tasks of a node, and for all memory of a node."""


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

        self.mask = cache(self._mask)
        self.with_gpus = cache(self._with_gpus)
        self.with_features = cache(self._with_features)

    def _mask(self, names: tuple[str, ...]) -> Bools:
        """Which nodes these are; names that are not known are left out."""
        there = set(names)
        return _fixed([node.name in there for node in self.nodes])

    def _with_gpus(self, kind: str) -> Bools:
        """Which nodes have GPUs of a type (empty: of any)."""
        return _fixed([bool(node.gpus) if not kind else kind in node.gpus for node in self.nodes])

    def _with_features(self, written: str) -> Bools:
        """Which nodes have the features of ``--constraint``: names with ``&`` or ``|`` between them."""
        ways = [way.strip("()[] ").split("&") for way in written.split("|")]
        return _fixed(
            [
                any(all(one.split("*")[0] in node.features for one in way) for way in ways)
                for node in self.nodes
            ]
        )


def _fixed(flags: list[bool]) -> Bools:
    """Flags by node that nobody writes to."""
    found = np.array(flags, dtype=np.bool_)
    found.setflags(write=False)
    return found


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
        allowed = allowed & hardware.with_gpus(kind)
    if job.features:
        allowed = allowed & hardware.with_features(job.features)
    if job.excluded_nodes:
        allowed = allowed & ~hardware.mask(job.excluded_nodes)
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
        node_memory = MANY
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
        most_tasks=job.tasks_per_node or MANY,
        node_cpus=max(job.least_cpus_per_node, 1.0),
        node_gpus=node_gpus,
        node_memory=node_memory if by_memory else 0.0,
        cpu_memory=(per_cpu or 0.0) if by_memory and memory is None else 0.0,
        gpus=total,
        whole=job.exclusive or partition.exclusive,
    )
