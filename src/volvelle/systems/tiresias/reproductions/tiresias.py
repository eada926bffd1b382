"""Tiresias (NSDI'19) as three simulators have it.

- ``tiresias-simulator``, the authors' own: a job falls at the first event after it reached the limit,
  one queue an event, and the moments named in advance are now + floor((limit - seconds) / GPUs) with the
  seconds not multiplied by the GPUs, which for wide jobs is late; a job enters a queue at its end, and
  after each decision those that wait stand behind those that run; times are whole seconds.
- ``tiresias-afs``, ``tiresias_las`` in AFS' simulator (NSDI'21): service counts from the job's last start
  on, and a job that fell is back in the first queue once it is started again. With ``promote`` a job
  that was stopped goes before all queues, first stopped first, once it has waited that many times as
  long as it had run; where a restart costs more than that, two jobs may take turns for ever (there,
  restarts cost nothing). Moments are named by whole seconds, as its timers are.
- ``tiresias-pollux``, in Pollux' simulator (OSDI'21): jobs stand within a queue by when they entered it (the
  first queue: by submission). There it has one limit of 16 GPU-hours and rounds of 60 s.
"""

from typing import ClassVar

import numpy as np

from volvelle.core.columns import FIRST_START, HELD, STARTED, SUBMIT
from volvelle.core.compiled import compiled, kernel
from volvelle.core.fill import TARGET, ClusterNow
from volvelle.core.policy import Kernel, policies
from volvelle.core.state import INFINITY
from volvelle.model.arrays import Floats
from volvelle.model.tolerances import SAME_MOMENT, WHOLE_ROUND
from volvelle.policies.claims import by_number
from volvelle.policies.growth import count_down_to, count_up_to, then_by
from volvelle.systems.tiresias.policy import Tiresias
from volvelle.systems.tiresias.queues import (
    LIMITS,
    OWN_COLUMNS,
    PARAMETERS,
    PROMOTE,
    PROMOTED,
    QUANTUM,
    ROUND,
    SAMPLES,
    SECONDS,
    SERVICE,
    WAITED,
    attained,
    by_service,
    by_start,
    count_anew,
    enough_for_all,
    limit,
    next_move,
    pace,
    samples_in,
    serve,
    stand,
    sums_in,
)

PLACE, QUEUE = PROMOTED + OWN_COLUMNS, PROMOTED + OWN_COLUMNS + 1
"""Own columns of the authors' simulator: a job's place in line, 0 of one that comes, and its queue."""
FELL_TO, LAST_RUN, STOPPED = PLACE, QUEUE, QUEUE + 1
"""Of AFS' simulator: the queue to which a job fell; how long it ran before it was stopped; 1 once it was."""
ENTERED, IN_QUEUE, CAME = PLACE, QUEUE, QUEUE + 1
"""Of Pollux' simulator: when a job entered its queue, and which; 1 once it has entered one."""

_COMES, _MOVES = 1e9, 2e9
"""Places in line behind all others."""


class LateQueues(Tiresias):
    """Queues as the authors' simulator keeps them."""

    columns: ClassVar[int] = OWN_COLUMNS + 2

    def kernel(self, *, named: bool) -> Kernel:
        """Jobs fall late, and stand in line."""
        return Kernel(decide_late, self._memory, rates=False)


@policies.register
class TiresiasSimulator(LateQueues):
    """Tiresias as in its authors' simulator: jobs fall late and queue anew at every move."""

    name: ClassVar[str] = "tiresias-simulator"
    source: ClassVar[str] = "the simulator of Tiresias (NSDI'19)"


@policies.register
class TiresiasAfs(Tiresias):
    """Tiresias as in AFS' simulator: service counts from a job's last start."""

    name: ClassVar[str] = "tiresias-afs"
    source: ClassVar[str] = "the simulator of AFS (NSDI'21)"
    columns: ClassVar[int] = OWN_COLUMNS + 3

    def kernel(self, *, named: bool) -> Kernel:
        """Jobs that wait stand where they fell to."""
        return Kernel(decide_by_present_run, self._memory, rates=False)


@policies.register
class TiresiasPollux(Tiresias):
    """Tiresias as in Pollux' simulator: within a queue by when jobs entered it."""

    name: ClassVar[str] = "tiresias-pollux"
    source: ClassVar[str] = "the simulator of Pollux (OSDI'21)"
    columns: ClassVar[int] = OWN_COLUMNS + 3

    def kernel(self, *, named: bool) -> Kernel:
        """Jobs stand by when they entered their queues."""
        return Kernel(decide_by_entry, self._memory, rates=False)


# ---------------------------------------------------------------------- the authors' own


