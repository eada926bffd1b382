"""The nodes that ``select/cons_tres`` gives a job.

Nodes are chosen as the function that serves plain clusters does: among sets of nodes that stand beside each
other in the configuration and can serve the job, the smallest that suffices, from its first node on
(slurm.conf(5), ``Weight``; "Consumable Resources in Slurm").
"""

from typing import NamedTuple

import numpy as np

from volvelle.core.compiled import compiled, kernel
from volvelle.incumbents.slurm.shapes import CPUS, GPUS, MANY, MEMORY, Hardware, Shape, Share
from volvelle.model.arrays import Bools, Floats, Ints

(LEAST, MOST, TASKS, TASK_CPUS, TASK_GPUS, MOST_TASKS, NODE_CPUS, NODE_GPUS) = range(8)
(NODE_MEMORY, CPU_MEMORY, JOB_GPUS, WHOLE, REQUIRES) = range(8, 13)
"""Columns of demands: the fields of `Shape` that are numbers, and whether it requires nodes by name."""


class Ground(NamedTuple):
    """The nodes, and the demands of jobs, each a row.

    capacity: (3, nodes). weight: by node. kinds: (kinds, nodes); a job has nodes of one kind. demands:
    (demands, columns). allowed, required: (demands, nodes).
    """

    capacity: Floats
    weight: Floats
    kinds: Bools
    demands: Floats
    allowed: Bools
    required: Bools


class Demands:
    """The different shapes of jobs, by number; forks of a controller share them."""

    def __init__(self, hardware: Hardware) -> None:
        nodes = len(hardware.nodes)
        self._numbers: dict[tuple[object, ...], int] = {}
        self.ground = Ground(
            np.ascontiguousarray(hardware.capacity),
            hardware.weight.astype(np.float64),
            np.array(hardware.kinds, dtype=np.bool_).reshape(len(hardware.kinds), nodes),
            np.zeros((4, REQUIRES + 1)),
            np.zeros((4, nodes), dtype=np.bool_),
            np.zeros((4, nodes), dtype=np.bool_),
        )

    def number(self, shape: Shape) -> int:
        """The number of a shape."""
        values = *shape[2:13], float(shape.whole), float(shape.required.any())
        key = shape.allowed.tobytes(), shape.required.tobytes(), values
        if key not in self._numbers:
            self._numbers[key] = self._add(shape, values)
        return self._numbers[key]

    def _add(self, shape: Shape, values: tuple[float, ...]) -> int:
        number, ground = len(self._numbers), self.ground
        if number == len(ground.demands):
            twice = [np.concatenate([column, np.zeros_like(column)]) for column in ground[3:]]
            ground = self.ground = Ground(*ground[:3], *twice)
        ground.demands[number] = values
        ground.allowed[number], ground.required[number] = shape.allowed, shape.required
        return number


def choose(ground: Ground, demand: int, free: Floats, usable: Bools) -> list[int] | None:
    """The nodes on which a job of a demand would start; None where it cannot.

    free: (3, nodes). usable: nodes that may be taken.
    """
    chosen = np.zeros(len(usable), dtype=np.bool_)
    if not find(ground, demand, free, usable, chosen):
        return None
    return np.flatnonzero(chosen).tolist()


@compiled
def find(ground: Ground, demand: int, free: Floats, usable: Bools, chosen: Bools) -> bool:
    """Write the nodes that `choose` gives to ``chosen``; False where there are none."""
    tasks = np.zeros(len(usable))
    fill_tasks(ground, demand, free, usable, tasks)
    return find_among(ground, demand, free, tasks, usable, chosen)


@kernel
def fill_tasks(ground: Ground, demand: int, free: Floats, usable: Bools, tasks: Floats) -> None:
    """Write to ``tasks`` how many each node can take: 0 where it cannot serve the job at all."""
    for node in range(len(usable)):
        tasks[node] = 0.0
        if usable[node] and ground.allowed[demand, node]:
            tasks[node] = tasks_at(ground, demand, free, node)


