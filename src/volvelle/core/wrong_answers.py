"""Faults of answers of users' own parts about GPUs, CPUs and memory, in words; empty where there is none.

Each function is called with the answer and with what was asked (`volvelle.core.mistakes.answered`).
"""

import reprlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from volvelle.model.arrays import BoolColumn, FloatColumn, IntColumn

BY_NODE = "return how many GPUs to take on each node, or None to let the job wait"
BY_SLOT = "return as many of the free slots as are asked for, ascending"
FOR_EACH_JOB = "return an answer for each job; together they take each GPU once"
KEYS = "return one number for each job"
TURNS = "return places of jobs in the view, each once"
AMOUNTS = "return CPUs and memory (GB) per GPU, finite and not negative"


def of_nodes(chosen: IntColumn | None, free: IntColumn, gpus: int, resources: Any) -> str:
    """Of GPUs by node, as `Placement.choose` gives them."""
    if chosen is None:
        return ""
    right = chosen.shape == free.shape and chosen.dtype.kind in "biuf"
    if (
        right
        and ((chosen >= 0) & (chosen <= free) & (chosen % 1 == 0)).all()
        and chosen.sum() == gpus
    ):
        return ""
    return _beside(chosen, gpus, free)


def of_nodes_for(
    chosen: IntColumn | None, job: Any, free: IntColumn, gpus: int, resources: Any
) -> str:
    """Of GPUs by node, as `Placement.choose_for` gives them."""
    return of_nodes(chosen, free, gpus, resources)


def of_batch(
    chosen: Sequence[IntColumn | None], gangs: Sequence[Any], free: IntColumn, resources: Any
) -> str:
    """Of GPUs by node for several gangs, as `PlacesBatches.choose_batch` gives them."""
    if len(chosen) != len(gangs):
        return _too_few(chosen, gangs)
    for taken, gang in zip(chosen, gangs, strict=True):
        if wrong := of_nodes(taken, free, gang.gpus, resources):
            return wrong
        free = free if taken is None else free - taken
    return ""


def of_gpus(
    chosen: Sequence[IntColumn | None], gangs: Sequence[Any], free: BoolColumn, resources: Any
) -> str:
    """Of slots for several gangs, as `PlacesAllAnew.choose_gpus` gives them."""
    if len(chosen) != len(gangs):
        return _too_few(chosen, gangs)
    left = np.flatnonzero(free)
    for slots, gang in zip(chosen, gangs, strict=True):
        if slots is None:
            continue
        if wrong := of_picked(slots, left, gang.gpus):
            return wrong
        left = np.setdiff1d(left, slots)
    return ""


def of_slots(
    chosen: IntColumn | None, free: IntColumn, gpus: int, resources: Any, lane: object
) -> str:
    """Of slots, as `PlacesByLane.choose_slots` gives them."""
    if chosen is None:
        return ""
    there = (resources.owner == -1) & (free[resources.slot_node] > 0)
    return of_picked(chosen, np.flatnonzero(there), gpus)


def of_picked(chosen: IntColumn, slots: IntColumn, count: int, *asked: object) -> str:
    """Of ``count`` of the free ``slots``, as `Placement.pick` gives them."""
    right = chosen.shape == (count,) and chosen.dtype.kind in "iu"
    if right and np.isin(chosen, slots).all() and (chosen[1:] > chosen[:-1]).all():
        return ""
    return _beside(chosen, count, slots)


def of_claim(claimed: tuple[float, float], *asked: object) -> str:
    """Of CPUs and memory per GPU, as `ClaimsAmounts.claim` gives them."""
    return "" if all(0.0 <= amount < np.inf for amount in claimed) else f"{claimed}"


def of_division(amounts: FloatColumn, declared: Any, standing: Any, stock: object) -> str:
    """Of CPUs and memory per GPU of each job, as `Policy.divide` gives them."""
    shape = (2, len(standing.first) - 1)
    if amounts.shape != shape or amounts.dtype.kind not in "iuf":
        return f"{amounts.dtype} of shape {amounts.shape}, where {shape} is asked for"
    wrong = amounts[~((amounts >= 0.0) & (amounts < np.inf))]
    return f"{wrong[0]}" if len(wrong) else ""


def of_keys(keys: Any, view: Any) -> str:
    """Of numbers by which jobs are ordered, as `PlanPolicy.spare_key` gives them."""
    found, shape = np.asarray(keys), (len(view.jobs),)
    if found.shape == shape and found.dtype.kind in "biuf":
        return ""
    return f"{found.dtype} of shape {found.shape}, where {shape} is asked for"


def of_turns(order: IntColumn, view: Any, planned: object) -> str:
    """Of places of jobs, as `PlanPolicy.turns` gives them."""
    there = np.isin(order, np.arange(len(view.jobs))).all() and len(order) == len(np.unique(order))
    return "" if there and order.dtype == np.int64 else f"{reprlib.repr(order.tolist())}"


def _too_few(chosen: Sequence[object], gangs: Sequence[object]) -> str:
    return f"{len(chosen)} answers for {len(gangs)} jobs"


def _beside(chosen: IntColumn, gpus: int, free: IntColumn) -> str:
    given, there = reprlib.repr(chosen.tolist()), reprlib.repr(free.tolist())
    return f"{given} for {gpus} GPUs, where {there} are free"
