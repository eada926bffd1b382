"""Pollux' genetic search over placements (OSDI'21), compiled.

An individual is GPUs by job and node. In each generation as many children as there are individuals are
made from parents chosen by binary tournament: one-point crossover over jobs, mutation, repair; the
best distinct ones survive. It ends early where many generations found nothing better.

Mutation gives a job in ten its present GPUs, zeroes a tenth of the entries of another tenth, and on each
node with free GPUs often raises the entry of one job, and that of one that is on it already. Repair goes
through the jobs, those of least service first: nodes of one type that the job may use, no second job
that spans nodes on a node, no more GPUs than it may have (dropped at random), capacities and quotas; what
is left of a gang is completed, or dropped where that cannot be.

Most jobs of a long queue have GPUs in no individual. Which have any is kept beside each individual, so that
rows without GPUs are neither read nor copied.

Random numbers are drawn by a generator of our own (xorshift, 32 bits), so that compiled and plain loops
draw the same.
"""

from typing import NamedTuple

import numpy as np

from volvelle.core.compiled import compiled
from volvelle.model.arrays import Bools, Floats, Ints

_MASK = 0xFFFFFFFF
_SOMEBODY = 0.63  # the chance of at least one of many whose odds add up to one
_SMALLEST = 1e-3  # added to every speed-up, so that a job without GPUs counts at all


class AllocationProblem(NamedTuple):
    """The problem of the search: jobs (J) on nodes (N), jobs in the order in which repair serves them.

    values: (J, 2, GPUs + 1) by being spread and by GPUs. base: (J, N) GPUs now. runs: jobs that have any in
    ``base``. fixed: jobs that stay as they are; they come first. factor: what a change of its GPUs leaves of
    a job's value. (Caches of machine code refer to this class by name: whoever renames it clears them.)
    """

    values: Floats
    base: Ints
    runs: Bools
    capacity: Ints
    allowed: Bools
    node_type: Ints
    least: Ints
    most: Ints
    fixed: Bools
    pool: Ints
    quota: Ints
    factor: Floats


@compiled
def draw(state: Ints) -> int:
    """The next random number in [1, 2^32), of the generator in ``state``."""
    x = state[0]
    x ^= (x << 13) & _MASK
    x ^= x >> 17
    x ^= (x << 5) & _MASK
    state[0] = x
    return int(x)


@compiled
def below(state: Ints, bound: int) -> int:
    """A random number from 0 to ``bound`` - 1."""
    return (draw(state) * bound) >> 32


@compiled
def chance(state: Ints) -> float:
    """A random number in (0, 1)."""
    return draw(state) / 4294967296.0


@compiled
def fitness_of(problem: AllocationProblem, one: Ints, served: Bools) -> tuple[float, int]:
    """The power mean of the jobs' values, and a fingerprint of the allocation.

    served: the jobs that have GPUs in it; it may name some that have none.
    """
    jobs, nodes = one.shape
    total, fingerprint = 0.0, 2166136261
    for j in range(jobs):
        gpus, on, moved = 0, 0, problem.runs[j]
        if served[j]:
            moved = False
            for n in range(nodes):
                count = one[j, n]
                if count > 0:
                    gpus += count
                    on += 1
                    fingerprint = ((fingerprint ^ (j * nodes + n)) * 16777619) & _MASK  # FNV-1a
                    fingerprint = ((fingerprint ^ count) * 16777619) & _MASK
                if count != problem.base[j, n]:
                    moved = True
        value = problem.values[j, 1 if on > 1 else 0, gpus]
        if moved:
            value *= problem.factor[j]
        total += 1.0 / (value + _SMALLEST)
    return jobs / total, fingerprint


