"""Queues by attained service as functions of arrays: what `tiresias` and `gittins` decide (`Kernel`).

What a promotion made not count is kept in the policy's own columns, parameters and samples in its memory.
"""

import numpy as np

from volvelle.core.columns import (
    ATTAINED,
    ATTAINED_GPU,
    COUNT,
    FIRST_START,
    GPUS,
    HELD,
    LEAST,
    MOST,
    STARTED,
)
from volvelle.core.compiled import compiled_later, kernel
from volvelle.core.fill import TARGET, ClusterNow, attained_seconds, fill, give_all
from volvelle.core.state import INFINITY
from volvelle.model.arrays import Floats, Ints
from volvelle.model.tolerances import SAME_MOMENT
from volvelle.policies.claims import by_number
from volvelle.policies.growth import then_by

PROMOTED, PAST_SECONDS, PAST_GPU_SECONDS, PROMOTED_START = range(COUNT, COUNT + 4)
"""Own columns: 1 after a promotion, what was attained before it, the first start after it (NaN before)."""
OWN_COLUMNS = 4

(
    BY_GPUS,  # 1 where service is GPU-seconds, 0 where it is seconds
    PROMOTE,  # infinite for never
    PREEMPTIVE,
    STRICT,
    ELASTIC,
    ROUND,  # seconds, 0 for none
    QUANTUM,  # GPU-seconds that the simulator's index looks ahead
    LIMITS,  # how many
    SAMPLES,  # of services, how many
    ROOM,  # for samples
    OBSERVES,  # 1 where jobs that end are samples
    PARAMETERS,
) = range(12)
"""Entries of the memory. Behind them are the limits, the samples, ascending, and the sums before each."""

SERVICE, SECONDS, WAITED, START = range(4)
"""Rows of what counts for the jobs' queues: all since the last promotion. ``START``: NaN before the first."""


# ---------------------------------------------------------------------- what counts


@kernel
def attained(jobs: Floats, now: float, memory: Floats) -> Floats:
    """Measures that decide the jobs' queues now, (4, jobs); own columns learn of first starts."""
    counts, promoted, holds = np.empty((4, jobs.shape[1])), jobs[PROMOTED] == 1.0, jobs[HELD] > 0.0
    held_for = np.maximum(now - jobs[STARTED], 0.0)
    seconds = np.where(holds, held_for, 0.0) + jobs[ATTAINED]
    seconds = np.where(promoted, seconds - jobs[PAST_SECONDS], seconds)
    gpu_seconds = held_for * jobs[HELD] + jobs[ATTAINED_GPU]
    gpu_seconds = np.where(promoted, gpu_seconds - jobs[PAST_GPU_SECONDS], gpu_seconds)
    start = np.where(promoted, jobs[PROMOTED_START], jobs[FIRST_START])
    begins = promoted & np.isnan(start) & ((seconds > 0.0) | holds)
    start = np.where(begins, now - seconds, start)
    jobs[PROMOTED_START] = np.where(begins, start, jobs[PROMOTED_START])
    counts[SERVICE] = gpu_seconds if memory[BY_GPUS] == 1.0 else seconds
    counts[SECONDS] = seconds
    counts[WAITED] = np.where(np.isnan(start), 0.0, now - start - seconds)
    counts[START] = start
    return counts


@kernel
def _gpu_seconds(jobs: Floats, now: float, row: int) -> float:
    held_for = max(now - jobs[STARTED, row], 0.0)
    return float(held_for * jobs[HELD, row] + jobs[ATTAINED_GPU, row])


@kernel
def count_anew(jobs: Floats, now: float, counts: Floats, row: int) -> None:
    """Promote the job in ``row``: what it attained so far counts no more."""
    jobs[PROMOTED, row] = 1.0
    jobs[PAST_SECONDS, row] = attained_seconds(jobs, now, row)
    jobs[PAST_GPU_SECONDS, row] = _gpu_seconds(jobs, now, row)
    jobs[PROMOTED_START, row] = now if jobs[HELD, row] > 0.0 else np.nan
    counts[:, row] = 0.0
    counts[START, row] = jobs[PROMOTED_START, row]


@kernel
def paces(gpus: Floats, memory: Floats) -> Floats:
    """Service a second on ``gpus`` GPUs each."""
    return gpus if memory[BY_GPUS] == 1.0 else np.minimum(gpus, 1.0)


@kernel
def limits(memory: Floats, queue: Floats) -> Floats:
    """The service at which each job leaves its ``queue``; infinite of the last."""
    found = np.full(len(queue), INFINITY)
    for one in range(int(memory[LIMITS])):
        found[queue == one] = memory[PARAMETERS + one]
    return found


# ---------------------------------------------------------------------- queues


@kernel
def by_service(jobs: Floats, counts: Floats, memory: Floats) -> Floats:
    """The queue whose limits hold each job's service."""
    queue = np.zeros(jobs.shape[1])
    service = counts[SERVICE] + SAME_MOMENT * np.maximum(paces(jobs[HELD], memory), 1.0)
    for one in range(int(memory[LIMITS])):
        queue[(queue == one) & (memory[PARAMETERS + one] <= service)] = one + 1.0
    return queue


