"""Queues by attained service as functions of arrays: what `tiresias` and `gittins` decide (`Kernel`).

What a promotion made not count is kept in the policy's own columns, parameters and samples in its memory.
"""

import numpy as np

from volvelle.core.columns import ATTAINED_GPU, COUNT, FIRST_START, GPUS, HELD, LEAST, MOST, STARTED
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


@compiled_later
def attained(jobs: Floats, now: float, memory: Floats) -> Floats:
    """Measures that decide the jobs' queues now, (4, jobs); own columns learn of first starts."""
    counts = np.empty((4, jobs.shape[1]))
    for row in range(jobs.shape[1]):
        seconds, gpu_seconds = attained_seconds(jobs, now, row), _gpu_seconds(jobs, now, row)
        start = jobs[FIRST_START, row]
        if jobs[PROMOTED, row] == 1.0:
            seconds -= jobs[PAST_SECONDS, row]
            gpu_seconds -= jobs[PAST_GPU_SECONDS, row]
            start = jobs[PROMOTED_START, row]
            if np.isnan(start) and (seconds > 0.0 or jobs[HELD, row] > 0.0):
                start = now - seconds
                jobs[PROMOTED_START, row] = start
        counts[SERVICE, row] = gpu_seconds if memory[BY_GPUS] == 1.0 else seconds
        counts[SECONDS, row] = seconds
        counts[WAITED, row] = 0.0 if np.isnan(start) else now - start - seconds
        counts[START, row] = start
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
def pace(gpus: float, memory: Floats) -> float:
    """Service a second on ``gpus`` GPUs."""
    return float(gpus if memory[BY_GPUS] == 1.0 else min(gpus, 1.0))


@kernel
def limit(memory: Floats, queue: float) -> float:
    """The service at which a job leaves ``queue``; infinite of the last."""
    return float(memory[PARAMETERS + int(queue)] if queue < memory[LIMITS] else INFINITY)


# ---------------------------------------------------------------------- queues


@compiled_later
def by_service(jobs: Floats, counts: Floats, memory: Floats) -> Floats:
    """The queue whose limits hold each job's service."""
    most = np.inf if memory[BY_GPUS] == 1.0 else 1.0
    paces = np.minimum(jobs[HELD], most)
    service = counts[SERVICE] + SAME_MOMENT * np.maximum(paces, 1.0)
    limits = memory[PARAMETERS : PARAMETERS + int(memory[LIMITS])]
    queue: Floats = np.searchsorted(limits, service, side="right").astype(np.float64)
    return queue


@compiled_later
def stand(jobs: Floats, now: float, counts: Floats, memory: Floats) -> Floats:
    """The queue of each job; those that are due are promoted."""
    queue = by_service(jobs, counts, memory)
    promote = memory[PROMOTE]
    for row in range(jobs.shape[1]):
        waited = counts[WAITED, row] + SAME_MOMENT
        if promote < INFINITY and queue[row] > 0.0 and waited >= promote * counts[SECONDS, row]:
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


@compiled_later
def next_move(
    jobs: Floats, now: float, counts: Floats, queue: Floats, gpus: Floats, memory: Floats
) -> float:
    """When the next running job reaches its limit, or the next waiting one is promoted."""
    first = INFINITY
    if np.all(gpus > 0.0):
        return first
    promote = memory[PROMOTE]
    for row in range(jobs.shape[1]):
        moment = INFINITY
        if gpus[row] > 0.0:
            left = limit(memory, queue[row]) - counts[SERVICE, row]
            moment = now + left / pace(gpus[row], memory)
        elif promote < INFINITY and queue[row] > 0.0:
            moment = now + (promote * counts[SECONDS, row] - counts[WAITED, row])
        if moment > now:
            first = min(first, moment)
    return first


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
def observe(memory: Floats, gpu_seconds: float, gpus: float, own: Floats) -> bool:
    """Count a finished job as a sample, unless they were given; False: there is no room for it."""
    if memory[OBSERVES] == 0.0 or gpu_seconds <= 0.0:
        return True
    if memory[SAMPLES] == memory[ROOM]:
        return False
    add_sample(memory, gpu_seconds if memory[BY_GPUS] == 1.0 else gpu_seconds / gpus)
    return True


@compiled_later
def indices(service: Floats, queue: Floats, memory: Floats) -> Floats:
    """The Gittins index of jobs by the service they attained, with their queues' limits as quanta."""
    samples, sums = samples_in(memory), sums_in(memory)
    quanta, index = np.empty(len(service)), np.zeros(len(service))
    for row in range(len(service)):
        quanta[row] = limit(memory, queue[row])
    alive = np.searchsorted(samples, service, side="right")
    late = np.searchsorted(samples, service + quanta, side="right")
    within, beyond = late - alive, len(samples) - late
    expected = sums[late] - sums[alive] - service * within
    longer = beyond > 0
    expected[longer] += quanta[longer] * beyond[longer]
    known = expected > 0.0
    index[known] = within[known] / expected[known]
    return index