@compiled
def mutate(problem: AllocationProblem, one: Ints, served: Bools, state: Ints) -> None:
    """Change an allocation at random, in place; ``served`` as in `fitness_of`, kept up to date."""
    jobs, nodes = one.shape
    used, on = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)
    for j in range(jobs):
        if chance(state) < 0.1 and (served[j] or problem.runs[j]):
            for n in range(nodes):
                one[j, n] = problem.base[j, n]
            served[j] = problem.runs[j]
        if chance(state) < 0.1 and served[j]:
            for n in range(nodes):
                if one[j, n] > 0 and chance(state) < 0.1:
                    one[j, n] = 0
        if served[j]:
            for n in range(nodes):
                used[n] += one[j, n]
                on[n] += one[j, n] > 0
    for n in range(nodes):
        if used[n] >= problem.capacity[n]:
            continue
        if chance(state) < _SOMEBODY:
            j = below(state, jobs)
            one[j, n] += below(state, problem.capacity[n] - one[j, n] + 1)
            served[j] = True
        if on[n] > 0 and chance(state) < _SOMEBODY:
            nth = below(state, on[n])
            for j in range(jobs):
                if served[j] and one[j, n] > 0:
                    if nth == 0:
                        one[j, n] += below(state, problem.capacity[n] - one[j, n] + 1)
                        break
                    nth -= 1


@compiled
def repair(problem: AllocationProblem, one: Ints, served: Bools, state: Ints) -> None:
    """Make an allocation one that can be carried out, in place; ``served`` as in `mutate`, then exact."""
    jobs, nodes = one.shape
    free = problem.capacity.copy()
    left = problem.quota.copy()
    crossed = np.zeros(nodes, np.bool_)  # a job that spans nodes is there
    for j in range(jobs):
        pool = problem.pool[j]
        if problem.fixed[j]:
            for n in range(nodes):
                one[j, n] = problem.base[j, n]
            served[j] = problem.runs[j]
        else:
            start = below(state, nodes)
            if not served[j]:
                continue
            kind, on = -1, 0
            for i in range(nodes):
                n = (start + i) % nodes
                if one[j, n] > 0 and not problem.allowed[j, n]:
                    one[j, n] = 0
                if one[j, n] > 0:
                    if kind < 0:
                        kind = problem.node_type[n]
                    if problem.node_type[n] == kind:
                        on += 1
                    else:
                        one[j, n] = 0
            most = problem.most[j]
            if pool >= 0:
                most = min(most, left[pool])
            gpus = 0
            for n in range(nodes):
                if on > 1 and crossed[n]:
                    one[j, n] = 0
                one[j, n] = min(one[j, n], free[n])
                gpus += one[j, n]
            while gpus > most:
                n = below(state, nodes)
                if one[j, n] > 0:
                    less = min(one[j, n], gpus - most)
                    one[j, n] -= less
                    gpus -= less
            if 0 < gpus < problem.least[j]:
                complete(problem, one, j, kind, free, crossed, most, state)
        on, gpus = 0, 0
        for n in range(nodes):
            on += one[j, n] > 0
            gpus += one[j, n]
            free[n] -= one[j, n]
        served[j] = gpus > 0
        if on > 1:
            for n in range(nodes):
                if one[j, n] > 0:
                    crossed[n] = True
        if pool >= 0:
            left[pool] -= gpus


@compiled
def complete(
    problem: AllocationProblem,
    one: Ints,
    j: int,
    kind: int,
    free: Ints,
    crossed: Bools,
    most: int,
    state: Ints,
) -> None:
    """Bring a gang to the fewest GPUs it runs on, on one node if one has them, or leave it none."""
    nodes = one.shape[1]
    row, least = one[j], problem.least[j]
    row[:] = 0
    if least > most:
        return
    start = below(state, nodes)
    best = -1
    for i in range(nodes):
        n = (start + i) % nodes
        usable = problem.allowed[j, n] and problem.node_type[n] == kind
        if usable and free[n] >= least and (best < 0 or free[n] < free[best]):
            best = n
    if best >= 0:
        row[best] = least
        return
    missing = least
    for i in range(nodes):
        n = (start + i) % nodes
        if problem.allowed[j, n] and problem.node_type[n] == kind and not crossed[n]:
            row[n] = min(free[n], missing)
            missing -= row[n]
    if missing > 0:
        row[:] = 0


