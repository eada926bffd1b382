"""Why a job waits, in words with numbers in them: the dominant reason of the last decision."""

from collections.abc import Mapping

import numpy as np

from volvelle.core.columns import Column, Reason
from volvelle.core.scheduler import Scheduler


def reasons(scheduler: Scheduler, starts: Mapping[int, float]) -> dict[int, str]:
    """For each job that has no GPUs and is not held. ``starts``: when jobs are believed to start."""
    matrix = scheduler.jobs.matrix[:, : scheduler.jobs.count]
    rows = np.flatnonzero(matrix[Column.HELD] == 0.0)
    numbers = matrix[Column.NUMBER, rows].astype(np.int64).tolist()
    ahead = _ahead(numbers, starts)
    free = _Free(scheduler)
    found: dict[int, str] = {}
    causes = matrix[Column.REASON, rows].tolist()
    for number, row, cause in zip(numbers, rows.tolist(), causes, strict=True):
        wanted, types = float(matrix[Column.LEAST, row]), int(matrix[Column.TYPES, row])
        pool = int(matrix[Column.POOL, row])
        said = _in_words(scheduler, Reason(int(cause)), wanted, free.of(types), pool)
        found[number] = f"{said}; {_jobs(ahead[number])} ahead" if ahead[number] else said
    admission = scheduler.composition.admission.name
    for place, event in enumerate(scheduler.at_the_door):
        said = f"admission {admission!r} lets nobody in yet"
        found[event.number] = f"{said}; {_jobs(place)} before it at the door" if place else said
    return found


def _in_words(
    scheduler: Scheduler, cause: Reason, wanted: float, free: tuple[int, str, int], pool: int
) -> str:
    total, node, most = free
    gpus = f"{wanted:g} GPU{'' if wanted == 1 else 's'}"
    there = f"{total} free" + (f", most on {node} ({most})" if total else "")
    composition = scheduler.composition
    match cause:
        case Reason.ORDER if total >= wanted:
            return f"{there}, but a job before it in the order waits for more"
        case Reason.QUOTA:
            quota = scheduler.cluster.pools[pool]
            return f"waits for {gpus} of pool {quota.name!r}, whose {quota.quota:g} are in use"
        case Reason.PLACEMENT:
            return f"placement {composition.placement.label!r} finds no room for {gpus}: {there}"
        case Reason.POLICY:
            return f"policy {composition.policy.label!r} gives its GPUs to others: {there}"
        case Reason.ROUND:
            return f"the next round of policy {composition.policy.label!r} decides"
        case _:
            return f"waits for {gpus}: {there}"


def _jobs(count: int) -> str:
    return f"{count:,} job{'' if count == 1 else 's'}"


def _ahead(numbers: list[int], starts: Mapping[int, float]) -> dict[int, int]:
    """How many of the waiting jobs are believed to start before each."""
    order = sorted(numbers, key=lambda number: (starts.get(number, np.inf), number))
    return {number: place for place, number in enumerate(order)}


class _Free:
    """GPUs that nobody holds, on nodes that take jobs, by the types that will do."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._resources = scheduler.resources
        self._free = np.where(self._resources.schedulable, self._resources.free, 0)
        self._known: dict[int, tuple[int, str, int]] = {}

    def of(self, types: int) -> tuple[int, str, int]:
        """All of them, and the node with the most."""
        if types not in self._known:
            free = np.where((types >> self._resources.node_type) & 1, self._free, 0)
            best = int(np.argmax(free)) if len(free) else 0
            name = self._resources.names[best] if len(free) else ""
            self._known[types] = (int(free.sum()), name, int(free[best]) if len(free) else 0)
        return self._known[types]
