"""Synergy-tune: everybody's demand where it fits, nobody below the proportional share (OSDI'22)."""

import numpy as np
from numpy.typing import NDArray

from volvelle.core.compiled import compiled
from volvelle.core.demand import Declared, amounts_at, wants_where, without_profiles
from volvelle.core.stock import Standing, Stock
from volvelle.model.arrays import FloatColumn, Floats
from volvelle.model.tolerances import SAME_SHARE


def tuned(
    declared: Declared, standing: Standing, stock: Stock, *, leftovers: bool = False
) -> tuple[FloatColumn, bool]:
    """The amounts of `tune` for jobs where they stand, and whether each has its demand."""
    if not declared.profiles:
        return _tuned_without_profiles(standing, stock, declared.amounts, leftovers)
    wants = wants_where(declared, standing, stock)
    given = tune(standing, stock.capacity, wants.demand, wants.fallback, leftovers)
    return given, np.array_equal(given, wants.demand)


@compiled
def _tuned_without_profiles(
    standing: Standing, stock: Stock, amounts: Floats, leftovers: bool
) -> tuple[Floats, bool]:
    """`tuned`, by the ``amounts`` that jobs declare."""
    share, most = amounts_at(standing, stock)
    demand, fallback = without_profiles(amounts, share, most)
    given = tune(standing, stock.capacity, demand, fallback, leftovers)
    for kind in range(2):
        for job in range(len(standing.first) - 1):
            if given[kind, job] != demand[kind, job]:
                return given, False
    return given, True


@compiled
def tune(
    standing: Standing, capacity: Floats, demand: Floats, fallback: Floats, leftovers: bool
) -> Floats:
    """CPUs and memory per GPU of each job (2, jobs), served in order. ``capacity``: (2, places).

    A job has its ``demand`` where all its places have that left, else its ``fallback``, which is not
    above its demand nor its proportional share. Where even that is not left, jobs before it that
    hold more than their fallback are put back to it until it is: first those at one place only, then
    those with the most CPUs per GPU, the most memory, and the later ones. ``leftovers``: what nobody has
    then goes to those below their demand, in order, as far as it goes.
    """
    first, place, gpus = standing.first, standing.place, standing.gpus
    jobs = len(first) - 1
    left = capacity.copy()
    given = np.zeros((2, jobs))
    above = np.zeros(jobs, np.bool_)
    for job in range(jobs):
        if _fits(standing, left, capacity, demand, job):
            _change(standing, left, given, demand, job)
            above[job] = demand[0, job] > fallback[0, job] or demand[1, job] > fallback[1, job]
            continue
        while not _fits(standing, left, capacity, fallback, job):
            peer = _richest(standing, left, capacity, fallback, given, above, job)
            if peer < 0:
                break  # what is short is short by rounding
            _change(standing, left, given, fallback, peer)
            above[peer] = False
        _change(standing, left, given, fallback, job)
    if leftovers:
        for job in range(jobs):
            more = given.copy()
            for kind in range(2):
                extra = max(demand[kind, job] - given[kind, job], 0.0)
                for k in range(first[job], first[job + 1]):
                    extra = min(extra, max(left[kind, place[k]], 0.0) / gpus[k])
                more[kind, job] += extra
            _change(standing, left, given, more, job)
    return given


@compiled
def _fits(standing: Standing, left: Floats, capacity: Floats, wanted: Floats, job: int) -> bool:
    """Whether all places of ``job`` have ``wanted`` left for each of its GPUs there."""
    first, place, gpus = standing.first, standing.place, standing.gpus
    for k in range(first[job], first[job + 1]):
        for kind in range(2):
            room = left[kind, place[k]] + SAME_SHARE * capacity[kind, place[k]]
            if wanted[kind, job] * gpus[k] > room:
                return False
    return True


@compiled
def _change(standing: Standing, left: Floats, given: Floats, to: Floats, job: int) -> None:
    """Give ``job`` what ``to`` says, instead of what it has."""
    first, place, gpus = standing.first, standing.place, standing.gpus
    for kind in range(2):
        for k in range(first[job], first[job + 1]):
            left[kind, place[k]] -= (to[kind, job] - given[kind, job]) * gpus[k]
        given[kind, job] = to[kind, job]


@compiled
def _richest(
    standing: Standing,
    left: Floats,
    capacity: Floats,
    fallback: Floats,
    given: Floats,
    above: NDArray[np.bool_],
    job: int,
) -> int:
    """The job that gives up its share above its fallback where ``job`` is short; -1 for none."""
    first, place, gpus = standing.first, standing.place, standing.gpus
    richest, score = -1, (False, 0.0, 0.0)
    for peer in range(job):
        if not above[peer]:
            continue
        shares = False
        for mine in range(first[job], first[job + 1]):
            for kind in range(2):
                room = left[kind, place[mine]] + SAME_SHARE * capacity[kind, place[mine]]
                if fallback[kind, job] * gpus[mine] <= room:
                    continue
                for theirs in range(first[peer], first[peer + 1]):
                    shares = shares or (
                        place[theirs] == place[mine] and given[kind, peer] > fallback[kind, peer]
                    )
        if shares:
            alone = first[peer + 1] - first[peer] == 1
            mark = (alone, given[0, peer], given[1, peer])
            if richest < 0 or mark >= score:
                richest, score = peer, mark
    return richest