@compiled
def survivors(fitness: Floats, fingerprints: Ints, size: int) -> Ints:
    """The best ``size``, the best first; behind them duplicates where there are not enough others."""
    order = np.argsort(-fitness, kind="mergesort")
    kept = np.empty(size, np.int64)
    spare = np.empty(len(order), np.int64)
    count, spares = 0, 0
    for i in order:
        if count == size:
            break
        known = False
        back = count - 1
        while back >= 0 and fitness[kept[back]] == fitness[i]:
            if fingerprints[kept[back]] == fingerprints[i]:
                known = True
                break
            back -= 1
        if known:
            spare[spares] = i
            spares += 1
        else:
            kept[count] = i
            count += 1
    for i in range(size - count):
        kept[count + i] = spare[i]
    return kept


@compiled
def reordered(place: Ints, kept: Ints) -> Ints:
    """The places of those that are ``kept``, in that order, then all others."""
    new = np.empty_like(place)
    stays = np.zeros(len(place), np.bool_)
    for i in range(len(kept)):
        new[i] = place[kept[i]]
        stays[kept[i]] = True
    count = len(kept)
    for i in range(len(place)):
        if not stays[i]:
            new[count] = place[i]
            count += 1
    return new


@compiled
def cross(every: Ints, served: Bools, child: int, one: int, other: int, point: int) -> None:
    """Jobs before ``point`` as in ``one``, the others as in ``other``."""
    for j in range(every.shape[1]):
        parent = one if j < point else other
        if served[parent, j] or served[child, j]:
            for n in range(every.shape[2]):
                every[child, j, n] = every[parent, j, n]
        served[child, j] = served[parent, j]


@compiled
def search(
    problem: AllocationProblem, start: Ints, generations: int, patience: int, size: int, seed: int
) -> Ints:
    """The best ``size`` allocations found, (size, J, N), the best first.

    start: allocations to begin with, repaired or not; the present one is added. The search ends after
    so many ``generations``, or after ``patience`` of them without anything better.
    """
    jobs, nodes = problem.base.shape
    state = np.array([seed % 4294967291 + 1], np.int64)
    for _ in range(8):
        draw(state)
    every = np.zeros((2 * size, jobs, nodes), np.int64)
    served = np.zeros((2 * size, jobs), np.bool_)
    fitness, fingerprints = np.empty(2 * size), np.empty(2 * size, np.int64)
    for i in range(2 * size):
        if i > 0 and i <= len(start):
            every[i] = start[i - 1]
        else:
            every[i] = problem.base
        served[i] = True
        if i > len(start):
            mutate(problem, every[i], served[i], state)
        repair(problem, every[i], served[i], state)
        fitness[i], fingerprints[i] = fitness_of(problem, every[i], served[i])
    place = np.arange(2 * size)  # where each individual is in ``every`` and ``served``
    kept = survivors(fitness, fingerprints, size)
    best, idle = fitness[kept[0]], 0
    for _ in range(generations):
        place = reordered(place, kept)
        fitness[:size] = fitness[kept]
        fingerprints[:size] = fingerprints[kept]
        for child in range(size, 2 * size):
            at = place[child]
            one = place[min(below(state, size), below(state, size))]
            other = place[min(below(state, size), below(state, size))]
            cross(every, served, at, one, other, below(state, jobs))
            mutate(problem, every[at], served[at], state)
            repair(problem, every[at], served[at], state)
            fitness[child], fingerprints[child] = fitness_of(problem, every[at], served[at])
        kept = survivors(fitness, fingerprints, size)
        idle += 1
        if fitness[kept[0]] > best:
            best, idle = fitness[kept[0]], 0
        if idle >= patience:
            break
    found: Ints = every[place[kept]]
    return found
