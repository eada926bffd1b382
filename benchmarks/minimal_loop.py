"""The least that gives the completion times of shortest remaining service first: a yardstick of speed.

A sorted list of jobs that wait, a heap of ends, a list of jobs that run; gangs on GPUs that are counted.
Nothing else: no log, no costs, no names of GPUs, no other order. As plain Python or as machine code;
`forward.py` checks that Volvelle's times are the same.
"""

from heapq import heappop, heappush
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volvelle.core.compiled import compiled, kernel
from volvelle.core.orders import rounded
from volvelle.workload.workload import Workload

Floats = NDArray[np.float64]


def columns(workload: Workload) -> tuple[Floats, Floats, Floats]:
    """When jobs are submitted, the GPUs they need and the GPU-seconds they take."""
    jobs = workload.jobs
    return (
        np.array([job.spec.submit_time for job in jobs]),
        np.array([job.spec.gpus for job in jobs]),
        np.array([job.truth.work for job in jobs]),
    )


@compiled
def minimal_loop(submit: Floats, gpus: Floats, work: Floats, free: float) -> Floats:
    """Finish times of jobs in order of submission; ``free``: GPUs."""
    finish, done, since = np.full(len(work), np.nan), np.zeros(len(work)), np.zeros(len(work))
    end = np.zeros(len(work))  # of jobs that run, else 0
    waiting, running = [(0.0, 0) for _ in range(0)], [0 for _ in range(0)]
    ends, coming = [(0.0, 0) for _ in range(0)], 0
    while len(ends) > 0 or coming < len(submit):
        now = submit[coming] if coming < len(submit) else np.inf
        if len(ends) > 0:
            now = min(now, ends[0][0])
        while len(ends) > 0 and ends[0][0] == now:
            number = heappop(ends)[1]
            if end[number] == now:
                running.remove(number)
                end[number], finish[number] = 0.0, now
                free += gpus[number]
        while coming < len(submit) and submit[coming] == now:
            _insert(waiting, (rounded(work[coming]), coming))
            coming += 1
        starts, stops = _decide(waiting, running, now, free, gpus, work, done, since)
        for number in stops:
            running.remove(number)
            done[number] += gpus[number] * (now - since[number])
            end[number] = 0.0
            free += gpus[number]
            _insert(waiting, (rounded(work[number] - done[number]), number))
        for number in starts:
            running.append(number)
            since[number] = now
            end[number] = now + (work[number] - done[number]) / gpus[number]
            free -= gpus[number]
            heappush(ends, (end[number], number))
    return finish


@kernel
def _decide(
    waiting: Any,
    running: Any,
    now: float,
    free: float,
    gpus: Floats,
    work: Floats,
    done: Floats,
    since: Floats,
) -> Any:
    """Who starts, and waits no more, and who stops: jobs are served in order, each wholly or not at all."""
    starts, stops = [0 for _ in range(0)], [0 for _ in range(0)]
    while len(waiting) > 0 and gpus[waiting[0][1]] <= free:
        number = waiting.pop(0)[1]
        starts.append(number)
        free -= gpus[number]
    if len(waiting) == 0:
        return starts, stops
    behind = [(0.0, 0) for _ in range(0)]
    for number in running:
        left = work[number] - (done[number] + gpus[number] * (now - since[number]))
        entry = (rounded(left), number)
        if entry > waiting[0]:
            behind.append(entry)
            free += gpus[number]
    behind.sort()
    i = j = 0
    while i < len(behind) or (j < len(waiting) and free > 0.0):
        if i < len(behind) and (j == len(waiting) or behind[i] < waiting[j]):
            number = behind[i][1]
            i += 1
            if gpus[number] <= free:
                free -= gpus[number]
            else:
                stops.append(number)
        else:
            number = waiting[j][1]
            if gpus[number] <= free:
                waiting.pop(j)
                starts.append(number)
                free -= gpus[number]
            else:
                j += 1
    return starts, stops


@kernel
def _insert(entries: Any, entry: Any) -> None:
    first, last = 0, len(entries)
    while first < last:
        middle = (first + last) // 2
        if entries[middle] < entry:
            first = middle + 1
        else:
            last = middle
    entries.insert(first, entry)
