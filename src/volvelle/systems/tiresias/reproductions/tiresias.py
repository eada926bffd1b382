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
from pydantic import PrivateAttr

from volvelle.core.policy import policies
from volvelle.core.view import BoolColumn, FloatColumn, IntColumn, JobView, View
from volvelle.model.tolerances import SAME_MOMENT, WHOLE_ROUND
from volvelle.systems.tiresias.policy import Attained, Tiresias, earliest, whole


class LateQueues(Tiresias):
    """Queues as the authors' simulator keeps them."""

    _queues: dict[int, int] = PrivateAttr(default_factory=dict)
    """Queues by job number, in the order in which they stand in them."""

    @property
    def remembers(self) -> bool:
        """Where jobs stand in line."""
        return True

    def stand(self, jobs: JobView, attained: Attained) -> tuple[IntColumn, tuple[FloatColumn, ...]]:
        """Newcomers, then those that move by order of submission, go to the end of their queues."""
        row_of = jobs.row_of
        line = {number: queue for number, queue in self._queues.items() if number in row_of}
        numbers = sorted(row_of)
        line.update((number, 0) for number in numbers if number not in line)
        running = jobs.running
        for number in numbers:
            row, queue = row_of[number], line[number]
            if running[row] and self._past_limit(attained, row, queue):
                del line[number]
                line[number] = queue + 1
            elif not running[row] and queue > 0 and self._has_waited(attained, row):
                del line[number]
                line[number] = 0
                self.count_anew(jobs, attained, row)
        rows = np.array([row_of[number] for number in line], dtype=np.int64)
        place, queues = np.empty(len(rows)), np.empty(len(rows), dtype=np.int64)
        place[rows], queues[rows] = np.arange(len(rows)), list(line.values())
        return queues, (place, *self.merit(jobs, attained, queues))

    def remember(
        self, jobs: JobView, queue: IntColumn, order: IntColumn, gpus: FloatColumn
    ) -> None:
        """Those that wait stand behind those that run."""
        line = order[np.argsort(gpus[order] == 0, kind="stable")]
        self._queues = dict(zip(whole(jobs.number[line]), whole(queue[line]), strict=True))

    def next_move(
        self, view: View, attained: Attained, queue: IntColumn, gpus: FloatColumn
    ) -> float | None:
        """The next moment that it names."""
        limited: BoolColumn = (gpus > 0) & (queue < len(self._limits))
        left = np.asarray(self._limits)[queue[limited]] - attained.seconds[limited]
        moments = [view.now + np.floor(left / self.pace(gpus[limited]))]
        if self.promote is not None:
            fallen = (gpus == 0) & (queue > 0)
            due = np.floor(self.promote * attained.seconds[fallen] - attained.waited[fallen])
            moments.append(view.now + due)
        return earliest(np.concatenate(moments), view.now)

    def _past_limit(self, attained: Attained, row: int, queue: int) -> bool:
        return queue < len(self._limits) and bool(attained.service[row] >= self._limits[queue])

    def _has_waited(self, attained: Attained, row: int) -> bool:
        if self.promote is None or attained.seconds[row] <= 0:
            return False
        return bool(attained.waited[row] >= np.floor(self.promote * attained.seconds[row]))


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

    _queues: dict[int, int] = PrivateAttr(default_factory=dict)
    """Queues of jobs that fell, by number."""
    _last_run: dict[int, float] = PrivateAttr(default_factory=dict)
    """How long a job ran before it was stopped, seconds."""

    def forget(self) -> None:
        """Who runs is back in the first queue."""
        super().forget()
        self._queues = {}

    def attained(self, jobs: JobView) -> Attained:
        """Service of the present run; none for those that wait."""
        service: FloatColumn = self._present_run(jobs) * self.pace(jobs.held)
        return super().attained(jobs)._replace(service=service)

    def stand(self, jobs: JobView, attained: Attained) -> tuple[IntColumn, tuple[FloatColumn, ...]]:
        """By service where they run, else where they were; those that are promoted before all."""
        queue = self.by_service(jobs, attained)
        for row in np.flatnonzero(~jobs.running):
            queue[row] = self._queues.get(int(jobs.number[row]), 0)
        queue[self._promotions(jobs) <= jobs.now + SAME_MOMENT] = -1
        first_in = np.where(np.isnan(jobs.first_start), np.inf, jobs.first_start)
        stopped = queue < 0
        first_in[stopped] = jobs.column("started")[stopped]
        return queue, (first_in, *self.merit(jobs, attained, queue))

    def remember(
        self, jobs: JobView, queue: IntColumn, order: IntColumn, gpus: FloatColumn
    ) -> None:
        """The queues of those that fell, and how long those ran that are stopped now."""
        stopped = jobs.running & (gpus == 0)
        runs = self._present_run(jobs)[stopped].tolist()
        here = jobs.row_of
        self._last_run = {n: run for n, run in self._last_run.items() if n in here}
        self._last_run.update(zip(whole(jobs.number[stopped]), runs, strict=True))
        fallen = np.flatnonzero(queue > 0)
        self._queues = dict(zip(whole(jobs.number[fallen]), whole(queue[fallen]), strict=True))

    def next_move(
        self, view: View, attained: Attained, queue: IntColumn, gpus: FloatColumn
    ) -> float | None:
        """The next of its timers, or promotions."""
        running = gpus > 0
        if running.all():
            return None
        moments = [self._timers(view, attained, gpus), self._promotions(view.jobs)[~running]]
        if self.promote is not None:
            moments.append(view.now + self.promote * self._present_run(view.jobs)[~running])
        return earliest(np.concatenate(moments), view.now)

    def _timers(self, view: View, attained: Attained, gpus: FloatColumn) -> FloatColumn:
        """A timer for each running job, set anew whenever it is over."""
        running = gpus > 0
        pace = self.pace(gpus[running])
        period = np.ceil((self._limits[0] + pace - 1) / pace)
        elapsed = attained.service[running] / pace
        over = np.floor((elapsed + SAME_MOMENT) / period)
        moments: FloatColumn = view.now - elapsed + (over + 1) * period
        return moments

    def _promotions(self, jobs: JobView) -> FloatColumn:
        """When jobs that wait are promoted."""
        moments = np.full(len(jobs), np.inf)
        if self.promote is not None:
            for row in np.flatnonzero(~jobs.running):
                last = self._last_run.get(int(jobs.number[row]))
                if last is not None:
                    moments[row] = jobs.column("started")[row] + self.promote * last
        return moments

    def _present_run(self, jobs: JobView) -> FloatColumn:
        """Seconds of the present run of those that run."""
        run: FloatColumn = np.where(jobs.running, jobs.now - jobs.column("started"), 0.0)
        return run