@kernel
def stand(jobs: Floats, now: float, counts: Floats, memory: Floats) -> Floats:
    """The queue of each job; those that are due are promoted."""
    queue = by_service(jobs, counts, memory)
    promote = memory[PROMOTE]
    if promote < INFINITY:
        due = counts[WAITED] + SAME_MOMENT >= promote * counts[SECONDS]
        for row in np.flatnonzero((queue > 0.0) & due):
            count_anew(jobs, now, counts, row)
            queue[row] = 0.0
    return queue


@kernel
def by_start(jobs: Floats, start: Floats) -> Ints:
    """Rows by ``start``, those that have none last, then by submission."""
    order = by_number(jobs)
    return then_by(order, np.where(np.isnan(start), np.inf, start))


@kernel
def enough_for_all(jobs: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> bool:
    """Give every job all it can use, if there is enough; whether there is."""
    most = jobs[MOST] if memory[ELASTIC] == 1.0 else jobs[GPUS]
    return give_all(jobs, most, cluster.capacity, cluster.quota, out)


@kernel
def serve(jobs: Floats, order: Ints, cluster: ClusterNow, memory: Floats, out: Floats) -> None:
    """Serve jobs in ``order``, each with all it can use or nothing."""
    least, most = jobs[LEAST], jobs[MOST]
    if memory[ELASTIC] == 0.0:
        least, most = jobs[GPUS], jobs[GPUS]
    preemptive, strict = bool(memory[PREEMPTIVE] == 1.0), bool(memory[STRICT] == 1.0)
    capacity, quota = cluster.capacity, cluster.quota
    out[:3] = fill(jobs, order, least, most, capacity, quota, preemptive, strict)
    out[3] = order


@kernel
def next_move(
    jobs: Floats, now: float, counts: Floats, queue: Floats, gpus: Floats, memory: Floats
) -> float:
    """When the next running job reaches its limit, or the next waiting one is promoted."""
    runs, promote = gpus > 0.0, memory[PROMOTE]
    if np.all(runs):
        return INFINITY
    left = limits(memory, queue) - counts[SERVICE]
    moment = np.where(runs, now + left / paces(np.where(runs, gpus, 1.0), memory), INFINITY)
    if promote < INFINITY:
        then = now + (promote * counts[SECONDS] - counts[WAITED])
        moment = np.where(~runs & (queue > 0.0), then, moment)
    return float(np.where(moment > now, moment, INFINITY).min())


@kernel
def decide(jobs: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> float:
    """The decision of `tiresias` and, where there are samples, of `gittins`."""
    if enough_for_all(jobs, cluster, memory, out):
        return INFINITY
    counts = attained(jobs, cluster.now, memory)
    queue = stand(jobs, cluster.now, counts, memory)
    order = by_start(jobs, counts[START])
    if memory[SAMPLES] > 0.0:
        order = then_by(order, -indices(counts[SERVICE], queue, memory))
    serve(jobs, then_by(order, queue), cluster, memory, out)
    return next_move(jobs, cluster.now, counts, queue, out[TARGET], memory)


# ---------------------------------------------------------------------- the Gittins index


@kernel
def samples_in(memory: Floats) -> Floats:
    """The samples."""
    at = PARAMETERS + int(memory[LIMITS])
    return memory[at : at + int(memory[SAMPLES])]


@kernel
def sums_in(memory: Floats) -> Floats:
    """The sums of the samples before each, and of all."""
    at = PARAMETERS + int(memory[LIMITS]) + int(memory[ROOM])
    return memory[at : at + int(memory[SAMPLES]) + 1]


@compiled_later
def add_sample(memory: Floats, service: float) -> None:
    """One job more has finished, for whose service there is room."""
    at = int(np.searchsorted(samples_in(memory), service))
    memory[SAMPLES] += 1.0
    samples, sums = samples_in(memory), sums_in(memory)
    samples[at + 1 :], sums[at + 2 :] = samples[at:-1].copy(), sums[at + 1 : -1] + service
    samples[at], sums[at + 1] = service, sums[at] + service


@kernel
def observe(memory: Floats, gpu_seconds: float, gpus: float) -> bool:
    """Count a finished job as a sample, unless they were given; False: there is no room for it."""
    if memory[OBSERVES] == 0.0 or gpu_seconds <= 0.0:
        return True
    if memory[SAMPLES] == memory[ROOM]:
        return False
    add_sample(memory, gpu_seconds if memory[BY_GPUS] == 1.0 else gpu_seconds / gpus)
    return True


@kernel
def indices(service: Floats, queue: Floats, memory: Floats) -> Floats:
    """The Gittins index of jobs by the service they attained, with their queues' limits as quanta."""
    samples, sums, quantum = samples_in(memory), sums_in(memory), limits(memory, queue)
    alive = np.searchsorted(samples, service, side="right")
    late = np.searchsorted(samples, service + quantum, side="right")
    within, beyond = late - alive, len(samples) - late
    expected = sums[late] - sums[alive] - service * within
    expected += np.where(beyond > 0, quantum, 0.0) * beyond
    some = expected > 0.0
    return np.where(some, within / np.where(some, expected, 1.0), 0.0)