@kernel
def decide_late(jobs: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> float:
    """The decision of `tiresias-simulator` and, where there are samples, of `gittins-simulator`."""
    counts = attained(jobs, cluster.now, memory)
    line_up(jobs, cluster.now, counts, memory)
    order = by_number(jobs)
    if memory[SAMPLES] > 0.0:
        came = jobs[SUBMIT][order]
        if np.any(came[1:] <= came[:-1]):  # jobs that came together go by their places
            order = then_by(then_by(order, jobs[PLACE]), jobs[SUBMIT])
        order = then_by(order, -indices_of_samples(counts[SERVICE], memory))
    else:
        order = then_by(order, jobs[PLACE])
    order = then_by(order, jobs[QUEUE])
    serve(jobs, order, cluster, memory, out)
    waits = (out[TARGET] == 0.0)[order]
    line = np.concatenate((order[~waits], order[waits]))  # jobs that wait stand behind
    jobs[PLACE][line] = np.arange(1.0, len(line) + 1.0)
    return next_late_move(jobs, cluster.now, counts, out[TARGET], memory)


@compiled
def line_up(jobs: Floats, now: float, counts: Floats, memory: Floats) -> None:
    """Newcomers, then those that move by order of submission, go to the end of their queues, in place."""
    numbers = by_number(jobs)
    for i in range(len(numbers)):
        row = numbers[i]
        if jobs[PLACE, row] == 0.0:
            jobs[PLACE, row], jobs[QUEUE, row] = _COMES + i, 0.0
        queue = jobs[QUEUE, row]
        if jobs[HELD, row] > 0.0 and counts[SERVICE, row] >= limit(memory, queue):
            jobs[PLACE, row], jobs[QUEUE, row] = _MOVES + i, queue + 1.0
        elif jobs[HELD, row] == 0.0 and queue > 0.0 and _has_waited(counts, memory, row):
            jobs[PLACE, row], jobs[QUEUE, row] = _MOVES + i, 0.0
            count_anew(jobs, now, counts, row)


@kernel
def _has_waited(counts: Floats, memory: Floats, row: int) -> bool:
    promote, seconds = memory[PROMOTE], counts[SECONDS, row]
    if promote == INFINITY or seconds <= 0.0:
        return False
    return bool(counts[WAITED, row] >= np.floor(promote * seconds))


@compiled
def next_late_move(jobs: Floats, now: float, counts: Floats, gpus: Floats, memory: Floats) -> float:
    """The next moment that the authors' simulator names."""
    first, promote = INFINITY, memory[PROMOTE]
    for row in range(jobs.shape[1]):
        moment, queue = INFINITY, jobs[QUEUE, row]
        if gpus[row] > 0.0 and queue < memory[LIMITS]:
            left = limit(memory, queue) - counts[SECONDS, row]
            moment = now + np.floor(left / pace(gpus[row], memory))
        elif gpus[row] == 0.0 and queue > 0.0 and promote < INFINITY:
            moment = now + np.floor(promote * counts[SECONDS, row] - counts[WAITED, row])
        if moment > now:
            first = min(first, moment)
    return first


@compiled
def indices_of_samples(service: Floats, memory: Floats) -> Floats:
    """The Gittins index of jobs as that of the first sample above the service they attained."""
    samples, sums, quantum = samples_in(memory), sums_in(memory), memory[QUANTUM]
    count = len(samples)
    index = np.zeros(len(service))
    for row in range(len(service)):
        first = count_up_to(samples, count, service[row])
        if first == count:
            continue
        age = np.floor(samples[first]) - 1.0
        alive = count_down_to(samples, first, age)
        late = count_up_to(samples, count, age + quantum)
        if age + quantum > samples[-1] - 1.0:
            late = count - 1
        sizes = sums[late] - sums[alive] + quantum * (count - late)
        expected = np.floor(sizes / (count - alive))
        chance = _half_up((late - alive) / (count - alive), 1e5)
        if expected > 0.0:
            index[row] = _half_up(chance * 1e6 / expected, 1e4)
        else:
            index[row] = np.inf if chance > 0.0 else np.nan
    return index


@kernel
def _half_up(number: float, unit: float) -> float:
    """``number``, not negative, to 1 / ``unit``; a half is rounded up, as in Python 2."""
    return float(np.floor(number * unit + 0.5) / unit)


# ---------------------------------------------------------------------- AFS' simulator


@kernel
def decide_by_present_run(jobs: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> float:
    """The decision of `tiresias-afs`."""
    if enough_for_all(jobs, cluster, memory, out):
        jobs[FELL_TO] = 0.0  # who runs is back in the first queue
        return INFINITY
    counts = attained(jobs, cluster.now, memory)
    queue, start = stand_where_they_fell(jobs, cluster.now, counts, memory)
    order = then_by(by_start(jobs, start), queue)
    serve(jobs, order, cluster, memory, out)
    stopped = (jobs[HELD] > 0.0) & (out[TARGET] == 0.0)
    jobs[LAST_RUN] = np.where(stopped, cluster.now - jobs[STARTED], jobs[LAST_RUN])
    jobs[STOPPED] = np.where(stopped, 1.0, jobs[STOPPED])
    jobs[FELL_TO] = np.maximum(queue, 0.0)
    return next_timer(jobs, cluster.now, counts, out[TARGET], memory)


@compiled
def stand_where_they_fell(
    jobs: Floats, now: float, counts: Floats, memory: Floats
) -> tuple[Floats, Floats]:
    """Queues by the present run, else where jobs fell to, -1 of those promoted; by when jobs are first in."""
    for row in range(jobs.shape[1]):
        counts[SERVICE, row] = _present_run(jobs, now, row) * pace(jobs[HELD, row], memory)
    queue, start = by_service(jobs, counts, memory), jobs[FIRST_START].copy()
    for row in range(jobs.shape[1]):
        if jobs[HELD, row] == 0.0:
            queue[row] = jobs[FELL_TO, row]
        if _promoted_at(jobs, memory, row) <= now + SAME_MOMENT:
            queue[row], start[row] = -1.0, jobs[STARTED, row]
    return queue, start


@kernel
def _present_run(jobs: Floats, now: float, row: int) -> float:
    """Seconds of the present run of a job that runs."""
    return float(now - jobs[STARTED, row] if jobs[HELD, row] > 0.0 else 0.0)


@kernel
def _promoted_at(jobs: Floats, memory: Floats, row: int) -> float:
    """When a job that waits is promoted."""
    if memory[PROMOTE] == INFINITY or jobs[HELD, row] > 0.0 or jobs[STOPPED, row] == 0.0:
        return INFINITY
    return float(jobs[STARTED, row] + memory[PROMOTE] * jobs[LAST_RUN, row])


@compiled
def next_timer(jobs: Floats, now: float, counts: Floats, gpus: Floats, memory: Floats) -> float:
    """The next timer of a running job, set anew whenever it is over, or the next promotion."""
    first = INFINITY
    if np.all(gpus > 0.0):
        return first
    for row in range(jobs.shape[1]):
        if gpus[row] > 0.0:
            rate = pace(gpus[row], memory)
            period = np.ceil((memory[PARAMETERS] + rate - 1.0) / rate)
            elapsed = counts[SERVICE, row] / rate
            moment = INFINITY
            if period != 0.0:
                over = np.floor((elapsed + SAME_MOMENT) / period)
                moment = now - elapsed + (over + 1.0) * period
        elif memory[PROMOTE] < INFINITY and jobs[HELD, row] > 0.0:
            moment = now + memory[PROMOTE] * _present_run(jobs, now, row)
        else:
            moment = _promoted_at(jobs, memory, row)
        if moment > now:
            first = min(first, moment)
    return first


# ---------------------------------------------------------------------- Pollux' simulator


@kernel
def decide_by_entry(jobs: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> float:
    """The decision of `tiresias-pollux`."""
    counts = attained(jobs, cluster.now, memory)
    queue = stand(jobs, cluster.now, counts, memory)
    enter_queues(jobs, cluster.now, counts, queue, memory)
    order = by_number(jobs)
    serve(jobs, then_by(then_by(order, jobs[ENTERED]), queue), cluster, memory, out)
    return next_move(jobs, cluster.now, counts, queue, out[TARGET], memory)


@compiled
def enter_queues(jobs: Floats, now: float, counts: Floats, queue: Floats, memory: Floats) -> None:
    """Note when each job entered its queue; one that fell did so when it was seen, or would have been."""
    for row in range(jobs.shape[1]):
        if jobs[CAME, row] == 0.0:
            jobs[CAME, row], jobs[ENTERED, row] = 1.0, jobs[SUBMIT, row]
        if queue[row] > jobs[IN_QUEUE, row]:
            rate = pace(jobs[HELD, row], memory)
            beyond = counts[SERVICE, row] - limit(memory, queue[row] - 1.0)
            moment = now - (beyond / rate if rate > 0.0 else 0.0)
            if memory[ROUND] > 0.0:
                moment = np.ceil(moment / memory[ROUND] - WHOLE_ROUND) * memory[ROUND]
            jobs[ENTERED, row] = moment
        elif queue[row] < jobs[IN_QUEUE, row]:
            jobs[ENTERED, row] = now
        jobs[IN_QUEUE, row] = queue[row]
