"""Tiresias: discretised two-dimensional attained service (NSDI'19; Blox, table 7).

Jobs stand in K queues by the service they attained, GPUs x seconds, and lower queues are served only
with what higher ones leave. A job enters the first queue and falls to the next at exactly the moment
its service reaches the queue's limit. Within a queue jobs are served first in, first out by the time they
first started, those that never ran last (2D-LAS), or by the Gittins index (``gittins``). Queue i holds
services in ``[limits[i-1], limits[i])``; the last has no limit. Default: two queues, 1 GPU-hour.

Against starvation a job that fell and has waited ``promote`` (the paper's PROMOTEKNOB) times as long as
it ran returns to the end of the first queue, and both counts begin anew. Waiting counts from its first
start on, over all its waits; before that a job is in the first queue anyway.

With ``first_in=entry`` jobs stand within a queue by when they entered it (the first queue: by submission)
as in Pollux' simulator (OSDI'21), whose Tiresias has one limit of 16 GPU-hours and rounds of 60 s.

Departures and choices: decisions are taken at events and at demotions and promotions, which are events
of their own (the paper decides on events too); with ``round`` only at its multiples, as Blox does. A job
that does not fit is skipped. A job that has waited long enough when it would fall stays.

Two switches reproduce simulators instead of the paper:

- ``forgive``, the AFS simulator's ``tiresias_las`` (NSDI'21): service counts from the job's last start
  on, and a job that fell is back in the first queue once it is started again. With ``promote`` a job
  that was stopped goes before all queues, first stopped first, once it has waited that many times as
  long as it had run; where a restart costs more than that, two jobs may take turns for ever (there,
  restarts cost nothing). Moments are named by whole seconds, as its timers are.
- ``simulator``, the authors' own simulator: a job falls at the first event after it reached the limit,
  one queue an event, and the moments named in advance are now + floor((limit - seconds) / GPUs) with the
  seconds not multiplied by the GPUs, which for wide jobs is late; a job enters a queue at its end, and
  after each decision those that wait stand behind those that run; times are whole seconds.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, model_validator

from volvelle.core.policy import Allocation, OrderPolicy, all_served, fill_in_order, policies
from volvelle.core.space import Dimension, Space
from volvelle.core.view import BoolColumn, FloatColumn, IntColumn, JobView, View
from volvelle.model.job import Job
from volvelle.model.units import parse_duration

_MOMENT = 1e-6
"""A limit is reached where it is less than this many seconds away."""


def _as_text(written: object) -> object:
    return f"{written:.12g}" if isinstance(written, (int, float)) else written


def _read_limits(written: str) -> tuple[float, ...]:
    limits = tuple(parse_duration(part) for part in written.split("/"))
    if any(np.diff([0.0, *limits]) <= 0):
        raise ValueError("limits must ascend and be greater than 0, as in 3250/7200")
    return limits


def _checked(written: str) -> str:
    _read_limits(written)
    return written


QueueLimits = Annotated[str, BeforeValidator(_as_text), AfterValidator(_checked)]
"""Ascending limits, written ``3250/7200``; each may have a unit of time, for one GPU: ``1h/10h``."""


class Attained(NamedTuple):
    """What counts for a job's queue, one entry a job: all since its last promotion.

    ``service`` in the unit of the limits, ``start`` NaN where it has not run since.
    """

    service: FloatColumn
    seconds: FloatColumn
    waited: FloatColumn
    start: FloatColumn


class Promotion(NamedTuple):
    """What a job had attained when it was promoted, and when it first ran after that (or NaN)."""

    seconds: float
    gpu_seconds: float
    start: float


@policies.register
class Tiresias(OrderPolicy):
    """Discretised 2D-LAS: queues by attained GPU-seconds, first in first out within each."""

    name: ClassVar[str] = "tiresias"
    source: ClassVar[str] = "Tiresias (NSDI'19)"
    optimises: ClassVar[str] = "mean JCT without knowing durations, with few preemptions"
    time_varying: ClassVar[bool] = True

    limits: QueueLimits = Field(
        "1h", description="GPU-seconds at which a job falls a queue: 3250/7200"
    )
    promote: Annotated[float, Field(gt=0)] | None = Field(
        None, description="back to the first queue after waiting this many times as long as it ran"
    )
    service: Literal["gpu-seconds", "seconds"] = Field(
        "gpu-seconds", description="what counts as service"
    )
    first_in: Literal["start", "entry"] = Field(
        "start", description="within a queue go by the first start, or by the entry into the queue"
    )
    forgive: bool = Field(False, description="count from the last start only (the AFS simulator)")
    simulator: bool = Field(False, description="fall late and queue as the authors' simulator does")

    _promoted: dict[int, Promotion] = PrivateAttr(default_factory=dict)
    _queues: dict[int, int] = PrivateAttr(default_factory=dict)
    """Only for the switches: queues by job number, in the order in which they stand in them."""
    _last_run: dict[int, float] = PrivateAttr(default_factory=dict)
    """Only to forgive and promote: how long a job ran before it was stopped, seconds."""
    _entered: dict[int, tuple[int, float]] = PrivateAttr(default_factory=dict)
    """Only for ``first_in=entry``: the queue of each job by number, and when it entered it."""
    _wake: float | None = PrivateAttr(None)
    _limits: tuple[float, ...] = PrivateAttr(())

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._limits = _read_limits(self.limits)
        if self.forgive and self.simulator:
            raise ValueError("forgive does not go with simulator: they are two simulators")
        if self.first_in == "entry" and (self.forgive or self.simulator):
            raise ValueError("first_in does not go with forgive or simulator, which have their own")
        return self

    @classmethod
    def search_space(cls, jobs: Sequence[Job]) -> Space:
        """The limits of three queues, within the services of ``jobs``."""
        service = [job.spec.gpus * job.seconds_on(job.spec.gpus) for job in jobs]
        low, high = np.maximum(np.quantile(service, (0.05, 0.95)), (1.0, 10.0)).tolist()
        return Space(
            (
                Dimension("first", low, high, "limit of the first queue, GPU-seconds", log=True),
                Dimension("ratio", 1.1, 100.0, "limit of the second over that", log=True),
            ),
            lambda point: f"limits={point[0]:.12g}/{point[0] * point[1]:.12g}",
        )

    def allocate(self, view: View) -> Allocation:
        """Serve the queues in turn."""
        remembers = self.simulator or self.first_in == "entry"
        if not remembers and (enough := all_served(view, elastic=self.elastic)):
            self._queues, self._wake = {}, None
            return enough
        attained = self._attained(view.jobs)
        queue, within = self._stand(view.jobs, attained)
        order: IntColumn = np.lexsort((view.jobs.number, *within, queue))
        allocation = fill_in_order(
            view,
            order,
            preemptive=self.preemptive,
            strict=self.strict,
            elastic=self.elastic,
        )
        self._remember(view.jobs, queue, order, allocation.gpus)
        self._wake = self._next_move(view, attained, queue, allocation.gpus)
        return allocation

    def next_wake(self, view: View) -> float | None:
        """The next moment at which a job falls or is promoted, where that matters to anybody."""
        return self._wake

    def merit(self, jobs: JobView, attained: Attained, queue: IntColumn) -> tuple[FloatColumn, ...]:
        """Keys within a queue that go before first in, first out; the least significant first."""
        return ()

    # ------------------------------------------------------------------ what counts

    def _attained(self, jobs: JobView) -> Attained:
        seconds, gpu_seconds = jobs.attained_seconds, jobs.attained_gpu_seconds
        start = jobs.first_start.copy()
        kept: dict[int, Promotion] = {}
        for number, then in self._promoted.items():
            row = jobs.row_of.get(number)
            if row is None:
                continue
            seconds[row] -= then.seconds
            gpu_seconds[row] -= then.gpu_seconds
            since = then.start
            if np.isnan(since) and (seconds[row] > 0 or jobs.held[row] > 0):
                since = jobs.now - float(seconds[row])
            start[row] = since
            kept[number] = then._replace(start=since)
        self._promoted = kept
        service = gpu_seconds if self.service == "gpu-seconds" else seconds
        if self.forgive:
            service = self._since_start(jobs)
        waited = np.where(np.isnan(start), 0.0, jobs.now - start - seconds)
        return Attained(service, seconds, waited, start)

    def _since_start(self, jobs: JobView) -> FloatColumn:
        """Service of the present run; none for those that wait."""
        service: FloatColumn = self._present_run(jobs) * self._pace(jobs.held)
        return service

    def _pace(self, gpus: FloatColumn) -> FloatColumn:
        """Service a second on ``gpus`` GPUs."""
        return gpus if self.service == "gpu-seconds" else np.minimum(gpus, 1.0)

    # ------------------------------------------------------------------ queues

    def _stand(
        self, jobs: JobView, attained: Attained
    ) -> tuple[IntColumn, tuple[FloatColumn, ...]]:
        """The queue of each job, and the keys by which it stands in it."""
        if self.simulator:
            return self._stand_in_line(jobs, attained)
        slack = _MOMENT * np.maximum(self._pace(jobs.held), 1.0)
        queue: IntColumn = np.searchsorted(self._limits, attained.service + slack, side="right")
        if self.forgive:
            for row in np.flatnonzero(~jobs.running):
                queue[row] = self._queues.get(int(jobs.number[row]), 0)
            queue[self._promotions(jobs) <= jobs.now + _MOMENT] = -1
        elif self.promote is not None:
            due = attained.waited + _MOMENT >= self.promote * attained.seconds
            for row in np.flatnonzero(due & (queue > 0)):
                self._promote(jobs, attained, int(row))
                queue[row] = 0
        if self.first_in == "entry":
            return queue, (self._entries(jobs, attained, queue), *self.merit(jobs, attained, queue))
        start = jobs.first_start if self.forgive else attained.start
        first_in = np.where(np.isnan(start), np.inf, start)
        stopped = queue < 0
        first_in[stopped] = jobs.column("started")[stopped]
        return queue, (first_in, *self.merit(jobs, attained, queue))

    def _entries(self, jobs: JobView, attained: Attained, queue: IntColumn) -> FloatColumn:
        """When each job entered its queue; one that fell did so when it was seen, or would have been."""
        moments = jobs.submit_time.copy()
        entered: dict[int, tuple[int, float]] = {}
        for row, (number, now_in) in enumerate(
            zip(_whole(jobs.number), _whole(queue), strict=True)
        ):
            was_in, moment = self._entered.get(number, (0, float(moments[row])))
            if now_in > was_in:
                pace = float(self._pace(jobs.held)[row])
                beyond = float(attained.service[row]) - self._limits[now_in - 1]
                moment = jobs.now - (beyond / pace if pace else 0.0)
                if self.round is not None:
                    moment = float(np.ceil(moment / self.round - _MOMENT)) * self.round
            elif now_in < was_in:
                moment = jobs.now
            moments[row] = moment
            entered[number] = (now_in, moment)
        self._entered = entered
        return moments

    def _promote(self, jobs: JobView, attained: Attained, row: int) -> None:
        """Count anew from now on."""
        start = jobs.now if jobs.held[row] > 0 else np.nan
        self._promoted[int(jobs.number[row])] = Promotion(
            float(jobs.attained_seconds[row]), float(jobs.attained_gpu_seconds[row]), start
        )
        attained.service[row] = attained.seconds[row] = attained.waited[row] = 0.0
        attained.start[row] = start

    def _remember(
        self, jobs: JobView, queue: IntColumn, order: IntColumn, gpus: FloatColumn
    ) -> None:
        """Keep the queues that cannot be told from the columns."""
        if self.forgive:
            stopped = jobs.running & (gpus == 0)
            runs = self._present_run(jobs)[stopped].tolist()
            here = jobs.row_of
            self._last_run = {n: run for n, run in self._last_run.items() if n in here}
            self._last_run.update(zip(_whole(jobs.number[stopped]), runs, strict=True))
            fallen = np.flatnonzero(queue > 0)
            self._queues = dict(
                zip(_whole(jobs.number[fallen]), _whole(queue[fallen]), strict=True)
            )
        elif self.simulator:
            line = order[np.argsort(gpus[order] == 0, kind="stable")]
            self._queues = dict(zip(_whole(jobs.number[line]), _whole(queue[line]), strict=True))

    def _next_move(
        self, view: View, attained: Attained, queue: IntColumn, gpus: FloatColumn
    ) -> float | None:
        """When the next running job reaches its limit, or the next waiting one is promoted."""
        if self.simulator:
            return self._next_move_named(view, attained, queue, gpus)
        running = gpus > 0
        if running.all():
            return None
        if self.forgive:
            moments = [self._timers(view, attained, gpus), self._promotions(view.jobs)[~running]]
            if self.promote is not None:
                moments.append(view.now + self.promote * self._present_run(view.jobs)[~running])
            return _earliest(np.concatenate(moments), view.now)
        limited = running & (queue < len(self._limits))
        service = attained.service[limited]
        pace = self._pace(gpus[limited])
        limit = np.asarray(self._limits)[queue[limited]]
        moments = [view.now + (limit - service) / pace]
        if self.promote is not None:
            fallen = ~running & (queue > 0)
            left = self.promote * attained.seconds[fallen] - attained.waited[fallen]
            moments.append(view.now + left)
        return _earliest(np.concatenate(moments), view.now)

    # ------------------------------------------------------------------ the simulators

    def _timers(self, view: View, attained: Attained, gpus: FloatColumn) -> FloatColumn:
        """The AFS simulator's moments: a timer for each running job, set anew whenever it is over."""
        running = gpus > 0
        pace = self._pace(gpus[running])
        period = np.ceil((self._limits[0] + pace - 1) / pace)
        elapsed = attained.service[running] / pace
        over = np.floor((elapsed + _MOMENT) / period)
        moments: FloatColumn = view.now - elapsed + (over + 1) * period
        return moments

    def _promotions(self, jobs: JobView) -> FloatColumn:
        """When jobs that wait are promoted in the AFS simulator."""
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

    def _stand_in_line(
        self, jobs: JobView, attained: Attained
    ) -> tuple[IntColumn, tuple[FloatColumn, ...]]:
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
                self._promote(jobs, attained, row)
        rows = np.array([row_of[number] for number in line], dtype=np.int64)
        place, queues = np.empty(len(rows)), np.empty(len(rows), dtype=np.int64)
        place[rows], queues[rows] = np.arange(len(rows)), list(line.values())
        return queues, (place, *self.merit(jobs, attained, queues))

    def _past_limit(self, attained: Attained, row: int, queue: int) -> bool:
        return queue < len(self._limits) and bool(attained.service[row] >= self._limits[queue])

    def _has_waited(self, attained: Attained, row: int) -> bool:
        if self.promote is None or attained.seconds[row] <= 0:
            return False
        return bool(attained.waited[row] >= np.floor(self.promote * attained.seconds[row]))

    def _next_move_named(
        self, view: View, attained: Attained, queue: IntColumn, gpus: FloatColumn
    ) -> float | None:
        limited: BoolColumn = (gpus > 0) & (queue < len(self._limits))
        left = np.asarray(self._limits)[queue[limited]] - attained.seconds[limited]
        moments = [view.now + np.floor(left / self._pace(gpus[limited]))]
        if self.promote is not None:
            fallen = (gpus == 0) & (queue > 0)
            due = np.floor(self.promote * attained.seconds[fallen] - attained.waited[fallen])
            moments.append(view.now + due)
        return _earliest(np.concatenate(moments), view.now)


def _earliest(moments: FloatColumn, now: float) -> float | None:
    """The first of ``moments`` that is still to come."""
    coming = moments[moments > now]
    return float(coming.min()) if len(coming) else None


def _whole(column: FloatColumn | IntColumn) -> Iterable[int]:
    """The entries as Python's integers."""
    numbers: list[int] = column.astype(np.int64).tolist()
    return numbers