@policies.register
class TiresiasPollux(Tiresias):
    """Tiresias as in Pollux' simulator: within a queue by when jobs entered it."""

    name: ClassVar[str] = "tiresias-pollux"
    source: ClassVar[str] = "the simulator of Pollux (OSDI'21)"

    _entered: dict[int, tuple[int, float]] = PrivateAttr(default_factory=dict)
    """The queue of each job by number, and when it entered it."""

    @property
    def remembers(self) -> bool:
        """When jobs enter queues."""
        return True

    def first_in(self, jobs: JobView, attained: Attained, queue: IntColumn) -> FloatColumn:
        """When each job entered its queue; one that fell did so when it was seen, or would have been."""
        moments = jobs.submit_time.copy()
        entered: dict[int, tuple[int, float]] = {}
        for row, (number, now_in) in enumerate(zip(whole(jobs.number), whole(queue), strict=True)):
            was_in, moment = self._entered.get(number, (0, float(moments[row])))
            if now_in > was_in:
                pace = float(self.pace(jobs.held)[row])
                beyond = float(attained.service[row]) - self._limits[now_in - 1]
                moment = jobs.now - (beyond / pace if pace else 0.0)
                if self.round is not None:
                    moment = float(np.ceil(moment / self.round - WHOLE_ROUND)) * self.round
            elif now_in < was_in:
                moment = jobs.now
            moments[row] = moment
            entered[number] = (now_in, moment)
        self._entered = entered
        return moments