@kernel
def tasks_at(ground: Ground, demand: int, free: Floats, node: int) -> float:
    """How many tasks one node can take."""
    wants = ground.demands
    cpus, memory, gpus = free[CPUS, node], free[MEMORY, node], free[GPUS, node]
    task_cpus, task_gpus = wants[demand, TASK_CPUS], wants[demand, TASK_GPUS]
    cpu_memory, node_memory = wants[demand, CPU_MEMORY], wants[demand, NODE_MEMORY]
    tasks = np.floor(cpus / task_cpus)
    if cpu_memory != 0.0:
        tasks = min(tasks, np.floor(memory / (task_cpus * cpu_memory) + 1e-9))
    if task_gpus != 0.0:
        tasks = min(tasks, np.floor(gpus / task_gpus))
    tasks = min(tasks, wants[demand, MOST_TASKS])
    if tasks < 1.0 or cpus < wants[demand, NODE_CPUS]:
        return 0.0
    if gpus < max(wants[demand, NODE_GPUS], min(wants[demand, JOB_GPUS], 1.0)):
        return 0.0
    if memory < (ground.capacity[MEMORY, node] if node_memory == MANY else node_memory):
        return 0.0
    if wants[demand, WHOLE] != 0.0 and cpus < ground.capacity[CPUS, node]:
        return 0.0
    return float(tasks)


@kernel
def find_among(
    ground: Ground, demand: int, free: Floats, tasks: Floats, usable: Bools, chosen: Bools
) -> bool:
    """`find` where nodes can take so many ``tasks``, 0 where they are not usable."""
    for kind in range(len(ground.kinds)):
        if _suffices(ground, demand, kind, free, tasks, usable) and _choose(
            ground, demand, kind, free, tasks, chosen
        ):
            return True
    return False


@kernel
def suffices(ground: Ground, demand: int, free: Floats, tasks: Floats, usable: Bools) -> bool:
    """Whether all usable nodes of some kind that can take any ``tasks`` are enough together."""
    for kind in range(len(ground.kinds)):
        if _suffices(ground, demand, kind, free, tasks, usable):
            break
    else:
        return False
    return True


@kernel
def _suffices(
    ground: Ground, demand: int, kind: int, free: Floats, tasks: Floats, usable: Bools
) -> bool:
    nodes, total, gpus = 0, 0.0, 0.0
    for node in range(len(tasks)):
        if usable[node] and tasks[node] > 0.0 and ground.kinds[kind, node]:
            nodes += 1
            total += tasks[node]
            gpus += free[GPUS, node]
    wants = ground.demands
    enough = nodes > 0 and nodes >= wants[demand, LEAST] and total >= wants[demand, TASKS]
    return bool(enough and gpus >= wants[demand, JOB_GPUS])


@kernel
def _choose(
    ground: Ground, demand: int, kind: int, free: Floats, tasks: Floats, chosen: Bools
) -> bool:
    wants = ground.demands
    least, most, left = wants[demand, LEAST], wants[demand, MOST], wants[demand, TASKS]
    gpus_left, have = wants[demand, JOB_GPUS], 0
    wanted = most if gpus_left == 0.0 and most < len(tasks) else least
    chosen[:] = False
    if wants[demand, REQUIRES] != 0.0:
        for node in range(len(tasks)):
            if ground.required[demand, node]:
                if tasks[node] == 0.0 or not ground.kinds[kind, node]:
                    return False
                chosen[node] = True
                have += 1
                left -= tasks[node]
                gpus_left -= free[GPUS, node]
    first = np.zeros(len(tasks), dtype=np.int64)
    behind = np.zeros(len(tasks), dtype=np.int64)
    sets = _sets(ground, kind, tasks, chosen, first, behind)
    while (have < wanted or left > 0.0 or gpus_left > 0.0) and have < most:
        best = _best(ground, demand, free, tasks, first, behind, sets, left, gpus_left, have)
        if best < 0:
            break
        for node in range(first[best], behind[best]):
            if chosen[node]:
                continue
            if have >= most or (have >= wanted and left <= 0.0 and gpus_left <= 0.0):
                break
            chosen[node] = True
            have += 1
            left -= tasks[node]
            gpus_left -= free[GPUS, node]
        behind[best] = first[best]
    return bool(have >= least and left <= 0.0 and gpus_left <= 0.0)


