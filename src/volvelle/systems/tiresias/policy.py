"""Tiresias: discretised two-dimensional attained service (NSDI'19; Blox, table 7).

Jobs stand in K queues by the service they attained, GPUs x seconds, and lower queues are served only
with what higher ones leave. A job enters the first queue and falls to the next at exactly the moment
its service reaches the queue's limit. Within a queue jobs are served first in, first out by the time they
first started, those that never ran last (2D-LAS), or by the Gittins index (``gittins``). Queue i holds
services in ``[limits[i-1], limits[i])``; the last has no limit. Default: two queues, 1 GPU-hour.

Against starvation a job that fell and has waited ``promote`` (the paper's PROMOTEKNOB) times as long as
it ran returns to the end of the first queue, and both counts begin anew. Waiting counts from its first
start on, over all its waits; before that a job is in the first queue anyway.

Departures and choices: decisions are taken at events and at demotions and promotions, which are events
of their own (the paper decides on events too); with ``round`` only at its multiples, as Blox does. A job
that does not fit is skipped. A job that has waited long enough when it would fall stays. What simulators
do otherwise is in `volvelle.systems.tiresias.reproductions`.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, model_validator

from volvelle.core.policy import Allocation, OrderPolicy, all_served, fill_in_order, policies
from volvelle.core.space import Dimension, Space
from volvelle.core.view import FloatColumn, IntColumn, JobView, View
from volvelle.model.job import Job
from volvelle.model.tolerances import SAME_MOMENT
from volvelle.model.units import parse_duration


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
    needs_durations: ClassVar[bool] = False
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

    _promoted: dict[int, Promotion] = PrivateAttr(default_factory=dict)
    _wake: float | None = PrivateAttr(None)
    _limits: tuple[float, ...] = PrivateAttr(())

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._limits = _read_limits(self.limits)
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
        if not self.remembers and (enough := all_served(view, elastic=self.elastic)):
            self.forget()
            return enough
        attained = self.attained(view.jobs)
        queue, within = self.stand(view.jobs, attained)
        order: IntColumn = np.lexsort((view.jobs.number, *within, queue))
        allocation = fill_in_order(
            view,
            order,
            preemptive=self.preemptive,
            strict=self.strict,
            elastic=self.elastic,
        )
        self.remember(view.jobs, queue, order, allocation.gpus)
        self._wake = self.next_move(view, attained, queue, allocation.gpus)
        return allocation

    def next_wake(self, view: View) -> float | None:
        """The next moment at which a job falls or is promoted, where that matters to anybody."""
        return self._wake

    def merit(self, jobs: JobView, attained: Attained, queue: IntColumn) -> tuple[FloatColumn, ...]:
        """Keys within a queue that go before first in, first out; the least significant first."""
        return ()

    # ------------------------------------------------------------------ what counts

    def attained(self, jobs: JobView) -> Attained:
        """What counts for the jobs' queues now."""
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
        waited = np.where(np.isnan(start), 0.0, jobs.now - start - seconds)
        return Attained(service, seconds, waited, start)

    def pace(self, gpus: FloatColumn) -> FloatColumn:
        """Service a second on ``gpus`` GPUs."""
        return gpus if self.service == "gpu-seconds" else np.minimum(gpus, 1.0)

    # ------------------------------------------------------------------ queues

    def stand(self, jobs: JobView, attained: Attained) -> tuple[IntColumn, tuple[FloatColumn, ...]]:
        """The queue of each job, and the keys by which it stands in it; the least significant first."""
        queue = self.by_service(jobs, attained)
        if self.promote is not None:
            due = attained.waited + SAME_MOMENT >= self.promote * attained.seconds
            for row in np.flatnonzero(due & (queue > 0)):
                self.count_anew(jobs, attained, int(row))
                queue[row] = 0
        return queue, (self.first_in(jobs, attained, queue), *self.merit(jobs, attained, queue))

    def by_service(self, jobs: JobView, attained: Attained) -> IntColumn:
        """The queue whose limits hold each job's service."""
        slack = SAME_MOMENT * np.maximum(self.pace(jobs.held), 1.0)
        queue: IntColumn = np.searchsorted(self._limits, attained.service + slack, side="right")
        return queue

    def first_in(self, jobs: JobView, attained: Attained, queue: IntColumn) -> FloatColumn:
        """By when jobs are first in within their queues."""
        return np.where(np.isnan(attained.start), np.inf, attained.start)

    def count_anew(self, jobs: JobView, attained: Attained, row: int) -> None:
        """Let what the job in ``row`` attained so far not count."""
        start = jobs.now if jobs.held[row] > 0 else np.nan
        self._promoted[int(jobs.number[row])] = Promotion(
            float(jobs.attained_seconds[row]), float(jobs.attained_gpu_seconds[row]), start
        )
        attained.service[row] = attained.seconds[row] = attained.waited[row] = 0.0
        attained.start[row] = start

    def forget(self) -> None:
        """All jobs have what they can use: nobody waits for a move."""
        self._wake = None

    @property
    def remembers(self) -> bool:
        """Whether it is to be asked also where all jobs can be served."""
        return False

    def remember(
        self, jobs: JobView, queue: IntColumn, order: IntColumn, gpus: FloatColumn
    ) -> None:
        """Keep what cannot be told from the columns at the next decision."""

    def next_move(
        self, view: View, attained: Attained, queue: IntColumn, gpus: FloatColumn
    ) -> float | None:
        """When the next running job reaches its limit, or the next waiting one is promoted."""
        running = gpus > 0
        if running.all():
            return None
        limited = running & (queue < len(self._limits))
        service = attained.service[limited]
        pace = self.pace(gpus[limited])
        limit = np.asarray(self._limits)[queue[limited]]
        moments = [view.now + (limit - service) / pace]
        if self.promote is not None:
            fallen = ~running & (queue > 0)
            left = self.promote * attained.seconds[fallen] - attained.waited[fallen]
            moments.append(view.now + left)
        return earliest(np.concatenate(moments), view.now)


def earliest(moments: FloatColumn, now: float) -> float | None:
    """The first of ``moments`` that is still to come."""
    coming = moments[moments > now]
    return float(coming.min()) if len(coming) else None


def whole(column: FloatColumn | IntColumn) -> Iterable[int]:
    """The entries as Python's integers."""
    numbers: list[int] = column.astype(np.int64).tolist()
    return numbers
