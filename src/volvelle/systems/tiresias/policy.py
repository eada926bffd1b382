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
that does not fit is skipped. A job that has waited long enough when it would fall stays. Departures
of simulators are in `volvelle.systems.tiresias.reproductions`.
"""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, model_validator

from volvelle.core.order_policy import OrderPolicy
from volvelle.core.policy import Allocation, Kernel, interpreted, policies
from volvelle.core.space import Dimension, Space
from volvelle.core.view import View
from volvelle.model.arrays import FloatColumn
from volvelle.model.job import Job
from volvelle.model.units import parse_duration
from volvelle.systems.tiresias.queues import (
    BY_GPUS,
    ELASTIC,
    LIMITS,
    OWN_COLUMNS,
    PARAMETERS,
    PREEMPTIVE,
    PROMOTE,
    ROUND,
    STRICT,
    decide,
)


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


@policies.register
class Tiresias(OrderPolicy):
    """Discretised 2D-LAS: queues by attained GPU-seconds, first in first out within each."""

    name: ClassVar[str] = "tiresias"
    needs_durations: ClassVar[bool] = False
    source: ClassVar[str] = "Tiresias (NSDI'19)"
    optimises: ClassVar[str] = "mean JCT without knowing durations, with few preemptions"
    time_varying: ClassVar[bool] = True
    columns: ClassVar[int] = OWN_COLUMNS

    limits: QueueLimits = Field(
        "1h", description="GPU-seconds at which a job falls a queue: 3250/7200"
    )
    promote: Annotated[float, Field(gt=0)] | None = Field(
        None, description="back to the first queue after waiting this many times as long as it ran"
    )
    service: Literal["gpu-seconds", "seconds"] = Field(
        "gpu-seconds", description="what counts as service"
    )

    _memory: FloatColumn = PrivateAttr(default_factory=lambda: np.zeros(0))
    """See `volvelle.systems.tiresias.queues`."""

    @model_validator(mode="after")
    def _remember(self) -> Self:
        limits = _read_limits(self.limits)
        self._memory = np.zeros(PARAMETERS + len(limits) + 1)
        self._memory[BY_GPUS] = self.service == "gpu-seconds"
        self._memory[PROMOTE] = np.inf if self.promote is None else self.promote
        self._memory[[PREEMPTIVE, STRICT, ELASTIC]] = self.preemptive, self.strict, self.elastic
        self._memory[ROUND] = self.round or 0.0
        self._memory[LIMITS] = len(limits)
        self._memory[PARAMETERS:-1] = limits
        return self

    @classmethod
    def search_space(cls, jobs: Sequence[Job]) -> Space:
        """The limits of three queues, within the services of ``jobs``."""
        service = [job.spec.gpus * job.least_seconds_on(job.spec.gpus) for job in jobs]
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
        return interpreted(self.kernel(named=False), view)

    def kernel(self, *, named: bool) -> Kernel:
        """The same as a function of arrays."""
        return Kernel(decide, self._memory, rates=False, serves_all=True)