@kernel
def _sets(ground: Ground, kind: int, tasks: Floats, taken: Bools, first: Ints, behind: Ints) -> int:
    """Nodes that can serve, in sets of neighbours of equal weight, sets of less weight first; how many.

    Sets of which all nodes are taken are left out. A set is its first node and the one behind its last.
    """
    sets, weight = 0, ground.weight
    node = 0
    while node < len(tasks):
        if tasks[node] == 0.0 or not ground.kinds[kind, node]:
            node += 1
            continue
        begin, left = node, False
        while (
            node < len(tasks)
            and tasks[node] != 0.0
            and ground.kinds[kind, node]
            and weight[node] == weight[begin]
        ):
            left = left or not taken[node]
            node += 1
        if not left:
            continue
        at = sets
        while at > 0 and weight[first[at - 1]] > weight[begin]:
            first[at], behind[at] = first[at - 1], behind[at - 1]
            at -= 1
        first[at], behind[at] = begin, node
        sets += 1
    return sets


@kernel
def _best(
    ground: Ground,
    demand: int,
    free: Floats,
    tasks: Floats,
    first: Ints,
    behind: Ints,
    sets: int,
    left: float,
    gpus_left: float,
    have: int,
) -> int:
    """The set that suffices and has the fewest CPUs; where none does, the one with the most; -1: no set."""
    task_cpus, least = ground.demands[demand, TASK_CPUS], ground.demands[demand, LEAST]
    needed = max(left, 0.0) * task_cpus
    best, best_fits, best_cpus = -1, False, -1.0
    for at in range(sets):
        if behind[at] == first[at]:
            continue
        cpus, gpus = 0.0, 0.0
        for node in range(first[at], behind[at]):
            cpus += tasks[node] * task_cpus
            gpus += free[GPUS, node]
        enough = behind[at] - first[at] + have >= least and cpus >= needed and gpus >= gpus_left
        if (
            best_cpus < 0.0
            or (enough and not best_fits)
            or (enough and cpus < best_cpus)
            or (not enough and not best_fits and cpus > best_cpus)
        ):
            best, best_fits, best_cpus = at, enough, cpus
    return best


def shares(ground: Ground, demand: int, free: Floats, nodes: list[int]) -> list[Share]:
    """The resources of a job on ``nodes``, which can serve it."""
    chosen = np.zeros(free.shape[1], dtype=np.bool_)
    chosen[nodes] = True
    taken = fill_shares(ground, demand, free, chosen).T.tolist()
    return [Share(int(node), *amounts) for node, *amounts in taken]


@compiled
def fill_shares(ground: Ground, demand: int, free: Floats, chosen: Bools) -> Floats:
    """The resources of a job on chosen nodes, (4, nodes), as `Share`: tasks fill the first node first."""
    capacity, wants, count = ground.capacity, ground.demands, 0
    for node in range(len(chosen)):
        count += int(chosen[node])
    found, at = np.empty((4, count)), 0
    left, gpus_left = wants[demand, TASKS], wants[demand, JOB_GPUS]
    for node in range(len(chosen)):
        if not chosen[node]:
            continue
        memory, behind = wants[demand, NODE_MEMORY], count - at - 1
        if wants[demand, WHOLE] != 0.0:
            cpus, gpus = capacity[CPUS, node], capacity[GPUS, node]
        else:
            own = min(tasks_at(ground, demand, free, node), max(left - behind, 1.0))
            left -= own
            cpus = max(own * wants[demand, TASK_CPUS], wants[demand, NODE_CPUS])
            gpus = wants[demand, NODE_GPUS] + own * wants[demand, TASK_GPUS]
            if wants[demand, JOB_GPUS] != 0.0:
                gpus = min(free[GPUS, node], gpus_left - behind)
                gpus_left -= gpus
            if memory == MANY:
                memory = capacity[MEMORY, node]
        if memory == 0.0:
            memory = cpus * wants[demand, CPU_MEMORY]
        found[0, at], found[1, at], found[2, at], found[3, at] = node, cpus, memory, gpus
        at += 1
    return found
